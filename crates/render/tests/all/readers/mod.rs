//! Damage to captures, and everything that reads them, for tests and for the fuzzers in `fuzz/`.
//!
//! A [`Files`] is a capture in memory. [`Damage`] changes it at random, from a seed; [`read`] writes it to a
//! folder and runs every reader over it.
#![allow(dead_code)]

use analyze::hang::Conditions;
use capture::block::{self, BLOCK_HEADER, BLOCK_MAGIC};
use render::dataset::{self, Key};
use render::table::{self, Rows, Table};
use render::timeline::Timeline;
use std::collections::BTreeMap;
use std::path::Path;
use tables::Capture;

/// The files of a capture by path below its folder, uncompressed.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The files of a recorded job.
pub fn recorded(name: &str) -> Files {
    fn walk(root: &Path, folder: &Path, files: &mut Files) {
        for entry in std::fs::read_dir(folder).expect("a recorded job").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(root, &path, files);
                continue;
            }
            let name = path
                .strip_prefix(root)
                .expect("below")
                .display()
                .to_string();
            let bytes = std::fs::read(&path).expect("read");
            let (name, bytes) = match name.strip_suffix(".zst") {
                Some(plain) => {
                    let bytes = zstd::decode_all(&bytes[..]).expect("sound");
                    (plain.to_owned(), bytes)
                }
                None => (name, bytes),
            };
            files.insert(name, bytes);
        }
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find(|a| a.join("data/README.md").is_file())
        .expect("the repository");
    // A capture elsewhere has a path.
    let root = if name.contains('/') {
        repository.join(name)
    } else {
        repository.join("data").join(name)
    };
    let mut files = Files::new();
    walk(&root, &root, &mut files);
    files
}

/// Writes the files, those whose name asks for it compressed.
pub fn write(files: &Files, folder: &Path) {
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("inside")).expect("a folder");
        std::fs::write(path, bytes).expect("written");
    }
}

/// Every output of a capture; `None` when it does not open.
pub struct Outputs {
    pub capture: Capture,
    pub text: String,
    pub json: String,
}

/// Opens the capture and runs every reader over it. Outputs other than reports are thrown away.
pub fn read(folder: &Path) -> Option<Outputs> {
    let capture = match Capture::open(folder) {
        Ok(capture) => capture,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let report = analyze::report(&capture);
    let text = |all| {
        let mut out = Vec::new();
        let options = render::text::Options {
            all,
            explain: all,
            kernels: all,
            ..Default::default()
        };
        render::text::write(&report, options, &mut out).expect("in memory");
        String::from_utf8(out).expect("text")
    };
    let mut json = Vec::new();
    render::report_json::write(&report, &mut json).expect("in memory");
    serde_json::from_slice::<serde_json::Value>(&json).expect("JSON");
    let timeline = Timeline::new(&capture, None);
    let mut chrome = Vec::new();
    render::chrome::write(&timeline, None, &mut chrome).expect("in memory");
    serde_json::from_slice::<serde_json::Value>(&chrome).expect("JSON");
    let mut sink = std::io::sink();
    render::perfetto::write(&timeline, None, &mut sink).expect("in memory");
    let mut lines = Vec::new();
    render::jsonl::write(&capture, &mut lines).expect("in memory");
    for line in lines.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        serde_json::from_slice::<serde_json::Value>(line).expect("JSON");
    }
    let rows = Rows::new(&capture);
    for of in Table::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let keys: Vec<Key> = Key::ALL.into_iter().filter(|key| key.is_of(of)).collect();
        dataset::write(&rows, of, &keys, folder.path()).expect("written");
        table::csv(&rows, of, &mut std::io::sink()).expect("written");
        table::parquet(&rows, of, std::io::sink()).expect("written");
    }
    let (text, all) = (text(false), text(true));
    let (html, hang, diff) = (html(&report), hang(&capture), diff(&capture));
    let json = String::from_utf8(json).expect("text");
    for printed in [&text, &all, &html, &json, &hang, &diff] {
        let controls = |line: &&str| line.chars().any(char::is_control);
        if let Some(line) = printed.split('\n').find(controls) {
            let at = line.find(char::is_control).unwrap_or(0);
            let from = line[..at]
                .char_indices()
                .rev()
                .nth(40)
                .map_or(0, |(i, _)| i);
            let around: String = line[from..].chars().take(80).collect();
            panic!("a report prints a control character: {around:?}");
        }
    }
    Some(Outputs {
        capture,
        text,
        json,
    })
}

fn html(report: &analyze::Report) -> String {
    let mut out = Vec::new();
    render::html::write(report, &mut out).expect("in memory");
    String::from_utf8(out).expect("text")
}

/// With every wait a hang, so that there is something to say.
fn hang(capture: &Capture) -> String {
    let conditions = Conditions {
        after: Some(analyze::time::Nanos::ZERO),
    };
    let hang = analyze::hang::hang(capture, &conditions);
    let (mut out, mut json) = (Vec::new(), Vec::new());
    render::hang::text(&hang, true, Default::default(), &mut out).expect("in memory");
    render::hang::json(&hang, &mut json).expect("in memory");
    serde_json::from_slice::<serde_json::Value>(&json).expect("JSON");
    String::from_utf8(out).expect("text")
}

fn diff(capture: &Capture) -> String {
    let run = analyze::diff::Run::of(capture);
    let diff = analyze::diff::diff(&run, &run, &[]);
    let (mut out, mut json) = (Vec::new(), Vec::new());
    render::diff_text::write(&diff, true, Default::default(), &mut out).expect("in memory");
    render::diff_json::write(&diff, &mut json).expect("in memory");
    serde_json::from_slice::<serde_json::Value>(&json).expect("JSON");
    String::from_utf8(out).expect("text")
}

/// A generator of numbers that are the same for the same seed.
pub struct Damage(u64);

impl Damage {
    pub fn new(seed: u64) -> Damage {
        Damage(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `n`, small numbers no more likely than large ones; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Below `n`, small numbers more likely: headers are where they are.
    fn early(&mut self, n: usize) -> usize {
        let n = n >> self.below(12);
        self.below(n)
    }

    /// Values that break arithmetic more often than others.
    fn value(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX >> self.below(64),
            2 => 1 << self.below(64),
            3 => self.next() % 300,
            _ => self.next(),
        }
    }

    fn pick(&mut self, files: &Files) -> Option<String> {
        let at = self.below(files.len());
        files.keys().nth(at).cloned()
    }

    /// Damages the bytes of one file in one way; names what was done.
    pub fn bytes(&mut self, bytes: &mut Vec<u8>) -> &'static str {
        let n = bytes.len();
        match self.below(10) {
            0 => {
                let cut = self.below(n + 1);
                bytes.truncate(cut);
                "cut"
            }
            1 | 2 => {
                for _ in 0..=self.below(8) {
                    let at = self.early(n);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
                "bits flipped"
            }
            3 => {
                let at = self.early(n) & !7;
                let value = self.value().to_le_bytes();
                let width = [1, 2, 4, 8][self.below(4)];
                if let Some(room) = bytes.get_mut(at..at + width) {
                    room.copy_from_slice(&value[..width]);
                }
                "a word replaced"
            }
            4 => {
                let at = self.below(n);
                let len = self.early(n).min(n - at);
                let fill = [0, 0xff, b'N', 0x1b][self.below(4)];
                bytes[at..at + len].fill(fill);
                "a stretch overwritten"
            }
            5 => {
                let at = self.below(n + 1) & !7;
                let len = self.early(4096);
                let random: Vec<u8> = (0..len).map(|_| self.next() as u8).collect();
                bytes.splice(at.min(n)..at.min(n), random);
                "bytes put in"
            }
            6 => {
                let at = self.below(n);
                let len = self.early(n).min(n - at);
                bytes.drain(at..at + len);
                "bytes taken out"
            }
            7 => self.block(bytes, false),
            _ => self.block(bytes, true),
        }
    }

    /// Takes out or repeats a block, or changes its content and makes its checksums right again.
    fn block(&mut self, bytes: &mut Vec<u8>, content: bool) -> &'static str {
        let starts: Vec<usize> = (0..bytes.len().saturating_sub(BLOCK_HEADER))
            .step_by(8)
            .filter(|at| bytes[*at..*at + 4] == BLOCK_MAGIC)
            .collect();
        let Some(start) = starts.get(self.below(starts.len())).copied() else {
            // A live part: its header has the sizes of everything.
            let at = self.early(bytes.len()) & !3;
            let value = self.value();
            if let Some(room) = bytes.get_mut(at..at + 4) {
                room.copy_from_slice(&value.to_le_bytes()[..4]);
            }
            return "a word of the header replaced";
        };
        let word = |bytes: &[u8], at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
        };
        let len = word(bytes, start + 12) as usize;
        let Some(end) = start
            .checked_add(BLOCK_HEADER + len)
            .filter(|end| *end <= bytes.len())
        else {
            return "nothing";
        };
        if !content {
            let whole = bytes[start..end].to_vec();
            if self.below(2) == 0 {
                bytes.drain(start..end);
                return "a block taken out";
            }
            let at = starts[self.below(starts.len())];
            bytes.splice(at..at, whole);
            return "a block repeated";
        }
        let mut payload = bytes[start + BLOCK_HEADER..end].to_vec();
        for _ in 0..=self.below(3) {
            let at = self.early(payload.len());
            match self.below(4) {
                0 => payload.truncate(at),
                1 => {
                    if let Some(byte) = payload.get_mut(at) {
                        *byte = self.value() as u8;
                    }
                }
                2 => {
                    let value = self.value().to_le_bytes();
                    payload.splice(at..at, value);
                }
                _ => {
                    if let Some(byte) = payload.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        let mut number = word(bytes, start + 8);
        let mut kind = u16::from(bytes[start + 4]);
        match self.below(12) {
            0 => number = self.value() as u32,
            1 => kind = self.below(9) as u16,
            _ => {}
        }
        let mut rewritten = Vec::new();
        let begun = block::begin(&mut rewritten);
        rewritten.extend(payload);
        block::finish(&mut rewritten, begun, block::BlockKind::Rows, number);
        rewritten[4..6].copy_from_slice(&kind.to_le_bytes());
        let crc = crc32fast::hash(&rewritten[..20]);
        rewritten[20..24].copy_from_slice(&crc.to_le_bytes());
        let padded = end.next_multiple_of(8).min(bytes.len());
        bytes.splice(start..padded, rewritten);
        "a block's content changed, checksum made right"
    }

    /// Damages a capture in one way; `other` is another job's capture.
    pub fn files(&mut self, files: &mut Files, other: &Files) -> String {
        let Some(name) = self.pick(files) else {
            return "nothing left".into();
        };
        match self.below(12) {
            0 => {
                files.remove(&name);
                format!("{name} removed")
            }
            1 => {
                let Some(second) = self.pick(files) else {
                    return String::new();
                };
                let bytes = files[&second].clone();
                files.insert(name.clone(), bytes);
                format!("{name} replaced by {second}")
            }
            2 => {
                let Some(second) = self.pick(other) else {
                    return String::new();
                };
                files.insert(format!("other/{second}"), other[&second].clone());
                format!("{second} of another job put in")
            }
            3 => {
                let foreign: [&[u8]; 6] = [
                    b"",
                    b"\x7fELF\x02\x01\x01\x00",
                    b"{\"traceEvents\": [",
                    b"PAR1",
                    b"\x28\xb5\x2f\xfd\x04\x00",
                    b"NCSTRACE",
                ];
                let foreign = foreign[self.below(foreign.len())];
                files.insert(name.clone(), foreign.to_vec());
                format!("{name} replaced by another program's")
            }
            4 => {
                let bytes = files.remove(&name).unwrap_or_default();
                let mut packed = zstd::encode_all(&bytes[..], 1).expect("packed");
                let what = self.bytes(&mut packed);
                files.insert(format!("{name}.zst"), packed);
                format!("{name} packed, {what}")
            }
            5 => {
                // Another format, said properly.
                let bytes = files.get_mut(&name).expect("picked");
                if bytes.len() >= block::FILE_HEADER && bytes.starts_with(&block::FILE_MAGIC) {
                    bytes[8..12].copy_from_slice(&(self.value() as u32).to_le_bytes());
                    let header = header_bytes(bytes);
                    checked(bytes, header);
                }
                format!("{name} is of another version")
            }
            6 if name.ends_with(".snap") => {
                // A slot with any content whose checksum is right.
                let bytes = files.get_mut(&name).expect("picked");
                let slots = bytes.len() / (64 << 10) + 1;
                let start = self.below(slots) * (64 << 10);
                let Some(slot) = bytes.get_mut(start..) else {
                    return String::new();
                };
                let len = slot
                    .get(24..28)
                    .map_or(0, |b| u32::from_le_bytes(b.try_into().expect("4")) as usize);
                let Some(slot) = slot.get_mut(..len.saturating_add(32)) else {
                    return String::new();
                };
                for _ in 0..=self.below(20) {
                    let at = 32 + self.early(len);
                    let value = self.value().to_le_bytes();
                    if let Some(room) = slot.get_mut(at..at + 4) {
                        room.copy_from_slice(&value[..4]);
                    }
                }
                let mut hasher = crc32fast::Hasher::new();
                hasher.update(&slot[8..28]);
                hasher.update(&slot[32..]);
                let crc = hasher.finalize();
                slot[28..32].copy_from_slice(&crc.to_le_bytes());
                format!("{name}: content changed, checksum made right")
            }
            7 if name.ends_with(".snap") => {
                // The image as an adopted live part.
                if let Some(image) = capture::snapshot::read(&files[&name]) {
                    use std::sync::atomic::Ordering::Relaxed;
                    let bytes = image
                        .words()
                        .iter()
                        .flat_map(|w| w.load(Relaxed).to_le_bytes())
                        .collect();
                    files.insert(name.replace(".snap", ".live"), bytes);
                }
                format!("{name} as live part")
            }
            _ => {
                let bytes = files.get_mut(&name).expect("picked");
                let what = self.bytes(bytes);
                format!("{name}: {what}")
            }
        }
    }
}

/// A fuzzer's input as the files of a process: a first byte that says which, then their bytes. Its bits: 1
/// leaves checksums as they are (hardly any input would get past them otherwise). 2 makes the second half a
/// live part, and 4 makes the second half of the rest a later trace file.
pub fn of_input(input: &[u8]) -> Files {
    let (kind, input) = input.split_first().unwrap_or((&0, &[]));
    let mut trace = input.to_vec();
    let mut files = Files::new();
    if kind & 2 != 0 {
        let mut live = trace.split_off(trace.len() / 2);
        if let Some(start) = live.get_mut(..8) {
            start.copy_from_slice(&capture::live::MAGIC.to_le_bytes());
        }
        files.insert("h/r0-p1-aa.live".into(), live);
    }
    let mut traces = vec![("h/r0-p1-aa.trace", trace)];
    if kind & 4 != 0 {
        let middle = traces[0].1.len() / 2;
        let later = traces[0].1.split_off(middle);
        traces.push(("h/r0-p1-aa.1.trace", later));
    }
    for (name, mut bytes) in traces {
        if kind & 1 == 0 {
            repair(&mut bytes);
        }
        files.insert(name.into(), bytes);
    }
    files
}

/// Bytes of the header of a trace file.
fn header_bytes(bytes: &[u8]) -> usize {
    if bytes[12] == 32 {
        32
    } else {
        block::FILE_HEADER
    }
}

/// Makes the checksum of a trace file's header right.
fn checked(bytes: &mut [u8], header: usize) {
    let crc = crc32fast::hash(&bytes[..header - 8]);
    bytes[header - 8..header - 4].copy_from_slice(&crc.to_le_bytes());
}

/// Makes the checksums of a trace file's header and blocks right, where their lengths are. It keeps its id:
/// another process's would make it a copy.
fn repair(bytes: &mut [u8]) {
    let put = |bytes: &mut [u8], at: usize, crc: u32| {
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    };
    if bytes.len() < block::FILE_HEADER {
        return;
    }
    let is_old = bytes[8] == 1;
    bytes[..8].copy_from_slice(&block::FILE_MAGIC);
    let header = if is_old { 32 } else { block::FILE_HEADER };
    bytes[8..12].copy_from_slice(&[if is_old { 1 } else { 2 }, 0, 0, 0]);
    bytes[12..16].copy_from_slice(&(header as u32).to_le_bytes());
    bytes[24..header].fill(0);
    checked(bytes, header);
    let mut at = header;
    while at + BLOCK_HEADER <= bytes.len() {
        let room = bytes.len() - at - BLOCK_HEADER;
        let said = u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("4 bytes"));
        let len = (said as usize).min(room);
        bytes[at..at + 4].copy_from_slice(&BLOCK_MAGIC);
        // The format of a block: what its file has, or the other one.
        bytes[at + 6] %= 3;
        bytes[at + 7] = 0;
        bytes[at + 12..at + 16].copy_from_slice(&(len as u32).to_le_bytes());
        let crc = crc32fast::hash(&bytes[at + BLOCK_HEADER..at + BLOCK_HEADER + len]);
        put(bytes, at + 16, crc);
        let crc = crc32fast::hash(&bytes[at..at + 20]);
        put(bytes, at + 20, crc);
        at += (BLOCK_HEADER + len).next_multiple_of(8);
    }
}

/// The inputs that the fuzzer `target` is begun with, and the tests play: by name.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folders = root.map(|a| a.join("fuzz/corpus").join(target));
    let folder = folders.into_iter().find(|f| f.is_dir()).expect("a corpus");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .expect("listed")
        .flatten()
        .map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(file.path()).expect("read"))
        })
        .collect();
    found.sort();
    found
}
