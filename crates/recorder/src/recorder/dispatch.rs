//! Which function an event goes to, and what is answered if none fits.
//!
//! `start` goes by the event's type, `stop` by the kind of the handle, `state` by both. Every start is
//! answered with a handle. It names what the event's children and its stop belong to: a row, a group or a
//! network operation. Or it names nothing (`Kind::Ignored`), or a call that is only counted
//! (`Kind::Rowless`).
//!
//! Rule: what does not fit is counted (`Odd`) and changes nothing else.

use super::Recorder;
use crate::events::{Event, Init, Receive, State};
use crate::handle::{Handle, HandleKind};
use crate::network::Start;
use capture::live::Odd;
use std::sync::atomic::Ordering::Relaxed;

impl Receive for Recorder {
    fn init(&self, init: &Init) -> (u64, u32) {
        self.init_communicator(init)
    }

    // Inlined into the entry point for each type of event. So the event is never built in memory, and the
    // compiler does the match.
    #[inline(always)]
    fn start(&self, context: u64, kind: u64, parent: u64, event: Event) -> u64 {
        if self.mask & kind as u32 == 0
            && kind & (nccl_abi::event::GROUP_API | nccl_abi::event::GROUP) == 0
        {
            self.header().unrequested.fetch_add(1, Relaxed);
        }
        match event {
            Event::GroupApi { captured, depth } => self.start_group(context, captured, depth),
            Event::Api(api) => self.start_api(context, parent, &api),
            Event::KernelLaunch { stream } => self.start_launch(context, parent, stream),
            Event::Group => match self.comm(context) {
                Some((slot, _)) => self.give(Handle::of_ticket(HandleKind::Plan, slot, 0)),
                None => self.ignored(),
            },
            Event::Task(task) => self.start_task(context, parent, &task),
            Event::CeColl {
                sequence,
                batches,
                buffers,
                user_tag,
            } => self.start_copy_engine(parent, sequence, batches, buffers, user_tag),
            Event::ProxyOp {
                pid,
                channel,
                send,
                peer,
                steps,
            } => self.start_op(parent, pid, |row, now| Start {
                row,
                channel,
                send,
                peer,
                steps,
                now,
            }),
            Event::ProxyStep { number } => self.start_step(parent, number),
            Event::KernelCh { channel, stamp } => {
                self.start_kernel(context, parent, channel, stamp)
            }
            Event::KernelPhase { phase } => {
                let kernel = self.read(parent);
                if kernel.is(HandleKind::KernelCh) {
                    self.give(kernel.phase(phase))
                } else {
                    self.unowned(parent, false)
                }
            }
            Event::Ignored => self.ignored(),
            Event::Unknown => {
                self.odd(Odd::UnknownType);
                self.ignored()
            }
        }
    }

    #[inline(always)]
    fn stop(&self, given: u64, bits: Option<usize>) {
        let handle = self.read(given);
        let handle = bits.map_or(handle, |bits| handle.of_bits(bits));
        match handle.kind() {
            Some(HandleKind::Task) => self.stop_task(handle),
            Some(
                HandleKind::Api
                | HandleKind::Template
                | HandleKind::Rowless
                | HandleKind::Ignored
                | HandleKind::Phase
                | HandleKind::Chained,
            ) => {}
            Some(HandleKind::Launch) => self.stop_launch(handle),
            Some(HandleKind::Plan) => self.stop_plan(handle),
            Some(HandleKind::GroupApi) => self.stop_group(handle),
            Some(HandleKind::KernelCh) => self.stop_kernel(handle),
            Some(HandleKind::ProxyOp) => self.stop_op(handle),
            Some(HandleKind::ProxyStep) => self.step(handle, None),
            Some(HandleKind::Context) => self.odd(Odd::ForeignHandle),
            None => self.foreign(given),
        }
    }

    #[inline(always)]
    fn state(&self, given: u64, state: State) {
        let handle = self.read(given);
        match state {
            State::KernelStop { stamp } if handle.is(HandleKind::KernelCh) => {
                self.kernel_stopped(handle, stamp);
            }
            State::GroupClosing if handle.is(HandleKind::GroupApi) => self.group_closes(handle),
            State::Step { wait, bytes } if handle.is(HandleKind::ProxyStep) => {
                self.step(handle, Some((wait, bytes)));
            }
            State::OpProgress { bytes } if handle.is(HandleKind::ProxyOp) => {
                if let Some(op) = self.network.op(handle) {
                    op.bytes.store(bytes, Relaxed);
                    op.begun.store(1, Relaxed);
                }
            }
            State::OpBegun if handle.is(HandleKind::ProxyOp) => {
                if let Some(op) = self.network.op(handle) {
                    op.begun.store(1, Relaxed);
                }
            }
            State::PhaseStop { .. } if handle.is(HandleKind::Phase) && !self.folds_stamps => {}
            State::PhaseStop { stamp } if handle.is(HandleKind::Phase) => {
                let inside = self.inside();
                if let Some(phase) = self
                    .row(&inside, handle)
                    .and_then(|row| row.phase_stop.get(usize::from(handle.phase_number())))
                {
                    phase.store(phase.load(Relaxed).max(stamp), Relaxed);
                }
            }
            State::Ignored | State::GroupOpened if handle.kind().is_some() => {}
            State::Unknown => self.other_state(given, false),
            _ => self.other_state(given, true),
        }
    }

    fn finalize(&self, context: u64) {
        self.finalize_communicator(context);
    }
}

impl Recorder {
    pub(super) fn ignored(&self) -> u64 {
        self.encode(HandleKind::Ignored, 0, 0, 0)
    }

    /// A handle that means the same, and differs from those of other events by `number`: for readers of
    /// callbacks, who tell events apart by their handles.
    pub fn told_apart(&self, given: u64, number: u64) -> u64 {
        let handle = self.read(given);
        match handle.kind() {
            Some(kind @ (HandleKind::Ignored | HandleKind::Rowless | HandleKind::Chained)) => self
                .give(Handle::new(
                    kind,
                    number as u8,
                    (number >> 8) as u32,
                    number >> 26,
                )),
            Some(HandleKind::Plan) => {
                self.give(Handle::of_ticket(HandleKind::Plan, handle.comm(), number))
            }
            _ => given,
        }
    }

    /// A handle for an event that only the plugin behind ours asked for.
    pub fn only_chained(&self, number: u64) -> u64 {
        self.told_apart(self.encode(HandleKind::Chained, 0, 0, 0), number)
    }

    /// Whether only the plugin behind ours asked for the event of this handle.
    pub fn is_only_chained(&self, given: u64) -> bool {
        self.read(given).is(HandleKind::Chained)
    }

    /// Counts a handle that this process did not give out, or a null one.
    #[cold]
    pub(super) fn foreign(&self, given: u64) {
        self.odd(if given == 0 {
            Odd::NullHandle
        } else {
            Odd::ForeignHandle
        });
    }

    /// The handle for a kernel or network event with a parent that is no task. If the parent must be a task
    /// (`asked`), that is counted.
    #[cold]
    pub(super) fn unowned(&self, parent: u64, asked: bool) -> u64 {
        match self.read(parent).kind() {
            Some(HandleKind::Rowless) => return self.encode(HandleKind::Rowless, 0, 0, 0),
            Some(_) if asked => self.odd(Odd::Orphan),
            Some(_) => {}
            None => self.foreign(parent),
        }
        self.ignored()
    }

    /// A state that changes nothing, or that does not fit its handle. `known`: the ABI has this state.
    #[inline(never)]
    fn other_state(&self, given: u64, known: bool) {
        match self.read(given).kind() {
            None => self.foreign(given),
            Some(HandleKind::Ignored | HandleKind::Rowless) if known => {}
            Some(_) => self.odd(Odd::UnknownState),
        }
    }
}
