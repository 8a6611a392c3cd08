//! Who called NCCL: the payload of a Stacks block, which defines modules, frames and stacks.
//!
//! Records follow one another until the payload ends. All integers are base-128; a text is its length and its
//! bytes.
//!
//! ```text
//! record    kind │ bytes of what follows │ ...
//! 1 module  number, from 1 │ build id, a text │ path, a text
//! 2 frame   number, from 1 │ 1 │ line, 0 not known │ file, a text │ function, a text      (Python)
//!           number, from 1 │ 2 │ module, 0 not known │ address in its file, else in memory  (C and C++)
//! 3 stack   id, from 1 │ why │ flags │ thread, a text │ frames n │ n numbers, innermost first
//! ```
//!
//! `why` says why there are no Python frames ([`Why`]), and is 0 if there are. Flag 1: the stack goes on
//! beyond the last frame. `thread` is the name of a thread without Python frames.
//!
//! Example: line 12 of function `step` in `train.py` as frame 1, and a stack 1 of this frame.
//!
//! ```text
//! 02  11  01  01  0c  08 74 72 61 69 6e 2e 70 79  04 73 74 65 70
//! 03  06  01  00  00  00  01  01
//! ```
//!
//! Rule: a file defines a frame before the stacks with that frame, and a stack before the rows with that
//! stack. Each may be defined again, always alike. A reader leaves out records of a kind that it does not
//! know, and bytes behind those that it knows.

use crate::varint::{put, Reader};

/// Frames of a stack at most: the innermost ones.
pub const DEPTH: usize = 64;
/// Flag of a stack: it goes on beyond the last frame.
pub const DEEPER: u64 = 1;

/// Why a stack has no Python frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Why {
    /// It has them.
    #[default]
    HasFrames = 0,
    /// The process has no Python interpreter.
    NoInterpreter = 1,
    /// The thread runs no Python code.
    NoFrames = 2,
    /// The recorder does not know this version of Python.
    Version = 3,
    /// The interpreter does not describe itself as its version does, or its frames are not where they should
    /// be.
    Layout = 4,
    /// A free-threaded build.
    FreeThreaded = 5,
    /// There is more than one interpreter.
    Subinterpreters = 6,
    /// The interpreter was shutting down.
    Finalizing = 7,
    /// Another thread than the main one, and the kernel allows no reads that can't fault.
    NoSafeRead = 8,
    /// A pointer led nowhere.
    Unreadable = 9,
    /// The table of stacks was full.
    Full = 10,
}

impl Why {
    /// All of them, by number.
    pub const ALL: [Why; 11] = [
        Why::HasFrames,
        Why::NoInterpreter,
        Why::NoFrames,
        Why::Version,
        Why::Layout,
        Why::FreeThreaded,
        Why::Subinterpreters,
        Why::Finalizing,
        Why::NoSafeRead,
        Why::Unreadable,
        Why::Full,
    ];

    /// The one with this number.
    pub fn from_u64(number: u64) -> Option<Why> {
        Why::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// The code that a frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code<'a> {
    /// A Python function. The texts are UTF-8, but nobody checked that.
    Python {
        /// The line that the function is in; 0 not known.
        line: u32,
        /// Its file, as the code object says.
        file: &'a [u8],
        /// Its qualified name, as far as the release has one.
        function: &'a [u8],
    },
    /// A return address.
    Native {
        /// Number of its module; 0 not known.
        module: u32,
        /// The address in the module's file; without a module, that in memory.
        offset: u64,
    },
}

/// One record read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackRecord<'a> {
    /// A program or library.
    Module {
        /// From 1.
        number: u32,
        /// Its build id; empty without one.
        build_id: &'a [u8],
        /// Its file.
        path: &'a [u8],
    },
    /// A frame.
    Frame {
        /// From 1.
        number: u32,
        /// The code that it runs.
        code: Code<'a>,
    },
    /// A stack.
    Stack {
        /// What [`Shape::stack`](crate::rows::Shape::stack) names.
        id: u32,
        /// Why it has no Python frames.
        why: Why,
        /// See [`DEEPER`].
        flags: u64,
        /// The thread's name, of a thread without Python frames.
        thread: &'a [u8],
        /// Numbers of its frames, innermost first.
        frames: Vec<u32>,
    },
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(reader.get()?).ok()?;
    reader.take(len)
}

/// Appends a record.
pub fn put_record(out: &mut Vec<u8>, record: &StackRecord) {
    let mut body = Vec::new();
    let kind = match record {
        StackRecord::Module {
            number,
            build_id,
            path,
        } => {
            put(&mut body, (*number).into());
            put_text(&mut body, build_id);
            put_text(&mut body, path);
            1
        }
        StackRecord::Frame { number, code } => {
            put(&mut body, (*number).into());
            match code {
                Code::Python {
                    line,
                    file,
                    function,
                } => {
                    put(&mut body, 1);
                    put(&mut body, (*line).into());
                    put_text(&mut body, file);
                    put_text(&mut body, function);
                }
                Code::Native { module, offset } => {
                    put(&mut body, 2);
                    put(&mut body, (*module).into());
                    put(&mut body, *offset);
                }
            }
            2
        }
        StackRecord::Stack {
            id,
            why,
            flags,
            thread,
            frames,
        } => {
            put(&mut body, (*id).into());
            put(&mut body, *why as u64);
            put(&mut body, *flags);
            put_text(&mut body, thread);
            put(&mut body, frames.len() as u64);
            frames
                .iter()
                .for_each(|frame| put(&mut body, (*frame).into()));
            3
        }
    };
    put(out, kind);
    put(out, body.len() as u64);
    out.extend(body);
}

/// The records of a payload that are known. `None` if it is not well formed.
pub fn read(payload: &[u8]) -> Option<Vec<StackRecord<'_>>> {
    let mut reader = Reader::new(payload);
    let mut found = Vec::new();
    while reader.remaining() != 0 {
        let kind = reader.get()?;
        let body = text(&mut reader)?;
        found.extend(record(kind, &mut Reader::new(body))?);
    }
    Some(found)
}

/// A record of this kind. `Some(None)` if the kind, or a kind in the record, is not known.
fn record<'a>(kind: u64, body: &mut Reader<'a>) -> Option<Option<StackRecord<'a>>> {
    let number = |reader: &mut Reader<'a>| u32::try_from(reader.get()?).ok();
    Some(Some(match kind {
        1 => StackRecord::Module {
            number: number(body)?,
            build_id: text(body)?,
            path: text(body)?,
        },
        2 => {
            let frame = number(body)?;
            let code = match body.get()? {
                1 => Code::Python {
                    line: number(body)?,
                    file: text(body)?,
                    function: text(body)?,
                },
                2 => Code::Native {
                    module: number(body)?,
                    offset: body.get()?,
                },
                _ => return Some(None),
            };
            StackRecord::Frame {
                number: frame,
                code,
            }
        }
        3 => {
            let id = number(body)?;
            let Some(why) = Why::from_u64(body.get()?) else {
                return Some(None);
            };
            let flags = body.get()?;
            let thread = text(body)?;
            let n = body.get()?;
            // Each takes a byte at least.
            if n > body.remaining() as u64 {
                return None;
            }
            let frames = (0..n).map(|_| number(body)).collect::<Option<_>>()?;
            StackRecord::Stack {
                id,
                why,
                flags,
                thread,
                frames,
            }
        }
        _ => return Some(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<StackRecord<'static>> {
        vec![
            StackRecord::Frame {
                number: 1,
                code: Code::Python {
                    line: 12,
                    file: b"train.py",
                    function: b"step",
                },
            },
            StackRecord::Stack {
                id: 1,
                why: Why::HasFrames,
                flags: 0,
                thread: b"",
                frames: vec![1],
            },
            StackRecord::Module {
                number: 300,
                build_id: &[1, 2, 3],
                path: b"/usr/lib/libc.so.6",
            },
            StackRecord::Frame {
                number: 2,
                code: Code::Native {
                    module: 300,
                    offset: 0x1234,
                },
            },
            StackRecord::Stack {
                id: 70_000,
                why: Why::NoFrames,
                flags: DEEPER,
                thread: b"pt_autograd_0",
                frames: vec![2, 2, 1],
            },
        ]
    }

    fn encoded() -> Vec<u8> {
        let mut out = Vec::new();
        records().iter().for_each(|r| put_record(&mut out, r));
        out
    }

    #[test]
    fn what_is_put_is_read() {
        assert_eq!(read(&encoded()), Some(records()));
        assert!(Why::ALL
            .iter()
            .enumerate()
            .all(|(i, why)| *why as usize == i));
    }

    #[test]
    fn the_example_is_as_in_the_module() {
        let lines = include_str!("stacks.rs").lines();
        let lines = lines.filter_map(|line| line.strip_prefix("//! 0"));
        let example: Vec<u8> = lines
            .flat_map(|line| {
                let bytes = format!("0{line}");
                let bytes: Vec<u8> = bytes
                    .split_whitespace()
                    .map(|byte| u8::from_str_radix(byte, 16).expect("a byte in hex"))
                    .collect();
                bytes
            })
            .collect();
        let mut out = Vec::new();
        records()[..2].iter().for_each(|r| put_record(&mut out, r));
        assert_eq!(out, example);
    }

    #[test]
    fn unknown_kinds_are_left_out_and_cut_payloads_refused() {
        let mut payload = vec![9, 2, 1, 1];
        payload.extend(encoded());
        assert_eq!(read(&payload), Some(records()));
        let whole = encoded();
        let ends: Vec<usize> = (1..whole.len())
            .filter(|end| read(&whole[..*end]).is_some())
            .collect();
        // Only between two records.
        assert_eq!(ends.len(), 4);
        assert_eq!(read(&[3, 7, 1, 0, 0, 0, 0xff, 0xff, 0x7f]), None);
    }
}
