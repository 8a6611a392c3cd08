//! Writes the stacks that calls name, with their frames and modules.

use super::Writer;
use crate::stacks::{loaded, Frame, Loaded, Stack, StackTable, Stacks};
use capture::block::BlockKind;
use capture::stacks::{put_record, Code, StackRecord};

/// Bytes of a block at most, but for the last record.
const MOST: usize = 64 << 10;

/// What the present trace file has.
#[derive(Default)]
pub(super) struct Written {
    /// By number, from 0 on.
    stacks: Vec<bool>,
    frames: Vec<bool>,
    /// All stacks below this one are written.
    first: usize,
    /// How many of `modules` are written.
    modules: usize,
    /// What return addresses are in. These outlive a file.
    known: Vec<Loaded>,
}

impl Written {
    /// Another file begins.
    pub(super) fn restart(&mut self) {
        *self = Written {
            known: std::mem::take(&mut self.known),
            ..Written::default()
        };
    }

    /// Number of the module that an address is in, and the offset there; number 0 and the address if it is in
    /// none that is known.
    fn place(&mut self, address: u64) -> (u32, u64) {
        let find = |known: &[Loaded]| {
            // The newest first: another library may have been where it is now.
            known
                .iter()
                .rposition(|module| (module.start..module.end).contains(&address))
        };
        let found = find(&self.known).or_else(|| {
            let fresh = loaded().into_iter();
            let fresh = fresh.filter(|module| !self.known.contains(module));
            let fresh: Vec<Loaded> = fresh.collect();
            self.known.extend(fresh);
            find(&self.known)
        });
        match found {
            Some(at) => (at as u32 + 1, address.wrapping_sub(self.known[at].bias)),
            None => (0, address),
        }
    }
}

impl Writer {
    /// Stages the stacks that are new.
    pub(super) fn write_stacks(&mut self) {
        let recorder = self.recorder;
        let Some(stacks) = &recorder.stacks else {
            return;
        };
        let end = stacks.table.stacks_end() as usize;
        while self.stacks.first < end {
            let mut taken = Vec::new();
            let mut written = std::mem::take(&mut self.stacks);
            let before = written.modules;
            let staged = self.put_stacks(stacks, &mut written, &mut taken);
            self.stacks = written;
            match staged {
                Some(true) => {}
                Some(false) => {
                    // The next turn tries again.
                    let stacks = &mut self.stacks;
                    stacks.modules = before;
                    for (is_frame, number) in taken {
                        let list = if is_frame {
                            &mut stacks.frames
                        } else {
                            &mut stacks.stacks
                        };
                        list[number] = false;
                    }
                    stacks.first = 0;
                    return;
                }
                None => return,
            }
        }
    }

    /// Stages a block of stacks. `None` if there was nothing to write.
    fn put_stacks(
        &mut self,
        stacks: &Stacks,
        written: &mut Written,
        taken: &mut Vec<(bool, usize)>,
    ) -> Option<bool> {
        let table = &stacks.table;
        let end = table.stacks_end() as usize;
        written.stacks.resize(end, false);
        written.frames.resize(table.frames_end() as usize, false);
        let mut payload = Vec::new();
        // Number 0 is no stack.
        for id in written.first.max(1)..end {
            if written.stacks[id] {
                continue;
            }
            // One that is not complete comes later, and those behind it now.
            let Some(stack) = table.stack_of(id as u32) else {
                continue;
            };
            put_stack(table, written, taken, id as u32, &stack, &mut payload);
            if payload.len() > MOST {
                break;
            }
        }
        let done = written.stacks.iter().skip(1).take_while(|done| **done);
        written.first = 1 + done.count();
        if payload.is_empty() {
            return None;
        }
        Some(self.block(BlockKind::Stacks, |out| out.extend(payload)))
    }
}

fn put_stack(
    table: &StackTable,
    written: &mut Written,
    taken: &mut Vec<(bool, usize)>,
    id: u32,
    stack: &Stack,
    out: &mut Vec<u8>,
) {
    for frame in &stack.frames {
        let number = *frame as usize;
        if written.frames.get(number) != Some(&false) {
            continue;
        }
        match table.frame_of(*frame) {
            Some(Frame::Python(line, file, function)) => {
                let (file, function) = (table.text_of(file), table.text_of(function));
                let code = Code::Python {
                    line,
                    file: &file,
                    function: &function,
                };
                put_record(
                    out,
                    &StackRecord::Frame {
                        number: *frame,
                        code,
                    },
                );
            }
            Some(Frame::Native(address)) => {
                let (module, offset) = written.place(address);
                while written.modules < module as usize {
                    let Loaded { path, build_id, .. } = &written.known[written.modules];
                    written.modules += 1;
                    let number = written.modules as u32;
                    put_record(
                        out,
                        &StackRecord::Module {
                            number,
                            build_id,
                            path,
                        },
                    );
                }
                let code = Code::Native { module, offset };
                put_record(
                    out,
                    &StackRecord::Frame {
                        number: *frame,
                        code,
                    },
                );
            }
            None => continue,
        }
        written.frames[number] = true;
        taken.push((true, number));
    }
    let thread = table.text_of(stack.thread);
    let record = StackRecord::Stack {
        id,
        why: stack.why,
        flags: stack.flags,
        thread: &thread,
        frames: stack.frames.clone(),
    };
    put_record(out, &record);
    written.stacks[id as usize] = true;
    taken.push((false, id as usize));
}
