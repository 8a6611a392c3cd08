//! What slow transfers cost: a communicator whose transfers take longer for a part of the run, or longer than
//! the same transfers of the other communicators.
//!
//! The transfer of an operation is the GPU time of its last lane: the others wait before it. What it costs is
//! for how long even that lane stood still. Transfers are compared with those at the same place in other
//! steps. If they are slow in one stretch of the run only, that stretch is the loss. Else they are compared
//! with the same place on other communicators.
//!
//! Rule: only operations that were timed on all members of the communicator. If one is missing, the others
//! may wait for it.

use super::frame::{median, quantile, Frame};
use super::launches::{Kind, Lane};
use super::places::{Cell, Places};
use std::collections::BTreeMap;
use tables::Name;

/// Fewer transfers tell nothing.
const LEAST: usize = 12;

/// Transfers are usual that are among the quickest of so many.
const QUICK: f64 = 0.2;

/// From the 5 % to the 20 % quantile of a normal distribution, in standard deviations.
const NORMAL: f64 = 0.803;

/// A transfer is slow if it is so many standard deviations longer than usual,
const USUAL: f64 = 4.0;

/// and takes so many times as long: routes and neighbours make less than that.
const SLOW: f64 = 1.5;

/// In a stretch of the run in which a link is slow, so many of its transfers are.
const MOSTLY: f64 = 0.7;

/// For how long lanes stood still for calls of a kind is known, if it is for this part of them.
const KNOWN: f64 = 0.9;

/// A communicator is compared with so many others, or more.
const LEAST_OTHERS: usize = 2;

/// A communicator with slow transfers, and what they cost.
#[derive(Clone, Debug)]
pub struct Slow {
    /// Index of the communicator in the capture.
    pub communicator: u32,
    /// Its lanes.
    pub lanes: Vec<usize>,
    /// The part of the wall that they cost.
    pub share: f64,
    /// They take so many times as long as usual.
    pub times: f64,
    /// How long a slow one takes, and a usual one, ns.
    pub took: (f64, f64),
    /// Slow transfers, and all that were timed.
    pub slow: (u64, u64),
    /// From this step to that; `None` if they are slow in all steps.
    pub steps: Option<(usize, usize)>,
}

/// A transfer.
#[derive(Clone, Copy)]
struct Transfer {
    step: u32,
    /// How long it took, ns.
    ns: f64,
    /// For how long its last lane stood still, ns.
    still: f64,
}

/// The transfers of a place.
#[derive(Default)]
struct AtPlace {
    communicator: u32,
    /// What it is on any communicator.
    like: Option<(Name, u64, u32)>,
    lanes: Vec<usize>,
    operations: f64,
    all: Vec<Transfer>,
}

/// The slow communicators, the costliest first.
fn slow(at_places: &[AtPlace], frame: &Frame) -> Vec<Slow> {
    let mut found: Vec<Slow> = at_times(at_places, frame);
    let always = beside_others(at_places, frame, &found);
    found.extend(always);
    found.retain(|slow| slow.share > 0.0);
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

/// The slow communicators, the costliest first, and what transfers cost.
pub fn find(lanes: &[Lane], places: &Places, frame: &Frame) -> (Vec<Slow>, Vec<Exposed>) {
    let at_places = gather(lanes, places);
    (slow(&at_places, frame), exposed(&at_places))
}

/// For how long all lanes stood still for the transfers of calls of one kind.
#[derive(Clone, Debug)]
pub struct Exposed {
    /// Index of the communicator in the capture.
    pub communicator: u32,
    /// Function.
    pub function: Name,
    /// Bytes.
    pub bytes: u64,
    /// One of its lanes.
    pub lane: usize,
    /// ns of the wall of the steps.
    pub still: f64,
    /// How long the transfers took, ns.
    pub ns: f64,
}

/// The transfers of one kind, at all places.
#[derive(Default)]
struct OfKind {
    lane: usize,
    operations: f64,
    /// Operations at places with a known transfer.
    known: f64,
    /// Of these: for how long lanes stood still, and how long they took, ns.
    still: f64,
    ns: f64,
}

/// Of the kinds of calls of which that is known nearly always.
fn exposed(at_places: &[AtPlace]) -> Vec<Exposed> {
    let mut by: BTreeMap<(u32, Name, u64), OfKind> = BTreeMap::new();
    for place in at_places {
        let Some(((function, bytes, _), lane)) = place.like.zip(place.lanes.first()) else {
            continue;
        };
        let of = by.entry((place.communicator, function, bytes)).or_default();
        of.lane = *lane;
        of.operations += place.operations;
        if place.all.is_empty() {
            continue;
        }
        of.known += place.operations;
        let times = place.operations / place.all.len() as f64;
        for transfer in &place.all {
            // A stream may have stood still before the transfer, too.
            of.still += transfer.still.min(transfer.ns) * times;
            of.ns += transfer.ns * times;
        }
    }
    by.retain(|_, of| of.known > 0.0 && of.known >= KNOWN * of.operations);
    let mut found = Vec::new();
    for ((communicator, function, bytes), of) in by {
        found.push(Exposed {
            communicator,
            function,
            bytes,
            lane: of.lane,
            still: of.still * of.operations / of.known,
            ns: of.ns * of.operations / of.known,
        });
    }
    found
}

/// By step: how long it usually takes at that time of the run, ns. Where a link is slow, all steps are long.
pub fn usual_steps(slow: &[Slow], frame: &Frame) -> Vec<f64> {
    let mut usual = vec![frame.median(); frame.wall.len()];
    for (from, to) in slow.iter().filter_map(|slow| slow.steps) {
        let within = median(frame.wall[from..=to].to_vec());
        usual[from..=to]
            .iter_mut()
            .for_each(|ns| *ns = ns.max(within));
    }
    usual
}

fn gather(lanes: &[Lane], places: &Places) -> Vec<AtPlace> {
    let mut all: BTreeMap<u32, AtPlace> = BTreeMap::new();
    let mut ordinals: BTreeMap<Kind, u32> = BTreeMap::new();
    for operation in places.operations() {
        let first = &operation[0];
        let lane = &lanes[first.lane as usize];
        let kind = lane.kinds[first.launch.kind as usize];
        let members = lane.groups.get(&kind.communicator).map(|group| group.ranks);
        let mutual = operation.iter().all(|cell| cell.launch.is_mutual());
        if members != Some(operation.len() as u32)
            || !mutual
            || first.launch.in_graph
            || first.launch.graph != 0
        {
            continue;
        }
        let of = all.entry(first.place).or_insert_with(|| {
            let plain = kind.of_place();
            let ordinal = ordinals.entry(plain).or_default();
            *ordinal += 1;
            AtPlace {
                communicator: kind.communicator,
                like: Some((plain.function, plain.bytes, *ordinal)),
                ..AtPlace::default()
            }
        });
        of.operations += f64::from(first.times);
        if of.lanes.len() < operation.len() {
            of.lanes = operation.iter().map(|cell| cell.lane as usize).collect();
        }
        let shortest = |value: &dyn Fn(&Cell) -> Option<f64>| {
            let values: Option<Vec<f64>> = operation.iter().map(value).collect();
            Some(values?.into_iter().fold(f64::INFINITY, f64::min))
        };
        let (ns, still) = (
            shortest(&|cell| cell.launch.length()),
            shortest(&|cell| cell.still()),
        );
        if let (Some(ns), Some(still)) = (ns, still) {
            of.all.push(Transfer {
                step: first.step,
                ns,
                still,
            });
        }
    }
    all.into_values().collect()
}

/// What usual transfers of a place take, and from when on one is slow, ns; `None` if too few are known.
fn usual(all: &[Transfer]) -> Option<(f64, f64)> {
    let mut sorted: Vec<f64> = all.iter().map(|of| of.ns).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |part| quantile(&sorted, part);
    (sorted.len() >= LEAST).then(|| {
        let (least, usual) = (at(0.05), at(QUICK));
        let limit = usual + USUAL * (usual - least) / NORMAL;
        (usual, limit.max(SLOW * usual))
    })
}

/// Communicators whose transfers are slow in one stretch of the run.
fn at_times(places: &[AtPlace], frame: &Frame) -> Vec<Slow> {
    let mut by: BTreeMap<u32, Vec<&AtPlace>> = BTreeMap::new();
    for place in places {
        by.entry(place.communicator).or_default().push(place);
    }
    let of = |(communicator, places): (u32, Vec<&AtPlace>)| -> Option<Slow> {
        let known = places
            .iter()
            .filter_map(|place| Some((*place, usual(&place.all)?)));
        let known: Vec<(&AtPlace, (f64, f64))> = known.collect();
        let mut slow: Vec<u32> = Vec::new();
        for (place, (_, limit)) in &known {
            slow.extend(
                place
                    .all
                    .iter()
                    .filter(|of| of.ns > *limit)
                    .map(|of| of.step),
            );
        }
        slow.sort_unstable();
        if slow.len() < LEAST {
            return None;
        }
        // One in twenty at each end may be slow by chance.
        let (from, to) = (
            slow[slow.len() / 20],
            slow[slow.len() - 1 - slow.len() / 20],
        );
        let inside = |of: &&Transfer| (from..=to).contains(&of.step);
        let (mut loss, mut took, mut counts) = (0.0, (0.0, 0.0), (0u64, 0u64));
        for (place, (ns, limit)) in &known {
            let is_slow = |of: &&Transfer| of.ns > *limit && inside(of);
            let slow: Vec<&Transfer> = place.all.iter().filter(is_slow).collect();
            let all = place.all.iter().filter(inside).count();
            // A small transfer may not be slower on a slow link.
            if slow.is_empty() || (slow.len() as f64) < MOSTLY * all as f64 {
                continue;
            }
            let usual = place.all.iter().filter(|of| of.ns <= *limit);
            let usual = median(usual.map(|of| of.still).collect());
            let scale = place.operations / place.all.len() as f64;
            loss += scale
                * slow
                    .iter()
                    .map(|of| (of.still - usual).max(0.0))
                    .sum::<f64>();
            took.0 += slow.iter().map(|of| of.ns).sum::<f64>();
            took.1 += ns * slow.len() as f64;
            counts = (counts.0 + slow.len() as u64, counts.1 + all as u64);
        }
        let n = counts.0.max(1) as f64;
        (counts.0 as usize >= LEAST).then(|| Slow {
            communicator,
            lanes: known[0].0.lanes.clone(),
            share: loss / frame.total(),
            times: took.0 / took.1,
            took: (took.0 / n, took.1 / n),
            slow: counts,
            steps: Some((from as usize, to as usize)),
        })
    };
    by.into_iter().filter_map(of).collect()
}

/// Communicators whose transfers take longer than the same of other communicators, in all steps.
fn beside_others(places: &[AtPlace], frame: &Frame, known: &[Slow]) -> Vec<Slow> {
    let mut like: BTreeMap<(Name, u64, u32), Vec<&AtPlace>> = BTreeMap::new();
    for place in places.iter().filter(|place| !place.all.is_empty()) {
        if let Some(of) = place.like {
            like.entry(of).or_default().push(place);
        }
    }
    let mut by: BTreeMap<u32, Slow> = BTreeMap::new();
    for alike in like.values().filter(|of| of.len() > LEAST_OTHERS) {
        for place in alike {
            let of = |place: &AtPlace| {
                let ns = median(place.all.iter().map(|of| of.ns).collect());
                (ns, median(place.all.iter().map(|of| of.still).collect()))
            };
            let others = alike
                .iter()
                .filter(|other| other.communicator != place.communicator);
            let (ns, still): (Vec<f64>, Vec<f64>) = others.map(|place| of(place)).unzip();
            if ns.len() < LEAST_OTHERS {
                continue;
            }
            let (usual, usual_still) = (median(ns), median(still));
            let (own, own_still) = of(place);
            let n = place.all.len() as u64;
            let slow = by.entry(place.communicator).or_insert_with(|| Slow {
                communicator: place.communicator,
                lanes: place.lanes.clone(),
                share: 0.0,
                times: 0.0,
                took: (0.0, 0.0),
                slow: (0, 0),
                steps: None,
            });
            slow.took = (slow.took.0 + own * n as f64, slow.took.1 + usual * n as f64);
            slow.slow = (slow.slow.0 + n, slow.slow.1 + n);
            slow.share += (own_still - usual_still) * place.operations / frame.total();
        }
    }
    let told = |slow: &Slow| known.iter().any(|of| of.communicator == slow.communicator);
    let mut all: Vec<Slow> = by.into_values().collect();
    for slow in &mut all {
        let n = slow.slow.0.max(1) as f64;
        slow.times = slow.took.0 / slow.took.1.max(1.0);
        slow.took = (slow.took.0 / n, slow.took.1 / n);
    }
    all.retain(|slow| slow.times >= SLOW && slow.slow.0 as usize >= LEAST && !told(slow));
    all
}
