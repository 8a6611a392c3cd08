//! What a lane costs, if all lanes meet in the same operations: by how much less it stands still in them than
//! the others do.
//!
//! The sum over places of the step of mean(exposed of the others − exposed of the lane) × operations, by the
//! wall of the steps. Pairs are of the same operation; at a place without a pair, means are compared.
//!
//! With this lane in time, the others would wait for the one of them that comes last. So it costs no more
//! than that one stood still longer. And they would compute at another [`pace`](super::pace).
//!
//! Rule: what is only known of some lanes has bounds: a lane of which nothing is known stood still for no
//! longer than its launches ran.

use super::frame::Frame;
use super::habit::Source;
use super::noise;
use super::pace::{Paces, Slower};
use super::places::{Cell, Places, Scaled};

/// Fewer exposed times of a lane tell nothing.
const LEAST_KNOWN: u64 = 20;

/// A lane's exposed time is known if the launches of which it is not known took less of the wall.
const MOST_UNKNOWN: f64 = 0.10;

/// The lane that costs most.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The lane.
    pub lane: usize,
    /// What it costs of the wall of the steps.
    pub share: f64,
    /// Interval of that.
    pub interval: (f64, f64),
    /// The lane that others would wait for next, and what both cost; `None` of two lanes, or if exposed times
    /// of some are not known.
    pub with: Option<(usize, f64)>,
    /// What that rests on.
    pub source: Source,
}

impl Difference {
    /// With the limit that the lane which comes next sets; `still` is by lane. What shares a GPU with this
    /// one is slower because of it, and sets none.
    fn limited(
        self,
        still: &[Scaled],
        share_gpu: impl Fn(usize, usize) -> bool,
        wall: f64,
    ) -> Self {
        let longer = |lane: usize| (still[lane].sum - still[self.lane].sum) / wall;
        let others = (0..still.len()).filter(|lane| *lane != self.lane);
        let others = others.filter(|lane| !share_gpu(self.lane, *lane));
        let mut others: Vec<(usize, f64)> = others.map(|lane| (lane, longer(lane))).collect();
        others.sort_by(|a, b| a.1.total_cmp(&b.1));
        let [next, third, ..] = others[..] else {
            return self;
        };
        let over = (self.share - next.1).max(0.0);
        let (low, high) = self.interval;
        Difference {
            share: self.share - over,
            interval: (low - over, high - over),
            with: Some((next.0, third.1)),
            ..self
        }
    }

    /// With the others as slow as they would be; `still` is by lane.
    fn at_pace(self, still: &[Scaled], paces: &Paces, wall: f64) -> Self {
        let work: Vec<f64> = still.iter().map(|still| wall - still.sum).collect();
        let slower = paces.slower(&[self.lane], &work);
        let others = (work.len() - 1) as f64;
        let lost = |part: fn(&Slower) -> f64| {
            let each = work.iter().zip(&slower);
            each.map(|(work, slower)| work * part(slower)).sum::<f64>() / others / wall
        };
        let (probably, most) = (lost(|of| of.probably), lost(|of| of.most));
        Difference {
            share: self.share - probably,
            interval: (self.interval.0 - most, self.interval.1),
            with: self.with.map(|(lane, both)| (lane, both - probably)),
            ..self
        }
    }

    /// Without what the lane would wait by [`noise`]. Noise that lasts for several operations makes it wait
    /// once, so its bounds are the same.
    fn less(self, share: f64) -> Self {
        Difference {
            share: self.share - share,
            with: self.with.map(|(lane, both)| (lane, both - share)),
            ..self
        }
    }
}

/// Finds it; `steps` says which ones count, and `share_gpu` which lanes may be on one GPU.
pub fn find(
    places: &Places,
    frame: &Frame,
    steps: &[bool],
    share_gpu: impl Fn(usize, usize) -> bool,
    paces: &Paces,
) -> Option<Difference> {
    let wall = frame.total_of(steps);
    let still = places.scaled(steps, Cell::still);
    let hidden = |cell: &Cell| match cell.still() {
        Some(_) => Some(0.0),
        None => cell.launch.length(),
    };
    let mut unknown = places.scaled(steps, hidden);
    for (unknown, dark) in unknown.iter_mut().zip(places.dark(steps)) {
        unknown.sum += dark;
    }
    let known: Vec<bool> = still
        .iter()
        .zip(&unknown)
        .map(|(still, unknown)| still.known >= LEAST_KNOWN && unknown.sum < MOST_UNKNOWN * wall)
        .collect();
    let enough = |lane: usize| still[lane].known >= LEAST_KNOWN;
    // What is not known of the others may have been waiting for a lane, and what is not known of it also. A
    // lane of which little is known has bounds of its own.
    let widened = |lane: usize, (low, high): (f64, f64)| {
        let of = |lane: usize| {
            if enough(lane) {
                unknown[lane].sum / wall
            } else {
                0.0
            }
        };
        let all: f64 = (0..places.lanes).map(of).sum();
        let others = (all - of(lane)) / (places.lanes - 1) as f64;
        (low - of(lane), high + others)
    };
    let at = |value: fn(&Cell) -> Option<f64>| largest(places, frame, steps, wall, &value);
    // What is not known of a launch is between nothing and all of it.
    let likely = |cell: &Cell| {
        let half = || Some(cell.launch.length()? / 2.0);
        cell.still().or_else(half)
    };
    if known.iter().all(|known| *known) {
        let still = places.scaled(steps, likely);
        let found = at(likely)?
            .limited(&still, share_gpu, wall)
            .at_pace(&still, paces, wall);
        let found = found.less(noise::missing(places, steps, &likely, found.lane) / wall);
        return Some(Difference {
            interval: widened(found.lane, found.interval),
            ..found
        });
    }
    if (0..places.lanes).any(enough) {
        // What is not known is nothing, or all of the launch.
        let least = |cell: &Cell| {
            if enough(cell.lane as usize) {
                cell.still()
            } else {
                Some(0.0)
            }
        };
        let most = |cell: &Cell| {
            if enough(cell.lane as usize) {
                cell.still()
            } else {
                cell.launch.length()
            }
        };
        let a = largest(places, frame, steps, wall, &least)?;
        let b = of_lane(places, frame, steps, wall, &most, a.lane)?;
        let (low, high) = (
            a.interval.0.min(b.interval.0),
            a.interval.1.max(b.interval.1),
        );
        return Some(Difference {
            share: (a.share + b.share) / 2.0,
            interval: widened(a.lane, (low, high)),
            with: None,
            source: Source::SomeWaits,
            lane: a.lane,
        });
    }
    let most = at(|cell| cell.launch.length())?;
    Some(Difference {
        share: most.share / 2.0,
        interval: (0.0, most.share),
        with: None,
        source: Source::CallTimes,
        lane: most.lane,
    })
}

type Value<'a> = &'a dyn Fn(&Cell) -> Option<f64>;

/// Sums of a lane at a place.
#[derive(Clone, Copy, Default)]
struct Sums {
    pairs: u64,
    less: f64,
    own: (f64, u64),
}

/// The lane of the largest difference.
fn largest(
    places: &Places,
    frame: &Frame,
    steps: &[bool],
    wall: f64,
    value: Value,
) -> Option<Difference> {
    let by_lane = sums(places, steps, value);
    let totals: Vec<f64> = (0..places.lanes).map(|lane| by_lane.total(lane)).collect();
    let lane = (0..places.lanes).max_by(|a, b| totals[*a].total_cmp(&totals[*b]).then(b.cmp(a)))?;
    by_lane.difference(places, frame, steps, wall, value, lane)
}

/// The difference of a lane.
fn of_lane(
    places: &Places,
    frame: &Frame,
    steps: &[bool],
    wall: f64,
    value: Value,
    lane: usize,
) -> Option<Difference> {
    sums(places, steps, value).difference(places, frame, steps, wall, value, lane)
}

/// Sums by place and lane, and operations by place.
struct ByPlace {
    lanes: usize,
    sums: Vec<Sums>,
    operations: Vec<f64>,
}

fn sums(places: &Places, steps: &[bool], value: Value) -> ByPlace {
    let mut by = ByPlace {
        lanes: places.lanes,
        sums: vec![Sums::default(); places.count * places.lanes],
        operations: vec![0.0; places.count],
    };
    for operation in places.operations().filter(|o| steps[o[0].step as usize]) {
        let place = operation[0].place as usize;
        by.operations[place] += f64::from(operation[0].times);
        let (sum, n) = together(operation, value);
        for cell in operation {
            let Some(own) = value(cell) else { continue };
            let sums = &mut by.sums[place * places.lanes + cell.lane as usize];
            sums.own = (sums.own.0 + own, sums.own.1 + 1);
            if n > 1 {
                sums.less += (sum - own) / (n - 1) as f64 - own;
                sums.pairs += 1;
            }
        }
    }
    by
}

/// Sum and number of an operation's values.
fn together(operation: &[Cell], value: Value) -> (f64, u64) {
    let values = operation.iter().filter_map(value);
    values.fold((0.0, 0), |(sum, n), value| (sum + value, n + 1))
}

impl ByPlace {
    /// What a lane's mean difference is at a place, and what it rests on; `None` if nothing tells.
    fn mean(&self, place: usize, lane: usize) -> Option<Mean> {
        let row = &self.sums[place * self.lanes..(place + 1) * self.lanes];
        let own = row[lane];
        if own.pairs > 0 {
            let mean = own.less / own.pairs as f64;
            return Some(Mean {
                mean,
                pairs: own.pairs,
                own: own.own,
                others: (0.0, 0),
            });
        }
        let others = row.iter().enumerate().filter(|(other, _)| *other != lane);
        let others = others.fold((0.0, 0), |sum, (_, of)| {
            (sum.0 + of.own.0, sum.1 + of.own.1)
        });
        let mean = |of: (f64, u64)| of.0 / of.1 as f64;
        (own.own.1 > 0 && others.1 > 0).then(|| Mean {
            mean: mean(others) - mean(own.own),
            pairs: 0,
            own: own.own,
            others,
        })
    }

    fn total(&self, lane: usize) -> f64 {
        let at = |place: usize| {
            let mean = self.mean(place, lane).map_or(0.0, |mean| mean.mean);
            mean * self.operations[place]
        };
        (0..self.operations.len()).map(at).sum()
    }

    /// With the interval of the sample of steps: how far each step is from what the means say of it, by a
    /// Taylor series of the ratio, in batches of neighbours (W. G. Cochran, "Sampling Techniques", 3rd
    /// edition, 1977, chapter 6).
    fn difference(
        &self,
        places: &Places,
        frame: &Frame,
        steps: &[bool],
        wall: f64,
        value: Value,
        lane: usize,
    ) -> Option<Difference> {
        if wall <= 0.0 || !(0..self.operations.len()).any(|place| self.mean(place, lane).is_some())
        {
            return None;
        }
        let share = self.total(lane) / wall;
        let mut off: Vec<f64> = frame.wall.iter().map(|ns| -share * ns).collect();
        for operation in places.operations().filter(|o| steps[o[0].step as usize]) {
            let (place, step) = (operation[0].place as usize, operation[0].step as usize);
            let Some(mean) = self.mean(place, lane) else {
                continue;
            };
            off[step] += mean.mean;
            let times = self.operations[place];
            let (sum, n) = together(operation, value);
            let own = operation
                .iter()
                .find(|cell| cell.lane as usize == lane)
                .and_then(value);
            if mean.pairs > 0 {
                if let Some(own) = own.filter(|_| n > 1) {
                    let less = (sum - own) / (n - 1) as f64 - own;
                    off[step] += times / mean.pairs as f64 * (less - mean.mean);
                }
                continue;
            }
            let apart = |(all, count): (f64, u64), value: f64, n: u64| {
                times / count as f64 * (value - n as f64 * all / count as f64)
            };
            if let Some(own) = own {
                off[step] -= apart(mean.own, own, 1);
            }
            let others = (sum - own.unwrap_or(0.0), n - u64::from(own.is_some()));
            if others.1 > 0 {
                off[step] += apart(mean.others, others.0, others.1);
            }
        }
        let off: Vec<f64> = off
            .iter()
            .zip(steps)
            .filter(|(_, is)| **is)
            .map(|(off, _)| *off)
            .collect();
        let batch = (off.len() as f64).cbrt().round().max(1.0) as usize;
        let squares: f64 = off
            .chunks(batch)
            .map(|of| of.iter().sum::<f64>().powi(2))
            .sum();
        let batches = (off.len() as f64 / batch as f64).max(2.0);
        let error = (squares * batches / (batches - 1.0)).sqrt() / wall;
        let half = crate::interval::student(batches - 1.0) * error;
        Some(Difference {
            lane,
            share,
            interval: (share - half, share + half),
            with: None,
            source: Source::Waits,
        })
    }
}

/// A mean difference at a place.
struct Mean {
    mean: f64,
    pairs: u64,
    own: (f64, u64),
    others: (f64, u64),
}
