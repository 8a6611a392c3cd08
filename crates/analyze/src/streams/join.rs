//! Which of NCCL's kernels carried out which calls.
//!
//! CUPTI numbers kernels in the order of launches ([`NcclKernel::correlation`]), and a call's row says when
//! its launch began. Both are complete within a window, so the first of one is the first of the other, except
//! for what was under way when the window was opened. So there are a few ways to lay them over each other.
//! The right one has the same functions in both, and every kernel began after its launch. Where CUDA events
//! timed calls too, kernels end when their calls do: if a host is far ahead of its GPU, only that tells the
//! ways apart. And calls that are alike have kernels that are: of one name, on one stream. In a graph, the
//! kernels of a launch are the calls that were captured, in order.

use super::kinds::{self, function};
use super::window::{self, NcclKernel, Peer, Seen};
use std::collections::BTreeMap;
use tables::windows::{GpuActivity, Window};
use tables::{Names, Process};

/// A call that was launched in a window.
#[derive(Clone, Copy, Debug)]
pub struct Launched {
    /// When its launch began.
    pub at: i64,
    /// Index of its shape.
    pub shape: u32,
    /// Its ticket.
    pub ticket: u64,
    /// When its kernel ended by CUDA events or NCCL's stamps; 0 is not known.
    pub ended: i64,
}

/// How well a way to lay kernels over calls fits.
#[derive(Clone, Copy, Debug)]
struct Fit {
    /// How many calls have a kernel like those of the calls that are like them.
    alike: usize,
    /// By how much kernels and calls end apart on average, ns; `None` if no call was timed.
    apart: Option<f64>,
}

impl Fit {
    fn is_better_than(self, other: Fit) -> bool {
        match (self.apart, other.apart) {
            (Some(own), Some(others)) => own < others,
            _ => self.alike > other.alike,
        }
    }
}

/// How far the two sequences may be apart at the beginning.
const APART: usize = 3;

/// One device in a window.
pub struct OnDevice<'w> {
    /// CUDA's number of it.
    pub device: u32,
    /// What ran on it, by start.
    pub ran: &'w [GpuActivity],
    /// What the window shows of it, with the calls of NCCL's kernels; `None` if nothing is known to be whole.
    pub seen: Option<Seen>,
}

/// The devices of a window. `launched` are the calls that were launched in the window, each with its device,
/// if that is known. `kernels` are the names of the process's kernels.
pub fn on_devices<'w>(
    window: &'w Window,
    launched: &[(u32, Launched)],
    process: &Process,
    names: &Names,
    kernels: &kinds::Names,
) -> Vec<OnDevice<'w>> {
    let mut devices: Vec<u32> = window.ran.iter().map(|r| r.device).collect();
    devices.dedup();
    let on_device = |device: u32| {
        let ran = window::ran_on(window, device);
        // What is missing from a window that is not whole would shift the others.
        let seen = window.is_whole().then(|| window::seen(ran, kernels));
        let seen = seen.flatten().map(|mut seen| {
            // CUPTI's numbers of devices are CUDA's, which NCCL tells too.
            let of_device = launched
                .iter()
                .filter(|(of, _)| *of == device || *of == u32::MAX);
            let mut of_device: Vec<Launched> = of_device.map(|(_, call)| *call).collect();
            of_device.sort_by_key(|call| call.at);
            join(&mut seen, &of_device, process, names, kernels);
            join_graphs(&mut seen, window, process);
            seen
        });
        OnDevice { device, ran, seen }
    };
    devices.into_iter().map(on_device).collect()
}

/// Tells each kernel of `seen` its call. `launched` are the calls that this device's communicators launched
/// in the window, by time.
fn join(
    seen: &mut Seen,
    launched: &[Launched],
    process: &Process,
    names: &Names,
    kernels: &kinds::Names,
) {
    let mut order: Vec<usize> = (0..seen.nccl.len())
        .filter(|i| seen.nccl[*i].graph == 0)
        .collect();
    order.sort_by_key(|i| seen.nccl[*i].correlation);
    // Calls of one launch have one kernel.
    let mut units: Vec<Launched> = launched.to_vec();
    units.dedup_by_key(|call| call.at);
    let fits = |skip_kernels: usize, skip_units: usize| -> Option<Fit> {
        let pairs = order
            .iter()
            .skip(skip_kernels)
            .zip(units.iter().skip(skip_units));
        let mut alike: BTreeMap<u32, BTreeMap<(u32, u32), usize>> = BTreeMap::new();
        let mut apart = (0.0, 0u32);
        for (kernel, unit) in pairs {
            let kernel = &seen.nccl[*kernel];
            let of = function(kernels.name(kernel.name));
            let shape = process.shapes.get(unit.shape as usize)?;
            if kernel.start < unit.at || !same(of, names.get(shape.function)?) {
                return None;
            }
            let ways = alike.entry(unit.shape).or_default();
            *ways.entry((kernel.name, kernel.stream)).or_default() += 1;
            if unit.ended != 0 {
                apart.0 += (kernel.end - unit.ended).abs() as f64;
                apart.1 += 1;
            }
        }
        let most = alike.values().filter_map(|ways| ways.values().max());
        Some(Fit {
            alike: most.sum(),
            apart: (apart.1 > 0).then(|| apart.0 / f64::from(apart.1)),
        })
    };
    let shifts = (0..APART).flat_map(|n| [(n, 0), (0, n)]);
    let best = shifts
        .filter_map(|shift| Some((fits(shift.0, shift.1)?, shift)))
        // The first of the best: the smallest shift.
        .reduce(|best, next| {
            if next.0.is_better_than(best.0) {
                next
            } else {
                best
            }
        });
    if let Some((_, (skip_kernels, skip_units))) = best {
        let pairs = order
            .iter()
            .skip(skip_kernels)
            .zip(units.iter().skip(skip_units));
        let pairs: Vec<(usize, Launched)> = pairs.map(|(kernel, unit)| (*kernel, *unit)).collect();
        for (kernel, unit) in pairs {
            let first = seen.peers.len() as u32;
            // Calls of one launch.
            let from = launched.partition_point(|call| call.at < unit.at);
            let calls = launched[from..]
                .iter()
                .take_while(|call| call.at == unit.at);
            let shapes = calls.filter_map(|call| process.shapes.get(call.shape as usize));
            seen.peers.extend(shapes.filter_map(|shape| {
                let receives = names.get(shape.function) == Some("Recv");
                shape.peer.map(|rank| Peer { rank, receives })
            }));
            let shape = &process.shapes[unit.shape as usize];
            let kernel = &mut seen.nccl[kernel];
            (kernel.communicator, kernel.rank) = (shape.communicator, shape.rank);
            kernel.peers = (first, seen.peers.len() as u32);
            kernel.call = Some((unit.shape, unit.ticket));
        }
    }
}

/// Whether a kernel of this name carries out calls of this function.
fn same(kernel: &str, function: &str) -> bool {
    // AMD's library has one kernel for all.
    kernel == function
        || kernel == "Generic"
        || match function {
            "Send" | "Recv" | "SendRecv" | "AlltoAll" | "Gather" | "Scatter" => {
                kernel == "SendRecv"
            }
            _ => false,
        }
}

/// Tells the kernels of graph launches their communicators.
fn join_graphs(seen: &mut Seen, window: &Window, process: &Process) {
    let graphs = &process.graphs;
    // The launches that were called in the window, in order, and their kernels, in order.
    let first = graphs
        .launches
        .partition_point(|launch| launch.at < window.open);
    let called = graphs.launches[first..]
        .iter()
        .take_while(|launch| launch.at < window.closing);
    let mut by_launch: BTreeMap<u32, Vec<&mut NcclKernel>> = BTreeMap::new();
    for kernel in seen.nccl.iter_mut().filter(|k| k.graph != 0) {
        by_launch
            .entry(kernel.correlation)
            .or_default()
            .push(kernel);
    }
    for (mut kernels, launch) in by_launch.into_values().zip(called) {
        let at = graphs
            .executables
            .binary_search_by_key(&launch.graph, |graph| graph.number);
        let content = at.ok().and_then(|at| graphs.executables[at].content);
        let Some(content) = content.and_then(|content| graphs.contents.get(content)) else {
            continue;
        };
        let of = content
            .runs
            .iter()
            .flat_map(|(shape, n)| std::iter::repeat_n(*shape, *n as usize));
        if kernels.len() as u64 != content.calls() {
            // Calls of a group share a kernel: which they are is not known.
            continue;
        }
        kernels.sort_by_key(|kernel| kernel.start);
        for (kernel, shape) in kernels.into_iter().zip(of) {
            kernel.captured_as = graphs.shapes.get(shape as usize).copied();
            kernel.launched = Some(launch.at);
            let shape = kernel.captured_as.map(|shape| shape as usize);
            let shape = shape.and_then(|shape| process.shapes.get(shape));
            kernel.communicator = shape.and_then(|shape| shape.communicator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_host_that_is_ahead_the_ends_tell_which_call_a_kernel_is_of() {
        let mut names = Names::default();
        let shapes = vec![tables::Shape {
            function: names.intern("AllReduce"),
            ..tables::Shape::default()
        }];
        let process = Process {
            shapes,
            ..Process::default()
        };
        let kernels = kinds::Names::new(&["ncclDevKernel_AllReduce_RING_LL".to_owned()], &[]);
        // Calls every 10 ms, whose kernels end 100 ms later.
        let ended = |number: i64| (10 * number + 100) * 1_000_000;
        let call = |number: i64| Launched {
            at: 10 * number * 1_000_000,
            shape: 0,
            ticket: number as u64,
            // Every fourth was timed, with an error of some µs.
            ended: if number % 4 == 0 {
                ended(number) + 7_000
            } else {
                0
            },
        };
        let launched: Vec<Launched> = (1..20).map(call).collect();
        // The window was opened between the first call and its kernel's launch: its kernel is in it, and the
        // call is not.
        let kernel = |number: i64| NcclKernel {
            start: ended(number) - 1_000_000,
            end: ended(number),
            correlation: number as u32 + 1,
            ..NcclKernel::default()
        };
        let mut seen = Seen {
            nccl: (0..20).map(kernel).collect(),
            ..Seen::default()
        };
        join(&mut seen, &launched, &process, &names, &kernels);
        let calls = seen.nccl.iter().map(|kernel| kernel.call);
        let expected = (0..20u64).map(|number| (number > 0).then_some((0, number)));
        assert!(calls.eq(expected));
    }
}
