//! Cost models: the table of α and β, the measurements beside them, a plot, and predictions.
//!
//! Rule: a model never stands without its residuals, nor a prediction without how far outside the
//! measurements it is.

use crate::layout::figure;
use crate::layout::{Look, Page, Style, Table, Unit};
use analyze::models::{CostModel, Prediction, Sampled, Subject};
use analyze::spelling::{off, size, three, time, times};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{Result, Write};

/// The format of [`json`].
pub const SCHEMA: &str = "ncclscope.model/1";

/// What `ncclscope model` says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Where the measurements come from.
    pub sources: Vec<String>,
    /// The models.
    pub models: Vec<CostModel>,
    /// What was asked for.
    pub predictions: Vec<Prediction>,
    /// What could not be fitted or predicted, and why.
    pub notes: Vec<String>,
}

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(answer: &Answer, out: &mut impl Write) -> Result<()> {
    let json = serde_json::to_string_pretty(answer)?;
    writeln!(out, "{}", crate::json::printable(&json))
}

/// Writes it as text.
///
/// # Errors
/// Those of `out`.
pub fn text(answer: &Answer, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, all);
    match answer.predictions.first() {
        Some(first) => page.styled(Style::Good, &sentence(first)),
        None => page.styled(Style::Good, &summary(answer)),
    }
    predictions(&answer.predictions, &mut page);
    table(&answer.models, &mut page);
    for model in &answer.models {
        measured(model, &mut page);
    }
    if !answer.notes.is_empty() {
        page.title("Notes");
        for note in &answer.notes {
            page.line(note);
        }
    }
    page.finish(out)
}

fn summary(answer: &Answer) -> String {
    let worst = answer
        .models
        .iter()
        .map(|model| model.residual_max_share)
        .reduce(f64::max);
    match worst {
        None => {
            "No model: each needs three sizes of one function on one group of ranks.".to_owned()
        }
        Some(worst) => format!(
            "{} of {}. The farthest measurement is {} off its model.",
            crate::layout::plural(answer.models.len() as u64, "cost model", "cost models"),
            answer.sources.join(", "),
            off(worst)
        ),
    }
}

fn sentence(of: &Prediction) -> String {
    let busbw = of.busbw_gb_per_s.map_or(String::new(), |busbw| {
        format!(", which is {} GB/s (busbw)", three(busbw))
    });
    let (low, high) = of.interval_us;
    format!(
        "{} of {} over {} ranks: {} [{}]{busbw}. From {}.",
        of.of.function,
        size(of.bytes),
        of.of.nranks,
        time(of.time_us),
        times(low, high),
        of.basis
    )
}

pub(crate) fn algorithm(of: &Subject) -> String {
    let text = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
    match (&of.algorithm, &of.protocol) {
        (None, None) => "-".to_owned(),
        (algorithm, protocol) => format!("{}/{}", text(algorithm), text(protocol)),
    }
}

/// The first digits of a communicator's id.
fn short(of: &Subject) -> String {
    let id = of.communicator.as_deref().unwrap_or("-");
    id.chars().take(6).collect()
}

fn predictions(of: &[Prediction], page: &mut Page) {
    if of.len() < 2 {
        return;
    }
    let names = [
        "function",
        "size",
        "algorithm",
        "nranks",
        "time",
        "low",
        "high",
        "busbw",
        "outside_size",
        "outside_ranks",
    ];
    let mut table = Table::new(names, "<><>>>>>>>");
    table.squeeze = &["algorithm", "low", "high"];
    let unit = Unit::of(of.iter().map(|p| p.interval_us.1));
    let outside = |ratio: f64| {
        if ratio > 1.0 {
            format!("×{}", three(ratio))
        } else {
            "within".to_owned()
        }
    };
    for p in of {
        table.row([
            p.of.function.clone(),
            size(p.bytes),
            algorithm(&p.of),
            p.of.nranks.to_string(),
            unit.show(Some(p.time_us)),
            unit.show(Some(p.interval_us.0)),
            unit.show(Some(p.interval_us.1)),
            figure(p.busbw_gb_per_s),
            outside(p.size_outside_ratio),
            outside(p.ranks_outside_ratio),
        ]);
    }
    page.title(&format!(
        "Predictions (in {}, low to high: 95 of 100 measurements if the formula holds; busbw in GB/s)",
        unit.name
    ));
    page.table(&table, usize::MAX, "predictions");
}

/// Rows of models without `--all`.
const MODELS: usize = 8;

/// The table of models.
pub(crate) fn table(models: &[CostModel], page: &mut Page) {
    if models.is_empty() {
        return;
    }
    let names = [
        "function",
        "comm",
        "nranks",
        "algorithm",
        "sizes",
        "alpha",
        "latency",
        "beta_bw",
        "half_size",
        "residual_%",
        "worst_%",
        "left_out_%",
    ];
    let mut table = Table::new(names, "<<><>>>>>>>>");
    table.squeeze = &["comm", "sizes", "half_size", "latency"];
    let spread = |value: Option<f64>, interval: Option<(f64, f64)>| match (value, interval) {
        (Some(value), Some((low, high))) => {
            let half = ((value - low).max(high - value)).abs();
            // No figure is below zero.
            if half.is_finite() && half > value {
                format!("{} ({} to {})", three(value), three(low), three(high))
            } else if half.is_finite() {
                format!("{}±{}", three(value), three(half))
            } else {
                format!("{}±-", three(value))
            }
        }
        (value, _) => figure(value),
    };
    for model in models {
        table.row([
            model.of.function.clone(),
            short(&model.of),
            model.of.nranks.to_string(),
            algorithm(&model.of),
            format!("{} to {}", size(model.least_bytes), size(model.most_bytes)),
            spread(model.alpha_us, model.alpha_interval_us),
            if model.line_holds {
                three(model.latency_us)
            } else {
                "-".to_owned()
            },
            spread(model.beta_gb_per_s, model.beta_interval_gb_per_s),
            model
                .half_bytes
                .map_or("-".to_owned(), |bytes| size(bytes as u64)),
            three(100.0 * model.residual_p50_share),
            three(100.0 * model.residual_max_share),
            three(100.0 * model.left_out_p50_share),
        ]);
    }
    page.title(
        "Cost models (by function; alpha and latency in µs, beta_bw in GB/s, ± half of the 95 % interval, or \
         the interval if half is more than the figure; residuals: median and largest, in % of \
         the model; left_out_%: error within the measured sizes)",
    );
    page.table(&table, MODELS, "models");
    for model in models.iter().filter(|model| !model.line_holds) {
        page.line(&no_line(model));
    }
}

/// Why a model predicts nothing, or nothing outside of what was measured.
pub fn no_line(model: &CostModel) -> String {
    let so = if model.interpolation_holds {
        "So nothing is predicted outside of the measured sizes and ranks.".to_owned()
    } else {
        format!(
            "Its times jump from size to size, too: a size that is left out is missed by {} (median). So \
             nothing is predicted.",
            off(model.left_out_p50_share)
        )
    };
    format!(
        "{} by {} over {} ranks is no line over the size: measurements are up to {} off it. {so}",
        model.of.function,
        algorithm(&model.of),
        model.of.nranks,
        off(model.residual_max_share)
    )
}

/// Columns and lines of a plot.
const PLOT: (usize, usize) = (64, 12);

/// The measurements of a model beside it, and drawn.
fn measured(model: &CostModel, page: &mut Page) {
    let of = &model.of;
    let formula = model
        .formula
        .map_or(String::new(), |formula| format!(", t = {formula}"));
    let names = ["size", "measured", "model", "residual_%", "nccl", "regime"];
    let mut table = Table::new(names, ">>>>><");
    let most = model.samples.iter().map(|s| s.time_us.max(s.model_us));
    let unit = Unit::of(most);
    let has_own = model.samples.iter().any(|sample| sample.nccl_us.is_some());
    for sample in &model.samples {
        table.row([
            size(sample.bytes),
            unit.show(Some(sample.time_us)),
            unit.show(Some(sample.model_us)),
            format!("{:+.1}", 100.0 * sample.residual_share),
            sample
                .nccl_us
                .map_or("-".to_owned(), |us| unit.show(Some(us))),
            sample.regime.to_owned(),
        ]);
    }
    let by = match algorithm(of) {
        by if by == "-" => String::new(),
        by => format!(" {by}"),
    };
    page.title(&format!(
        "{}{by} over {} ranks (by size; measured{} and model in {}{formula})",
        of.function,
        of.nranks,
        if has_own { ", NCCL's own estimate" } else { "" },
        unit.name
    ));
    page.table(&table, 16, "sizes");
    for line in plot(model) {
        page.plain(&line);
    }
}

/// Time over size, both in powers: `o` is measured, `.` the model, `@` both, `n` NCCL's own estimate.
fn plot(model: &CostModel) -> Vec<String> {
    let (columns, lines) = PLOT;
    let log = |bytes: u64| (bytes.max(1) as f64).log2();
    let (left, right) = (log(model.least_bytes), log(model.most_bytes));
    let model_at = |bytes: f64| model.latency_us + bytes * slope(model);
    let samples = || {
        let of = |s: &Sampled| [Some(s.time_us), Some(s.model_us), s.nccl_us];
        model.samples.iter().flat_map(of).flatten()
    };
    let lowest = samples().fold(f64::MAX, f64::min).ln();
    let highest = samples().fold(0.0, f64::max).ln();
    if right <= left || highest <= lowest {
        return Vec::new();
    }
    let mut cells = vec![vec![' '; columns]; lines];
    let line = |us: f64| {
        let at = (highest - us.ln()) / (highest - lowest) * (lines - 1) as f64;
        (at.round().max(0.0) as usize).min(lines - 1)
    };
    let curve: Vec<usize> = (0..columns)
        .map(|column| {
            let along = column as f64 / (columns - 1) as f64;
            line(model_at((left + (right - left) * along).exp2()))
        })
        .collect();
    for (column, at) in curve.into_iter().enumerate() {
        cells[at][column] = '.';
    }
    let column =
        |bytes: u64| ((log(bytes) - left) / (right - left) * (columns - 1) as f64).round() as usize;
    for sample in &model.samples {
        if let Some(us) = sample.nccl_us {
            cells[line(us)][column(sample.bytes)] = 'n';
        }
    }
    for sample in &model.samples {
        let cell = &mut cells[line(sample.time_us)][column(sample.bytes)];
        *cell = if *cell == '.' { '@' } else { 'o' };
    }
    let label = |at: usize| match at {
        0 => time(highest.exp()),
        at if at + 1 == lines => time(lowest.exp()),
        _ => String::new(),
    };
    let mut drawn: Vec<String> = cells
        .iter()
        .enumerate()
        .map(|(at, row)| {
            let row: String = row.iter().collect();
            format!("  {:>9} |{}", label(at), row.trim_end())
        })
        .collect();
    let (least, most) = (size(model.least_bytes), size(model.most_bytes));
    let gap = columns.saturating_sub(least.len() + most.len());
    drawn.push(format!("  {:>9} +{}", "", "-".repeat(columns)));
    drawn.push(format!("  {:>9}  {least}{}{most}", "", " ".repeat(gap)));
    let own = if model.samples.iter().any(|s| s.nccl_us.is_some()) {
        ", n NCCL's own estimate"
    } else {
        ""
    };
    drawn.push(format!(
        "             o measured, . model, @ both{own}; time over size, both axes in powers"
    ));
    drawn
}

/// µs a byte, from two of its own points.
pub(crate) fn slope(model: &CostModel) -> f64 {
    let last = model.samples.last();
    last.map_or(0.0, |s| {
        (s.model_us - model.latency_us) / (s.bytes.max(1) as f64)
    })
}
