//! Kernel windows of a process: what ran on its GPUs, and what its host asked for meanwhile.
//!
//! [`Gathered`] puts the blocks together. Times are realtime ns, on the same clock as calls. Names of kernels
//! are demangled, each once.
//!
//! Rule: a window is only here with all of its blocks; one whose blocks are lost is counted in
//! [`Windows::lost`].

use crate::clock::Clock;
use capture::live::View;
use capture::rows::Ticks;
use capture::windows::{self, ActivityKind, DriverCallKind, End};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// The kernel windows of a process.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    /// By number.
    pub list: Vec<Window>,
    /// Names of kernels, as compilers mangle them, by the numbers in [`GpuActivity::name`]; entry 0 is empty.
    pub mangled: Vec<String>,
    /// The same for people.
    pub names: Vec<String>,
    /// Windows of which blocks are lost.
    pub lost: u64,
    /// Windows that were not opened because another profiler used CUPTI.
    pub yielded: u64,
    /// Why there are none, or no more; `None` if there could be.
    pub off: Option<Off>,
}

/// Why there are no kernel windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// `NCCLSCOPE_WINDOWS=off`, or a mode that has none.
    NotAsked,
    /// The process has no CUDA driver, so it runs nothing on a GPU.
    NoDriver,
    /// CUPTI is not on this machine.
    NoCupti,
    /// A tool in the process brings a CUPTI of its own.
    ForeignTool,
    /// CUPTI's error with this number.
    Error(u32),
    /// There was no memory for records.
    NoMemory,
    /// CUPTI would have slowed the job by more than the budget, because its GPU waits for its host: by at
    /// most this part, in units of 0.01 %.
    HostBound(u32),
    /// CUDA's MPS runs several processes on the GPU.
    SharedGpu,
    /// This version of CUPTI, as 130001 for 13.0, may crash programs.
    UnsafeCupti(u32),
    /// A cause that this version does not know.
    Unknown(u32),
}

/// A window, or a quiet spell.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Unique in the process, from 1.
    pub number: u32,
    /// The call that it was planned for, the same on all ranks.
    pub planned: u64,
    /// CUPTI was being switched on.
    pub opening: i64,
    /// It was on.
    pub open: i64,
    /// It was being switched off.
    pub closing: i64,
    /// It was off.
    pub closed: i64,
    /// Records that were dropped.
    pub dropped: u32,
    /// How it ended.
    pub end: End,
    /// CUPTI's error, if it ended with one.
    pub code: u32,
    /// What ran, by device and start.
    pub ran: Vec<GpuActivity>,
    /// What the driver was asked for, by time.
    pub asked: Vec<DriverCall>,
}

impl Window {
    /// Whether it is a quiet spell, in which CUDA events were left out, and no window.
    pub fn is_quiet(&self) -> bool {
        self.end == End::Quiet
    }

    /// Whether all that was launched in it is in it.
    pub fn is_whole(&self) -> bool {
        self.dropped == 0 && matches!(self.end, End::Planned | End::Exit)
    }
}

/// What ran on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuActivity {
    /// CUDA's number of the device.
    pub device: u32,
    /// From when.
    pub start: i64,
    /// To when.
    pub end: i64,
    /// Index into [`Windows::names`]; 0 for copies and fills.
    pub name: u32,
    /// CUDA's id of the stream.
    pub stream: u32,
    /// Numbers in the order of the host's launches; all of one graph launch have the same.
    pub correlation: u32,
    /// CUDA's id of the executable graph; 0 none.
    pub graph: u32,
    /// CUDA's id of the node in it.
    pub node: u64,
    /// What it was.
    pub kind: ActivityKind,
    /// Bytes of a copy or fill; blocks of a kernel's grid.
    pub size: u64,
}

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCall {
    /// From when.
    pub at: i64,
    /// For how long, ns.
    pub took: u64,
    /// What was asked.
    pub kind: DriverCallKind,
    /// The calling thread.
    pub thread: u32,
    /// CUDA's id of the stream; 0 none.
    pub stream: u32,
    /// The event of a record, a wait or a synchronisation, the executable graph of a launch: a handle.
    pub object: u64,
}

/// What is gathered before it can be put together.
#[derive(Clone, Default)]
pub(crate) struct Gathered {
    windows: BTreeMap<u32, windows::Window>,
    names: BTreeMap<u32, String>,
    ran: BTreeMap<u32, Vec<(u32, windows::GpuActivity)>>,
    asked: BTreeMap<u32, Vec<windows::DriverCall>>,
    off: [u32; 2],
    yielded: u64,
}

impl Gathered {
    /// Forgets all but the newest windows.
    pub(crate) fn keep_newest(&mut self, windows: usize) {
        let Some(first) = self.windows.keys().rev().nth(windows - 1).copied() else {
            return;
        };
        self.windows.retain(|number, _| *number >= first);
        self.ran.retain(|number, _| *number >= first);
        self.asked.retain(|number, _| *number >= first);
    }

    /// A block; false if it is not well formed.
    pub(crate) fn of_block(&mut self, kind: capture::block::BlockKind, payload: &[u8]) -> bool {
        use capture::block::BlockKind;
        match kind {
            BlockKind::Windows => {
                let found = windows::windows(payload);
                let sound = found.is_some();
                let found = found.into_iter().flatten();
                self.windows.extend(found.map(|w| (w.number, w)));
                sound
            }
            BlockKind::Names => {
                let found = windows::names(payload);
                let sound = found.is_some();
                for (id, name) in found.into_iter().flatten() {
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.names.insert(id, name);
                }
                sound
            }
            BlockKind::GpuActivities => match windows::activities(payload) {
                Some((window, device, ran)) => {
                    let of = self.ran.entry(window).or_default();
                    of.extend(ran.into_iter().map(|ran| (device, ran)));
                    true
                }
                None => false,
            },
            BlockKind::DriverCalls => match windows::driver_calls(payload) {
                Some((window, asked)) => {
                    self.asked.entry(window).or_default().extend(asked);
                    true
                }
                None => false,
            },
            _ => true,
        }
    }

    pub(crate) fn of_live(&mut self, view: &View) {
        let header = view.header();
        self.off = [&header.windows_off, &header.windows_code].map(|n| n.load(Relaxed));
        self.yielded = header.windows_yielded.load(Relaxed).into();
    }

    /// Puts the windows together.
    pub(crate) fn finish(mut self, clock: &Clock) -> Windows {
        // Ids are given out without gaps; what is beyond any that was is garbage, or shares one number.
        let most = self.names.keys().next_back().copied().unwrap_or(0);
        let most = most.min(self.names.len() as u32);
        let mangled: Vec<String> = (0..=most)
            .map(|id| self.names.remove(&id).unwrap_or_default())
            .collect();
        let names: Vec<String> = mangled.iter().map(|name| demangled(name)).collect();
        let mut cursor = clock.cursor();
        let mut list = Vec::new();
        let mut lost = 0;
        for (number, raw) in self.windows {
            let ran = self.ran.remove(&number).unwrap_or_default();
            let asked = self.asked.remove(&number).unwrap_or_default();
            let whole = ran.len() == raw.ran as usize && asked.len() == raw.asked as usize;
            let mut at = |ticks: Ticks| cursor.realtime(ticks);
            let times = [raw.opening, raw.open, raw.closing, raw.closed].map(&mut at);
            let [Some(opening), Some(open), Some(closing), Some(closed)] = times else {
                lost += 1;
                continue;
            };
            if !whole {
                lost += 1;
                continue;
            }
            let ran = ran.into_iter().filter_map(|(device, ran)| {
                let start = at(ran.start)?;
                Some(GpuActivity {
                    device,
                    start,
                    end: start.checked_add(i64::try_from(ran.ns).ok()?)?,
                    name: if (ran.name as usize) < names.len() {
                        ran.name
                    } else {
                        0
                    },
                    stream: ran.stream,
                    correlation: ran.correlation,
                    graph: ran.graph,
                    node: ran.node,
                    kind: ran.kind,
                    size: ran.size,
                })
            });
            let mut ran: Vec<GpuActivity> = ran.collect();
            leave_out_last_launch(&mut ran);
            ran.sort_by_key(|r| (r.device, r.start, r.correlation, r.node));
            let asked = asked.into_iter().filter_map(|asked| {
                Some(DriverCall {
                    at: at(asked.at)?,
                    took: clock.duration(asked.took)?,
                    kind: asked.kind,
                    thread: asked.thread,
                    stream: asked.stream,
                    object: asked.object,
                })
            });
            list.push(Window {
                number,
                planned: raw.planned,
                opening,
                open,
                closing,
                closed,
                dropped: raw.dropped,
                end: raw.end,
                code: raw.code,
                ran,
                asked: asked.collect(),
            });
        }
        let [off, code] = self.off;
        Windows {
            list,
            mangled,
            names,
            lost,
            yielded: self.yielded,
            off: match off {
                0 => None,
                1 => Some(Off::NotAsked),
                2 => Some(Off::NoCupti),
                3 => Some(Off::ForeignTool),
                4 => Some(Off::Error(code)),
                5 => Some(Off::NoMemory),
                6 => Some(Off::NoDriver),
                7 => Some(Off::HostBound(code)),
                8 => Some(Off::SharedGpu),
                9 => Some(Off::UnsafeCupti(code)),
                other => Some(Off::Unknown(other)),
            },
        }
    }
}

/// Leaves out the last launch of a graph on each device. CUPTI is switched off after it, and then reports
/// wrong ends for its kernels, all by the same 25 ms (seen in every window with graphs, CUPTI 13.0).
fn leave_out_last_launch(ran: &mut Vec<GpuActivity>) {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for r in ran.iter().filter(|r| r.graph != 0) {
        let newest = last.entry(r.device).or_insert(r.correlation);
        *newest = r.correlation.max(*newest);
    }
    ran.retain(|r| r.graph == 0 || last.get(&r.device) != Some(&r.correlation));
}

/// A kernel's name for people: demangled, without arguments and return type, which repeat the template's.
pub fn demangled(name: &str) -> String {
    let Ok(symbol) = cpp_demangle::Symbol::new(name) else {
        return name.to_owned();
    };
    let options = cpp_demangle::DemangleOptions::new()
        .no_params()
        .no_return_type();
    let text = symbol.demangle(&options);
    text.unwrap_or_else(|_| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_launch_of_a_graph_is_left_out() {
        let ran = |device, correlation, graph| GpuActivity {
            device,
            start: 0,
            end: 1,
            name: 0,
            stream: 7,
            correlation,
            graph,
            node: 0,
            kind: ActivityKind::Kernel,
            size: 1,
        };
        let mut all = vec![
            ran(0, 1, 2),
            ran(0, 2, 2),
            ran(0, 3, 0),
            ran(1, 2, 2),
            ran(1, 1, 2),
        ];
        leave_out_last_launch(&mut all);
        assert_eq!(all, [ran(0, 1, 2), ran(0, 3, 0), ran(1, 1, 2)]);
    }

    #[test]
    fn names_are_for_people() {
        let mangled =
            "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";
        assert_eq!(
            demangled(mangled),
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        );
        assert_eq!(
            demangled("_ZN8cublasLt19splitKreduce_kernelILi32ELi16EifffLb0EEEvv"),
            "cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, false>"
        );
        for plain in [
            "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_splitK_NNT",
            "",
            "_Z",
            "triton_",
        ] {
            assert_eq!(demangled(plain), plain);
        }
    }
}
