use super::super::memory::{Guarded, Plain};
use super::*;

unsafe extern "C" fn nothing() -> *const c_void {
    std::ptr::null()
}
unsafe extern "C" fn no() -> c_int {
    0
}

/// An interpreter of 3.12 with types at made-up addresses.
fn python() -> Python {
    Python {
        functions: Functions {
            this_thread: nothing,
            is_finalizing: no,
            newest: nothing,
            main: nothing,
        },
        layout: written_down(12).expect("known"),
        code_type: 0x1000,
        text_type: 0x2000,
        bytes_type: 0x3000,
    }
}

/// Words in which frames, code and texts are put.
struct Heap(Vec<usize>);

impl Heap {
    fn new() -> Heap {
        Heap(vec![0; 4096])
    }
    fn at(&self, word: usize) -> usize {
        self.0.as_ptr() as usize + 8 * word
    }
    fn put(&mut self, word: usize, value: usize) {
        self.0[word] = value;
    }
    /// Code at word 1000 + 100 n, with the type of code.
    fn code(&mut self, n: usize) -> usize {
        let word = 1000 + 100 * n;
        self.put(word + 1, 0x1000);
        self.at(word)
    }
    /// A thread state with its newest frame at word 64. Frames take 16 words and call each other, and
    /// `last` called the last one.
    fn state(&mut self, frames: usize, last: usize) -> usize {
        let code = self.code(0);
        for n in 0..frames {
            let back = if n + 1 == frames {
                last
            } else {
                self.at(64 + 16 * (n + 1))
            };
            let word = 64 + 16 * n;
            self.put(word, code);
            self.put(word + 1, back);
            self.put(word + 7, code + 192 + 2 * n);
        }
        let (cframe, frame) = (self.at(32), self.at(64));
        self.put(32, frame);
        self.put(7, cframe);
        self.at(0)
    }
}

fn walked<M: ReadMemory>(memory: &mut M, state: usize) -> Result<(usize, bool, u64), Why> {
    let mut hops = [MaybeUninit::uninit(); DEPTH];
    let walked = python().walk(memory, state, &mut hops)?;
    Ok((walked.hops.len(), walked.deeper, walked.hash))
}

#[test]
fn both_ways_to_read_find_the_same_frames() {
    let mut heap = Heap::new();
    let state = heap.state(5, 0);
    let found = walked(&mut Guarded::new(), state).expect("sound");
    assert_eq!((found.0, found.1), (5, false));
    assert_eq!(walked(&mut Plain, state), Ok(found));
    // Another instruction, first line or version (at byte 92) is another stack.
    for word in [64 + 16 * 2 + 7, 1000 + 8, 1000 + 11] {
        heap.put(word, heap.0[word] + (2 << 32) + 2);
        assert_ne!(
            walked(&mut Plain, state).expect("sound").2,
            found.2,
            "{word}"
        );
    }
}

#[test]
fn code_without_a_number_is_known_by_its_texts_and_its_lines() {
    let mut heap = Heap::new();
    let state = heap.state(1, 0);
    let (file, name, table) = (2000, 2100, 2200);
    for (field, text) in [(14, file), (16, name)] {
        heap.put(1000 + field, heap.at(text));
        heap.put(text + 1, 0x2000);
        heap.put(text + 2, 300);
        // ASCII, a byte each, from word 5 on.
        heap.put(text + 4, 1 << 2 | 1 << 5 | 1 << 6);
    }
    heap.put(1000 + 17, heap.at(table));
    heap.put(table + 1, 0x3000);
    heap.put(table + 2, 1000);
    let found = walked(&mut Plain, state).expect("sound").2;
    assert_eq!(walked(&mut Guarded::new(), state).expect("sound").2, found);
    let mut met = std::collections::BTreeSet::from([found]);
    // The first and the last characters, the length, and bytes of the table.
    for (word, add) in [
        (file + 5, 1),
        (file + 5 + 37, 1),
        (name + 5 + 20, 1 << 56),
        (name + 2, 1),
        (table + 4, 1),
        (table + 4 + 64, 1 << 40),
        (table + 2, 1),
    ] {
        heap.put(word, heap.0[word] + add);
        let plain = walked(&mut Plain, state).expect("sound").2;
        assert_eq!(walked(&mut Guarded::new(), state).expect("sound").2, plain);
        assert!(met.insert(plain), "{word}");
    }
    // A number says enough.
    heap.put(1000 + 11, 7 << 32);
    let numbered = walked(&mut Plain, state).expect("sound").2;
    heap.put(file + 5, 0);
    assert_eq!(walked(&mut Plain, state).expect("sound").2, numbered);
}

#[test]
fn a_loop_of_frames_ends() {
    let mut heap = Heap::new();
    let first = heap.at(64);
    let state = heap.state(3, first);
    for found in [
        walked(&mut Plain, state),
        walked(&mut Guarded::new(), state),
    ] {
        let (n, deeper, _) = found.expect("sound");
        assert_eq!((n, deeper), (DEPTH, true));
    }
    // A loop of frames that no function has.
    for n in 0..3 {
        heap.put(64 + 16 * n + 8, 3 << 48);
    }
    let (n, deeper, _) = walked(&mut Plain, state).expect("sound");
    assert_eq!((n, deeper), (0, true));
}

#[test]
fn frames_of_the_interpreter_itself_are_left_out() {
    let mut heap = Heap::new();
    let state = heap.state(4, 0);
    // Its code may be anything.
    heap.put(64 + 16, 0xdead);
    heap.put(64 + 16 + 8, 3 << 48);
    assert_eq!(walked(&mut Plain, state).map(|found| found.0), Ok(3));
}

#[test]
fn wrong_pointers_are_told_and_never_followed_by_loads_of_no_object() {
    let pages = crate::pages::map(4096).expect("memory") as usize;
    // SAFETY: this test's own.
    unsafe { libc::munmap(pages as *mut c_void, 4096) };
    for wrong in [8, 0x1001, pages, 1 << 50, usize::MAX] {
        for word in [7, 32, 64, 64 + 17] {
            let mut heap = Heap::new();
            let state = heap.state(3, 0);
            heap.put(word, wrong);
            let found = walked(&mut Guarded::new(), state);
            assert_eq!(found, Err(Why::Unreadable), "{wrong:#x} {word}");
            if wrong != pages {
                assert_eq!(
                    walked(&mut Plain, state),
                    Err(Why::Unreadable),
                    "{wrong:#x} {word}"
                );
            }
        }
    }
    // Code of another type.
    let mut heap = Heap::new();
    let state = heap.state(3, 0);
    heap.put(1001, 0x2000);
    assert_eq!(walked(&mut Plain, state), Err(Why::Unreadable));
}

#[test]
fn what_can_not_be_read_of_a_frame_is_left_out() {
    let mut heap = Heap::new();
    let code = heap.code(0);
    let hop = Hop {
        code,
        position: code + 192,
        first_line: 1,
        identity: 0,
    };
    let python = python();
    let describe = |text: &dyn Fn(&[u8]) -> u32| python.describe(&mut Guarded::new(), &hop, text);
    assert_eq!(describe(&|_| 7), Frame::Python(0, 7, 7));
    // A text of two bytes a character, of more than fits.
    let text = 2000;
    heap.put(1000 + 14, heap.at(text));
    heap.put(text + 1, 0x2000);
    heap.put(text + 2, 700);
    heap.put(text + 4, 2 << 2 | 1 << 5);
    for word in 0..200 {
        heap.put(text + 7 + word, 0x00e9_00e9_00e9_00e9);
    }
    let length = std::cell::Cell::new(0);
    python.describe(&mut Guarded::new(), &hop, |bytes| {
        length.set(length.get().max(bytes.len()));
        assert!(std::str::from_utf8(bytes).is_ok());
        0
    });
    assert_eq!(length.get(), 254);
}

fn symbols(release: u32) -> impl Fn(&CStr) -> Option<*mut c_void> {
    let version: &usize = Box::leak(Box::new(release as usize));
    let runtime: &[u64; DESCRIPTION / 8] = Box::leak(Box::new(description(release)));
    move |name: &CStr| {
        Some(match name.to_bytes() {
            b"Py_Version" => std::ptr::from_ref(version).cast_mut().cast(),
            b"_PyRuntime" => runtime.as_ptr().cast_mut().cast(),
            _ => 0x1000 as *mut c_void,
        })
    }
}

/// What 3.13 says of itself.
fn description(release: u32) -> [u64; DESCRIPTION / 8] {
    let mut words = [0; DESCRIPTION / 8];
    words[0] = u64::from_le_bytes(*b"xdebugpy");
    words[1] = release.into();
    for (at, offset) in [
        (184, 72),
        (232, 8),
        (248, 56),
        (264, 70),
        (280, 112),
        (296, 128),
        (304, 136),
        (312, 68),
        (328, 96),
        (344, 200),
        (360, 8),
        (520, 16),
        (528, 32),
        (544, 32),
        (552, 16),
        (560, 40),
    ] {
        words[at / 8] = offset;
    }
    words
}

fn bytes(words: [u64; DESCRIPTION / 8]) -> [u8; DESCRIPTION] {
    let mut bytes = [0; DESCRIPTION];
    for (to, from) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    bytes
}

#[test]
fn an_interpreter_is_known_by_what_it_says() {
    let why = |version: &str, release: u32| Python::of(version, symbols(release)).err();
    assert_eq!(why("3.12.1 (main, Jan 1)", 0), None);
    assert_eq!(why("3.9.18+ (heads/x)", 0), None);
    assert_eq!(why("3.13.0 (main)", 0x030d_00f0), None);
    for unknown in [
        "3.8.18 (main)",
        "3.16.0a1 (main)",
        "2.7.18",
        "4.0.0",
        "",
        "PyPy",
    ] {
        assert_eq!(why(unknown, 0), Some(Why::Version), "{unknown}");
    }
    let free = "3.13.0 experimental free-threading build (main)";
    assert_eq!(why(free, 0x030d_00f0), Some(Why::FreeThreaded));
    // The library says another release than the function.
    assert_eq!(why("3.13.1 (main)", 0x030d_00f0), Some(Why::Layout));
    let nothing = |_: &CStr| None;
    assert_eq!(Python::of("3.12.1", nothing).err(), Some(Why::Layout));
}

#[test]
fn a_wrong_cookie_or_a_wild_offset_is_no_layout() {
    let release = 0x030d_00f0;
    let sound = self_described(release, &bytes(description(release))).expect("sound");
    let as_in_3_12 = Layout {
        top: 72,
        through: None,
        position: Position::Pointer { at: 56, first: 200 },
        ..written_down(12).expect("known")
    };
    assert_eq!(sound, as_in_3_12);
    for (at, wrong, why) in [
        (0, u64::from_le_bytes(*b"ydebugpx"), Why::Layout),
        (8, 0x030d_01f0, Why::Layout),
        (16, 1, Why::FreeThreaded),
        (232, 5000, Why::Layout),
        (360, 16, Why::Layout),
        (544, 40, Why::Layout),
    ] {
        let mut words = description(release);
        words[at / 8] = wrong;
        assert_eq!(self_described(release, &bytes(words)), Err(why), "{at}");
    }
    assert_eq!(
        self_described(0x0310_00f0, &[0; DESCRIPTION]),
        Err(Why::Version)
    );
}
