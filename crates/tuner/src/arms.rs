//! The experiment: what is tried, on which calls, and in which order.

use nccl_abi::names::{ALGOS, FUNCS, PROTOS};
use std::ffi::c_int;
use std::path::PathBuf;

/// Arms at most, the default among them.
pub const MOST_ARMS: usize = 16;
/// Collectives of a block, if nobody says.
pub const BLOCK: u64 = 200;

/// The variable that has the experiment: words `KEY=VALUE`, the last of them `out`, which may have spaces.
///
/// `arms` are those after the default: `RING/LL;TREE/SIMPLE/8;-/LL128`, algorithm, protocol and channels,
/// with `-` for NCCL's choice. `block` is the number of collectives in a block, and `seed` gives the order.
/// `function` and `bytes` (`MIN-MAX`) limit what takes part. `ranks` is the size of the communicators that
/// take part, and `out` the folder of the log.
pub const VARIABLE: &str = "NCCLSCOPE_TUNE";
/// What launchers call the number of ranks of the job.
const WORLD: [&str; 4] = [
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_STEP_NUM_TASKS",
];

/// What NCCL is asked for; `None` leaves it to NCCL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arm {
    /// Number of the algorithm.
    pub algorithm: Option<usize>,
    /// Number of the protocol.
    pub protocol: Option<usize>,
    /// Channels.
    pub channels: Option<c_int>,
}

/// What is tried in this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The first is the default. At least two, at most [`MOST_ARMS`].
    pub arms: Vec<Arm>,
    /// The arms as they were asked for.
    pub text: String,
    /// Collectives of a block; not 0.
    pub block: u64,
    /// Where the log goes.
    pub out: PathBuf,
    seed: u64,
    function: Option<c_int>,
    bytes: (usize, usize),
    ranks: Option<usize>,
    /// The user's variables choose already.
    forced: bool,
}

impl Experiment {
    /// The experiment that variables describe; `None` if they describe none. What can't be read is none, so
    /// that ranks do not differ by what each makes of it.
    pub fn of(env: impl Fn(&str) -> Option<String>) -> Option<Experiment> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let all = env(VARIABLE)?;
        let (words, out) = all.split_once("out=").filter(|(_, out)| !out.is_empty())?;
        let mut said: [(&str, Option<&str>); 6] =
            ["arms", "block", "seed", "function", "bytes", "ranks"].map(|key| (key, None));
        for word in words.split_whitespace() {
            let (key, value) = word.split_once('=')?;
            said.iter_mut().find(|(known, _)| *known == key)?.1 = Some(value);
        }
        let [arms_text, block, seed, function, bytes, ranks] = said.map(|(_, value)| value);
        let mut arms = vec![Arm::default()];
        for arm in arms_text?.split(';') {
            arms.push(Arm::read(arm)?);
        }
        let number = |text: Option<&str>, or: u64| text.map_or(Some(or), |text| text.parse().ok());
        let function = match function {
            Some(name) => {
                let place = FUNCS.iter().position(|known| *known == name)?;
                Some(c_int::try_from(place).ok()?)
            }
            None => None,
        };
        let bytes = match bytes {
            Some(range) => {
                let (low, high) = range.split_once('-')?;
                (low.parse().ok()?, high.parse().ok()?)
            }
            None => (0, usize::MAX),
        };
        let ranks = match ranks {
            Some(text) => Some(text.parse().ok()?),
            None => WORLD.iter().find_map(|name| env(name)?.parse().ok()),
        };
        let experiment = Experiment {
            block: number(block, BLOCK)?,
            out: out.into(),
            seed: number(seed, 1)?,
            forced: env("NCCL_ALGO").is_some() || env("NCCL_PROTO").is_some(),
            arms,
            text: arms_text?.to_owned(),
            function,
            bytes,
            ranks,
        };
        let sound = experiment.block > 0 && (2..=MOST_ARMS).contains(&experiment.arms.len());
        sound.then_some(experiment)
    }

    /// Whether communicators of so many ranks take part: those of the whole job, unless a number was said.
    pub fn tunes(&self, ranks: usize) -> bool {
        ranks > 1 && self.ranks.is_none_or(|wanted| wanted == ranks)
    }

    /// Whether a collective takes part.
    pub fn takes(&self, function: c_int, bytes: usize) -> bool {
        let (low, high) = self.bytes;
        self.function.is_none_or(|wanted| wanted == function) && (low..=high).contains(&bytes)
    }

    /// Whether variables of the user's choose, whatever a tuner says.
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// The arm of a block: each round of blocks has each arm once, in an order of its own.
    pub fn arm_of(&self, communicator: u64, block: u64) -> usize {
        let arms = self.arms.len();
        let (round, place) = (block / arms as u64, (block % arms as u64) as usize);
        let mut state = self.seed ^ communicator ^ round.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        // On the stack: this runs in a call of NCCL's.
        let mut order: [usize; MOST_ARMS] = std::array::from_fn(|arm| arm);
        for last in (1..arms.min(MOST_ARMS)).rev() {
            order.swap(last, (next() % (last as u64 + 1)) as usize);
        }
        order.get(place).copied().unwrap_or(0)
    }
}

impl Arm {
    /// `RING/LL`, `TREE/-/8`.
    fn read(text: &str) -> Option<Arm> {
        let mut parts = text.split('/');
        let mut named = |names: &[&str]| match parts.next().unwrap_or("-") {
            "-" => Some(None),
            name => Some(Some(names.iter().position(|known| *known == name)?)),
        };
        let (algorithm, protocol) = (named(&ALGOS)?, named(&PROTOS)?);
        let channels = match parts.next().unwrap_or("-") {
            "-" => None,
            number => Some(number.parse().ok().filter(|n| (1..=64).contains(n))?),
        };
        let arm = Arm {
            algorithm,
            protocol,
            channels,
        };
        (parts.next().is_none() && !arm.is_default()).then_some(arm)
    }

    /// Whether it leaves all to NCCL.
    pub fn is_default(&self) -> bool {
        *self == Arm::default()
    }

    /// The cheapest entry of NCCL's table that is this arm; `None` if NCCL ignores all of them.
    pub fn cheapest(&self, costs: &[f32], columns: usize) -> Option<usize> {
        let is_this = |place: &usize| {
            let (row, column) = (place / columns, place % columns);
            self.algorithm.is_none_or(|wanted| wanted == row)
                && self.protocol.is_none_or(|wanted| wanted == column)
                // Whatever else is no cost is not ours to judge.
                && costs[*place] >= 0.0
        };
        let places = (0..costs.len()).filter(is_this);
        places.min_by(|a, b| costs[*a].total_cmp(&costs[*b]))
    }

    /// Algorithm and protocol, if every NCCL runs them: version 2 does not say what this one can't.
    pub fn everywhere(&self, function: c_int) -> Option<(c_int, c_int)> {
        let (algorithm, protocol) = (self.algorithm?, self.protocol?);
        let all_reduce = FUNCS.get(usize::try_from(function).ok()?) == Some(&"AllReduce");
        let runs = match *ALGOS.get(algorithm)? {
            "RING" => true,
            "TREE" => all_reduce,
            _ => false,
        };
        // LL128 corrupts data on links that do not keep the order of stores.
        (runs && PROTOS.get(protocol) != Some(&"LL128"))
            .then_some((algorithm as c_int, protocol as c_int))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARMS: &str = "arms=RING/LL;TREE/SIMPLE/8;-/LL128";

    fn experiment(words: &str, launcher: Option<&str>) -> Option<Experiment> {
        Experiment::of(|name| match name {
            VARIABLE => Some(words.to_owned()),
            "WORLD_SIZE" => launcher.map(str::to_owned),
            _ => None,
        })
    }

    fn standard() -> Experiment {
        experiment(&format!("{ARMS} out=/a b"), None).expect("an experiment")
    }

    #[test]
    fn an_experiment_is_read_or_it_is_none() {
        let read = standard();
        assert_eq!(read.arms.len(), 4);
        assert!(read.arms[0].is_default());
        assert_eq!(
            (read.arms[2].algorithm, read.arms[2].channels),
            (Some(0), Some(8))
        );
        assert_eq!(
            (read.arms[3].algorithm, read.arms[3].protocol),
            (None, Some(1))
        );
        assert_eq!((read.out.to_str(), read.block), (Some("/a b"), BLOCK));
        for wrong in [
            "",
            "RING/FAST",
            "FAST/LL",
            "-",
            "-/-",
            "RING/LL/0",
            "RING/LL/8/1",
            "RING/LL;",
        ] {
            assert_eq!(
                experiment(&format!("arms={wrong} out=/a"), None),
                None,
                "{wrong}"
            );
        }
        for wrong in [
            "block=0 out=/a",
            "bytes=3 out=/a",
            "function=Reduces out=/a",
            "out=",
            "more=1 out=/a",
            "",
        ] {
            assert_eq!(
                experiment(&format!("{ARMS} {wrong}"), None),
                None,
                "{wrong}"
            );
        }
    }

    #[test]
    fn communicators_of_the_whole_job_and_calls_that_were_named_take_part() {
        let all = standard();
        assert!(all.tunes(2) && all.tunes(8) && !all.tunes(1));
        let world = experiment(&format!("{ARMS} out=/a"), Some("8")).expect("an experiment");
        assert!(world.tunes(8) && !world.tunes(4));
        let said = experiment(&format!("{ARMS} ranks=4 out=/a"), Some("8")).expect("an experiment");
        assert!(said.tunes(4) && !said.tunes(8));
        let some = format!("{ARMS} function=Reduce bytes=10-20 out=/a");
        let some = experiment(&some, None).expect("an experiment");
        assert!(some.takes(1, 10) && some.takes(1, 20));
        assert!(!some.takes(1, 9) && !some.takes(1, 21) && !some.takes(3, 15));
    }

    #[test]
    fn a_round_has_each_arm_once_and_rounds_differ() {
        let of = standard();
        let round = |communicator: u64, round: u64| -> Vec<usize> {
            (0..4)
                .map(|place| of.arm_of(communicator, 4 * round + place))
                .collect()
        };
        let mut orders = std::collections::BTreeSet::new();
        for number in 0..100 {
            let mut sorted = round(7, number);
            orders.insert(sorted.clone());
            assert_eq!(round(7, number), sorted);
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        // Of 24 there are.
        assert!(orders.len() > 20, "{}", orders.len());
        let ten = |communicator| (0..10).map(|n| round(communicator, n)).collect::<Vec<_>>();
        assert_ne!(ten(7), ten(8));
    }

    #[test]
    fn the_cheapest_entry_that_nccl_does_not_ignore() {
        let arm = |text| Arm::read(text).expect("an arm");
        // TREE and RING, by LL, LL128 and SIMPLE.
        let costs = [5.0, -1.0, 3.0, 4.0, -1.0, 2.0];
        assert_eq!(arm("RING/LL").cheapest(&costs, 3), Some(3));
        assert_eq!(arm("TREE/-").cheapest(&costs, 3), Some(2));
        assert_eq!(arm("-/LL").cheapest(&costs, 3), Some(3));
        assert_eq!(arm("-/LL128").cheapest(&costs, 3), None);
        assert_eq!(arm("NVLS/SIMPLE").cheapest(&costs, 3), None);
        assert_eq!(arm("RING/LL").cheapest(&[], 3), None);
        assert_eq!(arm("TREE/LL").cheapest(&[f32::NAN; 6], 3), None);
    }

    #[test]
    fn without_a_table_nothing_is_asked_for_that_some_nccl_lacks() {
        let arm = |text| Arm::read(text).expect("an arm");
        assert_eq!(arm("RING/LL").everywhere(4), Some((1, 0)));
        assert_eq!(arm("TREE/SIMPLE").everywhere(4), Some((0, 2)));
        assert_eq!(arm("TREE/SIMPLE").everywhere(2), None);
        for unsure in ["RING/LL128", "NVLS/SIMPLE", "RING/-", "-/LL"] {
            assert_eq!(arm(unsure).everywhere(4), None, "{unsure}");
        }
    }
}
