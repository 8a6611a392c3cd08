//! NCCL's debug output about inits and the plugin, in NCCL's format: what a job with `NCCL_DEBUG=INFO`
//! writes.
//!
//! Only a file is written to (`NCCL_DEBUG_FILE`), because standard output belongs to who plays the job. A
//! rank that loads kernels for longer (`load_kernels`) is waited for in bootstrap by the others, as in NCCL.
//!
//! Rule: the file is opened before the plugin is loaded, and stays open, as in NCCL.

use crate::plugin::Identity;
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

/// The file of this process, if there is to be one.
fn file() -> Option<&'static File> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    FILE.get_or_init(|| {
        let level = std::env::var("NCCL_DEBUG").ok()?;
        let pattern = std::env::var("NCCL_DEBUG_FILE").ok()?;
        let pid = std::process::id().to_string();
        let path = pattern.replace("%h", &host()).replace("%p", &pid);
        matches!(level.as_str(), "INFO" | "TRACE").then(|| File::create(path).ok())?
    })
    .as_ref()
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().split('.').next().unwrap_or("host").to_owned()
}

fn write(device: usize, text: &str) {
    let Some(mut file) = file() else { return };
    // SAFETY: a plain system call, for which glibc has had a function since 2.30 only.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    let stamp = std::env::var("NCCL_DEBUG_TIMESTAMP_LEVELS").is_ok_and(|levels| levels == "INFO");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let stamp = match (stamp, now) {
        (true, Ok(now)) => format!("[{:.6}] ", now.as_secs_f64()),
        _ => String::new(),
    };
    let (host, pid) = (host(), std::process::id());
    let line = format!("{stamp}{host}:{pid}:{tid} [{device}] NCCL INFO {text}\n");
    // In one piece, because ranks of a process are threads.
    let _ = file.write_all(line.as_bytes());
}

/// What became of the plugin.
pub fn plugin(text: &str) {
    write(0, text);
}

/// An init of a communicator.
pub struct Init<'a> {
    /// Who inits.
    pub identity: &'a Identity,
    /// The rank in the job, which is the GPU too.
    pub device: usize,
    /// Its number among the communicators of the job.
    pub comm: usize,
    /// How long each member loads kernels, ns.
    pub kernels_ns: Vec<u64>,
}

impl Init<'_> {
    fn state(&self, before: &str, what: &str) {
        let Identity {
            rank, ranks, hash, ..
        } = self.identity;
        let (device, comm) = (
            self.device,
            0x5500_0000_0000_u64 + 0x1000 * self.comm as u64,
        );
        let bus = 0x1000 * (device + 1);
        write(
            device,
            &format!(
                "{before}ncclCommInitRank comm {comm:#x} rank {rank} nranks {ranks} cudaDev {device} \
                 nvmlDev {device} busId {bus:x} commId {hash:#x} - Init {what}"
            ),
        );
    }

    /// NCCL begins to connect the ranks.
    pub fn start(&self) {
        self.state(&format!("[Rank {}] ", self.identity.rank), "START");
    }

    /// What a communicator with two channels takes on the GPU in its init: 2 MiB for each of these.
    fn allocate(&self) {
        let subsystems = std::env::var("NCCL_DEBUG_SUBSYS").unwrap_or_default();
        if !subsystems.split(',').any(|name| name == "ALLOC") {
            return;
        }
        for (number, place) in ["channel.cc:42", "channel.cc:45", "channel.cc:56"]
            .iter()
            .cycle()
            .take(6)
            .enumerate()
        {
            let number = 6 * (64 * self.comm + self.device) + number;
            let pointer = 0x7f00_0000_0000_u64 + 0x20_0000 * number as u64;
            write(
                self.device,
                &format!("{place} Cuda Alloc Size 1216 pointer {pointer:#x}"),
            );
        }
    }

    /// NCCL is done. The driver took so long to load kernels, and to make the channels.
    pub fn complete(&self, loading: Duration, channels: Duration) {
        self.allocate();
        self.state("", "COMPLETE");
        let Identity { rank, ranks, .. } = self.identity;
        let own = self.kernels_ns.get(*rank as usize).copied().unwrap_or(0);
        let longest = self.kernels_ns.iter().copied().max().unwrap_or(0);
        let s = |ns: u64| ns as f64 / 1e9;
        write(
            self.device,
            &format!(
                "Init timings - ncclCommInitRank: rank {rank} nranks {ranks} total {:.2} (kernels {:.2}, \
                 alloc 0.00, bootstrap {:.2}, allgathers 0.00, topo 0.00, graphs 0.00, \
                 connections {:.2}, rest 0.00)",
                s(longest) + (loading + channels).as_secs_f64(),
                s(own) + loading.as_secs_f64(),
                s(longest - own),
                channels.as_secs_f64(),
            ),
        );
    }
}
