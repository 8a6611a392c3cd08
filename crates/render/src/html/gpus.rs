//! What the GPUs did: CUDA graphs, kernel windows, waits of streams and calls of the driver.

use super::columns::*;
use super::Page;
use crate::escape::escaped;
use crate::layout::plural;
use std::fmt::Write as _;

impl<'a> Page<'a> {
    pub(super) fn graphs(&mut self) {
        if self.report.graphs.is_empty() {
            return;
        }
        self.section(
            "graphs",
            "CUDA graphs",
            "Graphs with NCCL calls, most calls first. Each launch executes the calls that \
             were captured into the graph.",
        );
        self.table_of("graphs", "CUDA graphs", &[GRAPH], "");
        self.end();
    }

    pub(super) fn streams(&mut self) {
        let Some(streams) = &self.report.streams else {
            return;
        };
        self.section(
            "streams",
            "What the GPUs did",
            "From kernel windows: for a few steps at a time, every kernel, copy and fill of a GPU. \
             Shares of the time that windows show.",
        );
        for line in crate::streams::lines(streams) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&line));
        }
        self.table_of("streams.ranks", "By rank", &[STREAMS], "");
        self.idle_causes();
        self.table_of(
            "streams.communication",
            "NCCL's kernels by function",
            &[NCCL_KERNELS],
            "",
        );
        self.table_of("streams.replays", "Replays of CUDA graphs", &[REPLAYS], "");
        self.table_of("streams.kernels", "Kernels", &[KERNELS], "");
        let by_rank = &[KERNELS_BY_RANK];
        self.table_of("streams.kernels_by_rank", "Kernels by rank", by_rank, "");
        self.end();
        self.bubbles();
    }

    pub(super) fn stream_waits(&mut self) {
        let Some(waits) = &self.report.stream_waits else {
            return;
        };
        self.section(
            "stream-waits",
            "Stream waits",
            "Exposed communication: from the moment at which a stream had nothing to do but to wait for a \
             call, to the call's end.",
        );
        for line in crate::stream_waits::lines(waits) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&line));
        }
        self.table_of("stream_waits.ranks", "By rank", &[RANK_WAITS], "");
        self.table_of(
            "stream_waits.operations",
            "By operation",
            &[OPERATION_WAITS],
            "",
        );
        self.end();
    }

    pub(super) fn driver_calls(&mut self) {
        let Some(calls) = &self.report.driver_calls else {
            return;
        };
        self.section(
            "driver-calls",
            "Calls of the CUDA driver",
            &format!(
                "What {} asked the driver for, NCCL and the rest of the program apart.",
                plural(calls.processes, "process", "processes")
            ),
        );
        self.table_of(
            "driver_calls.rows",
            "Calls of the CUDA driver",
            &[DRIVER_CALL],
            "",
        );
        if let Some(why) = crate::driver_calls::why_none_per_step(self.report) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(why));
        }
        self.end();
    }
}
