//! Kernel windows, as a part of each turn of the recorder's thread.

use super::Writer;
use capture::graphs::Launched;
use std::sync::atomic::Ordering::Relaxed;

impl Writer {
    /// Opens or closes a window if it is time, and stages what the last one had.
    pub(super) fn write_windows(&mut self, last: bool) {
        if let Some(step) = self.steps.longest(self.ns_per_tick) {
            self.windows.step(step);
        }
        let header = self.recorder.header();
        let launches = header.graph_launches.load(Relaxed);
        let calls = header.born.load(Relaxed).saturating_add(launches);
        let blocks = self.windows.poll(header, self.recorder.clock, calls, last);
        self.recorder.switch.quiet(self.windows.is_quiet());
        for (kind, payload) in blocks {
            if self.size() < self.recorder.settings.max_size {
                self.block(kind, |out| out.extend(payload));
            }
        }
    }

    /// A new trace file begins: windows in it use names that were written before.
    pub(super) fn begin_windows(&mut self) {
        for (kind, payload) in self.windows.names() {
            self.block(kind, |out| out.extend(payload));
        }
    }

    /// Notes when calls were made.
    pub(super) fn note_steps(&mut self) {
        for r in &self.records {
            let kind = (r.shape.comm, r.shape.func, r.shape.count);
            self.steps.call(kind, r.t_api);
        }
    }

    /// Notes when graphs were launched.
    pub(super) fn note_launches(&mut self, launches: &[Launched]) {
        for launch in launches {
            self.steps
                .call((u32::MAX, 0, launch.exec.into()), launch.entered);
        }
    }
}
