//! Around the calls, in the page: power and energy, what hosts and their threads did, and time in MPI.

use super::columns::{
    ENERGY_PHASE, HOST, IDLE_CAUSES, LONG_CALLS, MPI_FUNCTION, MPI_RANK, POWER, THREAD,
};
use super::{escaped, Page};
use std::fmt::Write as _;

impl Page<'_> {
    /// Whether there is anything to show of hosts.
    pub(super) fn has_hosts(&self) -> bool {
        self.report.nodes.why_none.is_none()
    }

    pub(super) fn hosts(&mut self) {
        if !self.has_hosts() {
            return;
        }
        let nodes = &self.report.nodes;
        self.section(
            "hosts",
            "Power and hosts",
            "From the node sampler of `ncclscope run`. Energy is what the GPUs' own counters say; their \
             power, integrated over time, is the check.",
        );
        let mut lines: Vec<String> = Vec::new();
        lines.extend(nodes.energy.as_ref().map(|energy| {
            let text = crate::nodes::energy(energy);
            format!("Energy: {text}.")
        }));
        lines.extend(nodes.energy.as_ref().and_then(crate::nodes::energy_check));
        lines.extend(crate::nodes::lost(nodes));
        lines.extend(crate::nodes::kept_waiting(nodes));
        lines.extend(crate::nodes::jitter(nodes));
        for line in lines {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&line));
        }
        self.titled("nodes.energy.phases", "Energy by phase", ENERGY_PHASE);
        self.titled("nodes.gpus", "Power of GPUs", POWER);
        self.titled("nodes.rows", "Hosts", HOST);
        self.titled("nodes.threads", "Threads of the job", THREAD);
        self.titled(
            "nodes.jitter",
            "Calls that took the host longer than 50 µs",
            LONG_CALLS,
        );
        self.end();
    }

    pub(super) fn mpi(&mut self) {
        if self.report.mpi.is_none() {
            return;
        }
        self.section(
            "mpi",
            "MPI",
            "How long threads of each rank were inside of MPI, from its first communicator on.",
        );
        for line in crate::mpi::lines(self.report) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&line));
        }
        self.titled("mpi.rows", "Time in MPI by rank", MPI_RANK);
        self.titled("mpi.functions", "Functions of MPI", MPI_FUNCTION);
        self.end();
    }

    /// What hosts did while their GPUs were idle: a part of what the GPUs did.
    pub(super) fn idle_causes(&mut self) {
        let streams = self.report.streams.iter();
        let mut ranks = streams.flat_map(|streams| &streams.ranks);
        if !ranks.any(|rank| rank.idle_causes.is_some()) {
            return;
        }
        if let Some(line) = self.report.streams.as_ref().and_then(crate::idle::line) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&line));
        }
        self.titled("streams.ranks", "Idle time by cause", IDLE_CAUSES);
    }

    /// A table with its title above; nothing without rows.
    fn titled(&mut self, path: &str, title: &str, columns: &'static [super::columns::Column]) {
        if self.elements(path).is_empty() {
            return;
        }
        let _ = writeln!(self.html, "<h3>{title}</h3>");
        self.table_of(path, title, &[columns], "");
    }
}
