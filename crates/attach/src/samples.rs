//! What `--sched` and `--net` write beside the calls: a file of samples, as that of the node sampler of
//! `ncclscope run` (`crates/sampler/src/file.rs`). So `report` and `export` read it as any other.
//!
//! Rule: times of the session are CLOCK_MONOTONIC, and those of samples CLOCK_REALTIME. Both clocks are read
//! at each tick.

use crate::net::Connection;
use crate::sched::Span;
use crate::writer::{clock, now};
use crate::Options;
use capture::left::Here;
use sampler::file::SamplesFile;
use sampler::node::Node;
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// The file.
pub struct Samples {
    file: SamplesFile,
    node: Node,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC at the last tick, ns.
    ahead: u64,
    /// Names of threads, as `pid/tid/name`.
    names: HashMap<u32, String>,
}

impl Samples {
    /// Prepares it for the capture in `folder`.
    pub fn new(folder: &Path, options: &Options) -> io::Result<Samples> {
        let here = Here::ask();
        let mut facts = format!(
            "ncclscope={}\nhost={}\nboot_id={}\npid={}\npid_namespace={}\nperiod_ms=1000\n\
             nvml_missing=`ncclscope attach` asks no GPU\n",
            env!("CARGO_PKG_VERSION"),
            here.host,
            here.boot_id,
            std::process::id(),
            here.pid_namespace,
        );
        if let Ok(cpus) = std::thread::available_parallelism() {
            facts += &format!("cpus={cpus}\n");
        }
        if !options.sched {
            facts += "switches_missing=attach ran without --sched\n";
        }
        Ok(Samples {
            file: SamplesFile::new(folder, &here, &facts)?,
            node: Node::new(),
            ahead: 0,
            names: HashMap::new(),
        })
    }

    /// Begins a tick.
    pub fn tick(&mut self) {
        let real = clock(libc::CLOCK_REALTIME);
        self.ahead = real.wrapping_sub(now());
        self.file.tick(real);
    }

    /// When a thread of a process was off its CPU: `pid` as this tool numbers it, `own` as itself does.
    pub fn put_span(&mut self, pid: u32, own: u32, (thread, (from, to), mut off): Span) {
        let real = |time: u64| time.wrapping_add(self.ahead);
        for off in &mut off {
            (off.from, off.to) = (real(off.from), real(off.to));
        }
        let name = self.names.entry(thread).or_insert_with(|| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm"));
            format!("{own}/{thread}/{}", name.unwrap_or_default().trim())
        });
        self.file.put_span(name, (real(from), real(to)), &off);
    }

    /// What a connection has by now.
    pub fn put_connection(&mut self, own: u32, connection: &Connection) {
        let since = connection.since();
        if since.sent + since.received == 0 {
            return;
        }
        let of = format!("{own}/{}", connection.name());
        let last = &connection.last;
        let values = [
            ("tcp_sent_bytes", last.sent),
            ("tcp_received_bytes", last.received),
            ("tcp_retransmitted_bytes", last.retransmitted),
            ("tcp_rtt_us", last.rtt),
            ("tcp_send_queue_bytes", last.send_queue),
        ];
        for (name, value) in values {
            self.file.put(name, &of, value);
        }
    }

    /// What the node's interfaces and adapters have by now.
    pub fn put_devices(&mut self) {
        let file = &mut self.file;
        self.node
            .read_devices(&mut |name, of, value| file.put(name, of, value));
    }

    /// Writes it.
    pub fn flush(&mut self, is_end: bool) {
        self.file.flush(is_end);
    }
}
