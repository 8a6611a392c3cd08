//! How much slower other lanes would compute if a late lane was in time.
//!
//! A GPU that waits is cooler and draws less power, so its clock is faster than that of a GPU that always
//! computes. On two H200, the stage of a pipeline that waited for 32 % of the time ran the same kernels 9 %
//! faster than the stage that it waited for. In time, both have as much to do, and the first is as slow as
//! the second.
//!
//! But a GPU may be late because it is slow by itself, and then nothing changes for the others. Windows show
//! by how much the same kernels take longer on the late lane. The rest of what it works longer is more to do.
//! Which part of the difference is because of what is probable is as large as that rest.
//!
//! But no more than power allows. Power rises with the cube of the clock. A GPU that computes for a part of
//! the time may draw so much more meanwhile, so its clock is faster by the cube root of that at most. (For
//! 68 % of the time, that is 14 %.) Lanes on one GPU are faster for another reason: who computes while the
//! others wait has all of it.
//!
//! Rule: speeds differ if their intervals over the windows have nothing in common. The same kernels differ
//! from window to window by some percent, and so do GPUs that are as fast.

use super::habit::row;
use super::launches::Lane;
use crate::streams::{Share, Streams};

/// What is known of how fast lanes compute.
pub struct Paces {
    /// By lane: how long its kernels take, by the mean of all lanes; `None` if that is not known.
    lanes: Vec<Option<Share>>,
    /// By lane: host and ordinal of its GPU.
    gpus: Vec<(String, Option<u32>)>,
}

/// By which part of its work a lane would be slower: probably, and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slower {
    /// Probably.
    pub probably: f64,
    /// At most.
    pub most: f64,
}

impl Paces {
    /// Of these lanes.
    pub fn new(lanes: &[Lane], streams: Option<&Streams>) -> Paces {
        let of = |lane: &Lane| row(lane, streams?)?.pace;
        let gpu = |lane: &Lane| (lane.host.clone(), lane.device);
        Paces {
            lanes: lanes.iter().map(of).collect(),
            gpus: lanes.iter().map(gpu).collect(),
        }
    }

    /// By which part each lane would compute slower if the `late` ones had as much to do as the others;
    /// `work` is by lane.
    pub fn slower(&self, late: &[usize], work: &[f64]) -> Vec<Slower> {
        let mut slower = vec![Slower::default(); self.lanes.len()];
        let of_late: Option<Vec<Share>> = late.iter().map(|lane| self.lanes[*lane]).collect();
        // The fastest of them, so that a group is not slower than each of its lanes.
        let fastest = of_late.iter().flatten().copied();
        let Some(fastest) = fastest.min_by(|a, b| a.share.total_cmp(&b.share)) else {
            return slower;
        };
        let works = late.iter().map(|lane| work[*lane]).sum::<f64>() / late.len().max(1) as f64;
        for lane in (0..self.lanes.len()).filter(|lane| !late.contains(lane)) {
            let shares = late.iter().any(|of| self.gpus[*of] == self.gpus[lane]);
            if let Some(speed) = self.lanes[lane].and_then(|own| faster(own, fastest)) {
                slower[lane] = slower_by(speed, works, work[lane], !shares);
            }
        }
        slower
    }
}

/// How long kernels take on one lane, by how long the same kernels take on another, if that is less beyond
/// the error of both.
fn faster(one: Share, other: Share) -> Option<f64> {
    let (high, low) = (one.interval?.1, other.interval?.0);
    (high < low).then(|| one.share / other.share)
}

/// Of a lane that works for so long beside a late one, and takes `speed` for what that one does in 1.
/// `by_clock`: only the clock of its GPU makes it faster.
pub fn slower_by(speed: f64, late: f64, own: f64, by_clock: bool) -> Slower {
    if speed >= 1.0 || late <= own {
        return Slower::default();
    }
    let more_to_do = (late * speed - own) / (late - own);
    let power = if by_clock {
        (late / own).cbrt() - 1.0
    } else {
        f64::INFINITY
    };
    let most = (1.0 / speed - 1.0).min(power);
    Slower {
        probably: more_to_do.clamp(0.0, 1.0) * most,
        // No slower than that it works for as long.
        most: most.min(late / own - 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_waits_for_one_with_more_to_do_is_faster_meanwhile() {
        // 90 ns are 72 at the speed of the other: of 50 more, 32 are more to do.
        let slower = slower_by(0.8, 90.0, 40.0, false);
        assert!((slower.probably - 0.25 * 32.0 / 50.0).abs() < 1e-9);
        assert!((slower.most - 0.25).abs() < 1e-9);
        // The same work, only slower: the other would not change.
        assert_eq!(slower_by(0.8, 50.0, 40.0, false).probably, 0.0);
        // It does not wait for one that has less to do.
        assert_eq!(slower_by(0.8, 30.0, 40.0, false), Slower::default());
        // A GPU that works for 68 % of the time has no clock that is 25 % faster.
        let limited = slower_by(0.8, 100.0, 68.0, true);
        assert!((limited.most - (1.0f64 / 0.68).cbrt() + 1.0).abs() < 1e-9);
    }

    #[test]
    fn only_what_is_beyond_the_error_is_faster() {
        let of = |share: f64, half: f64| Share {
            share,
            interval: Some((share - half, share + half)),
        };
        let apart = faster(of(0.95, 0.01), of(1.05, 0.01)).expect("faster");
        assert!((apart - 0.95 / 1.05).abs() < 1e-9);
        assert_eq!(faster(of(0.95, 0.06), of(1.05, 0.06)), None);
        assert_eq!(faster(of(1.05, 0.01), of(0.95, 0.01)), None);
    }
}
