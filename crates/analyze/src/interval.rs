//! How far a mean of durations can be trusted, and how two means compare.
//!
//! A [`Batches`] takes durations in the order of the run and ends as a [`Mean`]; two of them make a
//! [`Comparison`], and [`holm`] judges many comparisons together.
//!
//! The method is batch means. Durations of one run are not independent: a slow moment slows many calls, on
//! all ranks at once. So the run is cut into a few equal stretches, each far longer than one call. Their
//! number is the square root of the number of operations, from 4 to [`MOST_BATCHES`]. All ranks of a stretch
//! go into one batch. The spread of the batches' means gives the error of the whole, by Student's t.
//!
//! If neighbouring batches are still alike, the error is widened by their correlation. That estimate is
//! rough, too, so only half of the batches − 1 degrees of freedom count. Two runs are compared by the
//! logarithm of the ratio (delta method), with Welch's degrees of freedom. A block bootstrap would give the
//! same with random numbers, a seed and a thousand times the work. For few blocks its percentiles are too
//! narrow, and those of t are not.
//!
//! Tests check it on synthetic AR(1) durations. A 95 % interval must cover the truth in at least 90 % of the
//! runs, up to a correlation of 0.8 between neighbours (0.9 from 100 operations on).
//!
//! Rule: it knows the noise within a run only. What differs from start to start (placement, clocks, other
//! jobs) shows when two equal runs are compared, and nowhere else.
//!
//! Sources: batch means, R. W. Conway, "Some tactical problems in digital simulation", Management Science
//! 10(1), 1963; why so few batches, B. Schmeiser, "Batch size effects in the analysis of simulation output",
//! Operations Research 30(3), 1982; unequal errors, B. L. Welch, "The generalization of 'Student's' problem
//! when several different population variances are involved", Biometrika 34, 1947, with the degrees of
//! freedom of F. E. Satterthwaite, "An approximate distribution of estimates of variance components",
//! Biometrics Bulletin 2(6), 1946; the block bootstrap that was not chosen, H. R. Künsch, "The jackknife and
//! the bootstrap for general stationary observations", Annals of Statistics 17(3), 1989.

use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};

/// Fewer operations than this have no interval.
pub const LEAST_OPERATIONS: usize = 16;
/// Fewer stretches of a run have no interval. Three have a wide one: t of one degree of freedom is 12.7.
pub const LEAST_STRETCHES: usize = 3;
/// More batches would make t hardly smaller and the batches more alike.
pub const MOST_BATCHES: usize = 16;
/// How sure an interval is.
pub const CONFIDENCE: f64 = 0.95;
/// Correlation of neighbouring batches beyond this can't be told from a drift.
const MOST_CORRELATED: f64 = 0.7;

/// Durations in order, summed up in equal stretches of the run.
#[derive(Clone, Debug)]
pub struct Batches {
    /// Sum and number of durations.
    batches: Vec<(f64, f64)>,
    /// With durations in fewer of them there is no mean.
    least: usize,
}

/// A mean and its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub freedom: f64,
}

/// Two means, B against A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// B / A.
    pub ratio: f64,
    /// Ends of its interval.
    pub ratio_interval: (f64, f64),
    /// B − A.
    pub difference: f64,
    /// Ends of its interval.
    pub difference_interval: (f64, f64),
    log_error: f64,
    freedom: f64,
}

impl Batches {
    /// For runs whose longest series has so many operations; `None` when they are too few.
    pub fn new(operations: usize) -> Option<Batches> {
        let batches = operations.isqrt().clamp(4, MOST_BATCHES);
        (operations >= LEAST_OPERATIONS).then(|| Batches {
            batches: vec![(0.0, 0.0); batches],
            least: 4,
        })
    }

    /// Of stretches of a run in order, each with its sum and number of durations; `None` when there are fewer
    /// than [`LEAST_STRETCHES`].
    pub fn of_stretches(stretches: &[(f64, f64)]) -> Option<Batches> {
        let number: f64 = stretches.iter().map(|s| s.1).sum();
        if stretches.len() < LEAST_STRETCHES || number < LEAST_OPERATIONS as f64 {
            return None;
        }
        let most = (number as usize).min(stretches.len() * 4).isqrt();
        let mut batches = Batches {
            batches: vec![(0.0, 0.0); most.clamp(LEAST_STRETCHES, MOST_BATCHES)],
            least: LEAST_STRETCHES,
        };
        for (index, (sum, number)) in stretches.iter().enumerate() {
            batches.add(index, stretches.len(), *sum, *number);
        }
        Some(batches)
    }

    /// Adds `number` durations with this sum, of operation `index` in a series of `length`; `index < length`.
    pub fn add(&mut self, index: usize, length: usize, sum: f64, number: f64) {
        let at = (index as u128 * self.batches.len() as u128 / length.max(1) as u128) as usize;
        if let Some(batch) = self.batches.get_mut(at) {
            *batch = (batch.0 + sum, batch.1 + number);
        }
    }

    /// The mean. `resolution` is the step of the clock: what the mean can't be known better than. `None` when
    /// too few batches have durations, or the mean is 0.
    pub fn mean(&self, resolution: f64) -> Option<Mean> {
        let filled: Vec<(f64, f64)> = self.batches.iter().filter(|b| b.1 > 0.0).copied().collect();
        let n = filled.len() as f64;
        if filled.len() < self.least {
            return None;
        }
        let (sum, number) = filled
            .iter()
            .fold((0.0, 0.0), |(s, c), b| (s + b.0, c + b.1));
        let mean = sum / number;
        // Batches of more durations weigh more.
        let deviations: Vec<f64> = filled
            .iter()
            .map(|(sum, count)| (sum - mean * count) * n / number)
            .collect();
        let squares: f64 = deviations.iter().map(|d| d * d).sum();
        let mut variance = squares / (n - 1.0) / n;
        if squares > 0.0 {
            let neighbours: f64 = deviations.windows(2).map(|d| d[0] * d[1]).sum();
            // An estimate from n values is too low by about 1/n.
            let alike = (neighbours / squares + 1.0 / n).clamp(0.0, MOST_CORRELATED);
            variance *= (1.0 + alike) / (1.0 - alike);
        }
        (mean > 0.0).then(|| Mean {
            mean,
            error: (variance + resolution * resolution / 12.0).sqrt(),
            // All of them give 7 false alarms in 100 where 12 kinds are judged together (in the tests).
            freedom: (n - 1.0) / 2.0,
        })
    }
}

impl Mean {
    /// Ends of its interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let t = StudentsT::new(0.0, 1.0, self.freedom.max(1.0)).ok()?;
        let half = t.inverse_cdf(0.5 + CONFIDENCE / 2.0) * self.error;
        Some((self.mean - half, self.mean + half))
    }

    /// How likely such a mean is where the true one is 0.
    pub fn p_by_chance(&self) -> Option<f64> {
        let t = StudentsT::new(0.0, 1.0, self.freedom.max(1.0)).ok()?;
        Some(if self.error > 0.0 {
            t.sf(self.mean / self.error)
        } else {
            0.0
        })
    }

    /// The sum of means that rise and fall together, each times its weight. Their errors add up, as if a slow
    /// moment hit all of them: never too narrow. `None` of nothing.
    pub fn total(parts: &[(f64, Mean)]) -> Option<Mean> {
        let sum = |of: fn(&Mean) -> f64| parts.iter().map(|(w, m)| w * of(m)).sum();
        Some(Mean {
            mean: sum(|m| m.mean),
            error: sum(|m| m.error),
            freedom: parts.iter().map(|(_, m)| m.freedom).reduce(f64::min)?,
        })
    }
}

impl Comparison {
    /// `b` against `a`.
    pub fn new(a: &Mean, b: &Mean) -> Comparison {
        // Welch's: two errors that need not be alike.
        let join = |a_variance: f64, b_variance: f64| {
            let variance = a_variance + b_variance;
            let freedom = variance * variance
                / (a_variance * a_variance / a.freedom + b_variance * b_variance / b.freedom);
            // 0 / 0 of two errors that are 0.
            let freedom = if freedom.is_finite() {
                freedom.max(1.0)
            } else {
                1.0
            };
            (
                variance.sqrt(),
                freedom,
                freedom_t(freedom).inverse_cdf(0.5 + CONFIDENCE / 2.0),
            )
        };
        let square = |x: f64| x * x;
        let (log_error, freedom, t) = join(square(a.error / a.mean), square(b.error / b.mean));
        let (error, _, t_difference) = join(square(a.error), square(b.error));
        let (ratio, difference) = (b.mean / a.mean, b.mean - a.mean);
        Comparison {
            ratio,
            ratio_interval: (
                ratio * (-t * log_error).exp(),
                ratio * (t * log_error).exp(),
            ),
            difference,
            difference_interval: (
                difference - t_difference * error,
                difference + t_difference * error,
            ),
            log_error,
            freedom,
        }
    }

    /// How likely a ratio at least this far above `limit` is where the true one is `limit`: small when B is
    /// slower than that.
    pub fn p_above(&self, limit: f64) -> f64 {
        let distance = (self.ratio / limit).ln();
        if self.log_error == 0.0 {
            return if distance > 0.0 { 0.0 } else { 1.0 };
        }
        freedom_t(self.freedom).sf(distance / self.log_error)
    }

    /// How likely a ratio at least this far from 1, either way, is where the true one is 1.
    pub fn p_different(&self) -> f64 {
        if self.log_error == 0.0 {
            return if self.ratio == 1.0 { 1.0 } else { 0.0 };
        }
        let above = self.p_above(1.0);
        (2.0 * above.min(1.0 - above)).min(1.0)
    }
}

/// A figure of several runs, each of which gave one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfRuns {
    /// Their mean.
    pub mean: f64,
    /// Ends of its interval.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// The mean of independent runs, by Student's t; `None` below two runs. Unlike a [`Mean`], it has in it what
/// differs from start to start.
pub fn of_runs(values: &[f64]) -> Option<OfRuns> {
    of_runs_at(values, CONFIDENCE)
}

/// As [`of_runs`], with an interval that is this sure.
pub fn of_runs_at(values: &[f64], confidence: f64) -> Option<OfRuns> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let error = (squares / (n - 1.0) / n).sqrt();
    let t = freedom_t(n - 1.0).inverse_cdf(0.5 + confidence / 2.0);
    Some(OfRuns {
        mean,
        low: mean - t * error,
        high: mean + t * error,
    })
}

/// As [`of_runs`], of the middle three fifths, so that a few values that are far off move nothing: the
/// trimmed mean with the error of J. W. Tukey and D. H. McLaughlin, "Less vulnerable confidence and
/// significance procedures for location based on a single sample", Sankhyā A 25(3), 1963. `None` below five
/// values.
pub fn trimmed_at(values: &[f64], confidence: f64) -> Option<OfRuns> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 5;
    let kept = sorted.get(cut..sorted.len() - cut).filter(|_| cut > 0)?;
    let (low, high) = (*kept.first()?, *kept.last()?);
    let (n, h) = (sorted.len() as f64, kept.len() as f64);
    let mean = kept.iter().sum::<f64>() / h;
    // Winsorized: what was cut counts as the nearest that was kept.
    let all: Vec<f64> = sorted.iter().map(|v| v.clamp(low, high)).collect();
    let centre = all.iter().sum::<f64>() / n;
    let squares: f64 = all.iter().map(|v| (v - centre) * (v - centre)).sum();
    let error = (squares / (n - 1.0)).sqrt() * n.sqrt() / h;
    let t = freedom_t(h - 1.0).inverse_cdf(0.5 + confidence / 2.0);
    Some(OfRuns {
        mean,
        low: mean - t * error,
        high: mean + t * error,
    })
}

/// As [`of_runs`], of ratios: their geometric mean, so that a ratio and its inverse weigh the same (P. J.
/// Fleming and J. J. Wallace, "How not to lie with statistics: the correct way to summarize benchmark
/// results", Communications of the ACM 29(3), 1986).
pub fn ratio_of_runs(ratios: &[f64]) -> Option<OfRuns> {
    let logarithms: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
    let logarithm = of_runs(&logarithms)?;
    Some(OfRuns {
        mean: logarithm.mean.exp(),
        low: logarithm.low.exp(),
        high: logarithm.high.exp(),
    })
}

/// Distances between the steps that are compared. A pattern of up to so many steps is no chance. Steps that
/// are nearer to each other are alike anyway.
const REGULAR: (usize, usize) = (4, 16);

/// How long the others wait for a rank by chance alone, per step. `late` is by how much it is later than the
/// latest of so many others in each step.
///
/// A rank whose lateness varies is last now and then, even if it is no later than the others on average. How
/// often depends on how many they are ([`last_by_chance`]).
pub(crate) fn waits_by_chance(late: &[f64], others: usize) -> f64 {
    by_chance(late) * last_by_chance(others)
}

/// The standard deviation of values by chance, if they are normal.
///
/// It is estimated from the differences between steps a few apart. Their median is taken at the distance at
/// which steps differ least. So neither a pattern that repeats nor a few very late steps count as chance. The
/// median as a robust measure of spread: F. R. Hampel, "The influence curve and its role in robust
/// estimation", Journal of the American Statistical Association 69, 1974.
pub(crate) fn by_chance(values: &[f64]) -> f64 {
    1.4826 * apart(values, |apart| apart[apart.len() / 2])
}

/// What it is at most: from the mean of the differences, in which a few very late steps do count.
pub(crate) fn by_chance_at_most(values: &[f64]) -> f64 {
    let mean = |apart: &[f64]| apart.iter().sum::<f64>() / apart.len() as f64;
    (std::f64::consts::PI / 2.0).sqrt() * apart(values, mean)
}

/// How far steps differ from those a few later, at the distance at which that is least. It is divided by √2,
/// because both of two vary. `of` takes the differences, sorted.
fn apart(values: &[f64], of: fn(&[f64]) -> f64) -> f64 {
    let apart = |lag: usize| {
        let pairs = values.iter().zip(&values[lag..]);
        let mut apart: Vec<f64> = pairs.map(|(a, b)| (a - b).abs()).collect();
        apart.sort_by(f64::total_cmp);
        of(&apart)
    };
    let most = REGULAR.1.min(values.len() / 4);
    let lags = REGULAR.0.min(most)..=most;
    let least = lags.filter(|lag| *lag > 0).map(apart).reduce(f64::min);
    least.unwrap_or(0.0) / std::f64::consts::SQRT_2
}

/// Sorts these, and takes from each what a value at its place in the order is off by chance: normal values of
/// this spread. What is left is no chance.
pub(crate) fn without_chance<T>(values: &mut [(i64, T)], spread: f64) {
    let (normal, n) = (Normal::standard(), values.len() as f64);
    values.sort_by_key(|(value, _)| *value);
    for (place, (value, _)) in values.iter_mut().enumerate() {
        let by_chance = spread * normal.inverse_cdf((place as f64 + 0.5) / n);
        *value = value.saturating_sub(by_chance as i64);
    }
}

/// By how much a rank is later than the latest of so many others, on average, and 0 if it is not later.
///
/// All ranks are late by normal, independent amounts of one width. So this is how much later the latest of
/// all is than the latest of the others. Its unit is the standard deviation of the difference between the
/// rank and the latest other. For two ranks it is 0.4. Of many ranks, one more is hardly ever the last.
fn last_by_chance(others: usize) -> f64 {
    const STEP: f64 = 0.01;
    let normal = Normal::standard();
    // Mean and mean square of the latest of so many.
    let latest = |of: usize| {
        let points = (-800..=800).map(|n| STEP * f64::from(n));
        points.fold((0.0, 0.0), |(mean, square), x| {
            let density = of as f64 * normal.pdf(x) * normal.cdf(x).powi(of as i32 - 1) * STEP;
            (mean + x * density, square + x * x * density)
        })
    };
    let (others, all) = (latest(others.max(1)), latest(others.max(1) + 1));
    let variance = others.1 - others.0 * others.0;
    (all.0 - others.0) / (1.0 + variance).sqrt()
}

/// Half of a 95 % interval, in standard errors with so many degrees of freedom.
pub(crate) fn student(freedom: f64) -> f64 {
    student_at(freedom, CONFIDENCE)
}

/// As [`student`], of an interval that is this sure.
pub(crate) fn student_at(freedom: f64, confidence: f64) -> f64 {
    freedom_t(freedom.max(1.0)).inverse_cdf(0.5 + confidence / 2.0)
}

fn freedom_t(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("at least one degree of freedom")
}

/// Which of many tests fail when all together shall raise a false alarm with probability `level` at most
/// (S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics
/// 6(2), 1979).
pub fn holm(p: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]).then(a.cmp(b)));
    let mut rejected = vec![false; p.len()];
    for (done, index) in order.into_iter().enumerate() {
        if p[index] > level / (p.len() - done) as f64 {
            break;
        }
        rejected[index] = true;
    }
    rejected
}

/// Those of many that stand out by more than chance gives one of so many, by [`holm`]. `p` says how likely
/// each is by chance; one without it is not judged.
pub fn beyond_chance<T>(
    of: impl IntoIterator<Item = T>,
    p: impl Fn(&T) -> Option<f64>,
    level: f64,
) -> Vec<T> {
    let judged = of.into_iter().filter_map(|one| p(&one).map(|p| (one, p)));
    let (judged, p): (Vec<T>, Vec<f64>) = judged.unzip();
    let rejected = judged.into_iter().zip(holm(&p, level));
    rejected
        .filter_map(|(one, out)| out.then_some(one))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Random;

    impl Random {
        pub(crate) fn normal(&mut self) -> f64 {
            (-2.0 * (1.0 - self.uniform()).ln()).sqrt()
                * (self.uniform() * std::f64::consts::TAU).cos()
        }

        /// A run of `n` operations whose durations are AR(1) around `mean`.
        fn run(&mut self, n: usize, correlation: f64, mean: f64, spread: f64) -> Mean {
            let mut batches = Batches::new(n).expect("enough");
            let mut x = self.normal();
            for index in 0..n {
                x = correlation * x + (1.0 - correlation * correlation).sqrt() * self.normal();
                batches.add(index, n, mean * (1.0 + spread * x), 1.0);
            }
            batches.mean(0.0).expect("a mean")
        }
    }

    #[test]
    fn an_interval_of_95_percent_covers_the_truth_in_90_of_100_correlated_runs() {
        let cases = [
            (40, [0.0, 0.5, 0.8].as_slice()),
            (100, &[0.0, 0.5, 0.8, 0.9]),
            (1000, &[0.0, 0.5, 0.8, 0.9, 0.95]),
        ];
        for (n, correlations) in cases {
            for correlation in correlations {
                let mut random = Random(7 + n as u64);
                let runs = 1000;
                let covered = (0..runs).filter(|_| {
                    let a = random.run(n, *correlation, 100.0, 0.1);
                    let b = random.run(n, *correlation, 110.0, 0.1);
                    let c = Comparison::new(&a, &b);
                    let (low, high) = c.ratio_interval;
                    let (less, more) = c.difference_interval;
                    (low..=high).contains(&1.1) && (less..=more).contains(&10.0)
                });
                let share = covered.count() as f64 / f64::from(runs);
                assert!(
                    (0.90..=0.995).contains(&share),
                    "n {n}, correlation {correlation}: {share}"
                );
            }
        }
    }

    /// What this module would be with the percentiles of a bootstrap over steps, each of 8 calls, in its
    /// place.
    #[test]
    fn a_bootstrap_over_steps_covers_the_truth_less_often() {
        const STEP: usize = 8;
        for (steps, correlation) in [(12, 0.5), (25, 0.8), (60, 0.95)] {
            let mut random = Random(29);
            let (mut ours, mut theirs) = (0, 0);
            for _ in 0..400 {
                let mut batches = Batches::new(steps * STEP).expect("enough");
                let mut sums = vec![0.0; steps];
                let mut x = random.normal();
                for index in 0..steps * STEP {
                    x = correlation * x
                        + (1.0 - correlation * correlation).sqrt() * random.normal();
                    batches.add(index, steps * STEP, 100.0 + 10.0 * x, 1.0);
                    sums[index / STEP] += 100.0 + 10.0 * x;
                }
                let (low, high) = batches.mean(0.0).and_then(|m| m.interval()).expect("known");
                ours += u32::from((low..=high).contains(&100.0));
                let mut means: Vec<f64> = (0..400)
                    .map(|_| {
                        let drawn =
                            (0..steps).map(|_| sums[(random.uniform() * steps as f64) as usize]);
                        drawn.sum::<f64>() / (steps * STEP) as f64
                    })
                    .collect();
                means.sort_by(f64::total_cmp);
                theirs += u32::from((means[9]..=means[389]).contains(&100.0));
            }
            println!("{steps} steps, correlation {correlation}: batch means {ours}, bootstrap {theirs} of \
                400");
            assert!(
                ours > theirs && ours >= 360,
                "{steps} steps: {ours}, {theirs}"
            );
        }
    }

    #[test]
    fn equal_runs_raise_false_alarms_in_5_of_100_jobs_at_most() {
        // A job of 12 kinds of operations: one alarm is a false verdict.
        for correlation in [0.0, 0.5, 0.8] {
            let mut random = Random(11);
            let jobs = 400;
            let alarms = (0..jobs).filter(|_| {
                let p: Vec<f64> = (0..12)
                    .map(|_| {
                        let a = random.run(200, correlation, 50.0, 0.2);
                        let b = random.run(200, correlation, 50.0, 0.2);
                        Comparison::new(&a, &b).p_different()
                    })
                    .collect();
                holm(&p, 1.0 - CONFIDENCE).contains(&true)
            });
            let share = alarms.count() as f64 / f64::from(jobs);
            assert!(share <= 0.05, "correlation {correlation}: {share}");
        }
    }

    #[test]
    fn ten_percent_more_is_found_and_is_not_twenty() {
        let mut random = Random(13);
        let runs = 300;
        let (mut slower, mut slower_than_5, mut slower_than_20) = (0, 0, 0);
        for _ in 0..runs {
            let a = random.run(1000, 0.5, 100.0, 0.1);
            let b = random.run(1000, 0.5, 110.0, 0.1);
            let c = Comparison::new(&a, &b);
            slower += u32::from(c.ratio_interval.0 > 1.0);
            slower_than_5 += u32::from(c.p_above(1.05) < 0.025);
            slower_than_20 += u32::from(c.p_above(1.2) < 0.025);
        }
        assert_eq!((slower, slower_than_5, slower_than_20), (runs, runs, 0));
    }

    #[test]
    fn the_interval_and_its_test_agree() {
        let mut random = Random(17);
        for _ in 0..100 {
            let a = random.run(100, 0.5, 100.0, 0.1);
            let b = random.run(100, 0.5, 102.0, 0.1);
            let c = Comparison::new(&a, &b);
            assert_eq!(c.ratio_interval.0 > 1.01, c.p_above(1.01) < 0.025);
            let outside = c.ratio_interval.0 > 1.0 || c.ratio_interval.1 < 1.0;
            assert_eq!(outside, c.p_different() < 0.05);
        }
    }

    #[test]
    fn a_spike_widens_the_interval_and_no_spread_leaves_the_clocks_step() {
        let flat = |spike: f64| {
            let mut batches = Batches::new(100).expect("enough");
            (0..100).for_each(|i| batches.add(i, 100, if i == 50 { spike } else { 10.0 }, 1.0));
            batches.mean(0.032).expect("a mean")
        };
        let same = Comparison::new(&flat(10.0), &flat(10.0));
        let (low, high) = same.ratio_interval;
        assert!(low > 0.995 && low < 1.0 && high > 1.0 && high < 1.005);
        let spiked = Comparison::new(&flat(10.0), &flat(210.0));
        assert!(spiked.ratio > 1.19 && spiked.ratio_interval.0 < 1.0);
        let exact = Mean {
            mean: 10.0,
            error: 0.0,
            freedom: 9.0,
        };
        let twice = Mean {
            mean: 20.0,
            ..exact
        };
        let compare = |b| {
            let c = Comparison::new(&exact, b);
            (c.ratio_interval, c.p_different(), c.p_above(1.5))
        };
        assert_eq!(compare(&exact), ((1.0, 1.0), 1.0, 1.0));
        assert_eq!(compare(&twice), ((2.0, 2.0), 0.0, 0.0));
    }

    #[test]
    fn an_interval_of_few_runs_covers_the_truth_in_95_of_100() {
        let mut random = Random(19);
        for runs in [2, 3, 5, 10] {
            let covered = (0..2000).filter(|_| {
                let ratios: Vec<f64> = (0..runs)
                    .map(|_| 1.1 * (0.05 * random.normal()).exp())
                    .collect();
                let interval = ratio_of_runs(&ratios).expect("two runs or more");
                (interval.low..=interval.high).contains(&1.1)
            });
            let share = covered.count() as f64 / 2000.0;
            assert!((0.935..=0.965).contains(&share), "{runs} runs: {share}");
        }
        assert_eq!(of_runs(&[1.0]), None);
        let exact = of_runs(&[2.0, 2.0]).expect("two");
        assert_eq!((exact.low, exact.mean, exact.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn waits_by_chance_are_what_noise_makes_and_no_pattern() {
        let mut random = Random(23);
        let noise: Vec<f64> = (0..4000).map(|_| 5.0 + random.normal()).collect();
        // E max(0, x) of a normal x is 0.399 of its width.
        let chance = waits_by_chance(&noise, 1);
        assert!((0.35..0.42).contains(&chance), "{chance}");
        // Of n normal values, the largest is 0, 0.564, 0.846, 1.029 of their width above their mean.
        assert!((last_by_chance(1) - 0.564 / 2f64.sqrt()).abs() < 1e-3);
        let of_four = (1.029 - 0.846) / (1.0 + 0.559f64).sqrt();
        assert!((last_by_chance(3) - of_four).abs() < 2e-3);
        let now_and_then: Vec<f64> = (0..400)
            .map(|i| if i % 10 == 3 { 40.0 } else { 0.0 })
            .collect();
        assert_eq!(waits_by_chance(&now_and_then, 1), 0.0);
        let by_turns: Vec<f64> = (0..40).map(|i| f64::from(i % 2) * 5.0).collect();
        assert_eq!(waits_by_chance(&by_turns, 1), 0.0);
        assert_eq!(waits_by_chance(&[1.0, 9.0], 1), 0.0);
        // A rank that is late by 5, and one that is late by 40 in a tenth of the steps.
        for (more, whole) in [
            (|_| 5.0, 5.0),
            (|i| [0.0, 40.0][usize::from(i % 10 == 3)], 4.0),
        ] as [(fn(usize) -> f64, f64); 2]
        {
            let late = |(i, x): (usize, &f64)| (1e3 * (x - 5.0 + more(i))) as i64;
            let mut late: Vec<(i64, ())> = noise
                .iter()
                .enumerate()
                .map(late)
                .map(|x| (x, ()))
                .collect();
            without_chance(&mut late, 1e3);
            let mean = late.iter().map(|(x, ())| *x as f64).sum::<f64>() / 4e6;
            assert!((mean - whole).abs() < 0.05, "{mean}");
            assert!(late.iter().all(|(x, ())| *x < 42_000));
        }
    }

    #[test]
    fn too_few_or_no_durations_have_no_interval() {
        assert!(Batches::new(LEAST_OPERATIONS - 1).is_none());
        assert_eq!(
            Batches::new(LEAST_OPERATIONS).and_then(|b| b.mean(0.0)),
            None
        );
        assert_eq!(Mean::total(&[]), None);
    }

    #[test]
    fn holm_takes_the_smallest_first_and_stops_at_the_first_that_holds() {
        assert_eq!(holm(&[0.04, 0.01, 0.03], 0.05), [false, true, false]);
        assert_eq!(holm(&[0.02, 0.01, 0.015], 0.05), [true, true, true]);
        assert_eq!(holm(&[], 0.05), Vec::<bool>::new());
    }
}
