//! Who called NCCL: stacks as texts, and which frame of a stack is the *caller*.
//!
//! [`Gathered`] collects what the Stacks blocks of a process define. [`Gathered::finish`] makes a
//! [`CallStack`] of each. Return addresses get their names from the files that they are in
//! ([`crate::symbols`]).
//!
//! Rule: the caller is the innermost frame that is the program's own: not a library's, not NCCL's. If there
//! is none, it is the innermost one. What is not known begins with `unknown:` and says why; nothing is
//! guessed.

use crate::symbols::{Module, Symbols};
use capture::stacks::{self, Code, StackRecord, Why, DEEPER};
use std::collections::BTreeMap;

/// A stack, ready to be printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStack {
    /// `FILE:LINE FUNCTION` of the program's line.
    pub caller: String,
    /// All frames in this form, outermost first, with a semicolon between two.
    pub text: String,
}

/// What stands for a stack without a definition.
pub const UNDEFINED: &str = "unknown: the process ended before its stack was written";
/// A thread of PyTorch's autograd that runs no Python code.
pub const AUTOGRAD: &str = "autograd (C++)";

#[derive(Clone, Debug)]
enum Frame {
    Python {
        line: u32,
        file: String,
        function: String,
    },
    Native {
        module: u32,
        offset: u64,
    },
}

#[derive(Clone, Debug)]
struct Stack {
    why: Why,
    deeper: bool,
    thread: String,
    frames: Vec<u32>,
}

/// What the blocks of a process define.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    modules: BTreeMap<u32, Module>,
    frames: BTreeMap<u32, Frame>,
    stacks: BTreeMap<u32, Stack>,
}

/// A frame as it is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    text: String,
    /// Of the program itself.
    own: bool,
    /// Of NCCL or of this recorder.
    nccl: bool,
    /// Of C's library, which calls every program, or of the interpreter.
    runtime: bool,
}

impl Gathered {
    /// Takes a block; false if it is not well formed.
    pub(crate) fn of_block(&mut self, payload: &[u8]) -> bool {
        let Some(records) = stacks::read(payload) else {
            return false;
        };
        let text = |bytes: &[u8]| crate::printable(&String::from_utf8_lossy(bytes)).into_owned();
        for record in records {
            match record {
                StackRecord::Module {
                    number,
                    build_id,
                    path,
                } => {
                    let module = Module {
                        path: String::from_utf8_lossy(path).into_owned(),
                        build_id: build_id.to_vec(),
                    };
                    self.modules.insert(number, module);
                }
                StackRecord::Frame { number, code } => {
                    let frame = match code {
                        Code::Python {
                            line,
                            file,
                            function,
                        } => Frame::Python {
                            line,
                            file: text(file),
                            function: text(function),
                        },
                        Code::Native { module, offset } => Frame::Native { module, offset },
                    };
                    self.frames.insert(number, frame);
                }
                StackRecord::Stack {
                    id,
                    why,
                    flags,
                    thread,
                    frames,
                } => {
                    let stack = Stack {
                        why,
                        deeper: flags & DEEPER != 0,
                        thread: text(thread),
                        frames,
                    };
                    self.stacks.insert(id, stack);
                }
            }
        }
        true
    }

    /// The stacks by id. `python`: the interpreter's release, as the process said.
    pub(crate) fn finish(self, python: Option<&str>) -> BTreeMap<u32, CallStack> {
        let mut symbols = Symbols::default();
        let mut wanted: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for frame in self.frames.values() {
            if let Frame::Native { module, offset } = frame {
                let addresses = wanted.entry(*module).or_default();
                addresses.push(offset.saturating_sub(1));
            }
        }
        for (module, addresses) in wanted {
            if let Some(module) = self.modules.get(&module) {
                symbols.look(module, addresses);
            }
        }
        let mut shown: BTreeMap<u32, Vec<Shown>> = BTreeMap::new();
        for (number, frame) in &self.frames {
            shown.insert(*number, self.show(frame, &mut symbols));
        }
        let stacks = self.stacks.iter();
        stacks
            .map(|(id, stack)| (*id, call_stack(stack, &shown, python)))
            .collect()
    }

    /// A frame; several if functions were inlined there, innermost first.
    fn show(&self, frame: &Frame, symbols: &mut Symbols) -> Vec<Shown> {
        match frame {
            Frame::Python {
                line,
                file,
                function,
            } => {
                let file = if file.is_empty() { "?" } else { file };
                let place = match line {
                    0 => format!("{file}:?"),
                    line => format!("{file}:{line}"),
                };
                vec![Shown {
                    text: format!("{place} {function}").trim_end().to_owned(),
                    own: !is_library(file),
                    nccl: false,
                    runtime: false,
                }]
            }
            Frame::Native { module, offset } => {
                let Some(module) = self.modules.get(module) else {
                    return vec![Shown {
                        text: format!("{offset:#x}"),
                        own: false,
                        nccl: false,
                        runtime: false,
                    }];
                };
                let own = !module.is_library() && !module.is_python();
                let nccl = module.is_nccl();
                let runtime = module.is_runtime() || module.is_python();
                // The call is before the address at which it returns.
                let texts = symbols.at(module, offset.saturating_sub(1), *offset);
                let shown = |text| Shown {
                    text,
                    own,
                    nccl,
                    runtime,
                };
                texts.into_iter().map(shown).collect()
            }
        }
    }
}

fn call_stack(stack: &Stack, shown: &BTreeMap<u32, Vec<Shown>>, python: Option<&str>) -> CallStack {
    let frames = stack.frames.iter();
    let frames: Vec<&Shown> = frames
        .filter_map(|number| shown.get(number))
        .flatten()
        .collect();
    // NCCL's own frames, and the recorder's, are not the caller's.
    let callers = frames.iter().filter(|frame| !frame.nccl);
    let callers: Vec<&&Shown> = callers.collect();
    let mut texts: Vec<&str> = callers.iter().map(|frame| frame.text.as_str()).collect();
    if stack.deeper {
        texts.push("...");
    }
    let thread = format!("thread {}", stack.thread);
    if !stack.thread.is_empty() {
        texts.push(&thread);
    }
    texts.reverse();
    let other = || callers.iter().find(|frame| !frame.runtime);
    let own = callers.iter().find(|frame| frame.own).or_else(other);
    let caller = if is_autograd(&stack.thread) && stack.why != Why::HasFrames {
        AUTOGRAD.to_owned()
    } else {
        own.map_or_else(|| unknown(stack, python), |frame| frame.text.clone())
    };
    let text = if texts.is_empty() {
        caller.clone()
    } else {
        texts.join(";")
    };
    CallStack { caller, text }
}

/// PyTorch names the threads of its autograd engine so.
fn is_autograd(thread: &str) -> bool {
    thread.starts_with("pt_autograd")
}

/// Why there is no caller.
fn unknown(stack: &Stack, python: Option<&str>) -> String {
    let release = python.and_then(|python| python.split_whitespace().next());
    let release = release.unwrap_or("of another release");
    let why = match stack.why {
        Why::HasFrames => "the stack was not written".to_owned(),
        Why::NoInterpreter | Why::NoFrames => match stack.thread.as_str() {
            "" => "a thread of C or C++ code".to_owned(),
            thread => format!("C or C++ code in thread {thread}"),
        },
        Why::Version => format!("Python {release} is not supported"),
        Why::Layout => format!("this build of Python {release} is not as its release"),
        Why::FreeThreaded => "free-threaded builds of Python are not supported".to_owned(),
        Why::Subinterpreters => "subinterpreters of Python are not supported".to_owned(),
        Why::Finalizing => "Python was shutting down".to_owned(),
        Why::NoSafeRead => "the kernel does not allow process_vm_readv".to_owned(),
        Why::Unreadable => "a frame could not be read".to_owned(),
        Why::Full => "more than 8190 stacks".to_owned(),
    };
    format!("unknown: {why}")
}

/// Whether a Python file is a library's: the standard library, or one that was installed.
pub fn is_library(file: &str) -> bool {
    let folders = ["/site-packages/", "/dist-packages/"];
    if file.starts_with("<frozen ") || folders.iter().any(|folder| file.contains(folder)) {
        return true;
    }
    // .../lib/python3.12/..., or the same in a zip file.
    let mut folders = file.split('/').rev().skip(1).peekable();
    while let Some(folder) = folders.next() {
        let release = folder.strip_prefix("python").unwrap_or("");
        let numbered = release.starts_with('3');
        let above = folders.peek().copied().unwrap_or("");
        if numbered && (above.starts_with("lib") || folder.ends_with(".zip")) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::stacks::put_record;

    fn gathered(records: &[StackRecord]) -> Gathered {
        let mut payload = Vec::new();
        records.iter().for_each(|r| put_record(&mut payload, r));
        let mut gathered = Gathered::default();
        assert!(gathered.of_block(&payload));
        gathered
    }

    fn frame(
        number: u32,
        line: u32,
        file: &'static str,
        function: &'static str,
    ) -> StackRecord<'static> {
        let code = Code::Python {
            line,
            file: file.as_bytes(),
            function: function.as_bytes(),
        };
        StackRecord::Frame { number, code }
    }

    fn stack(id: u32, why: Why, thread: &'static str, frames: &[u32]) -> StackRecord<'static> {
        StackRecord::Stack {
            id,
            why,
            flags: 0,
            thread: thread.as_bytes(),
            frames: frames.to_vec(),
        }
    }

    #[test]
    fn the_caller_is_the_innermost_frame_of_the_program() {
        let library = "/opt/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py";
        let stacks = gathered(&[
            frame(1, 2806, library, "all_reduce"),
            frame(2, 12, "/w/train.py", "Step.run"),
            frame(3, 90, "/w/train.py", "<module>"),
            frame(4, 7, "/usr/lib/python3.12/threading.py", "Thread.run"),
            frame(5, 0, "", ""),
            stack(1, Why::HasFrames, "", &[1, 2, 3]),
            stack(2, Why::HasFrames, "", &[1, 4]),
            stack(3, Why::HasFrames, "", &[5]),
        ])
        .finish(None);
        assert_eq!(stacks[&1].caller, "/w/train.py:12 Step.run");
        let text =
            format!("/w/train.py:90 <module>;/w/train.py:12 Step.run;{library}:2806 all_reduce");
        assert_eq!(stacks[&1].text, text);
        assert_eq!(stacks[&2].caller, format!("{library}:2806 all_reduce"));
        assert_eq!(stacks[&3].caller, "?:?");
    }

    #[test]
    fn what_is_not_known_says_why() {
        let stacks = gathered(&[
            stack(1, Why::NoFrames, "pt_autograd_0", &[]),
            stack(2, Why::Version, "", &[]),
            stack(3, Why::NoInterpreter, "worker", &[]),
            stack(4, Why::HasFrames, "", &[77]),
        ])
        .finish(Some("3.8.18 (default)"));
        let callers: Vec<&str> = stacks.values().map(|s| s.caller.as_str()).collect();
        let expected = [
            AUTOGRAD,
            "unknown: Python 3.8.18 is not supported",
            "unknown: C or C++ code in thread worker",
            "unknown: the stack was not written",
        ];
        assert_eq!(callers, expected);
        assert_eq!(stacks[&1].text, "thread pt_autograd_0");
    }

    #[test]
    fn installed_and_standard_files_are_libraries() {
        for file in [
            "/usr/lib/python3.11/threading.py",
            "/v/lib64/python3.13/runpy.py",
            "/v/lib/python3.9/site-packages/a/b.py",
            "/usr/lib/python3/dist-packages/x.py",
            "<frozen importlib._bootstrap>",
            "/usr/lib/python312.zip/abc.py",
        ] {
            assert!(is_library(file), "{file}");
        }
        for file in [
            "train.py",
            "/w/python3/train.py",
            "<string>",
            "/home/lib/me.py",
            "/python3.py",
        ] {
            assert!(!is_library(file), "{file}");
        }
    }
}
