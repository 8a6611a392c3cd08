//! Which of several settings is faster than the default, and how sure that is.
//!
//! A setting is an *arm* of the experiment; arm 0 is the default. Each round has one [`Trial`] of every arm,
//! in a random order. [`rank`] makes a [`Ranking`] of the trials. [`RunSeen`] is what one run's capture says:
//! how long steps took, and whether NCCL used what was asked.
//!
//! A round pairs each arm with the default. So what changes slowly (clocks, neighbours, temperature) changes
//! both, and cancels in their ratio. The ratios of the rounds are independent values, so Student's t gives
//! their interval. Nothing is assumed of how noisy an arm is: each is held against the default by its own
//! ratios only.
//!
//! From [`MANY`] rounds on, the middle three fifths of the ratios count (a trimmed mean), because a run that
//! long has moments in which something else happened.
//!
//! With k arms to judge, k intervals have k chances to be wrong. Each is therefore at 1 - 0.05 / k
//! (Bonferroni's inequality; O. J. Dunn, "Multiple comparisons among means", Journal of the American
//! Statistical Association 56, 1961). All of them together are right with 95 %, in whatever order they come.
//! Where no arm differs, one in twenty experiments at most names a winner. A test plays this.
//!
//! Rule: an arm is faster only if its whole interval lies below 1. An arm that NCCL did not obey, that is
//! what NCCL does by itself, or that did other work than the default, is no arm to judge.

pub mod blocks;
mod work;

use crate::interval::{of_runs_at, trimmed_at, OfRuns, CONFIDENCE};
use crate::settings::SettingRow;
use crate::Report;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::Capture;
pub use work::{OtherWork, Work};

/// The arm that everything is held against.
pub const DEFAULT: usize = 0;
/// From so many rounds on, values that are far off are left out.
const MANY: usize = 10;
/// Fewer rounds judge nothing. Two values say too little of their own spread: two of a normal distribution
/// lie ten times closer together than they should in 8 of 100 experiments, three in 1, four in 0.1. An
/// interval allows for that, but the arm that is named is then the one whose values were close by chance.
pub const LEAST_ROUNDS: usize = 4;
/// No more rounds than this are worth proposing.
const MOST_ROUNDS: u64 = 200;

/// One run, or one block of a run, with one arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// Round, from 0.
    pub round: u64,
    /// Arm, from 0.
    pub arm: usize,
    /// How long it took, µs; above 0.
    pub time_us: f64,
}

/// What is said of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The default.
    Default,
    /// Faster than the default, beyond noise.
    Faster,
    /// Slower than the default, beyond noise.
    Slower,
    /// The difference can't be told from noise.
    NotApart,
    /// It was not judged: NCCL did not obey, or it failed, or it is what the default does.
    NotJudged,
}

/// An arm against the default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Against {
    /// Its time by the default's, the mean over rounds; below 1 is faster.
    pub ratio: f64,
    /// Lower end of the ratio's interval, a share of the default's time; the intervals of all settings are 95
    /// % sure together.
    pub low: f64,
    /// Upper end, a share of the default's time.
    pub high: f64,
}

/// An arm in a [`Ranking`].
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ranked {
    /// Its number; 0 is the default.
    pub arm: usize,
    /// Times that it has.
    pub trials: u64,
    /// Their mean; from ten on, of the middle three fifths.
    pub mean_us: Option<f64>,
    /// Lower end of the mean's own 95 % interval; null below two times.
    pub low_us: Option<f64>,
    /// Upper end.
    pub high_us: Option<f64>,
    /// Against the default; null of the default, and below four rounds with both.
    pub against: Option<Against>,
    /// What is said of it.
    pub standing: Standing,
}

/// The arms, the fastest first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ranking {
    /// Arms without a time come last.
    pub arms: Vec<Ranked>,
    /// The arm to take: the fastest that is faster than the default, or the default if all others are slower.
    pub winner: Option<usize>,
    /// Arms that can't be told from the winner.
    pub as_fast: Vec<usize>,
    /// If there is no winner: rounds after which the fastest arm would be one, if its mean stays. Null if
    /// that is not known, or above 200.
    pub rounds_needed: Option<u64>,
}

/// The arms of a round in a random order, which the seed repeats (Fisher and Yates, with SplitMix64).
pub fn order(seed: u64, round: u64, arms: usize) -> Vec<usize> {
    let mut state = seed ^ round.wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut order: Vec<usize> = (0..arms).collect();
    for last in (1..arms).rev() {
        order.swap(last, (next() % (last as u64 + 1)) as usize);
    }
    order
}

/// Ranks `judged.len()` arms; those with false are listed, and not judged.
pub fn rank(judged: &[bool], trials: &[Trial]) -> Ranking {
    let mut times: Vec<BTreeMap<u64, f64>> = vec![BTreeMap::new(); judged.len()];
    for trial in trials.iter().filter(|trial| trial.time_us > 0.0) {
        if let Some(times) = times.get_mut(trial.arm) {
            times.insert(trial.round, trial.time_us);
        }
    }
    let is_judged = |arm: usize| judged[arm] && arm != DEFAULT;
    let comparisons = (0..judged.len()).filter(|arm| is_judged(*arm)).count();
    let mut arms: Vec<Ranked> = (0..judged.len())
        .map(|arm| {
            let against = (arm != DEFAULT).then(|| against(&times, arm, DEFAULT, comparisons));
            let against = against.flatten();
            let values: Vec<f64> = times[arm].values().copied().collect();
            let of = middle(&values, CONFIDENCE);
            let sum: f64 = values.iter().sum();
            Ranked {
                arm,
                trials: values.len() as u64,
                mean_us: match of {
                    Some(of) => Some(of.mean),
                    None => (!values.is_empty()).then(|| sum / values.len() as f64),
                },
                low_us: of.map(|of| of.low),
                high_us: of.map(|of| of.high),
                standing: match against {
                    _ if arm == DEFAULT => Standing::Default,
                    Some(against) if is_judged(arm) => against.standing(),
                    None if is_judged(arm) && !values.is_empty() => Standing::NotApart,
                    _ => Standing::NotJudged,
                },
                against,
            }
        })
        .collect();
    let mean = |of: &Ranked| of.mean_us.unwrap_or(f64::INFINITY);
    arms.sort_by(|a, b| mean(a).total_cmp(&mean(b)).then(a.arm.cmp(&b.arm)));
    let winner = winner(&arms);
    Ranking {
        as_fast: winner.map_or(Vec::new(), |winner| as_fast(&times, &arms, winner)),
        rounds_needed: match winner {
            None => rounds_needed(&times, &arms, comparisons),
            Some(_) => None,
        },
        winner,
        arms,
    }
}

impl Against {
    fn standing(self) -> Standing {
        match self {
            of if of.high < 1.0 => Standing::Faster,
            of if of.low > 1.0 => Standing::Slower,
            _ => Standing::NotApart,
        }
    }
}

/// Of rounds that have both: an arm by another, as one of so many comparisons.
fn against(
    times: &[BTreeMap<u64, f64>],
    arm: usize,
    other: usize,
    comparisons: usize,
) -> Option<Against> {
    let pairs = times[arm].iter();
    let ratio = |(round, time): (&u64, &f64)| Some(time / times[other].get(round)?);
    let ratios: Vec<f64> = pairs.filter_map(ratio).collect();
    if ratios.len() < LEAST_ROUNDS {
        return None;
    }
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let of = middle(&logarithms, confidence(comparisons))?;
    Some(Against {
        ratio: of.mean.exp(),
        low: of.low.exp(),
        high: of.high.exp(),
    })
}

/// The mean of one value for each round.
fn middle(values: &[f64], confidence: f64) -> Option<OfRuns> {
    if values.len() >= MANY {
        trimmed_at(values, confidence)
    } else {
        of_runs_at(values, confidence)
    }
}

/// How sure one of so many intervals is, for all to be 95 % sure together.
fn confidence(comparisons: usize) -> f64 {
    1.0 - (1.0 - CONFIDENCE) / comparisons.max(1) as f64
}

fn winner(arms: &[Ranked]) -> Option<usize> {
    let ratio = |of: &&Ranked| of.against.map_or(f64::INFINITY, |against| against.ratio);
    let faster = arms.iter().filter(|of| of.standing == Standing::Faster);
    let fastest = faster.min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    if let Some(fastest) = fastest {
        return Some(fastest.arm);
    }
    let standings: BTreeSet<u8> = arms.iter().map(|of| of.standing as u8).collect();
    let slower = standings.contains(&(Standing::Slower as u8));
    let open = standings.contains(&(Standing::NotApart as u8));
    (slower && !open).then_some(DEFAULT)
}

/// Arms that were judged, and that can't be told from the winner. Each pair of arms is one comparison.
fn as_fast(times: &[BTreeMap<u64, f64>], arms: &[Ranked], winner: usize) -> Vec<usize> {
    let others = |of: &&Ranked| of.arm != winner && of.standing != Standing::NotJudged;
    let n = arms.iter().filter(others).count();
    let apart = |arm: usize| {
        let against = against(times, arm, winner, n * (n + 1) / 2);
        against.is_some_and(|against| against.standing() != Standing::NotApart)
    };
    // Of the winner and the default it is known.
    let proved = |of: &Ranked| of.arm == DEFAULT || winner == DEFAULT;
    let close = arms
        .iter()
        .filter(|of| others(of) && !proved(of) && !apart(of.arm));
    close.map(|of| of.arm).collect()
}

/// How many rounds would tell the fastest arm from the default, if mean and noise stay as they are.
fn rounds_needed(times: &[BTreeMap<u64, f64>], arms: &[Ranked], comparisons: usize) -> Option<u64> {
    let fastest = arms.iter().find(|of| of.standing == Standing::NotApart)?;
    let ratio = |(round, time): (&u64, &f64)| Some((time / times[DEFAULT].get(round)?).ln());
    let ratios = times[fastest.arm].iter().filter_map(ratio);
    let ratios: Vec<f64> = ratios.collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    if ratios.len() < 2 || mean >= 0.0 {
        return None;
    }
    let squares: f64 = ratios.iter().map(|r| (r - mean) * (r - mean)).sum();
    let spread = (squares / (n - 1.0)).sqrt();
    let separates = |rounds: &u64| {
        // Rounds that scatter as these did.
        let half = crate::interval::student_at(*rounds as f64 - 1.0, confidence(comparisons));
        half * spread / (*rounds as f64).sqrt() < -mean
    };
    let more = (ratios.len() + 1).max(LEAST_ROUNDS) as u64;
    (more..=MOST_ROUNDS).find(separates)
}

/// What a run's capture says of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSeen {
    /// Median time of a step.
    pub step_us: Option<f64>,
    /// Calls in a step of the rank that it is of.
    pub step_calls: Option<u64>,
    /// From the first communicator to the last call, on the longest rank.
    pub wall_us: Option<f64>,
    /// What it did; null if there is no capture.
    pub work: Option<Work>,
    /// What became of the variables that were asked for.
    pub asked: Vec<AskedSetting>,
    /// Function, bytes, algorithm and protocol of what was called.
    pub used: BTreeSet<String>,
    /// Energy of the job's GPUs; `None` if it was not measured.
    pub energy_j: Option<f64>,
}

/// A variable that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedSetting {
    /// `NCCL_ALGO` and the like.
    pub variable: String,
    /// Whether it took effect.
    pub used: Used,
    /// Why it did not.
    pub why: Unused,
}

/// Why a variable did not take effect, or not everywhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Unused {
    /// The program set it to this value.
    Set(String),
    /// The program does not have it.
    NotThere,
    /// Calls of these functions used something else; of none if it took effect, or if NCCL does not tell.
    By(Vec<SettingRow>),
}

/// Whether a variable took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Used {
    /// All calls that it says something about used it.
    Yes,
    /// NCCL does not tell, as of most variables.
    NotTold,
    /// Some calls used it.
    Partly,
    /// No call used it, or the processes do not have it.
    No,
}

impl RunSeen {
    /// What `capture` says of a run that was asked for these variables.
    pub fn of(capture: &Capture, report: &Report, asked: &[(String, String)]) -> RunSeen {
        let reference = report.steps.as_ref().and_then(|steps| steps.reference());
        let asked = asked.iter().map(|(name, value)| {
            let (used, why) = used(capture, report, name, value);
            AskedSetting {
                variable: name.clone(),
                used,
                why,
            }
        });
        let operations = report.operations.iter().filter(|o| !o.is_p2p());
        let used = operations.map(|o| {
            let text = |of: &Option<String>| of.clone().unwrap_or_default();
            let (function, bytes) = (text(&o.function), o.bytes.unwrap_or(0));
            format!(
                "{function} {bytes} {} {}",
                text(&o.algorithm),
                text(&o.protocol)
            )
        });
        RunSeen {
            step_us: reference.and_then(|row| row.step_us?.p50),
            step_calls: reference.map(|row| row.calls),
            wall_us: report.ranks.wall_us.map(|wall| wall.max),
            work: Some(Work::of(report)),
            asked: asked.collect(),
            used: used.collect(),
            energy_j: report.nodes.energy.as_ref().map(|energy| energy.energy_j),
        }
    }
}

fn used(capture: &Capture, report: &Report, name: &str, value: &str) -> (Used, Unused) {
    let key = format!("env.{name}");
    let other = capture
        .processes
        .iter()
        .find(|p| p.fact(&key) != Some(value));
    if let Some(process) = other {
        return match process.fact(&key) {
            Some(other) => (Used::No, Unused::Set(other.to_owned())),
            None => (Used::No, Unused::NotThere),
        };
    }
    let rows = report.settings.iter().filter(|row| row.variable == name);
    let rows: Vec<_> = rows.collect();
    let obeyed: u64 = rows.iter().map(|row| row.obeyed).sum();
    let others: u64 = rows.iter().flat_map(|row| row.others.values()).sum();
    let by = rows.into_iter().filter(|row| !row.others.is_empty());
    let used = match (obeyed, others) {
        (0, 0) => Used::NotTold,
        (_, 0) => Used::Yes,
        (0, _) => Used::No,
        _ => Used::Partly,
    };
    (used, Unused::By(by.cloned().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Random;

    /// An experiment: means of the arms, rounds, noise of a run, and drift over the experiment.
    fn play(seed: u64, means: &[f64], rounds: u64, noise: f64) -> Ranking {
        let mut random = Random(seed);
        let mut trials = Vec::new();
        for round in 0..rounds {
            // The machine gets slower meanwhile, and all arms with it.
            let drift = 1.0 + 0.05 * round as f64 / rounds as f64;
            for (arm, mean) in means.iter().enumerate() {
                let time_us = mean * drift * (1.0 + noise * random.normal());
                trials.push(Trial {
                    round,
                    arm,
                    time_us,
                });
            }
        }
        rank(&vec![true; means.len()], &trials)
    }

    fn order(of: &Ranking) -> Vec<usize> {
        of.arms.iter().map(|arm| arm.arm).collect()
    }

    #[test]
    fn the_right_ranking_in_100_of_100_noisy_plays() {
        let means = [100.0, 88.0, 94.0, 112.0, 125.0];
        for seed in 1..=100 {
            let ranking = play(seed, &means, 8, 0.01);
            assert_eq!(order(&ranking), [1, 2, 0, 3, 4], "seed {seed}");
            assert_eq!(ranking.winner, Some(1), "seed {seed}");
        }
    }

    #[test]
    fn no_winner_in_95_of_100_plays_without_a_difference() {
        for (arms, rounds) in [(2, 5), (5, 5), (9, 5), (5, 12), (3, 40)] {
            let plays = 1000;
            let named = (0..plays).filter(|seed| {
                let ranking = play(1000 + seed, &vec![100.0; arms], rounds, 0.02);
                ranking.winner.is_some()
            });
            let named = named.count();
            // 5 % and three standard errors of a share of so many plays.
            assert!(
                named <= 70,
                "{arms} arms, {rounds} rounds: {named} of {plays}"
            );
        }
    }

    #[test]
    fn drift_within_rounds_and_heavy_tails_name_no_winner() {
        for (arms, rounds) in [(2, 5), (4, 6), (4, 30), (13, 5), (13, 20)] {
            let plays = 1000;
            let named = (0..plays).filter(|seed| {
                let mut random = Random(500_000 + seed);
                let (mut drift, mut trials) = (0.0, Vec::new());
                for round in 0..rounds {
                    for arm in super::order(*seed, round, arms) {
                        // A machine that wanders from run to run, and one run in twelve that is disturbed.
                        drift += 0.01 * random.normal();
                        let disturbed = random.below(12) == 0;
                        let tail = if disturbed { random.uniform() } else { 0.0 };
                        let noise = 0.01 * random.normal();
                        let time_us = 100.0 * (drift + noise + tail).exp();
                        trials.push(Trial {
                            round,
                            arm,
                            time_us,
                        });
                    }
                }
                rank(&vec![true; arms], &trials).winner.is_some()
            });
            let named = named.count();
            assert!(
                named <= 70,
                "{arms} arms, {rounds} rounds: {named} of {plays}"
            );
        }
    }

    #[test]
    fn a_few_values_that_are_far_off_hide_nothing_in_many_rounds() {
        let mut random = Random(5);
        let mut trials = Vec::new();
        for round in 0..20 {
            for (arm, mean) in [(0, 100.0), (1, 97.0)] {
                let off = match (round, arm) {
                    (3, 0) => 0.1,
                    (8, 1) => 4.0,
                    _ => 1.0,
                };
                let time_us = mean * off * (1.0 + 0.01 * random.normal());
                trials.push(Trial {
                    round,
                    arm,
                    time_us,
                });
            }
        }
        let ranking = rank(&[true, true], &trials);
        assert_eq!(ranking.winner, Some(1), "{ranking:?}");
    }

    #[test]
    fn an_arm_that_is_noisier_than_the_others_does_not_win_by_that() {
        let named = (0..1000).filter(|seed| {
            let mut random = Random(77 + seed);
            let mut trials = Vec::new();
            for round in 0..6 {
                for arm in 0..4 {
                    let noise = if arm == 3 { 0.08 } else { 0.01 };
                    let time_us = 100.0 * (1.0 + noise * random.normal());
                    trials.push(Trial {
                        round,
                        arm,
                        time_us,
                    });
                }
            }
            rank(&[true; 4], &trials).winner.is_some()
        });
        assert!(named.count() <= 70);
    }

    #[test]
    fn the_default_wins_if_everything_else_is_slower() {
        let ranking = play(3, &[100.0, 120.0, 130.0], 5, 0.005);
        assert_eq!(ranking.winner, Some(DEFAULT));
        // One arm that may be as fast leaves it open.
        assert_eq!(play(3, &[100.0, 120.0, 100.0], 5, 0.005).winner, None);
    }

    #[test]
    fn what_nccl_did_not_obey_is_no_winner() {
        let trials: Vec<Trial> = (0..5)
            .flat_map(|round| {
                let trial = move |(arm, time_us)| Trial {
                    round,
                    arm,
                    time_us,
                };
                [(0, 100.0 + round as f64), (1, 50.0), (2, 80.0)]
                    .into_iter()
                    .map(trial)
            })
            .collect();
        assert_eq!(rank(&[true, true, true], &trials).winner, Some(1));
        let ranking = rank(&[true, false, true], &trials);
        assert_eq!(ranking.winner, Some(2));
        let first = &ranking.arms[0];
        assert_eq!((first.arm, first.standing), (1, Standing::NotJudged));
    }

    #[test]
    fn arms_that_are_as_fast_as_the_winner_are_named() {
        let ranking = play(5, &[100.0, 80.0, 80.1, 90.0], 6, 0.003);
        let mut best = ranking.as_fast.clone();
        best.extend(ranking.winner);
        best.sort_unstable();
        assert_eq!(best, [1, 2]);
    }

    #[test]
    fn a_small_gain_asks_for_more_rounds_and_they_show_it() {
        let trial = |(round, time_us)| Trial {
            round,
            arm: 1,
            time_us,
        };
        let mut trials: Vec<Trial> = [97.0, 101.0, 98.0, 99.0]
            .into_iter()
            .enumerate()
            .map(|(round, time_us)| trial((round as u64, time_us)))
            .collect();
        trials.extend((0..4).map(|round| Trial {
            round,
            arm: 0,
            time_us: 100.0,
        }));
        let ranking = rank(&[true, true], &trials);
        assert_eq!(ranking.winner, None);
        let needed = ranking.rounds_needed.expect("an estimate");
        assert!((5..=200).contains(&needed), "{needed}");
        let found =
            (0..100).filter(|seed| play(*seed, &[100.0, 98.5], 40, 0.012).winner == Some(1));
        assert!(found.count() >= 95);
    }

    #[test]
    fn every_arm_comes_in_every_place_and_a_seed_repeats_the_order() {
        let mut firsts = [0; 3];
        for round in 0..300 {
            let order = super::order(7, round, 3);
            assert_eq!(order, super::order(7, round, 3));
            firsts[order[0]] += 1;
            let mut sorted = order;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        assert!(firsts.iter().all(|n| (70..=130).contains(n)), "{firsts:?}");
    }

    #[test]
    fn two_rounds_that_agree_by_chance_name_nobody() {
        // The slowest arm has two ratios that are all but equal.
        let times = [[100.0, 101.0], [80.0, 83.0], [98.0, 98.98]];
        let trials: Vec<Trial> = times
            .iter()
            .enumerate()
            .flat_map(|(arm, times)| {
                let rounds = times.iter().enumerate();
                rounds.map(move |(round, time_us)| Trial {
                    round: round as u64,
                    arm,
                    time_us: *time_us,
                })
            })
            .collect();
        let ranking = rank(&[true; 3], &trials);
        assert_eq!(ranking.winner, None);
        let open = |of: &&Ranked| of.standing == Standing::NotApart;
        assert_eq!(ranking.arms.iter().filter(open).count(), 2);
    }

    #[test]
    fn too_few_rounds_and_failed_runs_name_nobody() {
        assert_eq!(play(1, &[100.0, 50.0], 1, 0.0).winner, None);
        let only = [
            Trial {
                round: 0,
                arm: 1,
                time_us: 3.0,
            },
            Trial {
                round: 1,
                arm: 1,
                time_us: 3.0,
            },
        ];
        let ranking = rank(&[true, true], &only);
        assert_eq!((ranking.winner, ranking.arms[0].against), (None, None));
        assert_eq!(rank(&[true], &[]).arms[0].mean_us, None);
    }
}
