//! The frames of CPython, found in the interpreter's own memory.
//!
//! [`Python::find`] looks the interpreter up and takes the [`Layout`] of its structs. From 3.13 on the
//! interpreter gives it (`_Py_DebugOffsets` at the start of `_PyRuntime`). For 3.9 to 3.12 there are tables
//! here. [`Python::walk`] follows the frames of a thread, and [`Python::describe`] reads file, function and
//! line of one.
//!
//! Rule: only releases that a test has run are known (`python/tests/test_stacks.py`). Whatever else there is,
//! is off.

use super::lines::{self, Lines};
use super::memory::Memory;
use super::table::{mix, Frame, LONGEST};
use capture::stacks::{Why, DEPTH};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::MaybeUninit;

/// Frames that are looked at, those included that no function has.
const HOPS: usize = 2 * DEPTH;

/// Offsets in the interpreter's structs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In a thread's state: its newest frame, or (3.11 and 3.12) what points to that.
    top: usize,
    /// In what `top` points to: the newest frame.
    through: Option<usize>,
    /// In a frame: the one that called it.
    back: usize,
    /// In a frame: its code.
    code: usize,
    /// In a frame: where it is.
    position: Position,
    /// In a frame: who owns it. Values from [`NO_FUNCTION`] on are no function's.
    owner: Option<usize>,
    file: usize,
    function: usize,
    line_table: usize,
    first_line: usize,
    /// The size of a text's header, if it is ASCII and if it is not.
    text: [usize; 2],
    lines: Lines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// A number, in units of so many bytes.
    Index { at: usize, unit: u32 },
    /// A pointer to the instruction, and where the first one is in the code.
    Pointer { at: usize, first: usize },
}

/// A frame's owner from here on is the interpreter's C code.
const NO_FUNCTION: u8 = 3;
/// In every release: an object's type, a text's length and state, a `bytes`' length and content.
const TYPE: usize = 8;
const TEXT_LENGTH: usize = 16;
const TEXT_STATE: usize = 32;
const BYTES_LENGTH: usize = 16;
const BYTES: usize = 32;
/// Bits of a pointer to code that are no address (3.14 and later tag them). Objects are aligned to 16.
const TAG: usize = 7;

/// The releases whose structs are written down here. They were run as 3.9.18, 3.10.13, 3.11.2, 3.11.7 and
/// 3.12.1.
fn written_down(minor: u32) -> Option<Layout> {
    let older = Layout {
        top: 24,
        through: None,
        back: 24,
        code: 32,
        position: Position::Index { at: 104, unit: 1 },
        owner: None,
        file: 104,
        function: 112,
        line_table: 120,
        first_line: 40,
        text: [48, 72],
        lines: Lines::Lnotab,
    };
    let newer = Layout {
        top: 56,
        through: Some(8),
        back: 48,
        code: 32,
        position: Position::Pointer { at: 56, first: 184 },
        owner: Some(69),
        file: 112,
        function: 128,
        line_table: 136,
        first_line: 72,
        text: [48, 72],
        lines: Lines::Locations,
    };
    Some(match minor {
        9 => older,
        10 => Layout {
            position: Position::Index { at: 96, unit: 2 },
            lines: Lines::Ranges,
            ..older
        },
        11 => newer,
        12 => Layout {
            through: Some(0),
            back: 8,
            code: 0,
            position: Position::Pointer { at: 56, first: 192 },
            owner: Some(70),
            first_line: 68,
            text: [40, 56],
            ..newer
        },
        _ => return None,
    })
}

/// Where `_Py_DebugOffsets` of a release has which offset. They were run as 3.13.0, 3.13.18, 3.14.10 and
/// 3.15.2.
struct Described {
    thread: usize,
    frame: usize,
    code: usize,
    object: usize,
    bytes: usize,
    text: usize,
}

fn described(minor: u32) -> Option<Described> {
    Some(match minor {
        13 => Described {
            thread: 184,
            frame: 232,
            code: 280,
            object: 360,
            bytes: 520,
            text: 544,
        },
        14 => Described {
            thread: 208,
            frame: 256,
            code: 320,
            object: 408,
            bytes: 600,
            text: 624,
        },
        15 => Described {
            thread: 208,
            frame: 320,
            code: 384,
            object: 472,
            bytes: 696,
            text: 720,
        },
        _ => return None,
    })
}

/// Bytes of `_Py_DebugOffsets` that are read.
const DESCRIPTION: usize = 768;

/// The layout that an interpreter describes.
fn self_described(version: u32, bytes: &[u8; DESCRIPTION]) -> Result<Layout, Why> {
    let word = |at: usize| {
        let bytes = bytes[at..at + 8].try_into().unwrap_or_default();
        u64::from_le_bytes(bytes)
    };
    // An offset that can be one.
    let offset = |at: usize| match word(at) {
        offset @ 0..=4096 => Ok(offset as usize),
        _ => Err(Why::Layout),
    };
    let places = described(version >> 16 & 0xff).ok_or(Why::Version)?;
    if bytes[..8] != *b"xdebugpy" || word(8) != u64::from(version) {
        return Err(Why::Layout);
    }
    if word(16) != 0 {
        return Err(Why::FreeThreaded);
    }
    // What no release has changed yet is not asked for again at each use.
    let fixed = [
        (places.object, TYPE),
        (places.bytes, BYTES_LENGTH),
        (places.bytes + 8, BYTES),
        (places.text, TEXT_STATE),
        (places.text + 8, TEXT_LENGTH),
    ];
    for (at, expected) in fixed {
        if offset(at)? != expected {
            return Err(Why::Layout);
        }
    }
    let ascii = offset(places.text + 16)?;
    Ok(Layout {
        top: offset(places.thread)?,
        through: None,
        back: offset(places.frame)?,
        code: offset(places.frame + 8)?,
        position: Position::Pointer {
            at: offset(places.frame + 16)?,
            first: offset(places.code + 64)?,
        },
        owner: Some(offset(places.frame + 32)?),
        file: offset(places.code)?,
        function: offset(places.code + 16)?,
        line_table: offset(places.code + 24)?,
        first_line: offset(places.code + 32)?,
        text: [ascii, ascii + 16],
        lines: Lines::Locations,
    })
}

/// What a walk met: enough to know the frame again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    code: usize,
    /// As the frame has it: an index or a pointer.
    position: usize,
    first_line: i32,
    function: usize,
}

/// The hash of one frame.
#[inline(always)]
pub fn hash_of(hop: &Hop) -> u64 {
    // Of independent products, so that only the last one waits for the frame before.
    let first = (hop.code as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let second = (hop.position as u64).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let third =
        (hop.function as u64 ^ (hop.first_line as u64) << 40).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mix(
        first ^ second.rotate_left(17) ^ third.rotate_left(41),
        0x5eed,
    )
}

/// What a walk found.
pub struct Walked<'a> {
    /// Innermost first.
    pub hops: &'a [Hop],
    /// There are more frames.
    pub deeper: bool,
    pub hash: u64,
}

/// Functions of the interpreter that take no lock and need no GIL.
struct Functions {
    this_thread: unsafe extern "C" fn() -> *const c_void,
    is_finalizing: unsafe extern "C" fn() -> c_int,
    newest: unsafe extern "C" fn() -> *const c_void,
    main: unsafe extern "C" fn() -> *const c_void,
}

/// The process's interpreter.
pub struct Python {
    functions: Functions,
    layout: Layout,
    code_type: usize,
    text_type: usize,
    bytes_type: usize,
}

/// A symbol that any loaded library has.
pub fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looks a name up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The release of the process's interpreter, as it says itself; nothing without one.
pub fn version() -> Option<String> {
    let function = symbol(c"Py_GetVersion")?;
    // SAFETY: the function has no arguments and gives a static C string, in all releases, at any time.
    unsafe {
        let function: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(function);
        let text = CStr::from_ptr(function());
        Some(text.to_string_lossy().into_owned())
    }
}

/// `3.12.1 (main, …)` as 0x030c01…, without the release's level.
fn number_of(version: &str) -> Option<u32> {
    let word = version.split_whitespace().next()?;
    let mut parts = word
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u8>().ok());
    let [major, minor, micro] = [
        parts.next()??,
        parts.next()??,
        parts.next().flatten().unwrap_or(0),
    ];
    Some(u32::from_be_bytes([major, minor, micro, 0]))
}

impl Python {
    /// The process's interpreter, or why it can't be walked.
    pub fn find() -> Result<Python, Why> {
        let version = version().ok_or(Why::NoInterpreter)?;
        Python::of(&version, symbol)
    }

    /// An interpreter of this version with these symbols.
    fn of(version: &str, symbol: impl Fn(&CStr) -> Option<*mut c_void>) -> Result<Python, Why> {
        let number = number_of(version).ok_or(Why::Version)?;
        let (major, minor) = (number >> 24, number >> 16 & 0xff);
        if major != 3 {
            return Err(Why::Version);
        }
        if version.contains("free-threading") {
            return Err(Why::FreeThreaded);
        }
        let layout = match written_down(minor) {
            Some(layout) => layout,
            None => {
                described(minor).ok_or(Why::Version)?;
                let runtime = symbol(c"_PyRuntime").ok_or(Why::Layout)?;
                let mut bytes = [0; DESCRIPTION];
                if !super::Guarded::new().copy(runtime as usize, &mut bytes) {
                    return Err(Why::NoSafeRead);
                }
                // With the level and the serial number of the release.
                let full = symbol(c"Py_Version").ok_or(Why::Layout)?;
                let full = super::Guarded::new()
                    .value::<usize>(full as usize)
                    .ok_or(Why::Layout)? as u32;
                if full >> 8 != number >> 8 {
                    return Err(Why::Layout);
                }
                self_described(full, &bytes)?
            }
        };
        let address = |name: &CStr| symbol(name).ok_or(Why::Layout);
        let is_finalizing = symbol(c"Py_IsFinalizing").or_else(|| symbol(c"_Py_IsFinalizing"));
        // SAFETY: the functions of these names have these types in every release that is known.
        let functions = unsafe {
            Functions {
                this_thread: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn() -> *const c_void,
                >(address(c"PyGILState_GetThisThreadState")?),
                is_finalizing: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(
                    is_finalizing.ok_or(Why::Layout)?,
                ),
                newest: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_void>(
                    address(c"PyInterpreterState_Head")?,
                ),
                main: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_void>(
                    address(c"PyInterpreterState_Main")?,
                ),
            }
        };
        Ok(Python {
            functions,
            layout,
            code_type: address(c"PyCode_Type")? as usize,
            text_type: address(c"PyUnicode_Type")? as usize,
            bytes_type: address(c"PyBytes_Type")? as usize,
        })
    }

    /// Whether the interpreter is shutting down.
    #[inline]
    pub fn is_finalizing(&self) -> bool {
        // SAFETY: reads a word of the runtime.
        unsafe { (self.functions.is_finalizing)() != 0 }
    }

    /// The calling thread's state, 0 if it has none. Or why it must not be looked at.
    #[inline]
    pub fn this_thread(&self) -> Result<usize, Why> {
        // SAFETY: each reads a word of the runtime, or of the thread's own storage.
        unsafe {
            let state = (self.functions.this_thread)();
            if state.is_null() {
                return Ok(0);
            }
            if (self.functions.is_finalizing)() != 0 {
                return Err(Why::Finalizing);
            }
            // A new interpreter goes to the head of the list, so the main one is there if it is alone.
            if (self.functions.newest)() != (self.functions.main)() {
                return Err(Why::Subinterpreters);
            }
            Ok(state as usize)
        }
    }

    /// The frames of a thread, innermost first.
    #[inline(always)]
    pub fn walk<'a, M: Memory>(
        &self,
        memory: &mut M,
        state: usize,
        hops: &'a mut [MaybeUninit<Hop>; DEPTH],
    ) -> Result<Walked<'a>, Why> {
        let layout = &self.layout;
        let word = |memory: &mut M, at: usize| memory.value::<usize>(at).ok_or(Why::Unreadable);
        let mut frame = word(memory, state.wrapping_add(layout.top))?;
        if let (Some(through), true) = (layout.through, frame != 0) {
            frame = word(memory, frame.wrapping_add(through))?;
        }
        let (mut n, mut hash, mut looked) = (0, 0, 0);
        while frame != 0 && n < DEPTH && looked < HOPS {
            looked += 1;
            let back = word(memory, frame.wrapping_add(layout.back))?;
            let code = word(memory, frame.wrapping_add(layout.code))? & !TAG;
            if let Some(owner) = layout.owner {
                if memory
                    .value::<u8>(frame.wrapping_add(owner))
                    .ok_or(Why::Unreadable)?
                    >= NO_FUNCTION
                {
                    frame = back;
                    continue;
                }
            }
            let position = match layout.position {
                Position::Index { at, .. } => {
                    let index = memory
                        .value::<i32>(frame.wrapping_add(at))
                        .ok_or(Why::Unreadable)?;
                    // −1 before the first instruction.
                    index.max(0) as usize
                }
                Position::Pointer { at, .. } => word(memory, frame.wrapping_add(at))?,
            };
            if word(memory, code.wrapping_add(TYPE))? != self.code_type {
                return Err(Why::Unreadable);
            }
            let hop = Hop {
                code,
                position,
                first_line: memory
                    .value(code.wrapping_add(layout.first_line))
                    .ok_or(Why::Unreadable)?,
                function: word(memory, code.wrapping_add(layout.function))?,
            };
            hash = mix(hash, hash_of(&hop));
            hops[n].write(hop);
            n += 1;
            frame = back;
        }
        // SAFETY: so many were written.
        let hops = unsafe { std::slice::from_raw_parts(hops.as_ptr().cast::<Hop>(), n) };
        let deeper = frame != 0;
        Ok(Walked {
            hops,
            deeper,
            hash: mix(hash, u64::from(deeper) + 1),
        })
    }

    /// File, function and line of a frame. `text` makes numbers of texts. What can't be read is left out.
    pub fn describe<M: Memory>(
        &self,
        memory: &mut M,
        hop: &Hop,
        text: impl Fn(&[u8]) -> u32,
    ) -> Frame {
        let layout = &self.layout;
        let mut named = |at: usize| {
            let mut bytes = [0; LONGEST];
            let object = memory.value::<usize>(hop.code + at).unwrap_or(0);
            text(self.text(memory, object, &mut bytes).unwrap_or(&[]))
        };
        let (file, function) = (named(layout.file), named(layout.function));
        Frame::Python(self.line(memory, hop).unwrap_or(0), file, function)
    }

    /// The bytes of a text object in UTF-8, or the last of them.
    fn text<'a, M: Memory>(
        &self,
        memory: &mut M,
        object: usize,
        into: &'a mut [u8; LONGEST],
    ) -> Option<&'a [u8]> {
        if memory.value::<usize>(object.wrapping_add(TYPE))? != self.text_type {
            return None;
        }
        let length = memory
            .value::<usize>(object.wrapping_add(TEXT_LENGTH))?
            .min(1 << 20);
        let state = memory.value::<u32>(object.wrapping_add(TEXT_STATE))?;
        let (kind, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
        if !compact || !matches!(kind, 1 | 2 | 4) {
            return None;
        }
        let begin = object.wrapping_add(self.layout.text[usize::from(!ascii)]);
        // From the end on, because it says more.
        let mut at = into.len();
        for i in (0..length).rev() {
            let place = begin.wrapping_add(i * kind as usize);
            let mut bytes = [0; 4];
            if !memory.copy(place, &mut bytes[..kind as usize]) {
                return None;
            }
            let c = char::from_u32(u32::from_le_bytes(bytes)).unwrap_or('\u{fffd}');
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            if utf8.len() > at {
                break;
            }
            at -= utf8.len();
            into[at..at + utf8.len()].copy_from_slice(utf8);
        }
        Some(&into[at..])
    }

    /// The line that a frame is in.
    fn line<M: Memory>(&self, memory: &mut M, hop: &Hop) -> Option<u32> {
        let at = match self.layout.position {
            Position::Index { unit, .. } => hop.position.checked_mul(unit as usize)?,
            Position::Pointer { first, .. } => hop.position.saturating_sub(hop.code + first),
        };
        let table = memory.value::<usize>(hop.code + self.layout.line_table)?;
        if memory.value::<usize>(table.wrapping_add(TYPE))? != self.bytes_type {
            return None;
        }
        let length = memory.value::<usize>(table.wrapping_add(BYTES_LENGTH))?;
        let bytes = Bytes {
            memory,
            at: table.wrapping_add(BYTES),
            left: length.min(lines::MOST),
            buffer: [0; 128],
            used: 0,
            filled: 0,
        };
        self.layout
            .lines
            .line(hop.first_line, u32::try_from(at).ok()?, bytes)
    }
}

/// Bytes of a table, read a piece at a time.
struct Bytes<'a, M> {
    memory: &'a mut M,
    at: usize,
    left: usize,
    buffer: [u8; 128],
    used: usize,
    filled: usize,
}

impl<M: Memory> Iterator for Bytes<'_, M> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.used == self.filled {
            let n = self.left.min(self.buffer.len());
            if n == 0 || !self.memory.copy(self.at, &mut self.buffer[..n]) {
                return None;
            }
            (self.used, self.filled) = (0, n);
            self.at = self.at.wrapping_add(n);
            self.left -= n;
        }
        self.used += 1;
        Some(self.buffer[self.used - 1])
    }
}

#[cfg(test)]
mod tests {
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

    fn walked<M: Memory>(memory: &mut M, state: usize) -> Result<(usize, bool, u64), Why> {
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
        // Another instruction, first line or name is another stack.
        for word in [64 + 16 * 2 + 7, 1000 + 8, 1000 + 16] {
            heap.put(word, heap.0[word] + (2 << 32) + 2);
            assert_ne!(
                walked(&mut Plain, state).expect("sound").2,
                found.2,
                "{word}"
            );
        }
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
            function: 0,
        };
        let python = python();
        let describe =
            |text: &dyn Fn(&[u8]) -> u32| python.describe(&mut Guarded::new(), &hop, text);
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
}
