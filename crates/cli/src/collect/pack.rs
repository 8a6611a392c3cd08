//! `collect --pack`: the files of a folder of a capture in one zip archive beside them, `pack-N.zip`.
//!
//! A new pack has all that older ones had, and takes their place. It is written under a temporary name, put
//! on the disk, and read back, each file against what it was made from. Only then it gets its name, which no
//! other pack ever had. Only after that, files and older packs are removed.
//!
//! Rule: at any moment each file is there by itself or in a whole pack, whoever is killed and however many
//! pack at the same time. So there is no lock that a network file system would have to keep.

use crate::run::adopt;
use anyhow::{bail, Context};
use nix::fcntl::{Flock, FlockArg};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tables::packs;
use tempfile::NamedTempFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// Files of a capture that zstd makes smaller.
const COMPRESSED: [&str; 5] = ["trace", "snap", "live", "marks", "samples"];
/// What a pack is called until it is whole.
const UNFINISHED: &str = ".pack-";
/// Files that may be beyond what a zip archive can say without its extension for large ones.
const LARGE: u64 = 1 << 31;

/// Whether a file may be in a pack, by its name.
pub fn is_packable(path: &Path) -> bool {
    is_compressible(&packs::without_zst(path)) || super::is_account(path) && !is_job(path)
}

/// Whether zstd makes a file smaller, by its name.
pub fn is_compressible(path: &Path) -> bool {
    let known = |e: &OsStr| COMPRESSED.iter().any(|known| e == *known);
    path.extension().is_some_and(known)
}

/// Whether it is about the capture as a whole, and stays beside the folders of hosts.
pub(super) fn is_job(path: &Path) -> bool {
    let files = ["capture.json", tables::part::FILE].map(OsStr::new);
    path.file_name().is_some_and(|name| files.contains(&name))
}

/// What was packed.
#[derive(Debug, Default)]
pub struct Packed {
    /// The pack, if a new one was made.
    pub pack: Option<PathBuf>,
    /// Files that are in it and were not in an older one.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the new pack beyond those of older ones.
    pub packed_bytes: u64,
    /// What could not be packed, and why.
    pub failed: Vec<(PathBuf, String)>,
}

/// A file to pack.
struct Source {
    path: PathBuf,
    /// Its name in the pack.
    name: String,
    /// As it was when it was looked at.
    meta: Metadata,
}

impl Source {
    fn at(path: &Path) -> anyhow::Result<Source> {
        let name = path.file_name().and_then(OsStr::to_str);
        let name = name.context("its name is not UTF-8")?;
        let ending = if is_compressible(path) { ".zst" } else { "" };
        Ok(Source {
            path: path.to_owned(),
            name: format!("{name}{ending}"),
            meta: adopt::open(path)?.metadata()?,
        })
    }

    fn is_compressed_here(&self) -> bool {
        packs::is_compressed(Path::new(&self.name)) && !packs::is_compressed(&self.path)
    }

    /// Whether a member of a pack has what this file has.
    fn is(&self, member: impl Read) -> io::Result<bool> {
        let file = adopt::open(&self.path)?;
        if self.is_compressed_here() {
            same(file, zstd::Decoder::new(member)?)
        } else {
            same(file, member)
        }
    }

    /// Whether it is as it was when it was looked at.
    fn is_unchanged(&self) -> bool {
        let of = |meta: &Metadata| {
            (
                meta.dev(),
                meta.ino(),
                meta.len(),
                meta.mtime(),
                meta.mtime_nsec(),
            )
        };
        self.path
            .symlink_metadata()
            .is_ok_and(|meta| of(&meta) == of(&self.meta))
    }
}

type Archive = ZipArchive<io::BufReader<File>>;

/// Packs the files `sources` into `folder`. Then removes them, if it is to.
///
/// # Errors
/// If no pack can be written. Everything is then as it was.
pub fn pack(folder: &Path, sources: &[PathBuf], remove: bool) -> anyhow::Result<Packed> {
    sweep(folder);
    let mut done = Packed::default();
    let mut older = older(folder, &mut done.failed);
    // Each is in its pack already, or will be in the new one.
    let (mut there, mut new) = (Vec::new(), Vec::new());
    let mut replaced = BTreeSet::new();
    for path in sources {
        let mut look = || -> anyhow::Result<Option<Source>> {
            let source = Source::at(path)?;
            let is_known = |(_, archive): &&mut (PathBuf, Archive)| {
                archive.index_for_name(&source.name).is_some()
            };
            let known = older.iter_mut().find(|known| is_known(known));
            let Some((pack, archive)) = known else {
                return Ok(Some(source));
            };
            if source.is(archive.by_name(&source.name)?).unwrap_or(false) {
                there.push(source);
                return Ok(None);
            }
            // What `ncclscope hang` saw is written anew by each look.
            if super::is_account(path) {
                replaced.insert(source.name.clone());
                return Ok(Some(source));
            }
            bail!(
                "`{}` has another `{}`; left alone",
                pack.display(),
                source.name
            )
        };
        match look() {
            Ok(source) => new.extend(source),
            // Somebody else packed it meanwhile.
            Err(error) if is_absent(&error) => {}
            Err(error) => done.failed.push((path.clone(), format!("{error:#}"))),
        }
    }
    if !new.is_empty() || older.len() > 1 {
        let before: u64 = older
            .iter()
            .filter_map(|(pack, _)| Some(pack.metadata().ok()?.len()))
            .sum();
        let pack = written(folder, &mut older, &new, &replaced)?;
        done.files = new.len();
        done.bytes = new.iter().map(|source| source.meta.len()).sum();
        done.packed_bytes = pack.metadata()?.len().saturating_sub(before);
        done.pack = Some(pack);
        for (pack, _) in &older {
            std::fs::remove_file(pack).with_context(|| format!("removing `{}`", pack.display()))?;
        }
    }
    if remove {
        for source in there.iter().chain(&new) {
            let removed = if source.is_unchanged() {
                std::fs::remove_file(&source.path)
            } else {
                Err(io::Error::other(
                    "it changed while it was packed; left alone",
                ))
            };
            if let Err(error) = removed {
                // Somebody else packed and removed it, too.
                if source.path.symlink_metadata().is_err() {
                    continue;
                }
                done.failed.push((source.path.clone(), error.to_string()));
            }
        }
    }
    Ok(done)
}

fn is_absent(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref().map(io::Error::kind);
    kind == Some(io::ErrorKind::NotFound)
}

/// The packs in a folder that can be read, the newest first.
fn older(folder: &Path, failed: &mut Vec<(PathBuf, String)>) -> Vec<(PathBuf, Archive)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path());
    let found: BTreeMap<u32, PathBuf> = found
        .filter_map(|p| Some((packs::number(&p)?, p)))
        .collect();
    let open = |path: PathBuf| {
        let archive = adopt::open(&path).map_err(zip::result::ZipError::from);
        match archive.and_then(|file| ZipArchive::new(io::BufReader::new(file))) {
            Ok(archive) => Some((path, archive)),
            Err(error) => {
                failed.push((path, format!("{error}; left alone")));
                None
            }
        }
    };
    found.into_values().rev().filter_map(open).collect()
}

/// Writes a new pack of all that is in `older` and not in `replaced`, and of `new`. Returns its path.
fn written(
    folder: &Path,
    older: &mut [(PathBuf, Archive)],
    new: &[Source],
    replaced: &BTreeSet<String>,
) -> anyhow::Result<PathBuf> {
    let writing = || format!("writing a pack into `{}`", folder.display());
    let temporary = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(folder);
    let mut temporary = temporary.with_context(writing)?;
    // Says to others that somebody writes it. It helps to tidy up, and nothing depends on it.
    let lock = temporary.as_file().try_clone().with_context(writing)?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock);
    // Nobody may read it who could not read everything in it.
    let modes = new.iter().map(|source| source.meta.mode());
    let packs = older
        .iter()
        .filter_map(|(pack, _)| Some(pack.metadata().ok()?.mode()));
    let mode = modes.chain(packs).fold(0o666, |all, mode| all & mode);
    write(&mut temporary, older, new, replaced).with_context(writing)?;
    let file = temporary.as_file();
    file.set_permissions(Permissions::from_mode(mode | 0o600))
        .with_context(writing)?;
    file.sync_all().with_context(writing)?;
    check(temporary.path(), new).with_context(writing)?;
    // Others may pack at the same time.
    let mut number = older
        .first()
        .and_then(|(pack, _)| packs::number(pack))
        .unwrap_or(0);
    loop {
        number = number
            .checked_add(1)
            .context("there is a pack with the last number")?;
        let place = folder.join(packs::name(number));
        match temporary.persist_noclobber(&place) {
            Ok(_) => {
                File::open(folder)
                    .and_then(|folder| folder.sync_all())
                    .with_context(writing)?;
                return Ok(place);
            }
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                temporary = error.file;
            }
            Err(error) => return Err(error.error).with_context(writing),
        }
    }
}

fn write(
    temporary: &mut NamedTempFile,
    older: &mut [(PathBuf, Archive)],
    new: &[Source],
    replaced: &BTreeSet<String>,
) -> anyhow::Result<()> {
    let mut pack = ZipWriter::new(BufWriter::with_capacity(1 << 20, temporary));
    let mut names = replaced.clone();
    for (_, archive) in older {
        for index in 0..archive.len() {
            let member = archive.by_index_raw(index)?;
            // Of packs with the same file, the newest counts.
            if names.insert(member.name().to_owned()) {
                pack.raw_copy_file(member)?;
            }
        }
    }
    for source in new {
        let context = || format!("packing `{}`", source.path.display());
        let mut file = adopt::open(&source.path).with_context(context)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(source.meta.len() >= LARGE)
            .unix_permissions(source.meta.mode() & 0o777)
            .last_modified_time(moment(source.meta.mtime()).unwrap_or_default());
        pack.start_file(&source.name, options)?;
        if source.is_compressed_here() {
            let mut encoder = zstd::Encoder::new(&mut pack, zstd::DEFAULT_COMPRESSION_LEVEL)?;
            encoder.include_checksum(true)?;
            io::copy(&mut file, &mut encoder).with_context(context)?;
            encoder.finish().with_context(context)?;
        } else {
            io::copy(&mut file, &mut pack).with_context(context)?;
        }
    }
    pack.finish()?.flush()?;
    Ok(())
}

/// A time in a zip archive, in UTC.
fn moment(seconds: i64) -> Option<zip::DateTime> {
    let at = jiff::Timestamp::from_second(seconds).ok()?;
    let at = jiff::tz::TimeZone::UTC.to_datetime(at);
    let number = |of: i8| u8::try_from(of).ok();
    let year = u16::try_from(at.year()).ok()?;
    let (month, day) = (number(at.month())?, number(at.day())?);
    let (hour, minute, second) = (
        number(at.hour())?,
        number(at.minute())?,
        number(at.second())?,
    );
    zip::DateTime::from_date_and_time(year, month, day, hour, minute, second).ok()
}

/// Reads a pack back: what is new against the files that it was made from, the rest against its checksums.
fn check(pack: &Path, new: &[Source]) -> anyhow::Result<()> {
    let mut archive = ZipArchive::new(io::BufReader::new(adopt::open(pack)?))?;
    let new: BTreeMap<&str, &Source> = new.iter().map(|s| (s.name.as_str(), s)).collect();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index)?;
        let name = member.name().to_owned();
        let is_whole = match new.get(name.as_str()) {
            Some(source) => source.is(&mut member),
            None => io::copy(&mut member, &mut io::sink()).map(|_| true),
        };
        if !is_whole.with_context(|| format!("reading `{name}` back"))? {
            bail!("`{name}` changed while it was packed");
        }
    }
    Ok(())
}

/// Removes what packers left that were killed.
fn sweep(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let unfinished = |entry: &std::fs::DirEntry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(UNFINISHED.as_bytes())
    };
    for entry in entries.filter(unfinished) {
        let Ok(file) = adopt::open(&entry.path()) else {
            continue;
        };
        // If its writer is on another node whose locks are not seen here, it fails, and has lost nothing.
        if Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether both have the same bytes.
pub fn same(mut a: impl Read, mut b: impl Read) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let n = filled(&mut a, &mut left)?;
        if n != filled(&mut b, &mut right)? || left[..n] != right[..n] {
            return Ok(false);
        }
        if n == 0 {
            return Ok(true);
        }
    }
}

/// Reads until `bytes` is full or nothing follows.
fn filled(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < bytes.len() {
        match from.read(&mut bytes[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}
