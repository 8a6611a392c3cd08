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
//! Without windows, the work between two calls that a stream waits for shows it: what both lanes do there is
//! the same at most places of the step, and takes longer on the slower GPU. More to do is at some places
//! only, so the median over places leaves it out. What is at all places is taken for slowness. Only work that
//! was launched before the GPU came to it counts, because its host has no part in how long it takes.
//!
//! But no more than power allows. Power rises with the cube of the clock. A GPU that computes for a part of
//! the time may draw so much more meanwhile, so its clock is faster by the cube root of that at most. (For
//! 68 % of the time, that is 14 %.) Lanes on one GPU are faster for another reason: who computes while the
//! others wait has all of it.
//!
//! Rule: speeds differ if their intervals over the windows have nothing in common. The same kernels differ
//! from window to window by some percent, and so do GPUs that are as fast.

use super::frame::Frame;
use super::habit::row;
use super::launches::{Kind, Lane, Ordinals};
use crate::streams::{Share, Streams};
use std::collections::HashMap;

/// So many places give the median of their ratios an interval of 95 %: that of five has one of 94 % at most.
const LEAST_PLACES: usize = 6;
/// A place has a mean if so many steps show it.
const LEAST_STEPS: u32 = 5;
/// Places are looked at, those with most work first, until they have this part of it: what is short is
/// mostly the GPU's time between two kernels.
const MOST_OF_WORK: f64 = 0.9;

/// What is known of how fast lanes compute.
pub struct Paces {
    /// By lane: how long its kernels take, by the mean of all lanes; `None` if that is not known.
    lanes: Vec<Option<Share>>,
    /// By lane: its work at the places of a step, where windows say nothing.
    gaps: Vec<Gaps>,
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
    pub fn new(lanes: &[Lane], frame: &Frame, streams: Option<&Streams>) -> Paces {
        let of = |lane: &Lane| row(lane, streams?)?.pace;
        let gpu = |lane: &Lane| (lane.process.host.clone(), lane.device);
        let paces: Vec<Option<Share>> = lanes.iter().map(of).collect();
        let gaps = if paces.iter().any(Option::is_some) {
            Vec::new()
        } else {
            let numbered = lanes.iter().enumerate();
            numbered.map(|(at, lane)| gaps(lane, at, frame)).collect()
        };
        Paces {
            lanes: paces,
            gaps,
            gpus: lanes.iter().map(gpu).collect(),
        }
    }

    /// How long a lane takes for what each of `late` does in 1, if that is less beyond the error of it, and
    /// of the fastest of them: a group is not slower than each of its lanes.
    fn speed(&self, lane: usize, late: &[usize]) -> Option<f64> {
        let speeds = late.iter().map(|late| {
            if self.gaps.is_empty() {
                faster(self.lanes[lane]?, self.lanes[*late]?)
            } else {
                faster_at_places(&self.gaps[lane], &self.gaps[*late])
            }
        });
        let speeds: Option<Vec<f64>> = speeds.collect();
        speeds?.into_iter().reduce(f64::max)
    }

    /// By which part each lane would compute slower if the `late` ones had as much to do as the others;
    /// `work` is by lane.
    pub fn slower(&self, late: &[usize], work: &[f64]) -> Vec<Slower> {
        let mut slower = vec![Slower::default(); self.lanes.len()];
        let works = late.iter().map(|lane| work[*lane]).sum::<f64>() / late.len().max(1) as f64;
        for lane in (0..self.lanes.len()).filter(|lane| !late.contains(lane)) {
            let shares = late.iter().any(|of| self.gpus[*of] == self.gpus[lane]);
            if let Some(speed) = self.speed(lane, late) {
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

/// By place: the sum of a lane's work before it, ns, and in how many steps.
type Gaps = HashMap<(Kind, u32), (f64, u32)>;

fn gaps(lane: &Lane, number: usize, frame: &Frame) -> Gaps {
    // By kind and ordinal: a place is looked up once, and not for each launch.
    let mut by_kind: Vec<Vec<(f64, u32)>> = vec![Vec::new(); lane.kinds.len()];
    let mut step_of = frame.steps_in_order(number);
    let mut ordinals = Ordinals::new(&lane.kinds);
    // When the stream went on behind the last launch that it waited for.
    let mut since = None;
    for launch in &lane.launches {
        let Some(step) = step_of(launch.api) else {
            since = None;
            continue;
        };
        let ordinal = ordinals.next(step, launch.kind) as usize;
        if launch.stop == 0 || launch.stands == 0 {
            // What it waited for here is not known.
            since = None;
            continue;
        }
        if let Some(since) = since.filter(|since| launch.launched <= *since) {
            let of_kind = &mut by_kind[launch.kind as usize];
            if of_kind.len() <= ordinal {
                of_kind.resize(ordinal + 1, (0.0, 0));
            }
            let gap = &mut of_kind[ordinal];
            *gap = (gap.0 + (launch.stands - since).max(0) as f64, gap.1 + 1);
        }
        since = Some(launch.stop);
    }
    let mut gaps = Gaps::new();
    for (kind, of_kind) in lane.kinds.iter().zip(by_kind) {
        for (ordinal, (sum, steps)) in (0..).zip(of_kind) {
            let gap = gaps.entry((kind.of_place(), ordinal)).or_default();
            *gap = (gap.0 + sum, gap.1 + steps);
        }
    }
    gaps.retain(|_, (_, steps)| *steps >= LEAST_STEPS);
    gaps
}

/// How long one lane takes for what another one does in 1: the median over the places of both, if it is less
/// beyond its error.
fn faster_at_places(own: &Gaps, late: &Gaps) -> Option<f64> {
    let mean = |(sum, steps): (f64, u32)| sum / f64::from(steps);
    let both = own.iter().filter_map(|(place, own)| {
        let (own, late) = (mean(*own), mean(*late.get(place)?));
        (late > 0.0).then_some((own, own / late))
    });
    let mut both: Vec<(f64, f64)> = both.collect();
    // In an order that does not depend on the map's.
    both.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let all: f64 = both.iter().map(|of| of.0).sum();
    let mut sum = 0.0;
    let large = both.iter().take_while(|of| {
        let is_in = sum < MOST_OF_WORK * all;
        sum += of.0;
        is_in
    });
    let mut ratios: Vec<f64> = large.map(|of| of.1).collect();
    let n = ratios.len();
    if n < LEAST_PLACES {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    // Signs of n ratios about their median are coins: 1.96 deviations of n/2.
    let beyond = (n as f64 / 2.0 - 0.98 * (n as f64).sqrt()).floor().max(0.0) as usize;
    (ratios[n - 1 - beyond] < 1.0).then(|| ratios[n / 2].midpoint(ratios[(n - 1) / 2]))
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
    use crate::account::launches::Launch;

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
    fn places_show_a_slower_gpu_if_its_host_has_no_part_in_it() {
        const MS: i64 = 1_000_000;
        // Eight places of work; one has 5 ms more to do on the late lane, which takes a tenth longer in all.
        let lane = |slow: f64, more: i64, ahead: i64| {
            let mut launches = Vec::new();
            let mut at = 0;
            for index in 0..80 {
                let work = (slow * 2e6) as i64 + if index % 8 == 3 { more } else { 0 };
                launches.push(Launch {
                    kind: index % 8,
                    api: 100 * MS * i64::from(index / 8) + i64::from(index % 8),
                    launched: at - ahead,
                    stands: at + work,
                    stop: at + work + MS,
                    ..Launch::default()
                });
                at += work + MS;
            }
            Lane {
                kinds: (0..8)
                    .map(|communicator| Kind {
                        communicator,
                        function: tables::Name::NONE,
                        bytes: 0,
                        graph: 0,
                    })
                    .collect(),
                launches,
                ..Lane::default()
            }
        };
        let frame = Frame {
            begins: vec![(0..=10).map(|step| 100 * MS * step).collect()],
            wall: vec![100.0 * MS as f64; 10],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        let of = |lane: &Lane| gaps(lane, 0, &frame);
        let (own, late) = (of(&lane(1.0, 0, 1)), of(&lane(1.1, 5 * MS, 1)));
        let speed = faster_at_places(&own, &late).expect("faster");
        assert!((speed - 1.0 / 1.1).abs() < 1e-6, "{speed}");
        assert_eq!(faster_at_places(&late, &own), None);
        // Launched only when the GPU had come there.
        let by_host = of(&lane(1.1, 5 * MS, -MS));
        assert_eq!(faster_at_places(&own, &by_host), None);
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
