//! What is to be measured, as every rank must understand it.
//!
//! Rule: a [`Plan`] says nothing about files, libraries or machines, so that two ranks measure the same
//! exactly where their plans are equal.

use crate::datatype::{Datatype, Reduction};
use crate::function::{Function, Shape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is to be measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Plan {
    /// Functions, in this order.
    pub functions: Vec<Function>,
    /// Sizes in bytes, by nccl-tests' convention.
    pub sizes: Vec<u64>,
    /// Datatype of the elements.
    pub datatype: Datatype,
    /// Reduction, of functions that reduce.
    pub reduction: Reduction,
    /// Root, of functions that have one.
    pub root: u32,
    /// `Out`: two buffers; `In`: one; `Both`: one after the other.
    pub placement: Placement,
    /// Calls in one ncclGroupStart and ncclGroupEnd; 1 makes no group.
    pub group: u32,
    /// Groups in one CUDA graph; 0 makes no graph.
    pub graph: u32,
    /// `Single`: all ranks start a step together and wait for its end; `BackToBack`: without waiting.
    pub mode: Mode,
    /// When enough is measured.
    pub length: Length,
    /// Steps before measuring, at each size.
    pub warmup: u64,
    /// Whether data are checked.
    pub check: bool,
    /// Calls that ranks start further apart are set apart, µs.
    pub max_skew_us: f64,
    /// Ranks that NCCL is to take for one host (NCCL_HOSTID); null if it is not told.
    pub hostid_per: Option<u32>,
    /// Steps of a run without a wait between steps and its size in bytes, for each function; null if there is
    /// none.
    pub stress: Option<(u64, u64)>,
}

/// In one buffer or in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub enum Placement {
    /// Two buffers.
    Out,
    /// One buffer.
    In,
    /// One after the other.
    Both,
}

/// How calls follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub enum Mode {
    /// All ranks start a step at the same time and wait for its end; each step is timed.
    Single,
    /// One after the other without waiting, as nccl-tests does; the mean is timed.
    BackToBack,
}

/// When enough is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub enum Length {
    /// After so many steps.
    Iterations(u64),
    /// After so many seconds at each size; the unit is s.
    Seconds(f64),
}

impl Mode {
    /// As a user types it, and as in the table of calls.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Single => "single",
            Mode::BackToBack => "back-to-back",
        }
    }
}

impl Plan {
    /// Calls in one step: a call, a group, or a graph's launch.
    pub fn calls_per_step(&self) -> u64 {
        u64::from(self.group) * u64::from(self.graph.max(1))
    }

    /// A function at a size.
    pub fn shape(&self, function: Function, bytes: u64, ranks: u32) -> Shape {
        Shape::new(function, bytes, self.datatype, ranks, self.root)
    }

    /// The sizes, and that of the stress run.
    fn all_sizes(&self) -> impl Iterator<Item = u64> + '_ {
        let stress = self.stress.map(|(_, bytes)| bytes);
        self.sizes.iter().copied().chain(stress)
    }

    /// Bytes of the largest buffer of all cases.
    pub fn largest(&self, ranks: u32) -> usize {
        let cases = self
            .functions
            .iter()
            .flat_map(|f| self.all_sizes().map(move |b| (*f, b)));
        let elements = cases.map(|(f, bytes)| self.shape(f, bytes, ranks).elements);
        elements.max().unwrap_or(0) * self.datatype.size()
    }

    /// What can be seen to be wrong once the number of ranks is known.
    ///
    /// # Errors
    /// What it is, and the way out.
    pub fn check_for(&self, ranks: u32) -> Result<(), String> {
        if self.root >= ranks {
            return Err(format!(
                "--root {} is none of the ranks 0 to {}",
                self.root,
                ranks - 1
            ));
        }
        if self.functions.contains(&Function::SendRecvPairs) && !ranks.is_multiple_of(2) {
            return Err(format!(
                "sendrecv_pairs needs an even number of ranks, found {ranks}\n  hint: sendrecv sends around \
                a ring of any number"
            ));
        }
        if self.largest(ranks) == 0 {
            return Err(format!(
                "no size is large enough: one element of {} has {} bytes, and if {ranks} ranks share the \
                 data, each needs 16\n  hint: -b SIZE, --sizes SIZE",
                self.datatype.name(),
                self.datatype.size()
            ));
        }
        Ok(())
    }

    /// The first thing that differs: the option, and both values.
    pub fn difference(&self, other: &Plan) -> Option<String> {
        let (a, b) = (self.options(), other.options());
        let (option, here) = a.into_iter().find(|(option, value)| {
            !b.iter()
                .any(|(name, theirs)| name == option && theirs == value)
        })?;
        let there = b.into_iter().find(|(name, _)| *name == option);
        let there = there.map_or_else(|| "not given".to_owned(), |(_, value)| value);
        Some(format!("{option} is {here} there and {there} on rank 0"))
    }

    /// As a user gives them.
    fn options(&self) -> Vec<(&'static str, String)> {
        let Plan {
            functions,
            sizes,
            datatype,
            reduction,
            root,
            placement,
            group,
            graph,
            mode,
            length,
            warmup,
            check,
            max_skew_us,
            hostid_per,
            stress,
        } = self;
        let list = |values: Vec<String>| values.join(",");
        let length = match length {
            Length::Iterations(n) => ("--iters", n.to_string()),
            Length::Seconds(s) => ("--time", format!("{s}s")),
        };
        let functions = functions.iter().map(|f| f.option().to_owned()).collect();
        let sizes = sizes.iter().map(u64::to_string).collect();
        let hostid_per = hostid_per.map_or("not given".to_owned(), |n| n.to_string());
        vec![
            ("FUNCTION", list(functions)),
            ("the list of sizes (-b, -e, -f, --sizes)", list(sizes)),
            ("--datatype", datatype.name().to_owned()),
            ("--op", reduction.name().to_owned()),
            ("--root", root.to_string()),
            ("--placement", format!("{placement:?}").to_lowercase()),
            ("--mode", mode.name().to_owned()),
            ("--group", group.to_string()),
            ("--graph", graph.to_string()),
            length,
            ("--warmup-iters", warmup.to_string()),
            ("--check", u8::from(*check).to_string()),
            ("--max-skew", format!("{max_skew_us}us")),
            ("--hostid-per", hostid_per),
            (
                "--stress and --stress-size",
                stress.map_or("not given".to_owned(), |(steps, bytes)| {
                    format!("{steps} of {bytes} bytes")
                }),
            ),
        ]
    }
}

/// `1024`, `1K`, `8MiB`, `1.5G`: powers of 1024, as in nccl-tests.
///
/// # Errors
/// That it is no size, or 0.
pub fn size(text: &str) -> Result<u64, String> {
    match units::bytes(text) {
        Some(0) => Err("a call of no bytes moves nothing; sizes begin at 1".to_owned()),
        Some(size) if size <= 1 << 50 => Ok(size),
        _ => Err(format!(
            "`{text}` is not a size in whole bytes (like 1024, 8K, 1MiB or 1.5G, up to 1024T)"
        )),
    }
}

/// `3s`, `500ms`, `1.5`: seconds above 0.
///
/// # Errors
/// That it is no duration.
pub fn seconds(text: &str) -> Result<f64, String> {
    units::nanos(text, Some(1e9))
        .map(|ns| ns / 1e9)
        .filter(|value| *value > 0.0 && *value <= 86_400.0)
        .ok_or_else(|| format!("`{text}` is not a duration (like 3s or 500ms)"))
}

/// Sizes from the first to the last, each `factor` times the one before.
///
/// # Errors
/// When they are in the wrong order or the factor leads nowhere.
pub fn range(first: u64, last: u64, factor: u64) -> Result<Vec<u64>, String> {
    if first > last {
        return Err(format!(
            "the first size, {first} bytes (-b), is larger than the last, {last} (-e)"
        ));
    }
    if first == 0 {
        return Err("from a size of 0 no factor leads to a larger one".into());
    }
    if factor < 2 && first != last {
        return Err(format!(
            "expected a factor of 2 or more from one size to the next, found {factor}"
        ));
    }
    let next = |size: &u64| size.checked_mul(factor.max(2)).filter(|size| *size <= last);
    Ok(std::iter::successors(Some(first), next).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_nccl_tests_does() {
        for (text, bytes) in [
            ("8", 8),
            ("1K", 1024),
            ("1KiB", 1024),
            ("2m", 2 << 20),
            ("1G", 1 << 30),
            ("1.5K", 1536),
            ("0.5MiB", 1 << 19),
            ("2T", 2 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "1X",
            "-1",
            "1.2.3K",
            ".",
            "1e3K",
            "inf",
            "99999999999G",
            "2000T",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
        let parts = size("1.0001K").expect_err("no whole number");
        assert!(parts.contains("whole bytes"), "{parts}");
        let nothing = size("0").expect_err("nothing to move");
        assert!(nothing.contains("moves nothing"), "{nothing}");
    }

    #[test]
    fn what_differs_is_named_as_it_was_given() {
        let plan = |change: fn(&mut Plan)| {
            let mut plan = Plan {
                functions: vec![Function::AllReduce],
                sizes: vec![1024],
                datatype: Datatype::named("float").expect("a name"),
                reduction: Reduction::Sum,
                root: 0,
                placement: Placement::Both,
                group: 1,
                graph: 0,
                mode: Mode::Single,
                length: Length::Iterations(20),
                warmup: 5,
                check: true,
                max_skew_us: 10.0,
                hostid_per: None,
                stress: None,
            };
            change(&mut plan);
            plan
        };
        let ours = plan(|_| ());
        type Change = fn(&mut Plan);
        let changes: [(Change, &str); 15] = [
            (
                |p| p.stress = Some((1000, 1 << 20)),
                "--stress and --stress-size is 1000 of 1048576 bytes there and not given",
            ),
            (
                |p| p.functions.push(Function::AlltoAll),
                "FUNCTION is all_reduce,alltoall there and all_reduce",
            ),
            (
                |p| p.sizes.push(2048),
                "the list of sizes (-b, -e, -f, --sizes) is 1024,2048 there and 1024",
            ),
            (
                |p| p.datatype = Datatype::named("half").expect("a name"),
                "--datatype is half there and float",
            ),
            (
                |p| p.reduction = Reduction::Max,
                "--op is max there and sum",
            ),
            (|p| p.root = 1, "--root is 1 there and 0"),
            (
                |p| p.placement = Placement::In,
                "--placement is in there and both",
            ),
            (
                |p| p.mode = Mode::BackToBack,
                "--mode is back-to-back there and single",
            ),
            (|p| p.group = 8, "--group is 8 there and 1"),
            (|p| p.graph = 2, "--graph is 2 there and 0"),
            (
                |p| p.length = Length::Iterations(3),
                "--iters is 3 there and 20",
            ),
            (
                |p| p.length = Length::Seconds(0.5),
                "--time is 0.5s there and not given",
            ),
            (|p| p.warmup = 0, "--warmup-iters is 0 there and 5"),
            (|p| p.check = false, "--check is 0 there and 1"),
            (
                |p| p.hostid_per = Some(4),
                "--hostid-per is 4 there and not given",
            ),
        ];
        assert_eq!(ours.difference(&ours), None);
        for (change, says) in changes {
            let difference = plan(change).difference(&ours);
            let expected = Some(format!("{says} on rank 0"));
            assert_eq!(difference, expected);
        }
        assert!(plan(|p| p.max_skew_us = 5.0).difference(&ours).is_some());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(seconds("3s"), Ok(3.0));
        assert_eq!(seconds("500ms"), Ok(0.5));
        assert_eq!(seconds("1.5"), Ok(1.5));
        for text in ["", "s", "0", "-1s", "NaN", "inf"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_grow_by_the_factor() {
        assert_eq!(range(8, 64, 2), Ok(vec![8, 16, 32, 64]));
        assert_eq!(range(8, 100, 4), Ok(vec![8, 32]));
        assert_eq!(range(8, 8, 1), Ok(vec![8]));
        assert!(range(64, 8, 2).is_err());
        assert!(range(8, 64, 1).is_err());
        assert!(range(0, 64, 2).is_err());
        // Once went on for ever.
        assert!(range(0, 0, 2).is_err());
        assert_eq!(range(1 << 62, u64::MAX, 8).map(|s| s.len()), Ok(1));
    }
}
