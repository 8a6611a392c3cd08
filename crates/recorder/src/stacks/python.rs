//! The frames of CPython, found in the interpreter's own memory.
//!
//! [`Python::find`] looks the interpreter up and takes the [`Layout`] of its structs. From 3.13 on the
//! interpreter gives it (`_Py_DebugOffsets` at the start of `_PyRuntime`). For 3.9 to 3.12 there are tables
//! here. [`Python::walk`] follows the frames of a thread, and [`Python::describe`] reads file, function and
//! line of one.
//!
//! Rule: only releases that a test has run are known (`python/tests/test_stacks.py`). Whatever else there is,
//! is off.

mod layout;

use super::lines;
use super::memory::ReadMemory;
use super::table::{mix, Frame, LONGEST};
use capture::stacks::{Why, DEPTH};
use layout::{described, self_described, written_down, Layout, Position, DESCRIPTION};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::MaybeUninit;

/// Frames that are looked at, those included that no function has.
const HOPS: usize = 2 * DEPTH;

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

/// Bytes of a text that are compared: more than [`LONGEST`] characters take.
const COMPARED: usize = 4 * LONGEST;

/// What a walk met: enough to know the frame again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    code: usize,
    /// As the frame has it: an index or a pointer.
    position: usize,
    first_line: i32,
    /// What tells the code from any other that was at its address before: [`Python::identity`].
    identity: u64,
}

/// The identity of one frame.
#[inline(always)]
pub fn hash_of(hop: &Hop) -> u64 {
    // Of independent products, so that only the last one waits for the frame before.
    let first = (hop.code as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let second = (hop.position as u64).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let third = (hop.identity ^ (hop.first_line as u64) << 40).wrapping_mul(0xbf58_476d_1ce4_e5b9);
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
    pub fn walk<'a, M: ReadMemory>(
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
                identity: self.identity(memory, code).ok_or(Why::Unreadable)?,
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

    /// What tells code from any other that was at its address: the number that the interpreter gave it, or
    /// else a hash of what is read of it.
    ///
    /// Programs free code and make other code in its place: cells of a notebook, a module that is reloaded,
    /// `exec`. All objects of the new code, such as its name, may then be where the old ones were.
    #[inline(always)]
    fn identity<M: ReadMemory>(&self, memory: &mut M, code: usize) -> Option<u64> {
        if let Some(at) = self.layout.version {
            // 0 once all 2^32 numbers were given.
            match memory.value::<u32>(code.wrapping_add(at))? {
                0 => {}
                version => return Some(version.into()),
            }
        }
        self.content(memory, code)
    }

    /// A hash of a code's file, function and table of lines.
    #[inline(never)]
    fn content<M: ReadMemory>(&self, memory: &mut M, code: usize) -> Option<u64> {
        let layout = &self.layout;
        let mut hash = 0;
        for at in [layout.file, layout.function] {
            let object = memory.value::<usize>(code.wrapping_add(at))?;
            hash = match self.text_at(memory, object) {
                Some((begin, length, kind)) => {
                    // The end, as `text` reads it, from a whole word on.
                    let left_out = (length * kind).saturating_sub(COMPARED) & !7;
                    let length = length * kind - left_out;
                    hash_of_bytes(memory, begin.wrapping_add(left_out), length, hash)?
                }
                None => mix(hash, object as u64),
            };
        }
        let object = memory.value::<usize>(code.wrapping_add(layout.line_table))?;
        match self.bytes_at(memory, object) {
            Some((begin, length)) => hash_of_bytes(memory, begin, length, hash),
            None => Some(mix(hash, object as u64)),
        }
    }

    /// File, function and line of a frame. `text` makes numbers of texts. What can't be read is left out.
    pub fn describe<M: ReadMemory>(
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

    /// Where the characters of a text object begin, how many there are, and the bytes of each.
    fn text_at<M: ReadMemory>(
        &self,
        memory: &mut M,
        object: usize,
    ) -> Option<(usize, usize, usize)> {
        if memory.value::<usize>(object.wrapping_add(TYPE))? != self.text_type {
            return None;
        }
        let length = memory.value::<usize>(object.wrapping_add(TEXT_LENGTH))?;
        let state = memory.value::<u32>(object.wrapping_add(TEXT_STATE))?;
        let (kind, compact, ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
        if !compact || !matches!(kind, 1 | 2 | 4) {
            return None;
        }
        let begin = object.wrapping_add(self.layout.text[usize::from(!ascii)]);
        Some((begin, length.min(1 << 20), kind as usize))
    }

    /// Where the bytes of a `bytes` object begin, and how many of them are looked at.
    fn bytes_at<M: ReadMemory>(&self, memory: &mut M, object: usize) -> Option<(usize, usize)> {
        if memory.value::<usize>(object.wrapping_add(TYPE))? != self.bytes_type {
            return None;
        }
        let length = memory.value::<usize>(object.wrapping_add(BYTES_LENGTH))?;
        Some((object.wrapping_add(BYTES), length.min(lines::MOST)))
    }

    /// The bytes of a text object in UTF-8, or the last of them.
    fn text<'a, M: ReadMemory>(
        &self,
        memory: &mut M,
        object: usize,
        into: &'a mut [u8; LONGEST],
    ) -> Option<&'a [u8]> {
        let (begin, length, kind) = self.text_at(memory, object)?;
        // From the end on, because it says more.
        let mut at = into.len();
        for i in (0..length).rev() {
            let place = begin.wrapping_add(i * kind);
            let mut bytes = [0; 4];
            if !memory.copy(place, &mut bytes[..kind]) {
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
    fn line<M: ReadMemory>(&self, memory: &mut M, hop: &Hop) -> Option<u32> {
        let at = match self.layout.position {
            Position::Index { unit, .. } => hop.position.checked_mul(unit as usize)?,
            Position::Pointer { first, .. } => hop.position.saturating_sub(hop.code + first),
        };
        let table = memory.value::<usize>(hop.code + self.layout.line_table)?;
        let (begin, length) = self.bytes_at(memory, table)?;
        let bytes = Bytes {
            memory,
            at: begin,
            left: length,
            buffer: [0; 128],
            used: 0,
            filled: 0,
        };
        self.layout
            .lines
            .line(hop.first_line, u32::try_from(at).ok()?, bytes)
    }
}

/// Adds bytes to a hash, by words. `None` if they can't be read. They begin at a whole word, and an object
/// has all of its last word.
#[inline(always)]
fn hash_of_bytes<M: ReadMemory>(
    memory: &mut M,
    at: usize,
    length: usize,
    hash: u64,
) -> Option<u64> {
    let mut word = |done: usize| Some(memory.value::<usize>(at.wrapping_add(done))? as u64);
    // Four sums, so that a multiplication does not wait for the one before.
    let mut sums = [hash, 1, 2, 3];
    let mut done = 0;
    while length - done >= 32 {
        for sum in &mut sums {
            *sum = mix(*sum, word(done)?);
            done += 8;
        }
    }
    while done < length {
        // What follows the last byte is not of the object's value.
        let unused = 8 - (length - done).min(8);
        sums[0] = mix(sums[0], word(done)? << (8 * unused));
        done += 8;
    }
    Some(sums.into_iter().fold(length as u64, mix))
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

impl<M: ReadMemory> Iterator for Bytes<'_, M> {
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
mod tests;
