//! How much faster other hosts could be if a late host was in time, by how long they were in the CUDA driver.
//!
//! A host waits in the driver: for its GPU, or for room in the queue of launches. It also works there: each
//! launch takes some microseconds. A host that is late waits for nobody, so what the driver takes on it is
//! work, and hosts that do the same need as long at the same place of the step. The rest is waiting, which
//! they would not do if it was in time.
//!
//! Rule: what the driver takes at a place that the late host has not is work.

use super::frame::Frame;
use super::hosts::mean;
use super::launches::{Kind, Lane, Launch, Ordinals};
use super::work::Work;
use crate::streams::Share;
use std::collections::BTreeMap;

/// Fewer times at a place show nothing of what the driver takes.
const LEAST: usize = 8;

/// Which launch of a step: its kind, and how many of the kind came before.
type Place = (Kind, u32);

/// How long a lane was in the driver until a launch, since the one before, ns.
type Times = BTreeMap<Place, Vec<f64>>;

/// By which part of the time the hosts of other lanes could be faster if these hosts were in time, of the one
/// that could least. `None` if that is not known.
pub fn faster(lanes: &[Lane], frame: &Frame, work: &Work, late: &[usize]) -> Option<Share> {
    if late.is_empty() || !(0..lanes.len()).all(|lane| work.is_known(lane)) {
        return None;
    }
    // What the driver takes at a place: a quarter takes less, on average, and a quarter takes more.
    let mut needs: BTreeMap<Place, [f64; 3]> = BTreeMap::new();
    for lane in late {
        for (place, mut took) in times(&lanes[*lane], *lane, frame) {
            let n = took.len();
            if n < LEAST {
                continue;
            }
            took.sort_by(f64::total_cmp);
            let own = [took[n / 4], mean(&took), took[3 * n / 4]];
            let known = needs.entry(place).or_insert(own);
            for (known, own) in known.iter_mut().zip(own) {
                *known = known.min(own);
            }
        }
    }
    let of = |lane: usize| {
        // A host that is ahead of its GPU needs less than the wall by that, too.
        let begins = &frame.begins[lane];
        let took = (begins.last()? - begins.first()?) as f64;
        let mut waited = [0.0; 3];
        for (place, in_driver) in times(&lanes[lane], lane, frame) {
            let Some(needs) = needs.get(&place) else {
                continue;
            };
            for (waited, need) in waited.iter_mut().zip(needs) {
                *waited += in_driver.len() as f64 * (mean(&in_driver) - need).max(0.0);
            }
        }
        let wall = frame.total();
        let [most, probably, least] = waited.map(|waited| 1.0 - (took - waited) / wall);
        Some(Share {
            share: probably,
            interval: Some((least.min(probably), most.max(probably))),
        })
    };
    let others = (0..lanes.len()).filter(|lane| !late.contains(lane));
    let all = others.filter_map(of);
    all.min_by(|a, b| a.share.total_cmp(&b.share))
}

fn times(lane: &Lane, number: usize, frame: &Frame) -> Times {
    let mut times = Times::new();
    let mut ordinals = Ordinals::default();
    let mut before: Option<&Launch> = None;
    for launch in lane.launches.iter().filter(|launch| !launch.in_graph) {
        let step = frame.step(number, launch.api);
        if let (Some(_), Some(before)) = (step, before) {
            let kind = lane.kinds[launch.kind as usize].of_place();
            let place = (kind, ordinals.next(step, kind));
            let took = before.in_call() + f64::from(launch.driver);
            times.entry(place).or_default().push(took);
        }
        before = Some(launch);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const STEPS: i64 = 60;

    /// Two calls a step of 20 ms; how long the driver takes until each, ms.
    fn lanes(all: &[[f32; 2]]) -> (Vec<Lane>, Frame) {
        let name = tables::Names::default().intern("AllReduce");
        let lane = |took: &[f32; 2]| Lane {
            kinds: vec![Kind {
                communicator: 0,
                function: name,
                bytes: 8,
                graph: 0,
            }],
            launches: (0..2 * STEPS)
                .map(|n| Launch {
                    api: n * 10 * MS,
                    driver: 1e6 * took[n as usize % 2],
                    ..Launch::default()
                })
                .collect(),
            ..Lane::default()
        };
        let begins = (0..=STEPS).map(|step| step * 20 * MS).collect::<Vec<i64>>();
        let frame = Frame {
            begins: vec![begins; all.len()],
            wall: vec![20.0 * MS as f64; STEPS as usize],
            skipped: 0,
            by_hosts: false,
        };
        (all.iter().map(lane).collect(), frame)
    }

    fn share(all: &[[f32; 2]], late: &[usize]) -> Option<f64> {
        let (lanes, frame) = lanes(all);
        let work = Work::of(&lanes, &frame);
        faster(&lanes, &frame, &work, late).map(|of| of.share)
    }

    #[test]
    fn hosts_wait_for_what_the_driver_takes_longer_than_on_the_late_one() {
        // Of 20 ms, 6 are waiting, and 2 are what the driver takes.
        let found = share(&[[1.0, 1.0], [7.0, 1.0]], &[0]).expect("known");
        assert!((found - 0.3).abs() < 0.01, "{found}");
        // The host that waits least says how much faster all could be.
        let found = share(&[[1.0, 1.0], [7.0, 1.0], [3.0, 2.0]], &[0]).expect("known");
        assert!((found - 0.15).abs() < 0.01, "{found}");
    }

    #[test]
    fn without_driver_times_nothing_is_known() {
        assert_eq!(share(&[[1.0, 1.0], [0.0, 0.0]], &[0]), None);
        assert_eq!(share(&[[1.0, 1.0], [7.0, 1.0]], &[]), None);
    }
}
