//! How long would it take with another size, or on more ranks: cost models of what was measured.
//!
//! [`fit`] makes a [`CostModel`] of [`Measurement`]s with the same function, algorithm, protocol and group of
//! ranks. The model is Hockney's: a message of m bytes takes α + βm. A collective takes several such messages
//! in a row, its steps, and sends a multiple of its size S over the busiest link, its volume ([`Formula`]).
//! So its time is a line over the size: t = steps × α + volume × β × S. [`CostModel::predict`] says the time
//! of another size or number of ranks, and how far outside the measurements that is.
//!
//! Within the measured sizes, what was measured counts and not the line: times are interpolated between the
//! two nearest sizes, linearly in logarithms. How good that is shows when each size is left out and
//! interpolated from its neighbours ([`CostModel::left_out_p50_share`]); the interval is that scatter. If
//! that misses by more than a factor of two (root mean square), the line is used within the sizes, too. The
//! line is for other sizes and other numbers of ranks. If it is off by more than a factor of two, it is no
//! line: it has no α and β, and nothing is predicted by it. Data that neither fits predicts nothing at all.
//!
//! The line is fitted by least squares of relative errors, because times span four powers of ten and their
//! noise grows with them. Intervals are Student's, of the line's two parameters and, for a prediction, of a
//! single measurement. They assume that the line is right. Where it is not, for example because NCCL uses
//! more channels from some size on, the residuals show that: they stand beside every model.
//!
//! Rule: a model is fitted to three sizes or more, never to two. What the formula does not know (NVLS,
//! CollNet and PAT over other numbers of ranks) is not predicted.
//!
//! Sources: R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994, for the
//! line and the size at which half of the bandwidth is reached; R. Thakur, R. Rabenseifner and W. Gropp,
//! "Optimization of collective communication operations in MPICH", International Journal of High Performance
//! Computing Applications 19(1), 2005, for steps and volumes; P. Sanders, J. Speck and J. L. Träff, "Two-tree
//! algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35(12), 2009, for trees;
//! N. R. Draper and H. Smith, "Applied regression analysis", 3rd edition, 1998, for weights and intervals.

use crate::bandwidth::{Bandwidth, BYTES_PER_US_AT_GB_PER_S};
use crate::interval::student;
use crate::job::CommunicatorRow;
use crate::operations::Operation;
use crate::spelling::size;
use crate::statistics::median;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A line, or an interpolation, from which the logarithms of the measurements are further, root mean square,
/// is none: it is off by a factor of two.
const NO_LINE: f64 = std::f64::consts::LN_2;

/// Fewer sizes than this make no model.
pub const LEAST_SIZES: usize = 3;

/// What a model is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Subject {
    /// Communicator id; null for a benchmark's table.
    pub communicator: Option<String>,
    /// Function, as captures name it.
    pub function: String,
    /// Algorithm; null where nobody says. Collectives are then taken for rings.
    pub algorithm: Option<String>,
    /// Protocol; null where nobody says, and for a model of all protocols together.
    pub protocol: Option<String>,
    /// Ranks.
    pub nranks: u32,
    /// Nodes; null where that is not known.
    pub nnodes: Option<u32>,
}

/// What was measured at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What it is of.
    pub of: Subject,
    /// Bytes by the convention of nccl-tests.
    pub bytes: u64,
    /// How long the operation took: that of the median operation's shortest rank, or a benchmark's mean.
    pub time_us: f64,
    /// How long NCCL itself expected it to take, if that was recorded.
    pub nccl_us: Option<f64>,
}

/// Bytes, measured time and NCCL's own estimate, µs.
type Point = (u64, f64, Option<f64>);

/// How often α and β are paid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formula {
    /// Messages in a row.
    pub steps: f64,
    /// What the busiest link carries, as a part of the size.
    pub volume: f64,
    /// The same in words.
    pub words: &'static str,
}

impl Formula {
    /// The formula of a function over so many ranks; `None` where there is none, and over one rank. A tree is
    /// a chain within a node, and binary between nodes. Where nodes are not known, it is binary between
    /// ranks.
    pub fn of(
        function: &str,
        algorithm: Option<&str>,
        nranks: u32,
        nnodes: Option<u32>,
    ) -> Option<Formula> {
        let n = f64::from(nranks);
        if nranks < 2 {
            return None;
        }
        let nodes = f64::from(nnodes.unwrap_or(nranks).clamp(1, nranks));
        let depth = (n / nodes - 1.0) + nodes.log2();
        let p2p = matches!(function, "Send" | "Recv" | "SendRecv");
        let (steps, volume, words) = match (function, algorithm) {
            _ if p2p => (1.0, 1.0, "α + βS"),
            ("AlltoAll" | "Gather" | "Scatter", _) => (n - 1.0, (n - 1.0) / n, "(n-1)(α + βS/n)"),
            ("AllReduce", Some("TREE")) if nnodes.is_none() => {
                (2.0 * depth, 2.0, "2 log2(n) α + 2βS")
            }
            ("AllReduce", Some("TREE")) => {
                (2.0 * depth, 2.0, "2 (n/nodes - 1 + log2(nodes)) α + 2βS")
            }
            (_, Some(algorithm)) if algorithm != "RING" => return None,
            ("AllReduce", _) => (2.0 * (n - 1.0), 2.0 * (n - 1.0) / n, "2(n-1)(α + βS/n)"),
            ("AllGather" | "ReduceScatter", _) => (n - 1.0, (n - 1.0) / n, "(n-1)(α + βS/n)"),
            ("Broadcast" | "Reduce", _) => (n - 1.0, 1.0, "(n-1)α + βS"),
            _ => return None,
        };
        Some(Formula {
            steps,
            volume,
            words,
        })
    }
}

/// A measurement beside its model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sampled {
    /// Bytes by the convention of nccl-tests.
    pub bytes: u64,
    /// As measured.
    pub time_us: f64,
    /// By the model.
    pub model_us: f64,
    /// What NCCL itself expected; null if that was not recorded.
    pub nccl_us: Option<f64>,
    /// What the measurement is above the model, as a share of the model.
    pub residual_share: f64,
    /// `latency` below the size at which half of the bandwidth is reached, `bandwidth` from there on.
    #[schemars(extend("enum" = ["latency", "bandwidth"]))]
    pub regime: &'static str,
}

/// A model: a line over the size, and what the formula makes of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostModel {
    /// What it is of.
    #[serde(flatten)]
    pub of: Subject,
    /// The formula; null where the algorithm has none here. The model then holds for this number of ranks
    /// only.
    pub formula: Option<&'static str>,
    /// Smallest size that was measured.
    pub least_bytes: u64,
    /// Largest.
    pub most_bytes: u64,
    /// The time of no bytes, µs, which is `alpha_us` by the number of steps.
    pub latency_us: f64,
    /// Its 95 % interval.
    pub latency_interval_us: Option<(f64, f64)>,
    /// α, the latency of one step, µs. An AllReduce by a ring over n ranks has 2(n-1) steps. Null if the line
    /// does not hold, or the algorithm has no formula here.
    pub alpha_us: Option<f64>,
    /// Its 95 % interval.
    pub alpha_interval_us: Option<(f64, f64)>,
    /// 1/β, the bandwidth of the busiest link: what `busbw` comes to at large sizes. Null if times do not
    /// grow with the size.
    pub beta_gb_per_s: Option<f64>,
    /// 95 % interval; null if it has no end.
    pub beta_interval_gb_per_s: Option<(f64, f64)>,
    /// The size that takes as much time for its bytes as for latency: half of the bandwidth is reached there.
    /// Smaller sizes are bound by latency, larger ones by bandwidth.
    pub half_bytes: Option<f64>,
    /// Median size of the residuals, as a share of the model.
    pub residual_p50_share: f64,
    /// The largest.
    pub residual_max_share: f64,
    /// Whether the line holds well enough to predict other sizes and numbers of ranks.
    pub line_holds: bool,
    /// Median error, as a share, if each size is left out and interpolated from its neighbours.
    pub left_out_p50_share: f64,
    /// The largest such error.
    pub left_out_max_share: f64,
    /// Whether these errors are small enough to interpolate between the measured sizes.
    pub interpolation_holds: bool,
    /// The measurements, smallest size first.
    pub samples: Vec<Sampled>,
    #[serde(skip)]
    curve: Curve,
    #[serde(skip)]
    line: Line,
}

/// The measured times over the size, both as logarithms: one point for each size, smallest first.
#[derive(Clone, Debug, PartialEq)]
struct Curve {
    points: Vec<(f64, f64)>,
    /// Standard deviation of the logarithm of a time around its interpolation, and its degrees of freedom.
    scatter: f64,
    freedom: f64,
}

impl Curve {
    /// Of points in order of their sizes, of which three or more differ.
    fn new(points: &[Point]) -> Curve {
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (bytes, us, _) in points {
            by_size.entry(*bytes).or_default().push(us.ln());
        }
        let mean = |logs: &Vec<f64>| logs.iter().sum::<f64>() / logs.len() as f64;
        let points = by_size
            .iter()
            .map(|(bytes, logs)| ((*bytes as f64).ln(), mean(logs)));
        let mut curve = Curve {
            points: points.collect(),
            scatter: 0.0,
            freedom: 1.0,
        };
        let errors = curve.left_out();
        curve.freedom = errors.len() as f64;
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        curve.scatter = (squares / curve.freedom).sqrt();
        curve
    }

    /// For each size but the first and the last: the logarithm of its time, less what its neighbours give.
    fn left_out(&self) -> Vec<f64> {
        let errors = self
            .points
            .windows(3)
            .map(|of| of[1].1 - between(of[0], of[2], of[1].0));
        errors.collect()
    }

    /// Whether neighbours tell the time of a size that is left out.
    fn holds(&self) -> bool {
        self.scatter <= NO_LINE
    }

    /// Whether this very size was measured.
    fn has(&self, bytes: u64) -> bool {
        let at = (bytes as f64).ln();
        self.points.iter().any(|(size, _)| *size == at)
    }

    /// The time of so many bytes, which lie between the smallest and the largest size, and its interval, µs.
    fn at(&self, bytes: f64) -> (f64, (f64, f64)) {
        let at = bytes.ln();
        let after = self.points.partition_point(|(size, _)| *size < at);
        let after = after.clamp(1, self.points.len() - 1);
        let log = between(self.points[after - 1], self.points[after], at);
        let half = student(self.freedom) * self.scatter;
        (log.exp(), ((log - half).exp(), (log + half).exp()))
    }
}

/// The line through two points.
fn between(a: (f64, f64), b: (f64, f64), at: f64) -> f64 {
    a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0)
}

/// t = at_zero + slope × S, in µs and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    at_zero: f64,
    slope: f64,
    /// Variance of `at_zero`, of `slope`, and their covariance.
    covariance: [f64; 3],
    /// Variance of a relative residual.
    variance: f64,
    freedom: f64,
}

impl Line {
    fn at(&self, bytes: f64) -> f64 {
        self.at_zero + self.slope * bytes
    }

    /// Least squares of relative errors: with t the measured time, 1 = at_zero/t + slope × S/t. A parameter
    /// below zero means nothing, so the other is then fitted alone.
    fn fit(points: &[(f64, f64)]) -> Line {
        let parameters = |with_zero: bool, with_slope: bool| {
            let [mut uu, mut uv, mut vv, mut u1, mut v1] = [0.0; 5];
            for (bytes, us) in points {
                let u = if with_zero { 1.0 / us } else { 0.0 };
                let v = if with_slope { bytes / us } else { 0.0 };
                uu += u * u;
                uv += u * v;
                vv += v * v;
                u1 += u;
                v1 += v;
            }
            let determinant = uu * vv - uv * uv;
            let (at_zero, slope, inverse) = match (with_zero, with_slope) {
                (true, true) => (
                    (vv * u1 - uv * v1) / determinant,
                    (uu * v1 - uv * u1) / determinant,
                    [vv / determinant, uu / determinant, -uv / determinant],
                ),
                (true, false) => (u1 / uu, 0.0, [1.0 / uu, 0.0, 0.0]),
                _ => (0.0, v1 / vv, [0.0, 1.0 / vv, 0.0]),
            };
            let fitted = f64::from(u8::from(with_zero) + u8::from(with_slope));
            let freedom = points.len() as f64 - fitted;
            let squares: f64 = points
                .iter()
                .map(|(bytes, us)| ((at_zero + slope * bytes) / us - 1.0).powi(2))
                .sum();
            let variance = squares / freedom;
            Line {
                at_zero,
                slope,
                covariance: inverse.map(|part| part * variance),
                variance,
                freedom,
            }
        };
        let both = parameters(true, true);
        match (both.at_zero >= 0.0, both.slope >= 0.0) {
            (true, true) => both,
            (false, _) => parameters(false, true),
            (true, false) => parameters(true, false),
        }
    }

    /// Half of the 95 % interval of a figure with this variance.
    fn half(&self, variance: f64) -> f64 {
        student(self.freedom) * variance.max(0.0).sqrt()
    }
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// What it is of: the ranks and nodes that were asked for.
    #[serde(flatten)]
    pub of: Subject,
    /// Bytes by the convention of nccl-tests.
    pub bytes: u64,
    /// The time.
    pub time_us: f64,
    /// Where a measurement would lie in 95 of 100 cases, if the formula is right.
    pub interval_us: (f64, f64),
    /// Bus bandwidth at that time.
    pub busbw_gb_per_s: Option<f64>,
    /// How many times larger than the largest size that was measured, or smaller than the smallest; 1 within.
    pub size_outside_ratio: f64,
    /// How many times more ranks than measured, or fewer; 1 for as many.
    pub ranks_outside_ratio: f64,
    /// What it rests on, and how far outside of that it is.
    pub basis: String,
}

impl CostModel {
    fn new(of: Subject, mut points: Vec<Point>) -> Option<CostModel> {
        // A call of no bytes returns at once: its time has no latency in it.
        points.retain(|(bytes, us, _)| *bytes > 0 && us.is_finite() && *us > 0.0);
        points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut sizes: Vec<u64> = points.iter().map(|(bytes, ..)| *bytes).collect();
        sizes.dedup();
        if sizes.len() < LEAST_SIZES {
            return None;
        }
        let floats: Vec<(f64, f64)> = points.iter().map(|(b, us, _)| (*b as f64, *us)).collect();
        let line = Line::fit(&floats);
        let formula = Formula::of(&of.function, of.algorithm.as_deref(), of.nranks, of.nnodes);
        // A parameter that would be below zero was not fitted: it has no variance.
        let interval = |value: f64, variance: f64| {
            let half = line.half(variance);
            (variance > 0.0).then(|| (f64::max(value - half, 0.0), value + half))
        };
        let latency_interval = interval(line.at_zero, line.covariance[0]);
        let slope_interval = interval(line.slope, line.covariance[1]);
        // µs a byte: 1/1000 of these are 1 GB/s.
        let rate = |slope: f64| {
            Some(formula?.volume / slope / BYTES_PER_US_AT_GB_PER_S).filter(|r| r.is_finite())
        };
        let alpha = |us: f64| Some(us / formula?.steps);
        let half_bytes = Some(line.at_zero / line.slope).filter(|_| line.slope > 0.0);
        let regime = |bytes: u64| match half_bytes {
            Some(half) if bytes as f64 >= half => "bandwidth",
            _ => "latency",
        };
        let samples: Vec<Sampled> = points
            .iter()
            .map(|(bytes, time_us, nccl_us)| {
                let model_us = line.at(*bytes as f64);
                Sampled {
                    bytes: *bytes,
                    time_us: *time_us,
                    model_us,
                    nccl_us: *nccl_us,
                    residual_share: time_us / model_us - 1.0,
                    regime: regime(*bytes),
                }
            })
            .collect();
        let mut residuals: Vec<f64> = samples.iter().map(|s| s.residual_share.abs()).collect();
        residuals.sort_by(f64::total_cmp);
        let curve = Curve::new(&points);
        // e^x - 1 of the larger of both directions.
        let errors = curve
            .left_out()
            .into_iter()
            .map(|error| error.abs().exp_m1());
        let mut left_out: Vec<f64> = errors.collect();
        left_out.sort_by(f64::total_cmp);
        let logs = samples.iter().map(|of| (of.time_us / of.model_us).ln());
        let squares: f64 = logs.map(|log| log * log).sum();
        let line_holds = (squares / samples.len() as f64).sqrt() <= NO_LINE;
        // What is no line has no parameters.
        fn held<T>(line_holds: bool, value: Option<T>) -> Option<T> {
            value.filter(|_| line_holds)
        }
        let alphas = latency_interval.and_then(|(low, high)| alpha(low).zip(alpha(high)));
        let rates = slope_interval.and_then(|(low, high)| rate(high).zip(rate(low)));
        Some(CostModel {
            formula: formula.map(|formula| formula.words),
            least_bytes: *sizes.first()?,
            most_bytes: *sizes.last()?,
            latency_us: line.at_zero,
            latency_interval_us: held(line_holds, latency_interval),
            alpha_us: held(line_holds, alpha(line.at_zero)),
            alpha_interval_us: held(line_holds, alphas),
            beta_gb_per_s: held(line_holds, rate(line.slope)),
            beta_interval_gb_per_s: held(line_holds, rates),
            half_bytes: held(line_holds, half_bytes),
            residual_p50_share: median(&residuals)?,
            residual_max_share: *residuals.last()?,
            line_holds,
            left_out_p50_share: median(&left_out)?,
            left_out_max_share: *left_out.last()?,
            interpolation_holds: curve.holds(),
            curve,
            samples,
            line,
            of,
        })
    }

    /// How far the nearest measured size is, as a logarithm.
    fn distance(&self, bytes: u64) -> f64 {
        let at = (bytes.max(1) as f64).ln();
        let distances = self.curve.points.iter().map(|(size, _)| (size - at).abs());
        distances.fold(f64::INFINITY, f64::min)
    }

    /// The time of `bytes` over `nranks` ranks on `nnodes` nodes; without these, on as many ranks a node as
    /// measured. `None` where the algorithm has no formula for another number of ranks.
    ///
    /// Outside of the sizes, and between sizes whose times jump, the line tells: `None` if it does not hold.
    pub fn predict(&self, bytes: u64, nranks: u32, nnodes: Option<u32>) -> Option<Prediction> {
        let as_measured = self.of.nnodes.filter(|nodes| *nodes > 0).map(|nodes| {
            let of_a_node = (self.of.nranks / nodes).max(1);
            nranks.div_ceil(of_a_node)
        });
        let nnodes = nnodes.or(as_measured);
        let same = (nranks, nnodes) == (self.of.nranks, self.of.nnodes);
        let formula = |nranks, nnodes| {
            let algorithm = self.of.algorithm.as_deref();
            Formula::of(&self.of.function, algorithm, nranks, nnodes)
        };
        let (steps, volume) = if same {
            (1.0, 1.0)
        } else {
            let there = formula(nranks, nnodes)?;
            let here = formula(self.of.nranks, self.of.nnodes)?;
            (there.steps / here.steps, there.volume / here.volume)
        };
        let is_within = same && (self.least_bytes..=self.most_bytes).contains(&bytes);
        let (time_us, interval_us) = match is_within && self.interpolation_holds {
            true => self.curve.at(bytes as f64),
            false if !self.line_holds => return None,
            false => {
                let weighed = volume * bytes as f64;
                let time_us = self.line.at_zero * steps + self.line.slope * weighed;
                let [zero, slope, both] = self.line.covariance;
                let of_line =
                    steps * steps * zero + weighed * weighed * slope + 2.0 * steps * weighed * both;
                let half = self
                    .line
                    .half(of_line + self.line.variance * time_us * time_us);
                // Errors are relative: as many times less as more, so a time is never below zero.
                let ratio = 1.0 + half / time_us;
                // What was measured at this very size counts, and not the line.
                let is_measured = is_within && self.curve.has(bytes);
                let time_us = if is_measured {
                    self.curve.at(bytes as f64).0
                } else {
                    time_us
                };
                (time_us, (time_us / ratio, time_us * ratio))
            }
        };
        let bytes_f = bytes.max(1) as f64;
        let size_outside_ratio = (bytes_f / self.most_bytes as f64)
            .max(self.least_bytes as f64 / bytes_f)
            .max(1.0);
        let ranks = f64::from(nranks) / f64::from(self.of.nranks);
        let ranks_outside_ratio = ranks.max(1.0 / ranks);
        let mut basis = format!(
            "{} sizes from {} to {} on {} ranks",
            self.samples.len(),
            size(self.least_bytes),
            size(self.most_bytes),
            self.of.nranks
        );
        if size_outside_ratio > 1.0 {
            let way = if bytes > self.most_bytes {
                "larger than the largest"
            } else {
                "smaller than the smallest"
            };
            basis += &format!("; {size_outside_ratio:.1} times {way} of them");
        }
        if !same {
            basis += &format!(
                "; {ranks_outside_ratio:.1} times {} ranks, if α and β stay the same",
                if nranks >= self.of.nranks {
                    "as many"
                } else {
                    "fewer"
                }
            );
        }
        let busbw = Bandwidth::of(&self.of.function, Some(nranks), bytes, time_us).ok();
        Some(Prediction {
            of: Subject {
                nranks,
                nnodes,
                ..self.of.clone()
            },
            bytes,
            time_us,
            interval_us,
            busbw_gb_per_s: busbw.and_then(|b| b.busbw_gb_per_s),
            size_outside_ratio,
            ranks_outside_ratio,
            basis,
        })
    }
}

/// The models of measurements, each of one subject. Where a protocol was measured at too few sizes, there is
/// one of all protocols together.
pub fn fit(measured: &[Measurement]) -> Vec<CostModel> {
    let mut by: BTreeMap<&Subject, Vec<Point>> = BTreeMap::new();
    for of in measured {
        let point = (of.bytes, of.time_us, of.nccl_us);
        by.entry(&of.of).or_default().push(point);
    }
    let mut models = Vec::new();
    let mut together: BTreeMap<Subject, (Vec<Point>, bool)> = BTreeMap::new();
    for (of, points) in by {
        let model = CostModel::new(of.clone(), points.clone());
        let of = Subject {
            protocol: None,
            ..of.clone()
        };
        let all = together.entry(of).or_default();
        all.0.extend(points);
        all.1 |= model.is_none();
        models.extend(model);
    }
    for (of, (points, too_few)) in together {
        if too_few && models.iter().all(|model| model.of != of) {
            models.extend(CostModel::new(of, points));
        }
    }
    models.sort_by(|a, b| a.of.cmp(&b.of));
    models
}

/// What a report's operations measured. Warm-ups and waiting for late ranks are not in it.
pub fn of_operations(
    operations: &[Operation],
    communicators: &[CommunicatorRow],
) -> Vec<Measurement> {
    let one = |operation: &Operation| {
        let time = if operation.is_p2p() {
            operation.time_us
        } else {
            operation.shortest_us
        };
        let id = operation.communicator.as_deref();
        let communicator = communicators
            .iter()
            .find(|c| Some(c.communicator.as_str()) == id);
        Some(Measurement {
            of: Subject {
                communicator: operation.communicator.clone(),
                function: operation.function.clone()?,
                algorithm: operation.algorithm.clone(),
                protocol: operation.protocol.clone(),
                nranks: operation.nranks?,
                nnodes: communicator.and_then(|c| c.nnodes),
            },
            bytes: operation.bytes?,
            time_us: time?.p50?,
            nccl_us: operation.nccl_us,
        })
    };
    operations.iter().filter_map(one).collect()
}

/// The prediction of the model that is nearest to what is asked: fewest times outside; then with a
/// measurement at the nearest size, because that is what NCCL did there; then with the smallest residuals.
pub fn nearest(
    models: &[CostModel],
    function: &str,
    bytes: u64,
    nranks: Option<u32>,
    nnodes: Option<u32>,
) -> Option<Prediction> {
    let of = models.iter().filter(|model| model.of.function == function);
    let predictions = of.filter_map(|model| {
        let prediction = model.predict(bytes, nranks.unwrap_or(model.of.nranks), nnodes)?;
        let outside = prediction.size_outside_ratio * prediction.ranks_outside_ratio;
        Some((
            outside,
            model.distance(bytes),
            model.residual_p50_share,
            prediction,
        ))
    });
    let nearest = predictions.min_by(|a, b| {
        let figures = [(a.0, b.0), (a.1, b.1), (a.2, b.2)];
        let order = figures.iter().map(|(a, b)| a.total_cmp(b));
        order.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    nearest.map(|(.., prediction)| prediction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(algorithm: &str, nranks: u32) -> Subject {
        Subject {
            communicator: None,
            function: "AllReduce".to_owned(),
            algorithm: Some(algorithm.to_owned()),
            protocol: None,
            nranks,
            nnodes: None,
        }
    }

    /// Exact times by the formula, with α in µs and the bandwidth in GB/s.
    fn made(of: &Subject, alpha: f64, rate: f64, noise: f64) -> Vec<Measurement> {
        let algorithm = of.algorithm.as_deref();
        let formula = Formula::of(&of.function, algorithm, of.nranks, of.nnodes).expect("known");
        let sizes = (10..=30).step_by(2).map(|power| 1u64 << power);
        let noises = [1.0, -0.5, 0.3, -1.0, 0.7, -0.2];
        sizes
            .zip(noises.iter().cycle())
            .map(|(bytes, n)| Measurement {
                of: of.clone(),
                bytes,
                time_us: (formula.steps * alpha
                    + formula.volume * bytes as f64 / rate / BYTES_PER_US_AT_GB_PER_S)
                    * (1.0 + n * noise),
                nccl_us: None,
            })
            .collect()
    }

    #[test]
    fn a_ring_and_a_tree_are_recovered_and_predicted_on_more_ranks() {
        for algorithm in ["RING", "TREE"] {
            let of = subject(algorithm, 8);
            let models = fit(&made(&of, 3.0, 200.0, 0.02));
            let [model] = &models[..] else {
                panic!("{models:?}");
            };
            let (alpha, rate) = (model.alpha_us.expect("α"), model.beta_gb_per_s.expect("β"));
            assert!((alpha / 3.0 - 1.0).abs() < 0.01, "{algorithm}: {alpha}");
            assert!((rate / 200.0 - 1.0).abs() < 0.01, "{algorithm}: {rate}");
            let within = |of: Option<(f64, f64)>, truth: f64| {
                of.is_some_and(|(low, high)| low < truth && truth < high)
            };
            assert!(
                within(model.alpha_interval_us, 3.0) && within(model.beta_interval_gb_per_s, 200.0)
            );
            assert!(model.residual_max_share < 0.03);
            let asked = model.predict(1 << 32, 64, None).expect("a formula");
            let formula = Formula::of("AllReduce", Some(algorithm), 64, None).expect("known");
            let expected = formula.steps * 3.0 + formula.volume * (1u64 << 32) as f64 / 2e5;
            assert!((asked.time_us / expected - 1.0).abs() < 0.01, "{asked:?}");
            assert_eq!(
                (asked.size_outside_ratio, asked.ranks_outside_ratio),
                (4.0, 8.0)
            );
            assert!(asked.basis.contains("4.0 times larger") && asked.basis.contains("8.0 times"));
        }
    }

    #[test]
    fn within_the_measured_sizes_what_was_measured_counts() {
        // A table that no line fits: a protocol changes at 1 MiB.
        let of = subject("RING", 8);
        let table = [
            (1 << 18, 20.0),
            (1 << 20, 45.0),
            (1 << 22, 60.0),
            (1 << 24, 150.0),
        ];
        let measured = |table: &[(u64, f64)], of: &Subject| -> Vec<Measurement> {
            let one = |(bytes, time_us): &(u64, f64)| Measurement {
                of: of.clone(),
                bytes: *bytes,
                time_us: *time_us,
                nccl_us: None,
            };
            table.iter().map(one).collect()
        };
        let model = &fit(&measured(&table, &of))[0];
        let at = |bytes: u64| model.predict(bytes, 8, None).expect("within");
        assert!((at(1 << 20).time_us - 45.0).abs() < 1e-9);
        // Half way in logarithms is the geometric mean.
        let middle = at(1 << 21);
        assert!((middle.time_us - (45.0f64 * 60.0).sqrt()).abs() < 1e-9);
        assert!(
            middle.interval_us.0 > 0.0
                && middle.interval_us.0 < 45.0
                && middle.interval_us.1 > 60.0
        );
        // sqrt(20 × 60) for 45, sqrt(45 × 150) for 60: 30 and 37 % off.
        assert!((0.298..0.370).contains(&model.left_out_p50_share));
        assert!((model.left_out_max_share - (82.158_f64 / 60.0 - 1.0)).abs() < 0.001);
        // Of two models, the one that was measured there.
        let other = Subject {
            protocol: Some("LL".to_owned()),
            ..of.clone()
        };
        let ll = [
            (1 << 14, 5.0),
            (1 << 17, 5.5),
            (1 << 19, 6.0),
            (1 << 25, 900.0),
        ];
        let models = fit(&[measured(&table, &of), measured(&ll, &other)].concat());
        let told = nearest(&models, "AllReduce", 1 << 20, None, None).expect("within both");
        assert!((told.time_us - 45.0).abs() < 1e-9, "{told:?}");
    }

    #[test]
    fn a_line_that_misses_by_factors_predicts_nothing() {
        let of = subject("RING", 8);
        // Times of an idle machine and of a busy one, by turns.
        let times = [5.0, 9000.0, 6.0, 8000.0, 7.0, 9500.0, 5.0];
        let one = |(power, time_us): (usize, &f64)| Measurement {
            of: of.clone(),
            bytes: 1 << (10 + 2 * power),
            time_us: *time_us,
            nccl_us: None,
        };
        let measured: Vec<Measurement> = times.iter().enumerate().map(one).collect();
        let model = &fit(&measured)[0];
        assert!(!model.line_holds);
        assert_eq!(model.predict(1 << 30, 8, None), None);
        assert_eq!(model.predict(1 << 20, 16, None), None);
        // Within, sizes tell nothing of their neighbours either.
        assert!(!model.interpolation_holds);
        assert_eq!(model.predict(1 << 15, 8, None), None);
        // What is no line has no parameters, and no interval of them.
        assert_eq!((model.alpha_us, model.alpha_interval_us), (None, None));
        assert_eq!((model.beta_gb_per_s, model.half_bytes), (None, None));
    }

    #[test]
    fn sizes_too_far_apart_to_interpolate_have_the_line() {
        let of = subject("RING", 8);
        let all = made(&of, 3.0, 200.0, 0.0);
        let few: Vec<Measurement> = [0, 5, 10].map(|at| all[at].clone()).into();
        let model = &fit(&few)[0];
        assert!(model.line_holds && !model.interpolation_holds);
        let told = model.predict(all[7].bytes, 8, None).expect("by the line");
        assert!(
            (told.time_us / all[7].time_us - 1.0).abs() < 0.01,
            "{told:?}"
        );
        let told = model.predict(all[5].bytes, 8, None).expect("measured");
        assert!(
            (told.time_us / all[5].time_us - 1.0).abs() < 1e-9,
            "{told:?}"
        );
    }

    #[test]
    fn a_call_of_no_bytes_is_no_measurement() {
        // As nccl-tests' first rows of an AllGather from 8 B on: NCCL returns at once.
        let of = subject("RING", 8);
        let mut measured = made(&of, 3.0, 200.0, 0.0);
        measured.push(Measurement {
            bytes: 0,
            time_us: 5.2,
            ..measured[0].clone()
        });
        let models = fit(&measured);
        let alpha = models[0].alpha_us.expect("α");
        assert!((alpha / 3.0 - 1.0).abs() < 0.01, "{alpha}");
        assert_eq!(models[0].least_bytes, 1024);
    }

    #[test]
    fn two_sizes_make_no_model_and_protocols_that_lack_sizes_are_put_together() {
        let of = subject("RING", 4);
        let mut measured = made(&of, 3.0, 200.0, 0.0);
        assert!(fit(&measured[..2]).is_empty());
        for (index, of) in measured.iter_mut().enumerate() {
            let protocol = if index < 9 { "LL" } else { "SIMPLE" };
            of.of.protocol = Some(protocol.to_owned());
        }
        let models = fit(&measured);
        let protocols: Vec<Option<&str>> = models
            .iter()
            .map(|model| model.of.protocol.as_deref())
            .collect();
        assert_eq!(protocols, [None, Some("LL")]);
        assert_eq!(models[0].samples.len(), 11);
    }

    #[test]
    fn what_has_no_formula_is_predicted_for_as_many_ranks_only() {
        let mut measured = made(&subject("RING", 8), 3.0, 200.0, 0.0);
        for of in &mut measured {
            of.of.algorithm = Some("NVLS".to_owned());
        }
        let models = fit(&measured);
        assert_eq!((models[0].formula, models[0].alpha_us), (None, None));
        assert!(models[0].predict(1 << 20, 8, None).is_some());
        assert_eq!(models[0].predict(1 << 20, 16, None), None);
    }

    #[test]
    fn times_that_do_not_grow_are_latency_alone() {
        let of = subject("RING", 4);
        let times = [10.0, 10.4, 9.8, 10.1];
        let measured = times.iter().zip([8, 16, 32, 64]);
        let measured: Vec<Measurement> = measured
            .map(|(time_us, bytes)| Measurement {
                of: of.clone(),
                bytes,
                time_us: *time_us,
                nccl_us: None,
            })
            .collect();
        let model = &fit(&measured)[0];
        assert!((model.latency_us - 10.0).abs() < 0.2);
        assert!(model
            .samples
            .iter()
            .all(|sample| sample.regime == "latency"));
    }
}
