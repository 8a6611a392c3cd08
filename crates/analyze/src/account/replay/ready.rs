//! When the computing stream of a lane came to where each launch began, in time that it worked.
//!
//! A launch that begins as soon as the one before it has ended was ready earlier. When, is told by the same
//! launch of other steps and lanes.

use super::super::launches::{Lane, Launch};
use std::collections::HashMap;

/// A launch that begins so soon after one that it has to follow was ready earlier, ns.
const AT_ONCE: i64 = 20_000;

/// How long a lane works until a moment.
pub struct Worked {
    /// When the computing stream stood still: from, to, and for how long before.
    still: Vec<(i64, i64, i64)>,
    origin: i64,
}

impl Worked {
    /// Of this lane.
    pub fn of(lane: &Lane) -> Worked {
        let stood = lane
            .launches
            .iter()
            .filter(|l| l.stop != 0 && l.still > 0.0);
        let mut still: Vec<(i64, i64, i64)> = stood
            .map(|l| (l.stop - l.still as i64, l.stop, 0))
            .collect();
        still.sort_unstable();
        let mut before = 0;
        for (from, to, sum) in &mut still {
            *sum = before;
            before += *to - *from;
        }
        let origin = lane.launches.iter().map(|l| l.start).filter(|at| *at != 0);
        Worked {
            still,
            origin: origin.min().unwrap_or(0),
        }
    }

    /// From when, ns since 1970.
    pub fn origin(&self) -> i64 {
        self.origin
    }

    /// Until this moment, ns.
    pub fn until(&self, at: i64) -> i64 {
        let after = self.still.partition_point(|(from, ..)| *from < at);
        let stood = match after.checked_sub(1).map(|i| self.still[i]) {
            Some((from, to, before)) => before + at.min(to) - from,
            None => 0,
        };
        at - self.origin - stood
    }
}

/// A launch with times, in the order in which they begin.
#[derive(Clone, Copy)]
pub struct Begun {
    /// Index in [`Lane::launches`].
    pub index: u32,
    /// Launches that it has to follow: the one before it on its stream, and on its communicator.
    pub behind: [Option<u32>; 2],
    /// When the computing stream came there, ns of work; at the latest if it was ready earlier.
    ready: i64,
    /// It was ready earlier.
    limited: bool,
}

/// The launches of a lane that have times.
pub fn begun(lane: &Lane, worked: &Worked) -> Vec<Begun> {
    let of = |index: u32| -> &Launch { &lane.launches[index as usize] };
    let mut by_start: Vec<u32> = (0..lane.launches.len() as u32)
        .filter(|index| of(*index).start != 0)
        .collect();
    by_start.sort_by_key(|index| (of(*index).start, of(*index).api));
    let (mut on_stream, mut on_communicator) = (HashMap::new(), HashMap::new());
    let begun = |index: u32| {
        let launch = of(index);
        let kind = lane.kinds[launch.kind as usize];
        // Sends and receives of a communicator may be beside each other.
        let behind = [
            on_stream.insert(launch.on, index),
            (kind.function != tables::Name::NONE)
                .then(|| on_communicator.insert(kind.communicator, index))
                .flatten(),
        ];
        let mut before = behind.iter().flatten();
        Begun {
            index,
            behind,
            ready: worked.until(launch.start),
            limited: !launch.on_default
                && before.any(|before| launch.start - of(*before).stop < AT_ONCE),
        }
    };
    by_start.into_iter().map(begun).collect()
}

/// How much later than the launch before it on its stream a launch is ready, by what launch of a step it is:
/// the sum, and how many.
#[derive(Default)]
pub struct Apart(HashMap<(u32, u32), (i64, i64)>);

impl Apart {
    /// Takes in a lane; `which` says of each launch what it is.
    pub fn add(&mut self, begun: &[Begun], which: &[(u32, u32)]) {
        let mut known: HashMap<u32, i64> = HashMap::new();
        for launch in begun.iter().filter(|launch| !launch.limited) {
            known.insert(launch.index, launch.ready);
            if let Some(before) = launch.behind[0].and_then(|before| known.get(&before)) {
                let of = self.0.entry(which[launch.index as usize]).or_default();
                *of = (of.0 + launch.ready - before, of.1 + 1);
            }
        }
    }

    /// When the computing stream came to where each launch of a lane began, ns of work.
    pub fn ready(&self, begun: &[Begun], which: &[(u32, u32)]) -> Vec<i64> {
        let mut known: HashMap<u32, i64> = HashMap::new();
        let ready = |launch: &Begun| {
            let before = launch.behind[0].and_then(|before| known.get(&before));
            let ready = match before.filter(|_| launch.limited) {
                None => launch.ready,
                Some(before) => {
                    let apart = self.0.get(&which[launch.index as usize]);
                    let apart = apart.map_or(0, |(sum, n)| sum / n);
                    (before + apart.max(0)).min(launch.ready)
                }
            };
            known.insert(launch.index, ready);
            ready
        };
        begun.iter().map(ready).collect()
    }
}
