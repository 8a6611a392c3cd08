//! One event of a trace, with what is wanted of it.

use crate::json::{Fault, Json, Kind};
use capture::windows::DriverCallKind;
use std::io::Read;

/// What stands in an event's `args`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Args {
    pub correlation: Option<u64>,
    pub external: Option<u64>,
    pub device: Option<u64>,
    pub stream: Option<u64>,
    /// Blocks of a kernel's grid.
    pub blocks: Option<u64>,
    pub bytes: Option<u64>,
    pub graph: Option<u64>,
    pub node: Option<u64>,
    /// The correlation of the record of the event that a stream waits for, and its stream.
    pub waits_for_record: Option<u64>,
    pub waits_for_stream: Option<u64>,
    pub collective: String,
    pub given: Option<u64>,
    pub got: Option<u64>,
    pub size: Option<u64>,
    pub datatype: String,
    pub group: String,
    pub description: String,
    pub ranks: String,
    pub first_rank: Option<u64>,
    pub stride: Option<u64>,
    pub seq: Option<u64>,
    pub source: Option<u64>,
    pub destination: Option<u64>,
    /// The root of a collective that has one, and the peer of a send: as PyTorch gives it, a place in the
    /// group.
    pub rank: Option<u64>,
}

/// An event with a beginning and a length.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Event {
    /// In lower case.
    pub category: String,
    pub name: String,
    pub pid: Option<u64>,
    pub thread: u32,
    /// ns since the trace's base.
    pub start: u64,
    pub ns: u64,
    pub args: Args,
    /// It has a beginning and a length.
    pub is_complete: bool,
    key: String,
    value: String,
}

/// Categories of which nothing is wanted.
fn is_wanted(category: &str) -> bool {
    matches!(
        category,
        "" | "kernel"
            | "gpu_memcpy"
            | "memcpy"
            | "gpu_memset"
            | "memset"
            | "cuda_runtime"
            | "cuda_driver"
            | "runtime"
            | "cuda_sync"
            | "cpu_op"
            | "operator"
    )
}

impl Event {
    /// An event of a category, for who fills in the rest.
    pub fn of(category: &str) -> Event {
        Event {
            category: category.to_owned(),
            is_complete: true,
            ..Event::default()
        }
    }

    /// Reads the next event in place of this one.
    ///
    /// # Errors
    /// If the file can't be read there.
    pub fn read<R: Read>(&mut self, json: &mut Json<R>) -> Result<(), Fault> {
        let (mut is_slice, mut has_start, mut first) = (false, false, true);
        self.category.clear();
        self.name.clear();
        (self.pid, self.thread, self.start, self.ns) = (None, 0, 0, 0);
        self.args = Args::default();
        let (mut key, mut value) = (
            std::mem::take(&mut self.key),
            std::mem::take(&mut self.value),
        );
        json.enter()?;
        while json.key(&mut first, &mut key)? {
            if key == "args" {
                // Operators are many, and one name is wanted of them.
                let is_other = matches!(self.category.as_str(), "cpu_op" | "operator")
                    && !self.name.is_empty()
                    && self.name != "record_param_comms";
                match json.kind()? {
                    Kind::Object if is_wanted(&self.category) && !is_other => {
                        self.args.read(json, &mut key, &mut value)?;
                    }
                    _ => json.skip()?,
                }
                continue;
            }
            if !json.scalar_or_skip(&mut value)? {
                continue;
            }
            match key.as_str() {
                "ph" => is_slice = value == "X",
                "cat" => {
                    value.make_ascii_lowercase();
                    std::mem::swap(&mut self.category, &mut value);
                }
                "name" => std::mem::swap(&mut self.name, &mut value),
                "pid" => self.pid = value.parse().ok(),
                "tid" => self.thread = value.parse().unwrap_or(0),
                "ts" => match nanos(&value) {
                    Some(start) => (self.start, has_start) = (start, true),
                    None => has_start = false,
                },
                "dur" => self.ns = nanos(&value).unwrap_or(0),
                _ => {}
            }
        }
        (self.key, self.value) = (key, value);
        self.is_complete = is_slice && has_start;
        Ok(())
    }
}

impl Args {
    fn read<R: Read>(
        &mut self,
        json: &mut Json<R>,
        key: &mut String,
        value: &mut String,
    ) -> Result<(), Fault> {
        let mut first = true;
        json.enter()?;
        while json.key(&mut first, key)? {
            if key == "grid" && json.kind()? == Kind::Array {
                let (mut first, mut blocks) = (true, 1u64);
                json.enter()?;
                while json.element(&mut first)? {
                    if json.scalar_or_skip(value)? {
                        blocks = blocks.saturating_mul(value.parse().unwrap_or(1));
                    }
                }
                self.blocks = Some(blocks);
                continue;
            }
            if !json.scalar_or_skip(value)? {
                continue;
            }
            let number = || value.parse::<u64>().ok();
            match key.as_str() {
                "correlation" => self.correlation = number(),
                "External id" | "external id" => self.external = number(),
                "device" => self.device = number(),
                "stream" => self.stream = number(),
                "bytes" => self.bytes = number(),
                "graph id" => self.graph = number(),
                "graph node id" => self.node = number(),
                "wait_on_cuda_event_record_corr_id" => self.waits_for_record = number(),
                "wait_on_stream" => self.waits_for_stream = number(),
                "Collective name" => self.collective.clone_from(value),
                "In msg nelems" => self.given = number(),
                "Out msg nelems" => self.got = number(),
                "Group size" => self.size = number(),
                "dtype" => self.datatype.clone_from(value),
                "Process Group Name" | "Process Group ID" => self.group.clone_from(value),
                "Process Group Description" => self.description.clone_from(value),
                "Process Group Ranks" => self.ranks.clone_from(value),
                "Global rank start" => self.first_rank = number(),
                "Global rank stride" => self.stride = number(),
                "Seq" => self.seq = number(),
                "Src Rank" => self.source = number(),
                "Dst Rank" => self.destination = number(),
                "Rank" => self.rank = number(),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Microseconds as the file has them, in ns. Digit by digit: a float has too few for the time since 1970.
pub fn nanos(us: &str) -> Option<u64> {
    let (whole, part) = us.split_once('.').unwrap_or((us, ""));
    let is_plain = !whole.is_empty()
        && whole
            .bytes()
            .chain(part.bytes())
            .all(|b| b.is_ascii_digit());
    if !is_plain {
        // An exponent; negative times are none.
        let us: f64 = us.parse().ok()?;
        return (0.0..1e15).contains(&us).then_some((us * 1e3) as u64);
    }
    let mut ns = whole.parse::<u64>().ok()?.checked_mul(1000)?;
    for (digit, worth) in part.bytes().zip([100, 10, 1]) {
        ns = ns.checked_add(u64::from(digit - b'0') * worth)?;
    }
    Some(ns)
}

/// What a call of CUDA asked for; `None` of others.
pub fn driver_call(name: &str) -> Option<DriverCallKind> {
    // AMD's have the same names, and `hipExtLaunchKernel`, `hipExtModuleLaunchKernel`.
    let of_hip = || name.strip_prefix("hipExt").or(name.strip_prefix("hip"));
    let of_cuda = name.strip_prefix("cuda").or(name.strip_prefix("cu"));
    let name = of_cuda.or_else(of_hip)?;
    let name = name.strip_prefix("Module").unwrap_or(name);
    Some(match name {
        _ if name.starts_with("GraphLaunch") => DriverCallKind::LaunchGraph,
        _ if name.starts_with("Launch") => DriverCallKind::Launch,
        _ if name.starts_with("Memcpy") || name.starts_with("Memset") => DriverCallKind::Copy,
        _ if name.starts_with("EventRecord") => DriverCallKind::Record,
        _ if name.starts_with("StreamWaitEvent") => DriverCallKind::Wait,
        _ if name.contains("Synchronize") => DriverCallKind::Synchronise,
        _ => return None,
    })
}

/// A kernel's name without its parameters and return type.
pub fn without_parameters(name: &str) -> &str {
    let name = name.strip_prefix("void ").unwrap_or(name);
    if !name.ends_with(')') {
        return name;
    }
    let mut depth = 0;
    for (at, byte) in name.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { name } else { &name[..at] };
        }
    }
    name
}

/// The function that one of NCCL's kernels carries out, by its name; empty if that does not say it.
pub fn function(name: &str) -> &'static str {
    const FUNCTIONS: [&str; 9] = [
        "AllReduce",
        "AllGather",
        "ReduceScatter",
        "Broadcast",
        "Reduce",
        "SendRecv",
        "AlltoAll",
        "Gather",
        "Scatter",
    ];
    let word = without_parameters(name).split('_').nth(1).unwrap_or("");
    FUNCTIONS
        .into_iter()
        .find(|function| *function == word)
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_all_digits() {
        for (us, ns) in [
            ("1712195495520871.123", 1_712_195_495_520_871_123),
            ("5.5", 5_500),
            ("12", 12_000),
            ("0.0004", 0),
            ("1.5e3", 1_500_000),
        ] {
            assert_eq!(nanos(us), Some(ns), "{us}");
        }
        for us in ["-1.5", "", ".", "NaN", "x", "99999999999999999999"] {
            assert_eq!(nanos(us).unwrap_or(0), 0, "{us}");
        }
    }

    #[test]
    fn calls_of_the_driver_are_known_by_both_makers_names() {
        use DriverCallKind::{Copy, Launch, LaunchGraph, Synchronise, Wait};
        for (name, kind) in [
            ("cudaLaunchKernelExC", Some(Launch)),
            ("cuLaunchKernel", Some(Launch)),
            ("hipLaunchKernel", Some(Launch)),
            ("hipExtLaunchKernel", Some(Launch)),
            ("hipExtModuleLaunchKernel", Some(Launch)),
            ("hipModuleLaunchKernel", Some(Launch)),
            ("hipGraphLaunch", Some(LaunchGraph)),
            ("hipMemcpyAsync", Some(Copy)),
            ("hipStreamWaitEvent", Some(Wait)),
            ("hipDeviceSynchronize", Some(Synchronise)),
            ("hipGetDevicePropertiesR0600", None),
            ("cudaStreamIsCapturing", None),
        ] {
            assert_eq!(driver_call(name), kind, "{name}");
        }
    }

    #[test]
    fn kernels_names_are_short() {
        for (name, short, of) in [
            (
                "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
                "ncclDevKernel_SendRecv",
                "SendRecv",
            ),
            (
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
                "ncclKernel_AllReduce_RING_LL_Sum_float",
                "AllReduce",
            ),
            (
                "void (anonymous namespace)::f<int>(int (*)(int))",
                "(anonymous namespace)::f<int>",
                "",
            ),
            ("nvjet_tst_64x8", "nvjet_tst_64x8", ""),
            (")", ")", ""),
            ("(x)", "(x)", ""),
        ] {
            assert_eq!((without_parameters(name), function(name)), (short, of));
        }
    }
}
