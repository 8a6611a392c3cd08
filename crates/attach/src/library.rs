//! Where a process has NCCL: its own library, or a program that links NCCL statically.
//!
//! [`find`] looks at every file that a process has mapped as code, and asks which of NCCL's functions it
//! defines, whatever its name is. A file is read once: a [`Catalog`] remembers it by device and inode. Files
//! are opened through `/proc/PID/map_files` or `/proc/PID/root`, so a container's files are found, and so are
//! files that were removed or replaced since.
//!
//! A program may link NCCL statically and have lost its symbols. Nothing in it says then where a function is:
//! unwind tables have ranges of code and no names, and code that looks alike proves nothing. So such a
//! program needs a file that has its symbols ([`Catalog::with_symbols`]): the program as it was before
//! `strip`, or its debug file. Debug files are also looked for by build id, where distributions put them.
//!
//! Rule: a place for a probe is one of a function's own entry. What the kernel would have to single-step is
//! [`Pace::Slow`]. A function that programs call often is left out then, unless the user asks for it.

use crate::bytes::Bytes;
use crate::functions::{Kind, Told, FUNCTIONS};
use crate::inner;
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file with functions of NCCL.
pub struct Library {
    /// Open, so that the place of a probe is this file whatever its name becomes.
    file: File,
    /// Device and inode.
    pub id: (u64, u64),
    /// As the process that was found first names it.
    pub path: String,
    /// Hexadecimal; empty without one.
    pub build_id: String,
    /// NCCL's release, such as `2.32.3`, from the text that it prints.
    pub version: Option<String>,
    /// Places by number in [`FUNCTIONS`].
    pub places: BTreeMap<usize, Entry>,
    /// Places of functions inside NCCL's init by number (see [`inner`]), if the file has their symbols.
    pub inner: BTreeMap<usize, Entry>,
    /// Where a communicator has its rank and size.
    pub fields: Option<Fields>,
}

/// Where a communicator of a library has what `ncclCommUserRank`, `ncclCommCount` and `ncclCommCuDevice` say
/// of it: bytes from its address.
///
/// NCCL's struct has another layout in each release. But these functions do nothing but load an `int` of it
/// and store it where the caller says, so their code has the place. A field is believed if its function has
/// one such pair of instructions, and rank and size only if they are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Fields {
    pub rank: u32,
    pub nranks: u32,
    pub device: Option<u32>,
}

impl Fields {
    /// From the code of the three functions.
    pub fn of(rank: &[u8], nranks: &[u8], device: &[u8]) -> Option<Fields> {
        let fields = Fields {
            rank: loaded(rank)?,
            nranks: loaded(nranks)?,
            device: loaded(device),
        };
        (fields.rank.abs_diff(fields.nranks) == 4).then_some(fields)
    }

    /// Reads rank, size and device of the communicator at `address` of a process, through `/proc/PID/mem`.
    /// `None` if that can't be, or can't be right.
    pub fn read(&self, memory: &File, address: u64) -> Option<(u32, u32, Option<u32>)> {
        use std::os::unix::fs::FileExt;
        let int = |offset: u32| {
            let mut bytes = [0; 4];
            memory
                .read_exact_at(&mut bytes, address.checked_add(offset.into())?)
                .ok()?;
            u32::try_from(i32::from_le_bytes(bytes)).ok()
        };
        let (rank, nranks) = (int(self.rank)?, int(self.nranks)?);
        let device = self.device.and_then(int).filter(|device| *device < 1024);
        (rank < nranks && nranks <= 1 << 20).then_some((rank, nranks, device))
    }
}

/// The offset in `mov offset(%base), %register`, if `mov %register, (%other)` follows within a few bytes, and
/// all such pairs in the code have the same one.
fn loaded(code: &[u8]) -> Option<u32> {
    /// Bytes between the two at most.
    const BETWEEN: usize = 8;
    // A prefix that extends registers, or none: its bits, and the instruction behind it.
    let prefixed = |at: usize| match *code.get(at)? {
        prefix @ 0x40..=0x47 => Some((prefix, at + 1)),
        _ => Some((0, at)),
    };
    let pair = |at: usize| {
        let (prefix, load) = prefixed(at)?;
        let [0x8b, place, offset @ ..] = code.get(load..load + 6)? else {
            return None;
        };
        // A base with an offset of 32 bits, which is not the stack's pointer or frame.
        if place >> 6 != 2 || matches!(place & 7, 4 | 5) && prefix & 1 == 0 || place & 7 == 4 {
            return None;
        }
        let register = (prefix >> 2 & 1) << 3 | (place >> 3 & 7);
        let offset = u32::from_le_bytes(offset.try_into().ok()?);
        let is_stored = |at: usize| {
            let (prefix, store) = prefixed(at)?;
            let [0x89, place] = code.get(store..store + 2)? else {
                return None;
            };
            let same = (prefix >> 2 & 1) << 3 | (place >> 3 & 7) == register;
            (same && place >> 6 == 0 && !matches!(place & 7, 4 | 5)).then_some(())
        };
        let behind = load + 6;
        let stored = (behind..behind + BETWEEN).find_map(is_stored);
        (stored.is_some() && offset > 0 && offset < 1 << 24 && offset % 4 == 0).then_some(offset)
    };
    let mut found = (0..code.len()).filter_map(pair);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// A function's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset in the file.
    pub offset: u64,
    /// What a probe costs there.
    pub pace: Pace,
}

/// How the kernel carries out the instruction that a probe replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It emulates the instruction: some 1 µs for entry and return.
    Fast,
    /// It single-steps: some 10 µs in a virtual machine.
    Slow,
}

impl Library {
    /// A path that leads to the file while this process has it open.
    pub fn place(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// Functions that a probe would slow down: programs call them often, and their place is slow.
    pub fn slow(&self) -> impl Iterator<Item = &'static str> + '_ {
        let slow = self
            .places
            .iter()
            .filter(|(index, entry)| is_slow(**index, entry));
        slow.map(|(index, _)| FUNCTIONS[*index].symbol)
    }
}

/// Whether a probe there slows a program down. A slow place of a function that is called once a job does not.
pub fn is_slow(function: usize, entry: &Entry) -> bool {
    entry.pace == Pace::Slow && FUNCTIONS[function].is_frequent()
}

/// On aarch64 the kernel single-steps nearly every instruction, at one price. That is what attach measures,
/// so no place is slower than it says.
#[cfg(target_arch = "aarch64")]
fn entry_of(_: &[u8]) -> (u64, Pace) {
    (0, Pace::Fast)
}

#[cfg(not(target_arch = "aarch64"))]
use entry_of_x86 as entry_of;

/// Whether the kernel emulates the first instruction of `code` at a probe, and how many bytes to step over
/// before it. `endbr64` is stepped over: the kernel would single-step it, and nothing but a jump to the entry
/// comes before the instruction behind it.
#[cfg_attr(target_arch = "aarch64", allow(dead_code))]
fn entry_of_x86(code: &[u8]) -> (u64, Pace) {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let (skip, code) = match code.strip_prefix(&ENDBR64) {
        Some(rest) => (4, rest),
        None => (0, code),
    };
    let fast = match code {
        // push; push of r8 to r15; jump; call; no operation.
        [0x50..=0x57 | 0xeb | 0xe9 | 0xe8 | 0x90, ..] | [0x41, 0x50..=0x57, ..] => true,
        [0x0f, 0x1f, ..] | [0x66, 0x90, ..] | [0x66, 0x0f, 0x1f, ..] => true,
        // Conditional jumps.
        [0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => true,
        _ => false,
    };
    (skip, if fast { Pace::Fast } else { Pace::Slow })
}

/// Files that were looked at, by device and inode: `None` has no NCCL.
#[derive(Default)]
pub struct Catalog {
    files: HashMap<(u64, u64), Option<Arc<Library>>>,
    symbols: Vec<PathBuf>,
    /// Why a file that has NCCL can't be used, as far as that was not handed out yet.
    pub troubles: Vec<String>,
}

impl Catalog {
    /// Without files, but with those that have the symbols of stripped programs.
    pub fn with_symbols(symbols: Vec<PathBuf>) -> Catalog {
        Catalog {
            symbols,
            ..Catalog::default()
        }
    }
}

/// A file of code that is read as far as it is asked for.
type Elf<'a> = object::File<'a, &'a Bytes<'a>>;

/// A file that a process has mapped as code.
struct Mapped {
    /// `START-END` of the mapping.
    range: String,
    path: String,
    /// Major and minor number of its device.
    device: (u32, u32),
    inode: u64,
}

fn mapped(process: u32) -> io::Result<Vec<Mapped>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let mut found: Vec<Mapped> = Vec::new();
    for line in maps.lines() {
        // 7f00-7f01 r-xp 00000000 08:01 1234   /path with blanks
        let mut words = line.splitn(6, ' ');
        let (range, flags) = (words.next(), words.next());
        let device = words.nth(1).and_then(|word| {
            let (major, minor) = word.split_once(':')?;
            let hex = |text| u32::from_str_radix(text, 16).ok();
            Some((hex(major)?, hex(minor)?))
        });
        let inode = words.next().and_then(|word| word.parse().ok());
        let path = words.next().map(str::trim_start).unwrap_or_default();
        let (Some(range), Some(flags), Some(device), Some(inode)) = (range, flags, device, inode)
        else {
            continue;
        };
        let is_code = flags.as_bytes().get(2) == Some(&b'x');
        if is_code
            && path.starts_with('/')
            && found.iter().all(|m| (m.inode, &*m.path) != (inode, path))
        {
            found.push(Mapped {
                range: range.to_owned(),
                path: path.to_owned(),
                device,
                inode,
            });
        }
    }
    Ok(found)
}

/// Whether a file may hold NCCL by its name, so that all of its symbols are read. A program may link NCCL
/// statically, and so may a library of a framework. Other files count if they export NCCL's functions.
fn may_have_nccl(mapped: &Mapped, program: &Path) -> bool {
    let path = mapped
        .path
        .strip_suffix(" (deleted)")
        .unwrap_or(&mapped.path);
    let name = path.rsplit('/').next().unwrap_or(path);
    let known = [
        "nccl",
        "torch_cuda",
        "mxnet",
        "tensorflow",
        "jaxlib",
        "xla_cuda",
        "paddle",
        "vllm",
    ];
    known.iter().any(|part| name.contains(part)) || Path::new(path) == program
}

/// Opens a file of somebody else, without waiting if it is a pipe by now.
fn open_at(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

fn open(process: u32, mapped: &Mapped) -> io::Result<File> {
    // The file itself, also if it was removed; needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
    let exact = open_at(format!("/proc/{process}/map_files/{}", mapped.range));
    let replaced = || io::Error::other("the file was replaced since");
    // As the process sees it; needs CAP_SYS_PTRACE, or its user's id.
    let theirs = || {
        let file = open_at(format!("/proc/{process}/root{}", mapped.path))?;
        if file.metadata()?.ino() == mapped.inode {
            Ok(file)
        } else {
            Err(replaced())
        }
    };
    // As this tool sees it. In a container of the process, the path may lead to another file.
    let ours = |error: io::Error| {
        if error.kind() != io::ErrorKind::PermissionDenied {
            return Err(error);
        }
        let Ok(file) = open_at(&mapped.path) else {
            return Err(error);
        };
        let meta = file.metadata()?;
        let device = (libc::major(meta.dev()), libc::minor(meta.dev()));
        if (device, meta.ino()) == (mapped.device, mapped.inode) {
            Ok(file)
        } else {
            Err(error)
        }
    };
    exact.or_else(|_| theirs()).or_else(ours)
}

/// The libraries with NCCL that a process has loaded. One by name that defines none of its functions is left
/// out.
///
/// # Errors
/// If the process is gone, or if its mappings, or the files, may not be read and nothing was found.
pub fn find(process: u32, catalog: &mut Catalog) -> io::Result<Vec<Arc<Library>>> {
    let program = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    let mut libraries: Vec<Arc<Library>> = Vec::new();
    let mut denied = None;
    let told = catalog.troubles.len();
    for mapped in mapped(process)? {
        let is_likely = may_have_nccl(&mapped, &program);
        let file = match open(process, &mapped) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    denied = Some(error);
                }
                continue;
            }
        };
        let Ok(meta) = file.metadata() else { continue };
        let Catalog {
            files,
            symbols,
            troubles,
        } = &mut *catalog;
        let id = (meta.dev(), meta.ino());
        let library = files.entry(id).or_insert_with(|| {
            let exports = || Bytes::of(&file).is_some_and(|bytes| exports_nccl(&bytes));
            if !is_likely && !exports() {
                return None;
            }
            match read(file, id, &mapped.path, process, symbols) {
                Ok(library) => library.map(Arc::new),
                Err(trouble) => {
                    troubles.push(trouble);
                    None
                }
            }
        });
        if let Some(library) = library {
            if !libraries.iter().any(|other| other.id == library.id) {
                libraries.push(library.clone());
            }
        }
    }
    if !libraries.is_empty() {
        // The text of a release is no proof: a program may speak of the NCCL that it has loaded.
        catalog.troubles.truncate(told);
    }
    match denied {
        Some(error) if libraries.is_empty() => Err(error),
        _ => Ok(libraries),
    }
}

/// Whether a library exports NCCL's AllReduce, whatever its name is. The linker's own table of hashes says so
/// without a look at all symbols.
fn exports_nccl(bytes: &Bytes) -> bool {
    use object::read::elf::{ElfFile64, VersionTable};
    const NAME: &[u8] = b"ncclAllReduce";
    let find = || {
        let elf = ElfFile64::<object::Endianness, _>::parse(bytes).ok()?;
        let (endian, sections) = (elf.endian(), elf.elf_section_table());
        let (hashes, _) = sections.gnu_hash(endian, bytes).ok()??;
        let symbols = sections
            .symbols(endian, bytes, object::elf::SHT_DYNSYM)
            .ok()?;
        let hash = object::elf::gnu_hash(NAME);
        hashes.find(endian, NAME, hash, None, &symbols, &VersionTable::default())
    };
    find().is_some()
}

/// Places of functions in a file, and the code of those that say where a communicator has its rank.
#[derive(Default)]
struct Places {
    public: BTreeMap<usize, Entry>,
    inner: BTreeMap<usize, Entry>,
    code_of: BTreeMap<Told, Vec<u8>>,
}

impl Places {
    /// By the symbols of `named`, which are also those of `elf`.
    fn of(bytes: &Bytes, elf: &Elf, named: &Elf) -> Places {
        let mut places = Places::default();
        for symbol in named.dynamic_symbols().chain(named.symbols()) {
            let index = match symbol.name() {
                Ok(name) if symbol.is_definition() && name.starts_with("nccl") => {
                    FUNCTIONS.iter().position(|f| f.symbol == name)
                }
                Ok(name) if symbol.is_definition() => inner::number(name),
                _ => None,
            };
            let Some(index) = index else { continue };
            let Some((offset, code)) = in_file(bytes, elf, symbol.address()) else {
                continue;
            };
            let (skip, pace) = entry_of(code);
            let entry = Entry {
                offset: offset + skip,
                pace,
            };
            if index >= inner::FIRST {
                places.inner.entry(index).or_insert(entry);
                continue;
            }
            if let Kind::Tells(told) = FUNCTIONS[index].kind {
                let bytes = code.len().min(symbol.size() as usize);
                places.code_of.insert(told, code[..bytes].to_vec());
            }
            places.public.entry(index).or_insert(entry);
        }
        places
    }

    fn has_nccl(&self) -> bool {
        let is_it = |index: &usize| FUNCTIONS[*index].symbol == "ncclAllReduce";
        self.public.keys().any(is_it)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a file with symbols is of another build than a program. If not both have a build id, their code
/// must be the same.
fn is_other_build(elf: (&Bytes, &Elf), named: (&Bytes, &Elf)) -> bool {
    let id = |(_, file): (&Bytes, &Elf)| file.build_id().ok().flatten().map(<[u8]>::to_vec);
    match (id(elf), id(named)) {
        (Some(one), Some(other)) => one != other,
        _ => {
            use object::ObjectSection;
            let code = |(bytes, file): (&Bytes, &Elf)| {
                let text = file.section_by_name(".text")?;
                Some((text.address(), hashed(bytes, text.file_range()?)))
            };
            let both = (code(elf), code(named));
            both.0.is_none() || both.0 != both.1
        }
    }
}

/// Enough to tell two builds apart: the length of their code, and a hash of it.
fn hashed(bytes: &Bytes, (start, len): (u64, u64)) -> (u64, u64) {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    bytes.search(start..start.saturating_add(len), 0, |part| {
        hasher.write(part);
        None::<()>
    });
    (len, hasher.finish())
}

/// Files that may have the symbols of a program. First come the files that the user names. Then comes the
/// debug file with the program's build id, in the process's file system and in this tool's.
fn symbol_files(elf: &Elf, process: u32, named: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = named.to_vec();
    if let Some((first, rest)) = elf.build_id().ok().flatten().and_then(<[u8]>::split_first) {
        let file = format!("usr/lib/debug/.build-id/{first:02x}/{}.debug", hex(rest));
        files.push(Path::new("/proc").join(format!("{process}/root/{file}")));
        files.push(Path::new("/").join(file));
    }
    files
}

/// Reads a file that may have NCCL: `None` if it has not.
fn read(
    file: File,
    id: (u64, u64),
    path: &str,
    process: u32,
    symbols: &[PathBuf],
) -> Result<Option<Library>, String> {
    let Some(bytes) = Bytes::of(&file) else {
        return Ok(None);
    };
    let Ok(elf) = Elf::parse(&bytes) else {
        return Ok(None);
    };
    let mut places = Places::of(&bytes, &elf, &elf);
    let version = version(&bytes, &elf);
    if let (false, Some(version)) = (places.has_nccl(), &version) {
        let mut others = Vec::new();
        for path in symbol_files(&elf, process, symbols) {
            let Ok(file) = open_at(&path) else {
                continue;
            };
            let Some(of_named) = Bytes::of(&file) else {
                continue;
            };
            let Ok(named) = Elf::parse(&of_named) else {
                continue;
            };
            if is_other_build((&bytes, &elf), (&of_named, &named)) {
                others.push(format!("; `{}` is another build", path.display()));
                continue;
            }
            places = Places::of(&bytes, &elf, &named);
            if places.has_nccl() {
                break;
            }
            others.push(format!("; `{}` has no such symbols either", path.display()));
        }
        if !places.has_nccl() {
            return Err(format!(
                "`{path}` has NCCL {version} built in, but no symbols, so its functions can't be found{}. \
                 --symbols takes the program as it was before `strip`, or its debug file; or start the job \
                 with `ncclscope run`",
                others.concat()
            ));
        }
    }
    let build_id = elf.build_id().ok().flatten().unwrap_or_default();
    let build_id = hex(build_id);
    let code = |told| places.code_of.get(&told).map_or(&[][..], Vec::as_slice);
    let fields = Fields::of(code(Told::Rank), code(Told::Ranks), code(Told::Device));
    drop(elf);
    drop(bytes);
    Ok(places.has_nccl().then(|| Library {
        id,
        file,
        path: path.to_owned(),
        build_id,
        version,
        places: places.public,
        inner: places.inner,
        fields,
    }))
}

/// Bytes of a function that are looked at, at most.
const LONGEST: u64 = 4096;

/// Where an address of the file's code is in the file, and the bytes there.
fn in_file<'a>(bytes: &'a Bytes, elf: &Elf, address: u64) -> Option<(u64, &'a [u8])> {
    elf.segments().find_map(|segment| {
        let (offset, len) = segment.file_range();
        let at = address
            .checked_sub(segment.address())
            .filter(|at| *at < len)?;
        let place = offset.checked_add(at)?;
        Some((place, bytes.at(place, (len - at).min(LONGEST))?))
    })
}

/// NCCL prints its release, so the text is in its constants: `NCCL version 2.32.3+cuda12.9`.
fn version(bytes: &Bytes, elf: &Elf) -> Option<String> {
    use object::ObjectSection;
    let (start, len) = elf.section_by_name(".rodata")?.file_range()?;
    const TEXT: &[u8] = b"NCCL version ";
    // Of a release that is cut by the end of a part, the next part has the whole.
    const WHOLE: usize = TEXT.len() + 12;
    bytes.search(start..start.saturating_add(len), 2 * WHOLE, |data| {
        memchr::memmem::find_iter(data, TEXT).find_map(|at| {
            let rest = &data[at + TEXT.len()..];
            let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
            let text: String = rest
                .iter()
                .take(12)
                .take_while(is_part)
                .map(|b| *b as char)
                .collect();
            (text.split('.').filter(|part| !part.is_empty()).count() == 3).then_some(text)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_emulates_is_fast() {
        let fast: [&[u8]; 6] = [
            &[0x55, 0x48],
            &[0x41, 0x57],
            &[0x0f, 0x1f, 0x44, 0, 0],
            &[0xe9, 1, 2, 3, 4],
            &[0x74, 5],
            &[0x0f, 0x84, 1, 2, 3, 4],
        ];
        for code in fast {
            assert_eq!(entry_of_x86(code), (0, Pace::Fast), "{code:x?}");
        }
        assert_eq!(
            entry_of_x86(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]),
            (4, Pace::Fast)
        );
        let slow: [&[u8]; 3] = [&[0x48, 0x89, 0xe5], &[0x85, 0xff], &[]];
        for code in slow {
            assert_eq!(entry_of_x86(code).1, Pace::Slow, "{code:x?}");
        }
    }

    #[test]
    fn the_place_of_a_field_is_in_the_code_of_its_function() {
        // NCCL 2.32.3: call; mov 0x1206ec(%r13),%eax; xor %ebx,%ebx; mov %eax,(%r14); jmp.
        let of = |low: u8| {
            let mut code = vec![
                0xe8, 0x57, 0x9a, 0xfe, 0xff, 0x41, 0x8b, 0x85, low, 0x06, 0x12, 0x00,
            ];
            code.extend([0x31, 0xdb, 0x41, 0x89, 0x06, 0xe9, 0xb2, 0xfd, 0xff, 0xff]);
            code
        };
        let expected = Fields {
            rank: 0x1206e8,
            nranks: 0x1206ec,
            device: Some(0x1206f0),
        };
        assert_eq!(Fields::of(&of(0xe8), &of(0xec), &of(0xf0)), Some(expected));
        let without = Fields {
            device: None,
            ..expected
        };
        assert_eq!(Fields::of(&of(0xe8), &of(0xec), &[]), Some(without));
        // No neighbours; two pairs that differ; the value goes elsewhere; nothing.
        assert_eq!(Fields::of(&of(0xe8), &of(0xf0), &[]), None);
        assert_eq!(loaded(&[of(0xe8), of(0xec)].concat()), None);
        let mut other = of(0xe8);
        other[16] = 0x0e;
        assert_eq!(loaded(&other), None);
        assert_eq!(loaded(&[]), None);
        for cut in 0..of(0).len() {
            let _ = loaded(&of(0xe8)[..cut]);
        }
    }

    #[test]
    fn this_process_has_no_nccl() {
        let found = find(std::process::id(), &mut Catalog::default()).expect("mappings");
        assert!(found.is_empty());
    }
}
