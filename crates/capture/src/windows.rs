//! Kernel windows: for a few steps at a time, everything that ran on a GPU and everything that the host asked
//! it for.
//!
//! While a window is open, CUPTI hands out a record of each kernel, copy and fill ([`GpuActivity`]). The
//! recorder notes the host's calls of the driver that launch, order or wait for such work ([`DriverCall`]).
//! [`Window`] says from when to when, and how the window ended. Names of kernels are numbered through all
//! windows of a process.
//!
//! ```text
//! Windows:        n times: number │ planned │ opening │ open │ closing │ closed │ activities │
//!                 driver calls │ dropped │ error │ end │ code
//! Names:          n times: id │ length │ bytes
//! GpuActivities:  window │ device │ n │ first start │ 9 columns of n:
//!                 zigzag(start - the last one's) │ ns │ name │ stream │
//!                 zigzag(correlation - the last one's) │ graph │ zigzag(node - the last one's) │ kind │
//!                 size
//! DriverCalls:    window │ threads t │ t ids │ n │ first at │ 6 columns of n:
//!                 zigzag(at - the last one's) │ took │ kind │ thread │ stream │ object
//! ```
//!
//! All integers are base-128, times are ticks unless `ns` says otherwise. For example, a name `k` with id 3
//! is `03 01 6b`.
//!
//! A quiet spell has the form of a window in which nothing was recorded.
//!
//! Rule: a launch that was called between `open` and `closing` is in the window with all that it executed,
//! however late that ran. What was launched before may run in the window and is not in it.

use crate::rows::Ticks;
use crate::varint::{put, put_column, unzigzag, zigzag, Reader};

/// A window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Unique in the process, from 1.
    pub number: u32,
    /// The call that it was planned for: a number of calls on the communicator with the most ranks and of
    /// launches of graphs. The same on all ranks.
    pub planned: u64,
    /// CUPTI was being switched on, ticks.
    pub opening: Ticks,
    /// CUPTI was on, ticks.
    pub open: Ticks,
    /// CUPTI was being switched off, ticks.
    pub closing: Ticks,
    /// CUPTI was off, ticks.
    pub closed: Ticks,
    /// Kernels, copies and fills in it.
    pub ran: u32,
    /// Calls of the driver in it.
    pub asked: u32,
    /// Records that CUPTI dropped.
    pub dropped: u32,
    /// Largest error of the GPU's times on the host's clock that was seen, ns.
    pub error: u32,
    /// Why it ended.
    pub end: End,
    /// CUPTI's error, if it ended with one.
    pub code: u32,
}

/// Why a window ended, or was not opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum End {
    /// As planned.
    #[default]
    Planned = 0,
    /// The recorder's memory for it was full.
    Full = 1,
    /// Another profiler began to use CUPTI.
    Yielded = 2,
    /// CUPTI returned an error.
    Failed = 3,
    /// The process ended.
    Exit = 4,
    /// CUPTI's clock was set or changed while it was open: what ran is left out.
    ClockSet = 5,
    /// Some of its records never came.
    Late = 6,
    /// It was no window: CUDA events were not recorded from `open` to `closing`, to see what they cost.
    Quiet = 7,
}

impl End {
    /// The end with this number.
    pub fn from_u8(end: u8) -> Option<End> {
        use End::*;
        [Planned, Full, Yielded, Failed, Exit, ClockSet, Late, Quiet]
            .into_iter()
            .find(|e| *e as u8 == end)
    }
}

/// What ran on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuActivity<Time = Ticks> {
    /// When it began.
    pub start: Time,
    /// For how long, ns.
    pub ns: u64,
    /// Id of its name; 0 for copies and fills.
    pub name: u32,
    /// CUDA's id of the stream.
    pub stream: u32,
    /// Numbers in the order of the host's launches; all that one launch of a graph executes has the same.
    pub correlation: u32,
    /// CUDA's id of the executable graph it ran in; 0 none.
    pub graph: u32,
    /// CUDA's id of its node in that graph.
    pub node: u64,
    /// What it was.
    pub kind: ActivityKind,
    /// Bytes of a copy or fill; blocks of a kernel's grid.
    pub size: u64,
}

impl<Time> GpuActivity<Time> {
    /// The same on another clock: when it began there, and for how long, ns.
    pub fn on_clock<Other>(&self, start: Other, ns: u64) -> GpuActivity<Other> {
        GpuActivity {
            start,
            ns,
            name: self.name,
            stream: self.stream,
            correlation: self.correlation,
            graph: self.graph,
            node: self.node,
            kind: self.kind,
            size: self.size,
        }
    }
}

/// What can run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum ActivityKind {
    #[default]
    Kernel = 0,
    Copy = 1,
    Fill = 2,
}

/// A call of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCall {
    /// When it was called, ticks.
    pub at: Ticks,
    /// How long it took, ticks.
    pub took: u64,
    /// What was asked.
    pub kind: DriverCallKind,
    /// The calling thread, as the system numbers it.
    pub thread: u32,
    /// CUDA's id of the stream; 0 none.
    pub stream: u32,
    /// The event of a record or a wait, the executable graph of a launch: a handle as a number.
    pub object: u64,
}

/// What a launch takes if there is room in the queue of its stream, ns.
pub const LAUNCH_NS: u64 = 4_000;

/// A call of the driver that takes longer waited: for its GPU, for room, or for a lock, ns. On H200, 1 % of
/// the launches with room take 8 to 13 us. One without room takes as long as a kernel of that stream runs
/// (bench/README.md, "Launches that find no room").
pub const WAITED_NS: u64 = 16_000;

/// For how long a call of the driver waited that took so long; `None` if it did not wait. `least` is
/// [`WAITED_NS`] and `launch` [`LAUNCH_NS`], all in one unit.
#[inline(always)]
pub fn waited(took: u64, least: u64, launch: u64) -> Option<u64> {
    (took > least).then(|| took.saturating_sub(launch))
}

/// What the driver can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DriverCallKind {
    /// Run a kernel.
    #[default]
    Launch = 0,
    /// Run a graph.
    LaunchGraph = 1,
    /// Copy or fill on a stream.
    Copy = 2,
    /// Record an event on a stream.
    Record = 3,
    /// Let a stream wait for an event.
    Wait = 4,
    /// Wait on the host for a stream, an event or the whole context.
    Synchronise = 5,
}

impl DriverCallKind {
    fn from_u64(kind: u64) -> Option<DriverCallKind> {
        use DriverCallKind::*;
        [Launch, LaunchGraph, Copy, Record, Wait, Synchronise]
            .into_iter()
            .find(|k| *k as u64 == kind)
    }
}

/// Appends a window to a block of windows.
pub fn put_window(out: &mut Vec<u8>, w: &Window) {
    put(out, w.number.into());
    put(out, w.planned);
    for time in [w.opening, w.open, w.closing, w.closed] {
        put(out, time.0);
    }
    for count in [w.ran, w.asked, w.dropped, w.error] {
        put(out, count.into());
    }
    put(out, w.end as u64);
    put(out, w.code.into());
}

/// The windows of a block; `None` if it is not well formed.
pub fn windows(payload: &[u8]) -> Option<Vec<Window>> {
    let mut reader = Reader::new(payload);
    let mut windows = Vec::new();
    while reader.remaining() != 0 {
        let reader = &mut reader;
        windows.push(Window {
            number: small(reader)?,
            planned: reader.get()?,
            opening: Ticks(reader.get()?),
            open: Ticks(reader.get()?),
            closing: Ticks(reader.get()?),
            closed: Ticks(reader.get()?),
            ran: small(reader)?,
            asked: small(reader)?,
            dropped: small(reader)?,
            error: small(reader)?,
            end: End::from_u8(u8::try_from(reader.get()?).ok()?)?,
            code: small(reader)?,
        });
    }
    Some(windows)
}

/// Appends a name to a block of names.
pub fn put_name(out: &mut Vec<u8>, id: u32, name: &[u8]) {
    put(out, id.into());
    put(out, name.len() as u64);
    out.extend(name);
}

/// The names of a block; `None` if it is not well formed.
pub fn names(payload: &[u8]) -> Option<Vec<(u32, &[u8])>> {
    let mut reader = Reader::new(payload);
    let mut names = Vec::new();
    while reader.remaining() != 0 {
        let id = small(&mut reader)?;
        let length = usize::try_from(reader.get()?).ok()?;
        names.push((id, reader.take(length)?));
    }
    Some(names)
}

/// Appends what ran on a device in a window.
pub fn put_activities(out: &mut Vec<u8>, window: u32, device: u32, ran: &[GpuActivity]) {
    let first = ran.first().map_or(Ticks(0), |r| r.start);
    let mut columns: [Vec<u64>; 9] = Default::default();
    let (mut start, mut correlation, mut node) = (first, 0, 0);
    for r in ran {
        let since = |now: u64, last: u64| zigzag(now.wrapping_sub(last) as i64);
        let values = [
            zigzag(r.start.after(start)),
            r.ns,
            r.name.into(),
            r.stream.into(),
            since(r.correlation.into(), correlation),
            r.graph.into(),
            since(r.node, node),
            r.kind as u64,
            r.size,
        ];
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value);
        }
        (start, correlation, node) = (r.start, r.correlation.into(), r.node);
    }
    for value in [window.into(), device.into(), ran.len() as u64, first.0] {
        put(out, value);
    }
    for column in &columns {
        put_column(out, column);
    }
}

/// Window, device and what ran; `None` if it is not well formed.
pub fn activities(payload: &[u8]) -> Option<(u32, u32, Vec<GpuActivity>)> {
    let mut reader = Reader::new(payload);
    let (window, device) = (small(&mut reader)?, small(&mut reader)?);
    let n = number(&mut reader)?;
    let mut start = Ticks(reader.get()?);
    let mut values = Vec::new();
    let columns = columns::<9>(&mut reader, n, &mut values)?;
    let (mut correlation, mut node) = (0u64, 0u64);
    let all = (0..n).map(|i| {
        let at = |column: usize| columns[column].at(&values, i);
        let since = |last: u64, by: u64| last.wrapping_add(unzigzag(by) as u64);
        start = start.plus(unzigzag(at(0)));
        correlation = since(correlation, at(4));
        node = since(node, at(6));
        Some(GpuActivity {
            start,
            ns: at(1),
            name: u32::try_from(at(2)).ok()?,
            stream: u32::try_from(at(3)).ok()?,
            correlation: u32::try_from(correlation).ok()?,
            graph: u32::try_from(at(5)).ok()?,
            node,
            kind: match at(7) {
                0 => ActivityKind::Kernel,
                1 => ActivityKind::Copy,
                2 => ActivityKind::Fill,
                _ => return None,
            },
            size: at(8),
        })
    });
    Some((window, device, all.collect::<Option<_>>()?))
}

/// Appends what the driver was asked for in a window.
pub fn put_driver_calls(out: &mut Vec<u8>, window: u32, asked: &[DriverCall]) {
    let mut threads: Vec<u32> = Vec::new();
    let first = asked.first().map_or(Ticks(0), |a| a.at);
    let mut last = first;
    let mut columns: [Vec<u64>; 6] = Default::default();
    for a in asked {
        let known = threads.iter().position(|t| *t == a.thread);
        let thread = known.unwrap_or_else(|| {
            threads.push(a.thread);
            threads.len() - 1
        });
        let values = [
            zigzag(a.at.after(last)),
            a.took,
            a.kind as u64,
            thread as u64,
            a.stream.into(),
            a.object,
        ];
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value);
        }
        last = a.at;
    }
    put(out, window.into());
    put(out, threads.len() as u64);
    for thread in threads {
        put(out, thread.into());
    }
    put(out, asked.len() as u64);
    put(out, first.0);
    for column in &columns {
        put_column(out, column);
    }
}

/// Window and what the driver was asked for; `None` if it is not well formed.
pub fn driver_calls(payload: &[u8]) -> Option<(u32, Vec<DriverCall>)> {
    let mut reader = Reader::new(payload);
    let window = small(&mut reader)?;
    let threads = number(&mut reader)?;
    let threads: Vec<u32> = (0..threads)
        .map(|_| small(&mut reader))
        .collect::<Option<_>>()?;
    let n = number(&mut reader)?;
    let mut last = Ticks(reader.get()?);
    let mut values = Vec::new();
    let columns = columns::<6>(&mut reader, n, &mut values)?;
    let all = (0..n).map(|i| {
        let at = |column: usize| columns[column].at(&values, i);
        last = last.plus(unzigzag(at(0)));
        Some(DriverCall {
            at: last,
            took: at(1),
            kind: DriverCallKind::from_u64(at(2))?,
            thread: *threads.get(usize::try_from(at(3)).ok()?)?,
            stream: u32::try_from(at(4)).ok()?,
            object: at(5),
        })
    });
    Some((window, all.collect::<Option<_>>()?))
}

/// Entries in a block, at most.
pub const MOST: usize = 1 << 16;

fn small(reader: &mut Reader<'_>) -> Option<u32> {
    u32::try_from(reader.get()?).ok()
}

fn number(reader: &mut Reader<'_>) -> Option<usize> {
    usize::try_from(reader.get()?).ok().filter(|n| *n <= MOST)
}

fn columns<const N: usize>(
    reader: &mut Reader<'_>,
    n: usize,
    values: &mut Vec<u64>,
) -> Option<[crate::varint::Column; N]> {
    let mut columns = Vec::with_capacity(N);
    for _ in 0..N {
        columns.push(reader.column(n, values)?);
    }
    columns.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_come_back_and_the_example_is_as_written() {
        let mut bytes = Vec::new();
        put_name(&mut bytes, 3, b"k");
        assert_eq!(bytes, [3, 1, b'k']);
        put_name(&mut bytes, 1 << 20, &[b'x'; 300]);
        let names = names(&bytes).expect("well formed");
        assert_eq!(names, [(3, &b"k"[..]), (1 << 20, &[b'x'; 300][..])]);
        assert_eq!(super::names(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn windows_come_back() {
        let window = Window {
            number: 7,
            planned: 1 << 60,
            opening: Ticks(1),
            open: Ticks(2),
            closing: Ticks(3),
            closed: Ticks(u64::MAX),
            ran: 5,
            asked: 6,
            dropped: 7,
            error: 800,
            end: End::Yielded,
            code: 39,
        };
        let mut bytes = Vec::new();
        put_window(&mut bytes, &window);
        put_window(&mut bytes, &Window::default());
        assert_eq!(windows(&bytes), Some(vec![window, Window::default()]));
        for end in 0..=u8::MAX {
            assert!(End::from_u8(end).is_none_or(|e| e as u8 == end));
        }
    }

    #[test]
    fn a_kernel_takes_few_bytes() {
        // A decode step: kernels in one graph, back to back, of five names.
        let ran: Vec<GpuActivity> = (0..5000)
            .map(|i| GpuActivity {
                start: Ticks(1_000_000_000 + 8_000 * i),
                ns: 2_000 + 37 * (i % 50),
                name: (i % 5) as u32 + 1,
                stream: 7,
                correlation: 40 + (i / 500) as u32,
                graph: 2,
                node: (2 << 32) + i % 500,
                kind: ActivityKind::Kernel,
                size: 128,
            })
            .collect();
        let mut bytes = Vec::new();
        put_activities(&mut bytes, 1, 0, &ran);
        assert!(bytes.len() < 12 * ran.len(), "{}", bytes.len());
        assert_eq!(super::activities(&bytes), Some((1, 0, ran)));
    }

    proptest! {
        #[test]
        fn what_ran_comes_back(all in proptest::collection::vec(
            (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(),
             any::<u64>(), 0u8..3),
            0..100,
        )) {
            let all: Vec<GpuActivity> = all.into_iter().map(|ran| {
                let (start, ns, name, stream, correlation, graph, node, kind) = ran;
                let kind = [ActivityKind::Kernel, ActivityKind::Copy, ActivityKind::Fill][usize::from(kind)];
                let (start, size) = (Ticks(start), ns / 3);
                GpuActivity { start, ns, name, stream, correlation, graph, node, kind, size }
            }).collect();
            let mut bytes = Vec::new();
            put_activities(&mut bytes, 3, 1, &all);
            prop_assert_eq!(activities(&bytes), Some((3, 1, all)));
        }

        #[test]
        fn what_was_asked_comes_back(all in proptest::collection::vec(
            (any::<u64>(), any::<u64>(), 0u64..6, 0u32..4, any::<u32>(), any::<u64>()),
            0..100,
        )) {
            let all: Vec<DriverCall> = all.into_iter().map(|(at, took, kind, thread, stream, object)| {
                let kind = DriverCallKind::from_u64(kind).expect("a kind");
                DriverCall { at: Ticks(at), took, kind, thread, stream, object }
            }).collect();
            let mut bytes = Vec::new();
            put_driver_calls(&mut bytes, 9, &all);
            prop_assert_eq!(driver_calls(&bytes), Some((9, all)));
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            windows(&bytes);
            names(&bytes);
            activities(&bytes);
            driver_calls(&bytes);
        }
    }
}
