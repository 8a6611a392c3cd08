//! Cost models in the page: each with its measurements, both axes in powers.
//!
//! Rule: a model never stands without its residuals.

use super::{escaped, Page};
use crate::layout::plural;
use crate::model::{algorithm, slope};
use analyze::models::{fit, of_operations, CostModel};
use analyze::spelling::{off, size, three, time};
use std::fmt::Write as _;

/// Models that are drawn, those of most time first.
const MOST: usize = 8;
/// Size of a picture, and of the room for labels at its left and below.
const WIDE: f64 = 420.0;
const TALL: f64 = 230.0;
const LEFT: f64 = 62.0;
const BELOW: f64 = 24.0;
/// Points of a curve.
const POINTS: usize = 48;

/// The models of the page's operations.
pub(super) fn of(report: &analyze::Report) -> Vec<CostModel> {
    let mut models = fit(&of_operations(&report.operations, &report.communicators));
    // Operations are by time, so a model is as important as its first operation.
    models.sort_by_key(|model| {
        let mut operations = report.operations.iter();
        let first = operations.position(|o| {
            o.function.as_ref() == Some(&model.of.function)
                && o.communicator == model.of.communicator
                && (model.of.protocol.is_none() || model.of.protocol == o.protocol)
                && model.of.algorithm == o.algorithm
        });
        first.unwrap_or(usize::MAX)
    });
    models
}

impl Page<'_> {
    pub(super) fn models(&mut self) {
        let models = of(self.report);
        if models.is_empty() {
            return;
        }
        self.section(
            "models",
            "Cost models",
            "Latency and bandwidth, fitted to the shortest rank of each operation, so waiting is left out. \
             Both axes are in powers: points are measured, the line is the model, and crosses are NCCL's own \
             estimate, if it was recorded. `ncclscope model` predicts other sizes and numbers of ranks.",
        );
        self.html += "<div class=\"models\">\n";
        for model in models.iter().take(MOST) {
            self.html += &figure(model);
        }
        self.html += "</div>\n";
        if let Some(more) = models.len().checked_sub(MOST).filter(|more| *more > 0) {
            let more = plural(more as u64, "model", "models");
            let _ = writeln!(
                self.html,
                "<p class=\"about\">… {more} more: <code>ncclscope model</code></p>"
            );
        }
        self.end();
    }
}

/// What a model says.
fn caption(model: &CostModel) -> String {
    let by = match (
        algorithm(&model.of),
        &model.of.algorithm,
        &model.of.protocol,
    ) {
        (by, ..) if by == "-" => String::new(),
        (_, Some(algorithm), None) => format!(" {algorithm}, all protocols,"),
        (by, ..) => format!(" {by}"),
    };
    let mut parts = vec![format!("latency {}", time(model.latency_us))];
    if let Some(beta) = model.beta_gb_per_s {
        parts.push(format!("{} GB/s", three(beta)));
    }
    if let Some(half) = model.half_bytes {
        parts.push(format!("half of the bandwidth at {}", size(half as u64)));
    }
    format!(
        "{}{by} over {} ranks: {}. Residuals: median {}, largest {}.",
        model.of.function,
        model.of.nranks,
        parts.join(", "),
        off(model.residual_p50_share),
        off(model.residual_max_share)
    )
}

fn figure(model: &CostModel) -> String {
    let log = |bytes: u64| (bytes.max(1) as f64).log2();
    let (least, most) = (log(model.least_bytes), log(model.most_bytes));
    let curve_at = |along: f64| {
        let bytes = (least + (most - least) * along).exp2();
        model.latency_us + bytes * slope(model)
    };
    let all = || {
        let curve = [curve_at(0.0), curve_at(1.0)];
        let own = model.samples.iter().filter_map(|s| s.nccl_us);
        let measured = model.samples.iter().map(|s| s.time_us).chain(own);
        measured.chain(curve).filter(|us| *us > 0.0)
    };
    let (low, high) = (
        all().fold(f64::MAX, f64::min).ln(),
        all().fold(0.0, f64::max).ln(),
    );
    let mut out = String::from("<figure>\n");
    if most > least && high > low {
        let x = |along: f64| LEFT + (WIDE - LEFT - 12.0) * along;
        let y = |us: f64| 10.0 + (TALL - BELOW - 10.0) * (high - us.max(1e-9).ln()) / (high - low);
        let mut path = String::new();
        for point in 0..POINTS {
            let along = point as f64 / (POINTS - 1) as f64;
            let step = if point == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{step}{:.1} {:.1}", x(along), y(curve_at(along)));
        }
        let name = escaped(&model.of.function);
        let _ = writeln!(
            out,
            "<svg class=\"model\" role=\"img\" aria-label=\"Cost model of {name}\" \
             viewBox=\"0 0 {WIDE} {TALL}\">\n<path class=\"axis\" d=\"M{LEFT} 4V{bottom}H{WIDE}\"/>\n\
             <path d=\"{path}\"/>",
            bottom = TALL - BELOW + 6.0,
        );
        for sample in &model.samples {
            let along = (log(sample.bytes) - least) / (most - least);
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}: {} measured, {} by the model\
                 </title></circle>",
                x(along),
                y(sample.time_us),
                size(sample.bytes),
                time(sample.time_us),
                time(sample.model_us)
            );
        }
        for (sample, us) in model.samples.iter().filter_map(|s| Some((s, s.nccl_us?))) {
            let along = (log(sample.bytes) - least) / (most - least);
            let _ = writeln!(
                out,
                "<path class=\"own\" d=\"M{:.1} {:.1}l7 7m0 -7l-7 7\"><title>{}: {} by NCCL's own estimate\
                 </title></path>",
                x(along) - 3.5,
                y(us) - 3.5,
                size(sample.bytes),
                time(us)
            );
        }
        for (us, at) in [(high.exp(), 14.0), (low.exp(), TALL - BELOW)] {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{at:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                time(us)
            );
        }
        for (bytes, along, anchor) in [
            (model.least_bytes, 0.0, "start"),
            (model.most_bytes, 1.0, "end"),
        ] {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                x(along),
                TALL - 3.0,
                size(bytes)
            );
        }
        out += "</svg>\n";
    }
    let _ = writeln!(
        out,
        "<figcaption>{}</figcaption>\n</figure>",
        escaped(&caption(model))
    );
    out
}
