//! Why the GPU of a late rank is busy, where kernel windows show it.

use crate::layout::cut;
use analyze::findings::{BusierBy, BusyGpu};
use analyze::spelling::{percent, three};

/// The longest name of a kernel in a sentence, in characters.
const MOST_NAME: usize = 60;

/// The reason, as it follows `Rank 1 is late: `.
pub(super) fn why(of: &BusyGpu) -> String {
    let others = others(of);
    match (of.by, &of.kernel) {
        (BusierBy::MoreKernels, Some(kernel)) => {
            let name = name(&kernel.name);
            match kernel.per_s {
                (own, there) if there > 0.0 => format!(
                    "its GPU runs {name} {} times as often as {others}",
                    three(own / there)
                ),
                _ => format!("its GPU runs {name}, and {} not", does(of)),
            }
        }
        (BusierBy::MoreKernels, None) => format!("its GPU runs more kernels than {others}"),
        (BusierBy::LongerKernels, _) => {
            let pace = of.pace.map_or(String::new(), |pace| {
                format!(" {} times as long there", three(pace))
            });
            format!("the same kernels take{pace} as on {others}")
        }
    }
}

/// What of that is known, in sentences that follow others.
pub(super) fn evidence(of: &BusyGpu) -> String {
    let others = others(of);
    let (more, longer) = of.share;
    let mut text = match (of.by, &of.kernel) {
        (BusierBy::MoreKernels, Some(kernel)) => format!(
            " In kernel windows, {} takes {} of the time more than on {others}: it runs {} times a second \
             there, and {} on {others}.",
            kernel.name,
            percent(kernel.share),
            three(kernel.per_s.0),
            match kernel.per_s.1 {
                0.0 => "never".to_owned(),
                there => format!("{} times", three(there)),
            },
        ),
        (BusierBy::MoreKernels, None) => format!(
            " In kernel windows, kernels that it runs more often take {} of the time more than on {others}.",
            percent(more)
        ),
        (BusierBy::LongerKernels, _) => format!(
            " In kernel windows, the same kernels take {} of the time more than on {others}.",
            percent(longer)
        ),
    };
    if let Some((own, there)) = of.sm_mhz.filter(|_| of.by == BusierBy::LongerKernels) {
        let (own, there) = (three(own), three(there));
        let held = match &of.throttled[..] {
            [] => String::new(),
            reasons => {
                let names: Vec<&str> = reasons.iter().map(|why| why.name()).collect();
                format!(" ({})", names.join(", "))
            }
        };
        text += &if of.is_slowed_by_clock() {
            format!(" Its SMs ran at {own} MHz{held}, and those of {others} at {there} MHz.")
        } else {
            format!(
                " That is not the clock: its SMs ran at {own} MHz{held}, and those of {others} at {there} \
                 MHz. It has more data, or shares its GPU."
            )
        };
    }
    text
}

/// What to do about kernels that it runs more often.
pub(super) fn find_kernels(of: Option<&BusyGpu>, pid: &str) -> String {
    let kernel = of.and_then(|of| of.kernel.as_ref());
    let what = kernel.map_or("the kernels of `report --kernels`".to_owned(), |kernel| {
        name(&kernel.name)
    });
    let others = match kernel.map(|kernel| kernel.per_s.1) {
        Some(0.0) => "and not in the others",
        _ => "more often than in the others",
    };
    format!(
        "Find what launches {what} in pid {pid} {others}, and take it out: `ncclscope view` shows where in \
         the step it runs, torch.profiler or Nsight Systems on this rank who launches it."
    )
}

/// What to do about kernels that take longer.
pub(super) fn check_gpu(of: Option<&BusyGpu>, device: Option<u32>) -> String {
    let on = device.map_or(String::new(), |device| format!(" -i {device}"));
    if of.is_some_and(BusyGpu::is_slowed_by_clock) {
        return format!(
            "See what holds its clock down: power limit, temperature, application clocks (nvidia-smi -q -d \
             PERFORMANCE,POWER,CLOCK{on}). Take the GPU out until it is as fast as the others."
        );
    }
    format!(
        "See whether another program uses its GPU (nvidia-smi{on}), whether something holds its clock down \
         (nvidia-smi -q -d PERFORMANCE,POWER,CLOCK{on}), and whether its data is larger."
    )
}

/// A kernel's name, short enough for a sentence: what a template is made for is left out.
fn name(full: &str) -> String {
    let plain = full.strip_prefix("void ").unwrap_or(full);
    let short = match plain.find('<') {
        Some(at) if at > 0 => &plain[..at],
        _ => plain,
    };
    cut(short, MOST_NAME)
}

fn others(of: &BusyGpu) -> String {
    match of.other {
        Some(Some(rank)) => format!("rank {rank}"),
        Some(None) => "the other GPU".to_owned(),
        None => "most others".to_owned(),
    }
}

fn does(of: &BusyGpu) -> String {
    match of.other {
        Some(_) => format!("{} does", others(of)),
        None => "most others do".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::nodes::Throttle;
    use analyze::streams::MoreOften;

    fn more(name: &str, per_s: (f64, f64)) -> BusyGpu {
        BusyGpu {
            by: BusierBy::MoreKernels,
            other: Some(Some(0)),
            share: (0.4, 0.0),
            kernel: Some(MoreOften {
                name: name.to_owned(),
                share: 0.38,
                per_s,
            }),
            pace: Some(1.0),
            sm_mhz: None,
            throttled: Vec::new(),
        }
    }

    #[test]
    fn a_kernel_is_named_and_how_often_it_runs() {
        let of = more(
            "void at::native::reduce_kernel<512, float>(int)",
            (300.0, 10.0),
        );
        assert_eq!(
            why(&of),
            "its GPU runs at::native::reduce_kernel 30.0 times as often as rank 0"
        );
        let alone = more("gemm", (300.0, 0.0));
        assert_eq!(why(&alone), "its GPU runs gemm, and rank 0 does not");
        let of_many = BusyGpu {
            other: None,
            ..alone
        };
        assert_eq!(why(&of_many), "its GPU runs gemm, and most others do not");
        let long = "k".repeat(200);
        assert!(why(&more(&long, (2.0, 1.0))).chars().count() < 120);
    }

    #[test]
    fn a_lower_clock_is_the_reason_only_if_it_explains_most() {
        let slow = |own: f64| BusyGpu {
            by: BusierBy::LongerKernels,
            kernel: None,
            pace: Some(1.5),
            sm_mhz: Some((own, 1980.0)),
            throttled: vec![Throttle::PowerCap],
            ..more("gemm", (1.0, 1.0))
        };
        assert_eq!(
            why(&slow(1300.0)),
            "the same kernels take 1.50 times as long there as on rank 0"
        );
        let text = evidence(&slow(1300.0));
        assert!(
            text.contains("ran at 1300 MHz (power_cap), and those of rank 0 at 1980 MHz"),
            "{text}"
        );
        assert!(!text.contains("not the clock"), "{text}");
        let text = evidence(&slow(1900.0));
        assert!(text.contains("not the clock"), "{text}");
        assert!(check_gpu(Some(&slow(1300.0)), Some(1)).contains("holds its clock down: "));
        assert!(check_gpu(Some(&slow(1900.0)), Some(1)).contains("another program"));
    }
}
