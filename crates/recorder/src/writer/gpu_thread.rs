//! The thread that asks CUDA and CUPTI.
//!
//! A call of the driver may last for as long as the job hangs. When a stream can take no more launches, the
//! thread that launches waits inside the driver and keeps its lock. Every other call of the driver then
//! waits, too. On H200, the ranks beside a stopped one waited for all 8 s of the stop. If the recorder's
//! thread waited there too, a job that hangs would look as if it had just made its last call.
//!
//! So all that calls the driver is an [`Asker`], which goes to a second thread and comes back:
//!
//! ```text
//!                   hand over, wait for at most PATIENCE          the driver has answered
//!   at the writer ───────────────────────────────────▶ away ───────────────────────────────▶ at the writer
//!                                                       │  turns of the writer go by without it
//!                                                       └───▶ away
//! ```
//!
//! Rule: the recorder's thread calls neither CUDA nor CUPTI, and waits for this one as long as [`PATIENCE`]
//! or, at the job's end, [`AT_END`]. Nothing is asked after the exit handler.

use super::own_thread;
use crate::gpu_events::{HostClock, Poller};
use crate::guard::OFF;
use crate::recorder::messages::say;
use crate::recorder::{fork_page, Recorder};
use crate::windows::{EncodedBlock, Progress, Windows};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

/// The driver mostly answers within a tenth of a millisecond.
const PATIENCE: Duration = Duration::from_millis(20);
/// The job's exit waits for a second (`Control::flush`), and calls are to be written after this.
const AT_END: Duration = Duration::from_millis(500);

/// What asks the driver, with all that it remembers.
pub(super) struct Asker {
    poller: Poller,
    pub windows: Windows,
}

/// What an [`Asker`] is to do.
pub(super) struct Turn {
    pub ns_per_tick: f64,
    /// Launches are to be confirmed at once.
    pub at_once: bool,
    /// `ahead` is filled in by the asker.
    pub progress: Progress,
}

/// What came of a turn.
#[derive(Default)]
pub(super) struct TurnResult {
    /// Launches that have no times yet.
    pub under_way: usize,
    /// Blocks of windows to be written.
    pub blocks: Vec<EncodedBlock>,
}

impl Asker {
    fn take_turn(&mut self, recorder: &'static Recorder, turn: Turn) -> TurnResult {
        let mut under_way = 0;
        if let Some(driver) = recorder.driver() {
            let clock = HostClock {
                ticks: &|| recorder.clock.ticks(),
                ns_per_tick: turn.ns_per_tick,
            };
            let (rings, switch) = (&recorder.rings, &recorder.switch);
            under_way = self
                .poller
                .poll(driver, rings, switch, &clock, turn.at_once);
        }
        let progress = Progress {
            ahead: self.poller.is_ahead(),
            ..turn.progress
        };
        let blocks = self
            .windows
            .poll(recorder.header(), recorder.clock, progress);
        TurnResult { under_way, blocks }
    }
}

/// The writer's end of the thread.
pub(super) struct GpuThread {
    recorder: &'static Recorder,
    /// `None` while it is away, and for good if its thread could not be started or has ended.
    asker: Option<Asker>,
    /// `None` before the thread is needed.
    lines: Option<Lines>,
    /// What was under way when the asker was last here.
    under_way: usize,
    /// The process exits, and the asker has closed what was open.
    over: bool,
}

struct Lines {
    to: Sender<(Asker, Turn)>,
    from: Receiver<(Asker, TurnResult)>,
}

impl GpuThread {
    pub fn new(recorder: &'static Recorder, windows: Windows) -> GpuThread {
        GpuThread {
            recorder,
            asker: Some(Asker {
                poller: Poller::default(),
                windows,
            }),
            lines: None,
            under_way: 0,
            over: false,
        }
    }

    /// The windows, unless the driver is being asked.
    pub fn windows(&mut self) -> Option<&mut Windows> {
        self.asker.as_mut().map(|asker| &mut asker.windows)
    }

    /// Has the driver asked. If it does not answer in time, the answer comes at a later turn.
    pub fn take_turn(&mut self, turn: Turn) -> TurnResult {
        // Between the exit handler's request and the process's end, this thread goes on: a window that is due
        // then would be opened in a driver that shuts down.
        let exits = self.recorder.writer.exits.load(Acquire);
        if self.over || (exits && !turn.progress.last) {
            return TurnResult::default();
        }
        self.over = exits;
        let deadline = Instant::now() + if turn.progress.last { AT_END } else { PATIENCE };
        let mut answer = self.wait(deadline);
        let needs_none =
            |asker: &Asker| asker.windows.are_off() && self.recorder.driver().is_none();
        if self.asker.as_ref().is_none_or(needs_none) {
            return answer;
        }
        if self.lines.is_none() {
            self.lines = start(self.recorder);
        }
        if let (Some(lines), Some(asker)) = (&self.lines, self.asker.take()) {
            if lines.to.send((asker, turn)).is_ok() {
                let newer = self.wait(deadline);
                answer.under_way = newer.under_way;
                answer.blocks.extend(newer.blocks);
            }
        }
        answer
    }

    /// Waits for the asker, if it is away.
    fn wait(&mut self, deadline: Instant) -> TurnResult {
        if let (Some(lines), None) = (&self.lines, &self.asker) {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Ok((asker, answer)) = lines.from.recv_timeout(left) {
                self.asker = Some(asker);
                self.under_way = answer.under_way;
                return answer;
            }
        }
        TurnResult {
            under_way: self.under_way,
            ..TurnResult::default()
        }
    }
}

/// Starts the thread. Without it no launch is timed, and there are no windows.
fn start(recorder: &'static Recorder) -> Option<Lines> {
    let (to, turns) = channel::<(Asker, Turn)>();
    let (answers, from) = channel();
    let asks = move || {
        own_thread(1);
        while let Ok((mut asker, turn)) = turns.recv() {
            let answer = asker.take_turn(recorder, turn);
            if answers.send((asker, answer)).is_err() {
                return;
            }
        }
    };
    // The thread inherits the mask of the recorder's: no signal of the job is ever handled on it.
    let started = std::thread::Builder::new()
        .name("ncclscope-gpu".to_owned())
        .stack_size(512 << 10)
        .spawn(move || {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(asks)).is_err() {
                OFF.store(true, Relaxed);
                fork_page::count_panic();
            }
        });
    match started {
        Ok(_) => Some(Lines { to, from }),
        Err(error) => {
            say(format_args!(
                "no thread for asking CUDA ({error}): calls have host times only"
            ));
            None
        }
    }
}
