//! What recording cost a job, in words.

use analyze::cost::{Cost, OverBudget};
use analyze::streams::Share;

/// What recording cost, and that it is above its budget if it is.
pub(crate) fn sentence(of: &Cost) -> String {
    let mut parts: Vec<String> = Vec::new();
    match (&of.gpu, &of.events, &of.windows) {
        (Some(gpu), ..) if of.has_gpu_part() => {
            parts.push(format!("GPU events and windows {}", with_interval(gpu)));
        }
        (Some(_), ..) => {}
        (None, events, windows) => {
            parts.push(match events {
                Some(events) => format!("GPU events {}", with_interval(events)),
                None => format!("GPU events {} % (estimated)", percent(of.events_counted)),
            });
            parts.push(match windows {
                Some(windows) => format!("windows {}", with_interval(windows)),
                None => format!(
                    "windows not known ({} compared, too few to tell)",
                    of.windows_compared
                ),
            });
        }
    }
    if let Some(share) = of.cupti_at_most {
        parts.push(format!(
            "CUPTI between windows {} % at most (estimated; kernels cost nothing while the GPU is behind its \
             host)",
            percent(share)
        ));
    }
    parts.push(format!("callbacks {} % (estimated)", percent(of.callbacks)));
    format!(
        "Recording cost this job: {}.{}",
        parts.join(", "),
        remark(of)
    )
}

/// That it is above its budget, and what leaves that out.
fn remark(of: &Cost) -> String {
    let Some((budget, over)) = of.budget.zip(of.over_budget()) else {
        return String::new();
    };
    let budget = 100.0 * budget;
    let (variable, what) = match over {
        OverBudget::Windows => ("NCCLSCOPE_WINDOWS=off", "kernel windows"),
        OverBudget::Events => ("NCCLSCOPE_TIMING=host", "GPU events"),
        OverBudget::CuptiAtMost => {
            return format!(
                " Where the GPU waits for its host, CUPTI may take more than its budget of {budget} %. \
                 NCCLSCOPE_WINDOWS=off leaves it out."
            )
        }
    };
    format!(" That is above its budget of {budget} %. {variable} leaves out {what}.")
}

fn with_interval(of: &Share) -> String {
    match of.interval {
        // What recording takes is not below 0.
        Some((low, high)) if low < high && low <= 0.0 => {
            format!("not measurable, under {} %", percent(high.max(0.0)))
        }
        Some((low, high)) if low < high => format!(
            "{} % [{}, {}]",
            percent(of.share),
            percent(low),
            percent(high)
        ),
        _ => format!("{} %", percent(of.share)),
    }
}

fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    text.strip_prefix("-0.00")
        .map_or(text.clone(), |_| "0.00".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(share: f64, low: f64, high: f64) -> Cost {
        let interval = Some((low, high));
        Cost {
            gpu: Some(Share { share, interval }),
            events: None,
            windows: None,
            quiet_spells: 0,
            windows_compared: 0,
            left_out: 0,
            timed_launches: 0,
            events_counted: 0.0,
            cupti_at_most: None,
            callbacks: 0.0,
            calls: 0,
            budget: Some(0.01),
        }
    }

    #[test]
    fn a_cost_that_may_be_none_has_its_upper_limit_only() {
        let text = sentence(&cost(-0.0362, -0.0817, 0.0092));
        let said = "GPU events and windows not measurable, under 0.92 %";
        assert!(text.contains(said), "{text}");
        let text = sentence(&cost(0.0031, 0.0012, 0.005));
        let said = "GPU events and windows 0.31 % [0.12, 0.50]";
        assert!(text.contains(said) && !text.contains("budget"), "{text}");
    }

    #[test]
    fn a_cost_above_the_budget_is_remarked() {
        let mut of = cost(0.03, 0.02, 0.04);
        let text = sentence(&of);
        assert!(text.contains("above its budget of 1 %"), "{text}");
        of.gpu = None;
        of.cupti_at_most = Some(0.2026);
        let text = sentence(&of);
        assert!(
            text.contains("CUPTI may take more than its budget of 1 %"),
            "{text}"
        );
    }
}
