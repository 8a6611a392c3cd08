//! Functions inside NCCL's init, for `--init`: on libraries that have kept their symbols.
//!
//! NCCL exports none of them. The libraries of its Python packages have kept the symbols of all functions, so
//! their places are known. A [`Step`] sums up the calls of one function within one init.
//!
//! Rule: a function that the compiler has built into its caller has no symbol, and its time is its caller's.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of the first one in events. Below are those of [`FUNCTIONS`](crate::functions::FUNCTIONS).
pub const FIRST: usize = 0x100;

/// What a function's time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Part {
    /// The init as a whole, beneath the public function.
    #[serde(rename = "init")]
    Whole,
    Bootstrap,
    Topology,
    Transport,
    /// Plugins, CUDA, memory of the communicator.
    Others,
}

impl Part {
    /// Its word, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Part::Whole => "init",
            Part::Bootstrap => "bootstrap",
            Part::Topology => "topology",
            Part::Transport => "transport",
            Part::Others => "others",
        }
    }
}

/// The functions. Each is called a few times in an init at most, besides `bootstrapAllGather`.
pub const INNER: [(&str, Part); 32] = [
    ("ncclCommInitRankFunc", Part::Whole),
    ("initTransportsRank", Part::Whole),
    ("bootstrapInit", Part::Bootstrap),
    ("bootstrapSplit", Part::Bootstrap),
    ("bootstrapAllGather", Part::Bootstrap),
    ("bootstrapIntraNodeBarrier", Part::Bootstrap),
    ("ncclTopoGetSystem", Part::Topology),
    ("ncclTopoGetSystemFromXml", Part::Topology),
    ("ncclTopoComputePaths", Part::Topology),
    ("ncclTopoTrimSystem", Part::Topology),
    ("ncclTopoSearchInit", Part::Topology),
    ("ncclTopoCompute", Part::Topology),
    ("ncclTopoPreset", Part::Topology),
    ("ncclTopoPostset", Part::Topology),
    ("ncclTopoTuneModel", Part::Topology),
    ("ncclBuildRings", Part::Topology),
    ("ncclTransportP2pSetup", Part::Transport),
    ("ncclTransportRingConnect", Part::Transport),
    ("ncclTransportTreeConnect", Part::Transport),
    ("ncclTransportPatConnect", Part::Transport),
    ("ncclTransportCollNetSetup", Part::Transport),
    ("ncclCollNetSetup", Part::Transport),
    ("ncclNvlsInit", Part::Transport),
    ("ncclNvlsSetup", Part::Transport),
    ("ncclNvlsBufferSetup", Part::Transport),
    ("ncclNvlsTreeConnect", Part::Transport),
    ("ncclProxyCreate", Part::Transport),
    ("ncclNetInit", Part::Others),
    ("ncclTunerPluginLoad", Part::Others),
    ("ncclInitKernelsForDevice", Part::Others),
    ("commAlloc", Part::Others),
    ("devCommSetup", Part::Others),
];

/// The number of the function with this symbol, as a C++ compiler writes it: `_Z13bootstrapInitiPvP8ncclComm`
/// or, for a function of one file, `_ZL9commAlloc…`. Clones that hold unlikely parts (`.cold`) are none.
pub fn number(symbol: &str) -> Option<usize> {
    let rest = symbol.strip_prefix("_Z")?;
    let rest = rest.strip_prefix('L').unwrap_or(rest);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = rest.get(..digits)?.parse().ok()?;
    let name = rest.get(digits..digits.checked_add(length)?)?;
    let at = INNER.iter().position(|(known, _)| *known == name)?;
    (!symbol.contains(".cold")).then_some(FIRST + at)
}

/// The calls of one function within one init.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Step {
    /// As NCCL's source names it; the public function itself for the init.
    pub function: &'static str,
    pub part: Part,
    pub thread: u32,
    /// Of the first call: ns since the init began on any thread of the process.
    pub began_ns: u64,
    pub calls: u64,
    pub took_ns: u64,
    /// Of these, in functions of this list that it called on the same thread.
    pub inner_ns: u64,
    /// Functions of this list in which it was called, on the same thread.
    pub depth: usize,
}

/// An open function.
struct Frame {
    function: usize,
    began: u64,
    inner: u64,
}

/// One call of a function that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ended {
    pub function: &'static str,
    /// CLOCK_MONOTONIC, ns.
    pub began: u64,
    pub took: u64,
    pub depth: usize,
}

/// What a process did within its inits.
#[derive(Default)]
pub struct Steps {
    stacks: BTreeMap<u32, Vec<Frame>>,
    /// By when it was first called, thread, function and depth.
    steps: Vec<(u64, u32, usize, usize, Step)>,
    /// When the inits of the process began.
    inits: Vec<u64>,
}

impl Steps {
    /// A public function that makes a communicator was called.
    pub fn init(&mut self, time: u64) {
        self.inits.push(time);
    }

    /// A function of the list was called.
    pub fn entered(&mut self, thread: u32, function: usize, time: u64) {
        self.stacks.entry(thread).or_default().push(Frame {
            function,
            began: time,
            inner: 0,
        });
    }

    /// It has returned. What it was, if its call was seen.
    pub fn returned(&mut self, thread: u32, function: usize, time: u64) -> Option<Ended> {
        let stack = self.stacks.entry(thread).or_default();
        let at = stack.iter().rposition(|frame| frame.function == function)?;
        // What was called within has returned, and its event was lost.
        stack.truncate(at + 1);
        let frame = stack.pop()?;
        let took = time.saturating_sub(frame.began);
        if let Some(outer) = stack.last_mut() {
            outer.inner += took;
        }
        // NCCL does most of an init on a thread of its own, so inits are told apart by time.
        let before = self.inits.partition_point(|init| *init <= frame.began);
        let init = before
            .checked_sub(1)
            .map_or(frame.began, |at| self.inits[at]);
        let (name, part) = INNER[function - FIRST];
        let known = self.steps.iter_mut().find(|(of, by, which, depth, _)| {
            (*of, *by, *which, *depth) == (init, thread, function, at)
        });
        match known {
            Some((.., step)) => {
                step.calls += 1;
                step.took_ns += took;
                step.inner_ns += frame.inner;
                step.began_ns = step.began_ns.min(frame.began - init);
            }
            None => {
                let step = Step {
                    function: name,
                    part,
                    thread,
                    began_ns: frame.began - init,
                    calls: 1,
                    took_ns: took,
                    inner_ns: frame.inner,
                    depth: at,
                };
                self.steps.push((init, thread, function, at, step));
            }
        }
        Some(Ended {
            function: name,
            began: frame.began,
            took,
            depth: at,
        })
    }

    /// The inits of the process in order of time, each with its steps in order of their begins.
    pub fn finish(self) -> Vec<Vec<Step>> {
        let mut inits: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
        for (init, .., step) in self.steps {
            inits.entry(init).or_default().push(step);
        }
        let mut inits: Vec<Vec<Step>> = inits.into_values().collect();
        for steps in &mut inits {
            steps.sort_by_key(|step| (step.began_ns, step.depth));
        }
        inits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_cpp_are_known_by_their_names() {
        let at = |name: &str| {
            let place = INNER.iter().position(|(known, _)| *known == name);
            place.map(|at| at + FIRST)
        };
        assert_eq!(
            number("_Z13bootstrapInitiPvP8ncclComm"),
            at("bootstrapInit")
        );
        assert_eq!(number("_ZL9commAllocP8ncclCommS0_ii"), at("commAlloc"));
        let none = [
            "_ZZ13bootstrapInitiPvP8ncclCommE8__func__",
            "_Z11ncclNetInitP8ncclComm.cold.7",
            "_Z14bootstrapInitX",
            "_Z99x",
            "bootstrapInit",
            "_Z",
        ];
        for symbol in none {
            assert_eq!(number(symbol), None, "{symbol}");
        }
    }

    #[test]
    fn calls_of_a_function_in_one_init_are_one_step() {
        let number = |name: &str| {
            let at = INNER.iter().position(|(known, _)| *known == name);
            FIRST + at.expect("known")
        };
        let (whole, boot) = (number("ncclCommInitRankFunc"), number("bootstrapAllGather"));
        let mut steps = Steps::default();
        for init in [1_000, 9_000] {
            steps.init(init);
            steps.entered(7, whole, init + 10);
            for began in [init + 20, init + 40] {
                steps.entered(7, boot, began);
                steps.returned(7, boot, began + 5);
            }
            steps.returned(7, whole, init + 100);
        }
        // It began before the probes were there.
        steps.returned(7, whole, 20_000);
        let inits = steps.finish();
        assert_eq!(inits.len(), 2);
        let [outer, inner] = &inits[1][..] else {
            panic!("{inits:?}")
        };
        let known = (
            outer.function,
            outer.began_ns,
            outer.took_ns,
            outer.inner_ns,
        );
        assert_eq!(known, ("ncclCommInitRankFunc", 10, 90, 10));
        assert_eq!((inner.calls, inner.began_ns, inner.took_ns), (2, 20, 10));
        assert_eq!((inner.part, inner.depth), (Part::Bootstrap, 1));
    }
}
