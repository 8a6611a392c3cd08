//! Packs: the files of one folder of a capture, in one zip archive beside them, `pack-N.zip`.
//!
//! A member stands for the file of its name in the pack's folder. Readers ask for that file ([`open`]), and
//! get the member's bytes in memory. If the file itself is there, it counts, and the member doesn't. Of packs
//! with the same member, the newest one counts. Members are stored as they are: what is compressed is
//! compressed by zstd, as its name says, and is unpacked like a compressed file.
//!
//! Rule: a pack has its name only when it is whole, and is never written to again. So what was read of one is
//! true for as long as it is there, and a pack may be replaced by a larger one at any time.

use crate::files::{open_there, stored};
use crate::problem::Problem;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a local header of a zip archive before the name.
const LOCAL_HEADER: u64 = 30;

/// The number of a pack by its path; `None` if it isn't one.
pub fn number(path: &Path) -> Option<u32> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let digits = name.strip_prefix("pack-")?.strip_suffix(".zip")?;
    let number = digits.parse().ok()?;
    (self::name(number) == name).then_some(number)
}

/// The name of the pack with this number.
pub fn name(number: u32) -> String {
    format!("pack-{number}.zip")
}

/// Whether a file is compressed, by its name.
pub fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "zst")
}

/// The path of a file without the ending that says that it is compressed.
pub fn without_zst(path: &Path) -> PathBuf {
    if is_compressed(path) {
        path.with_extension("")
    } else {
        path.to_owned()
    }
}

/// A file in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name in the pack's folder.
    pub name: String,
    /// Bytes in the pack.
    pub len: u64,
    start: u64,
    crc: u32,
}

/// A pack that was listed.
#[derive(Debug)]
pub struct Pack {
    /// Its path.
    pub path: PathBuf,
    /// Its files, in order of their names.
    pub members: Vec<Member>,
    /// Why its list of files can't be read. The files were then looked for in its bytes.
    pub damage: Option<String>,
    stamp: Stamp,
}

/// What shows that a file or folder is the same and was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        Stamp {
            device: meta.dev(),
            inode: meta.ino(),
            len: meta.len(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl Pack {
    /// Lists the files of a pack.
    ///
    /// # Errors
    /// Those of opening it; if it is no regular file.
    pub fn list(path: &Path) -> io::Result<Pack> {
        let file = open_there(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        let (members, damage) = match listed(&file) {
            Ok(members) => (members, None),
            Err(error) => (looked_for(&file), Some(error.to_string())),
        };
        let mut members: Vec<Member> = members.into_iter().filter(Member::is_sound).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Pack {
            path: path.to_owned(),
            members,
            damage,
            stamp,
        })
    }

    /// The pack and what it costs that it is damaged, for people.
    fn problem(&self) -> Option<Problem> {
        Some(Problem {
            file: self.path.clone(),
            place: "its list of files".into(),
            expected: "a whole zip archive".into(),
            found: format!(
                "{}; {} files were found without the list",
                self.damage.as_ref()?,
                self.members.len()
            ),
        })
    }

    /// The member of that name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        let found = self
            .members
            .binary_search_by(|member| member.name.as_str().cmp(name));
        found.ok().map(|at| &self.members[at])
    }

    /// The bytes of a member, as far as they are there.
    ///
    /// # Errors
    /// Those of reading; if the member doesn't match its checksum and isn't compressed. Of what is
    /// compressed, the sound part can be unpacked.
    pub fn read(&self, member: &Member) -> io::Result<File> {
        let mut pack = open_there(&self.path)?;
        if Stamp::of(&pack.metadata()?) != self.stamp {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another pack"));
        }
        let there = stored(&pack).min(member.len);
        pack.seek(SeekFrom::Start(member.start))?;
        let mut memory = in_memory()?;
        io::copy(&mut pack.take(there), &mut memory)?;
        memory.rewind()?;
        if !member.name.ends_with(".zst") && crc(&memory)? != member.crc {
            let why = format!("other content than its checksum in {}", self.path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(memory)
    }
}

impl Member {
    /// Whether its name is a file's beside the pack, and nothing else.
    fn is_sound(&self) -> bool {
        let name = Path::new(&self.name);
        name.file_name() == Some(name.as_os_str())
            && !self.name.starts_with('.')
            && !self.name.contains('\0')
            && number(name).is_none()
    }
}

/// By the list at its end.
fn listed(file: &File) -> io::Result<Vec<Member>> {
    let mut archive = zip::ZipArchive::new(io::BufReader::new(file))?;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index)?;
        if member.compression() != zip::CompressionMethod::Stored || member.encrypted() {
            let why = format!("{} is not stored as it is", member.name());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        members.push(Member {
            name: member.name().to_owned(),
            len: member.compressed_size(),
            start: member.data_start(),
            crc: member.crc32(),
        });
    }
    Ok(members)
}

/// One after another, from the beginning on: the last one may not be whole.
fn looked_for(mut file: &File) -> Vec<Member> {
    let mut members = Vec::new();
    let mut next = |at: u64| -> io::Result<Option<u64>> {
        let mut header = [0; LOCAL_HEADER as usize];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut header)?;
        let length = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let start = at + LOCAL_HEADER + length(26) + length(28);
        file.seek(SeekFrom::Start(at))?;
        let Some(member) = zip::read::read_zipfile_from_stream(&mut file)? else {
            return Ok(None);
        };
        let len = member.compressed_size();
        if member.compression() == zip::CompressionMethod::Stored {
            members.push(Member {
                name: member.name().to_owned(),
                len,
                start,
                crc: member.crc32(),
            });
        }
        Ok(start.checked_add(len))
    };
    let mut at = 0;
    while let Ok(Some(end)) = next(at) {
        at = end;
    }
    members
}

/// A file that is in memory only.
pub(crate) fn in_memory() -> io::Result<File> {
    // SAFETY: a plain system call with a text that ends in 0; the C library has it from glibc 2.27 on only.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_memfd_create,
            c"ncclscope".as_ptr(),
            libc::MFD_CLOEXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: it was made just now, and belongs to nobody else.
        Ok(fd) if fd >= 0 => Ok(unsafe { File::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn crc(mut file: &File) -> io::Result<u32> {
    let mut bytes = vec![0; 1 << 16];
    let mut sum = crc32fast::Hasher::new();
    loop {
        let n = file.read(&mut bytes)?;
        if n == 0 {
            file.rewind()?;
            return Ok(sum.finalize());
        }
        sum.update(&bytes[..n]);
    }
}

/// The packs of each folder that was looked at, the newest first; none of most folders.
static KNOWN: Mutex<Option<HashMap<PathBuf, Known>>> = Mutex::new(None);

#[derive(Clone)]
struct Known {
    folder_is: Stamp,
    packs: Arc<Vec<Pack>>,
}

/// The packs in a folder, the newest first. What can't be opened is a problem.
pub fn of(folder: &Path, problems: &mut Vec<Problem>) -> Arc<Vec<Pack>> {
    let stamp = folder.metadata().map(|meta| Stamp::of(&meta));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let packs = entries.map(|entry| entry.path());
    let mut packs: Vec<(u32, PathBuf)> = packs.filter_map(|p| Some((number(&p)?, p))).collect();
    packs.sort_by(|a, b| b.cmp(a));
    let mut found = Vec::new();
    for (_, path) in packs {
        match Pack::list(&path) {
            Ok(pack) => {
                problems.extend(pack.problem());
                found.push(pack);
            }
            // Replaced by a newer one since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => problems.push(Problem {
                file: path,
                place: "its content".into(),
                expected: "a readable file".into(),
                found: error.to_string(),
            }),
        }
    }
    let packs = Arc::new(found);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    match stamp {
        Ok(folder_is) => {
            let packs = packs.clone();
            let found = Known { folder_is, packs };
            known.insert(folder.to_owned(), found);
        }
        Err(_) => {
            known.remove(folder);
        }
    }
    packs
}

/// The packs in a folder as they were when it was last looked at, if it was not changed since.
fn known(folder: &Path) -> Option<Arc<Vec<Pack>>> {
    let stamp = Stamp::of(&folder.metadata().ok()?);
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.as_ref()?.get(folder)?;
    (known.folder_is == stamp).then(|| known.packs.clone())
}

/// Does something with the member that stands for the file at `path`. A second time if that fails: the pack
/// may have been replaced meanwhile.
fn with<T>(path: &Path, each: impl Fn(&Pack, &Member) -> io::Result<T>) -> io::Result<T> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(none)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let look = |packs: &[Pack]| {
        let found = packs
            .iter()
            .find_map(|pack| Some((pack, pack.member(name)?)));
        found.map(|(pack, member)| each(pack, member))
    };
    // Thousands of files may be asked for that are in no pack, so a folder that was not changed is not listed
    // again.
    let found = match known(folder) {
        Some(packs) => look(&packs),
        None => Some(Err(none())),
    };
    let is_stale = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match found {
        Some(Err(error)) if is_stale(&error) => look(&of(folder, &mut Vec::new())),
        found => found,
    }
    .unwrap_or_else(|| Err(none()))
}

/// The bytes of the member that stands for the file at `path`.
///
/// # Errors
/// As [`Pack::read`]; `NotFound` if there is no such member.
pub fn open(path: &Path) -> io::Result<File> {
    with(path, Pack::read)
}

/// The content of the file at `path`, or of the compressed one in its place, which is in a pack.
///
/// # Errors
/// As [`open`].
pub fn content(path: &Path) -> io::Result<Box<dyn Read>> {
    match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return Ok(Box::new(found?)),
    }
    let mut compressed = path.as_os_str().to_owned();
    compressed.push(".zst");
    let decoder = zstd::Decoder::new(open(Path::new(&compressed))?)?;
    Ok(Box::new(decoder))
}

/// The pack with the member that stands for the file at `path`, and the member's size in bytes.
pub(crate) fn holder(path: &Path) -> Option<(PathBuf, u64)> {
    with(path, |pack, member| Ok((pack.path.clone(), member.len))).ok()
}

/// The files that members of a folder's packs stand for and that are not there themselves, in order.
pub fn files(folder: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let packs = of(folder, problems);
    let members = packs.iter().flat_map(|pack| &pack.members);
    let mut files: Vec<PathBuf> = members.map(|member| folder.join(&member.name)).collect();
    files.sort();
    files.dedup();
    files.retain(|file| file.symlink_metadata().is_err());
    files
}
