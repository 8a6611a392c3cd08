//! What the node sampler of `ncclscope run` writes: figures of one node over time.
//!
//! A file of samples (`NAME.samples`) has the header and the blocks of a trace file, with two kinds of its
//! own. A Series block names series: what is sampled, and of which GPU, process or device. A Samples block
//! has the ticks of about a second, and the values that each series had at some of them.
//!
//! [`Samples`] gathers ticks and values and encodes them. [`read_series`] and [`read_samples`] read them.
//!
//! ```text
//! Series   until the payload ends: id, length and bytes of the name, length and bytes of what it is of
//! Samples  time of the first tick (CLOCK_REALTIME, ns); ticks n; n - 1 distances between ticks, ns
//!          until the payload ends: id; values k; if k < n, k numbers of ticks, each less the one before;
//!          k values, each less the one before, zigzag
//! ```
//!
//! Rule: a Samples block can be read without the one before it. A value that could not be had is left out,
//! and never 0.

use crate::varint::{put, unzigzag, zigzag, Reader};

/// What a series is named, its unit, and whether it counts up. What is counted is worth the difference of two
/// values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesKind {
    /// Its name in files and tables.
    pub name: &'static str,
    /// What it is of.
    pub of: SeriesOf,
    /// Whether it counts up.
    pub counts: bool,
    /// What it means.
    pub text: &'static str,
}

/// What a series is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesOf {
    /// A GPU, by its UUID.
    Gpu,
    /// An NVLink of a GPU, as `UUID/LINK`.
    Link,
    /// The node.
    Node,
    /// A disk, a network interface, or a port of an InfiniBand adapter.
    Device,
    /// A TCP connection of a process, as `pid/ADDRESS:PORT-ADDRESS:PORT`, own end first.
    Connection,
    /// A process, by pid.
    Process,
    /// A thread, as `pid/tid/name`.
    Thread,
    /// The sampler itself.
    Sampler,
}

const fn gauge(name: &'static str, of: SeriesOf, text: &'static str) -> SeriesKind {
    SeriesKind {
        name,
        of,
        counts: false,
        text,
    }
}

const fn counter(name: &'static str, of: SeriesOf, text: &'static str) -> SeriesKind {
    SeriesKind {
        name,
        of,
        counts: true,
        text,
    }
}

/// Power of a GPU.
pub const GPU_POWER: &str = "gpu_power_mw";
/// Energy that a GPU has used since its driver was loaded.
pub const GPU_ENERGY: &str = "gpu_energy_mj";
/// CPU time of a process.
pub const PROCESS_CPU: &str = "process_cpu_us";
/// CPU time of the node.
pub const NODE_CPU: &str = "node_cpu_us";
/// Time for which a thread ran.
pub const THREAD_RUNNING: &str = "thread_running_ns";
/// Time for which a thread was ready, and no CPU was free for it.
pub const THREAD_READY: &str = "thread_ready_ns";
/// Whether a thread waited for a disk.
pub const THREAD_IN_IO: &str = "thread_in_io";
/// CPU time that the sampler's thread took.
pub const SAMPLER_CPU: &str = "sampler_cpu_us";

/// All series that are written.
pub const KINDS: [SeriesKind; 41] = [
    gauge(
        GPU_POWER,
        SeriesOf::Gpu,
        "power, mW: the driver's mean over a second on most GPUs",
    ),
    counter(
        GPU_ENERGY,
        SeriesOf::Gpu,
        "energy since the driver was loaded, mJ",
    ),
    gauge("gpu_sm_mhz", SeriesOf::Gpu, "clock of the SMs, MHz"),
    gauge("gpu_memory_mhz", SeriesOf::Gpu, "clock of the memory, MHz"),
    gauge(
        "gpu_throttle",
        SeriesOf::Gpu,
        "why clocks are low: NVML's bits of clock event reasons",
    ),
    gauge(
        "gpu_temperature_c",
        SeriesOf::Gpu,
        "temperature, degrees Celsius",
    ),
    gauge("gpu_memory_bytes", SeriesOf::Gpu, "memory in use, bytes"),
    gauge(
        "gpu_busy_percent",
        SeriesOf::Gpu,
        "share of the last period in which a kernel ran, percent",
    ),
    gauge(
        "gpu_memory_busy_percent",
        SeriesOf::Gpu,
        "the same of reads and writes of memory, percent",
    ),
    counter(
        "gpu_nvlink_sent_bytes",
        SeriesOf::Gpu,
        "sent over all NVLinks, bytes",
    ),
    counter(
        "gpu_nvlink_received_bytes",
        SeriesOf::Gpu,
        "received over all NVLinks, bytes",
    ),
    counter(
        "gpu_nvlink_link_sent_bytes",
        SeriesOf::Link,
        "sent over one NVLink, bytes",
    ),
    counter(
        "gpu_nvlink_link_received_bytes",
        SeriesOf::Link,
        "received over one NVLink, bytes",
    ),
    counter(
        "gpu_pcie_sent_bytes",
        SeriesOf::Gpu,
        "sent over PCIe, bytes",
    ),
    counter(
        "gpu_pcie_received_bytes",
        SeriesOf::Gpu,
        "received over PCIe, bytes",
    ),
    counter(
        NODE_CPU,
        SeriesOf::Node,
        "CPU time of all programs and of the kernel, microseconds",
    ),
    counter(
        "node_waiting_for_disk_us",
        SeriesOf::Node,
        "idle while a program waited for a disk, microseconds",
    ),
    gauge(
        "node_memory_bytes",
        SeriesOf::Node,
        "memory that is not available to programs, bytes",
    ),
    counter(
        "disk_read_bytes",
        SeriesOf::Device,
        "read from a disk, bytes",
    ),
    counter(
        "disk_written_bytes",
        SeriesOf::Device,
        "written to a disk, bytes",
    ),
    counter(
        "net_received_bytes",
        SeriesOf::Device,
        "received by a network interface, bytes",
    ),
    counter(
        "net_sent_bytes",
        SeriesOf::Device,
        "sent by a network interface, bytes",
    ),
    counter(
        "ib_received_bytes",
        SeriesOf::Device,
        "received by an InfiniBand port, bytes",
    ),
    counter(
        "ib_sent_bytes",
        SeriesOf::Device,
        "sent by an InfiniBand port, bytes",
    ),
    counter(
        "ib_wait_ticks",
        SeriesOf::Device,
        "ticks in which a port had data and could not send",
    ),
    counter(
        "tcp_sent_bytes",
        SeriesOf::Connection,
        "sent over a TCP connection, without what was sent again, bytes",
    ),
    counter(
        "tcp_received_bytes",
        SeriesOf::Connection,
        "received over a TCP connection, bytes",
    ),
    counter(
        "tcp_retransmitted_bytes",
        SeriesOf::Connection,
        "sent again over a TCP connection, bytes",
    ),
    gauge(
        "tcp_rtt_us",
        SeriesOf::Connection,
        "smoothed round trip of a TCP connection, microseconds",
    ),
    gauge(
        "tcp_send_queue_bytes",
        SeriesOf::Connection,
        "given to a TCP connection and not acknowledged, bytes",
    ),
    counter(
        PROCESS_CPU,
        SeriesOf::Process,
        "CPU time of a process, microseconds",
    ),
    counter(
        "process_system_us",
        SeriesOf::Process,
        "of that in the kernel, microseconds",
    ),
    gauge(
        "process_memory_bytes",
        SeriesOf::Process,
        "memory of a process, bytes",
    ),
    gauge("process_threads", SeriesOf::Process, "its threads"),
    counter(
        "process_ready_ns",
        SeriesOf::Process,
        "its threads were ready and no CPU was free, ns, summed",
    ),
    counter(THREAD_RUNNING, SeriesOf::Thread, "a thread ran, ns"),
    counter(
        THREAD_READY,
        SeriesOf::Thread,
        "a thread was ready and no CPU was free for it, ns",
    ),
    gauge(
        THREAD_IN_IO,
        SeriesOf::Thread,
        "1 if the thread waited for a disk at that moment, else 0",
    ),
    counter(
        SAMPLER_CPU,
        SeriesOf::Sampler,
        "CPU time of the sampler, microseconds",
    ),
    counter(
        "sampler_late_ticks",
        SeriesOf::Sampler,
        "ticks that were left out because the one before took too long",
    ),
    counter(
        "sampler_gpu_us",
        SeriesOf::Sampler,
        "time that the sampler spent in NVML, microseconds",
    ),
];

/// The kind with this name, if this format has it.
pub fn kind(name: &str) -> Option<&'static SeriesKind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Values of one series since the last block.
#[derive(Default)]
struct Pending {
    /// Number of the tick, and the value.
    values: Vec<(u32, u64)>,
}

/// Gathers what is sampled until it is encoded.
#[derive(Default)]
pub struct Samples {
    ticks: Vec<u64>,
    series: Vec<Pending>,
}

impl Samples {
    /// Begins a tick, at `now` ns since 1970. Times don't run back: a clock that was set is held until it has
    /// caught up.
    pub fn tick(&mut self, now: u64) {
        let now = self.ticks.last().map_or(now, |last| now.max(*last));
        self.ticks.push(now);
    }

    /// The value of a series at the newest tick; the last one if there are several.
    pub fn put(&mut self, series: usize, value: u64) {
        let Some(tick) = self.ticks.len().checked_sub(1) else {
            return;
        };
        if self.series.len() <= series {
            self.series.resize_with(series + 1, Pending::default);
        }
        let values = &mut self.series[series].values;
        match values.last_mut() {
            Some(last) if last.0 == tick as u32 => last.1 = value,
            _ => values.push((tick as u32, value)),
        }
    }

    /// Ticks that are not encoded yet.
    pub fn ticks(&self) -> usize {
        self.ticks.len()
    }

    /// Appends the payload of a Samples block, and begins anew. Nothing without a tick.
    pub fn encode(&mut self, out: &mut Vec<u8>) {
        let Some(first) = self.ticks.first() else {
            return;
        };
        put(out, *first);
        put(out, self.ticks.len() as u64);
        for pair in self.ticks.windows(2) {
            put(out, pair[1] - pair[0]);
        }
        for (id, series) in self.series.iter_mut().enumerate() {
            if series.values.is_empty() {
                continue;
            }
            put(out, id as u64);
            put(out, series.values.len() as u64);
            if series.values.len() < self.ticks.len() {
                let mut before = 0;
                for (tick, _) in &series.values {
                    put(out, u64::from(*tick - before));
                    before = *tick;
                }
            }
            let mut before = 0u64;
            for (_, value) in &series.values {
                put(out, zigzag(value.wrapping_sub(before) as i64));
                before = *value;
            }
            series.values.clear();
        }
        self.ticks.clear();
    }
}

/// Appends a series to the payload of a Series block.
pub fn put_series(out: &mut Vec<u8>, id: usize, name: &str, of: &str) {
    put(out, id as u64);
    for text in [name, of] {
        put(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Hands every series of a Series block to `each`: id, name, and what it is of. `None` if the payload is not
/// well formed.
pub fn read_series(payload: &[u8], mut each: impl FnMut(u64, &str, &str)) -> Option<()> {
    let mut reader = Reader::new(payload);
    while reader.remaining() > 0 {
        let id = reader.get()?;
        let mut text = || {
            let length = usize::try_from(reader.get()?).ok()?;
            std::str::from_utf8(reader.take(length)?).ok()
        };
        let (name, of) = (text()?, text()?);
        each(id, name, of);
    }
    Some(())
}

/// Hands every value of a Samples block to `each`: id of the series, time in ns since 1970, and the value.
/// `None` if the payload is not well formed.
pub fn read_samples(payload: &[u8], mut each: impl FnMut(u64, u64, u64)) -> Option<()> {
    let mut reader = Reader::new(payload);
    let mut time = reader.get()?;
    let n = usize::try_from(reader.get()?).ok()?;
    // A tick takes a byte at least, so a damaged `n` fills no more memory than there are bytes.
    if n == 0 || n > payload.len() {
        return None;
    }
    let mut ticks = vec![time];
    for _ in 1..n {
        time = time.checked_add(reader.get()?)?;
        ticks.push(time);
    }
    let mut at = Vec::new();
    while reader.remaining() > 0 {
        let id = reader.get()?;
        let k = usize::try_from(reader.get()?).ok()?;
        if k > n {
            return None;
        }
        at.clear();
        if k < n {
            let mut tick = 0usize;
            for _ in 0..k {
                tick = tick.checked_add(usize::try_from(reader.get()?).ok()?)?;
                at.push(*ticks.get(tick)?);
            }
        } else {
            at.extend_from_slice(&ticks);
        }
        let mut value = 0u64;
        for time in &at {
            value = value.wrapping_add(unzigzag(reader.get()?) as u64);
            each(id, *time, value);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(payload: &[u8]) -> Option<Vec<(u64, u64, u64)>> {
        let mut found = Vec::new();
        read_samples(payload, |id, at, value| found.push((id, at, value)))?;
        Some(found)
    }

    #[test]
    fn what_is_left_out_at_a_tick_stays_left_out() {
        let mut samples = Samples::default();
        let mut payload = Vec::new();
        samples.tick(1_000);
        samples.put(0, 700_000);
        samples.put(2, 5);
        samples.tick(1_100);
        samples.put(0, 650_000);
        // The clock was set back.
        samples.tick(900);
        samples.put(2, u64::MAX);
        samples.encode(&mut payload);
        let expected = [
            (0, 1_000, 700_000),
            (0, 1_100, 650_000),
            (2, 1_000, 5),
            (2, 1_100, u64::MAX),
        ];
        assert_eq!(values(&payload), Some(expected.to_vec()));
        // The next block begins anew.
        samples.tick(2_000);
        samples.put(2, 6);
        payload.clear();
        samples.encode(&mut payload);
        assert_eq!(values(&payload), Some(vec![(2, 2_000, 6)]));
    }

    #[test]
    fn names_are_unique_and_say_their_unit() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..index].iter().all(|other| other.name != kind.name));
            let units = [
                "_mw", "_mj", "_mhz", "_c", "_bytes", "_percent", "_us", "_ns", "_ticks",
            ];
            let plain = ["gpu_throttle", "process_threads", THREAD_IN_IO];
            assert!(
                units.iter().any(|unit| kind.name.ends_with(unit)) || plain.contains(&kind.name)
            );
        }
    }

    #[test]
    fn series_read_back() {
        let mut payload = Vec::new();
        put_series(&mut payload, 0, GPU_POWER, "GPU-1");
        put_series(&mut payload, 300, NODE_CPU, "");
        let mut found = Vec::new();
        read_series(&payload, |id, name, of| {
            found.push((id, name.to_owned(), of.to_owned()))
        })
        .expect("well formed");
        assert_eq!(found[0], (0, GPU_POWER.to_owned(), "GPU-1".to_owned()));
        assert_eq!(found[1], (300, NODE_CPU.to_owned(), String::new()));
        assert!(read_series(&payload[..payload.len() - 3], |_, _, _| {}).is_none());
    }

    proptest! {
        #[test]
        fn any_values_read_back(
            ticks in proptest::collection::vec(
                proptest::collection::btree_map(0usize..6, any::<u64>(), 0..6), 1..20),
        ) {
            let (mut samples, mut expected) = (Samples::default(), Vec::new());
            for (tick, of) in ticks.iter().enumerate() {
                let at = 10 + tick as u64 * 7;
                samples.tick(at);
                for (series, value) in of {
                    samples.put(*series, *value);
                    expected.push((*series as u64, at, *value));
                }
            }
            let mut payload = Vec::new();
            samples.encode(&mut payload);
            expected.sort_by_key(|(series, at, _)| (*series, *at));
            prop_assert_eq!(values(&payload), Some(expected));
        }

        #[test]
        fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = values(&bytes);
            let _ = read_series(&bytes, |_, _, _| {});
        }
    }
}
