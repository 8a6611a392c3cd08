//! Damaged and hostile files: whatever is in them, reading them ends, and runs nothing.
//!
//! `NCCLSCOPE_DAMAGE_CASES` and `NCCLSCOPE_DAMAGE_SEED` make a long run of random damage (`make damage`). It
//! needs no other compiler, as the fuzzer does.

use convert::Kind;
use std::path::{Path, PathBuf};
use tables::{ReadProgress, Which};

/// What the fuzzer begins with for each kind of file.
const SEEDS: [(&str, Kind); 6] = [
    ("flight", Kind::FlightRecorder),
    ("inspector", Kind::Inspector),
    ("kineto", Kind::Kineto),
    ("nccl_tests", Kind::NcclTests),
    ("nsys", Kind::Nsys),
    ("ras", Kind::Ras),
];

/// The files that the fuzzer begins with for a kind.
fn seeds(folder: &str) -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = std::fs::read_dir(corpus.join(folder)).expect("seeds");
    let files: Vec<PathBuf> = files.map(|file| file.expect("a seed").path()).collect();
    assert!(!files.is_empty(), "{folder}");
    files
}

/// Makes a report of a file with these bytes, if it opens.
fn read(path: &Path, bytes: &[u8]) -> bool {
    std::fs::write(path, bytes).expect("written");
    let progress = ReadProgress::default();
    let opened = convert::open(path, &progress, Which::Last);
    let is_open = opened.is_ok();
    if let Ok((source, _held)) = opened {
        let _ = analyze::report_from(source, None, &progress);
    }
    is_open
}

/// Reads the text 200 times, each time with four of its bytes replaced by some of `letters`.
pub fn read_damaged(path: &Path, text: &[u8], letters: &[u8], mut seed: u64) {
    for _ in 0..200 {
        let mut bytes = text.to_vec();
        for _ in 0..4 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % bytes.len();
            bytes[at] = letters[(seed >> 20) as usize % letters.len()];
        }
        read(path, &bytes);
    }
}

#[test]
fn what_the_fuzzer_begins_with_is_of_its_kind_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, kind) in SEEDS {
        for seed in seeds(name) {
            assert_eq!(convert::kind(&seed), Some(kind), "{}", seed.display());
            let bytes = std::fs::read(&seed).expect("there");
            assert!(
                read(&folder.path().join(name), &bytes),
                "{}",
                seed.display()
            );
        }
    }
}

/// Of a database, which is mostly empty pages, some places are enough.
fn step(kind: Kind, of_text: usize) -> usize {
    if kind == Kind::Nsys {
        41
    } else {
        of_text
    }
}

/// Numbers from a seed (G. Steele and others, "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Bytes that mean something to one of the readers, and numbers at which they may overflow.
const PIECES: [&[u8]; 14] = [
    b"\"",
    b"{",
    b"]",
    b",",
    b"\n",
    b"\0",
    b"\xff",
    b"-1",
    b"1e308",
    b"NaN",
    b"null",
    b"9223372036854775807",
    b"18446744073709551615",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
];

/// Does something to a file: turns a bit over, writes over a piece, puts one in, cuts one out, repeats one,
/// or cuts the end off.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    let until = at + random.below((bytes.len() - at).min(64)) + 1;
    let piece = PIECES[random.below(PIECES.len())];
    match random.below(7) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 => {
            for (to, from) in bytes[at..].iter_mut().zip(piece) {
                *to = *from;
            }
        }
        3 => drop(bytes.splice(at..at, piece.iter().copied())),
        4 => drop(bytes.drain(at..until)),
        5 => bytes.extend_from_within(at..until),
        _ if random.below(8) == 0 => bytes.truncate(at),
        _ => {
            let repeated = bytes[at..until].to_vec();
            drop(bytes.splice(at..at, repeated));
        }
    }
}

/// Seeds that once made a reader fail.
const FOUND: [u64; 1] = [3582];

#[test]
fn damage_of_any_kind_is_read_or_refused() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("NCCLSCOPE_DAMAGE_SEED").unwrap_or(1);
    let cases = number("NCCLSCOPE_DAMAGE_CASES").unwrap_or(100);
    let folder = tempfile::tempdir().expect("a folder");
    for (name, _) in SEEDS {
        let (mut opened, path) = (0, folder.path().join(name));
        let sound: Vec<Vec<u8>> = seeds(name)
            .iter()
            .map(|seed| std::fs::read(seed).expect("there"))
            .collect();
        for seed in FOUND.into_iter().chain(first..first + cases) {
            let mut random = Random(seed);
            let mut bytes = sound[random.below(sound.len())].clone();
            for _ in 0..=random.below(6) {
                damage(&mut bytes, &mut random);
            }
            let begun = std::time::Instant::now();
            let read = std::panic::catch_unwind(|| read(&path, &bytes));
            let is_open = read.unwrap_or_else(|_| panic!("{name}: seed {seed}"));
            opened += u64::from(is_open);
            // A sound one takes some ms.
            let took = begun.elapsed();
            assert!(took.as_secs() < 30, "{name}: seed {seed} took {took:?}");
        }
        eprintln!("{name}: {cases} damaged files, of which {opened} opened");
    }
}

#[test]
fn files_that_are_cut_off_at_any_byte_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, kind) in SEEDS {
        for seed in seeds(name) {
            let bytes = std::fs::read(&seed).expect("there");
            for length in (0..bytes.len()).step_by(step(kind, 1)) {
                read(&folder.path().join(name), &bytes[..length]);
            }
        }
    }
}

#[test]
fn files_with_a_bit_turned_over_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, kind) in SEEDS {
        for seed in seeds(name) {
            let bytes = std::fs::read(&seed).expect("there");
            for place in (0..bytes.len()).step_by(step(kind, 3)) {
                let mut bytes = bytes.clone();
                bytes[place] ^= 1 << (place % 8);
                read(&folder.path().join(name), &bytes);
            }
        }
    }
}

#[test]
fn numbers_beyond_all_bounds_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    // Also in the place of one number at a time.
    let alone = ["18446744073709551615", "-1"];
    let huge = [
        "18446744073709551615",
        "-9223372036854775808",
        "1e308",
        "-1",
        "0.0000000001",
        "NaN",
        "99999999999999999999999999999999999999999",
    ];
    for name in ["flight", "inspector", "kineto", "nccl_tests", "ras"] {
        for seed in seeds(name) {
            let Ok(text) = std::fs::read_to_string(&seed) else {
                continue;
            };
            for number in huge {
                let (mut at, mut all) = (0, String::new());
                while let Some(begin) = text[at..].find(|c: char| c.is_ascii_digit()) {
                    let begin = at + begin;
                    let rest = &text[begin..];
                    let end = begin
                        + rest
                            .find(|c: char| !c.is_ascii_digit())
                            .unwrap_or(rest.len());
                    if alone.contains(&number) {
                        let one = format!("{}{number}{}", &text[..begin], &text[end..]);
                        read(&folder.path().join(name), one.as_bytes());
                    }
                    all += &text[at..begin];
                    all += number;
                    at = end;
                }
                all += &text[at..];
                read(&folder.path().join(name), all.as_bytes());
            }
        }
    }
}

#[test]
fn values_in_values_without_an_end_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["flight", "inspector", "kineto", "nccl_tests", "ras"] {
        for seed in seeds(name) {
            let Ok(text) = std::fs::read_to_string(&seed) else {
                continue;
            };
            let values: Vec<usize> = text.match_indices(": ").map(|(at, _)| at + 2).collect();
            for nested in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 18)] {
                read(&folder.path().join(name), nested.as_bytes());
                for at in values.iter().take(4) {
                    let text = format!("{}{nested}", &text[..*at]);
                    read(&folder.path().join(name), text.as_bytes());
                }
            }
        }
    }
    // As a pickle: marks, and lists in lists.
    for nested in [&b"("[..], b"](", b"]a", b"}(", b"\x8a\xff", b"2"] {
        let pickle = [b"\x80\x02", &nested.repeat(1 << 20)[..]].concat();
        read(&folder.path().join("flight"), &pickle);
    }
}

#[test]
fn a_pickle_runs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = folder.path().join("made");
    let command = format!("touch {}", made.display());
    let calls = [
        format!("\x02cposix\nsystem\n(V{command}\ntR."),
        format!("\x02(cos\nsystem\nV{command}\no."),
        format!("\x02(V{command}\nios\nsystem\n."),
        format!("\x02}}(V{command}\ncbuiltins\nexec\n(V{command}\ntRu."),
    ];
    for call in calls {
        let pickle = [b"\x80", call.as_bytes()].concat();
        read(&folder.path().join("flight"), &pickle);
        // In the middle of a dump, too.
        let dump = seeds("flight")
            .into_iter()
            .find(|path| path.ends_with("pickle"));
        let dump = std::fs::read(dump.expect("a pickle")).expect("there");
        let pickle = [&dump[..dump.len() - 1], &call.as_bytes()[1..]].concat();
        read(&folder.path().join("flight"), &pickle);
    }
    assert!(!made.exists());
}
