//! Ranks that disagree about an operation.

use super::judge::{Found, Judge};
use super::places::{Lane, Places};
use std::collections::{BTreeMap, HashMap};
use tables::{Name, Shape};

/// What makes calls one operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    function: Name,
    datatype: Name,
    count: u64,
    root: Option<u32>,
}

/// Ranks that disagree about an operation.
#[derive(Clone, Debug)]
pub(super) struct Mismatch {
    pub place: usize,
    pub ordinal: u64,
    /// Those that made what most made, by seat.
    pub most: Vec<usize>,
    /// The others.
    pub odd: Vec<usize>,
    /// There is nothing by which to tell which of them went astray.
    pub tied: bool,
    pub how: How,
}

/// How calls come to differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The odd ones left a call out.
    LeftOut,
    /// The odd ones made two calls in the other order.
    Swapped,
    /// Not known.
    Differs,
}

impl Places<'_> {
    /// The first operation of each communicator about which its ranks disagree.
    pub fn mismatches(&self) -> Vec<Mismatch> {
        let mut known: HashMap<Key, u32> = HashMap::new();
        let mut keys: Vec<Vec<u32>> = Vec::with_capacity(self.capture.processes.len());
        for process in &self.capture.processes {
            let key = |shape: &Shape| {
                let rooted =
                    self.capture.names.get(shape.function).is_some_and(|f| {
                        matches!(f, "Broadcast" | "Reduce" | "Gather" | "Scatter")
                    });
                let next = known.len() as u32;
                *known
                    .entry(Key {
                        function: shape.function,
                        datatype: shape.datatype,
                        count: shape.count,
                        root: shape.root.filter(|_| rooted),
                    })
                    .or_insert(next)
            };
            keys.push(process.shapes.iter().map(key).collect());
        }
        (0..self.places.len())
            .filter_map(|place| self.mismatch(place, &keys))
            .collect()
    }

    fn mismatch(&self, index: usize, keys: &[Vec<u32>]) -> Option<Mismatch> {
        let place = &self.places[index];
        let lane = Lane::Eager;
        let of = |seat: usize, ordinal: u64| {
            let s = &place.seats[seat];
            let call = &self.capture.processes[s.process].calls[s.call(lane, ordinal)? as usize];
            Some((keys[s.process][call.shape as usize], call.group))
        };
        let reference = (0..place.seats.len())
            .filter(|s| place.seats[*s].base.is_some())
            .max_by_key(|s| (place.seats[*s].calls[0].len(), std::cmp::Reverse(*s)))?;
        let mut first: Option<u64> = None;
        for seat in (0..place.seats.len()).filter(|s| *s != reference) {
            let Some(base) = place.seats[seat].base else {
                continue;
            };
            let mut ordinal = base.max(place.seats[reference].base?);
            while let (Some(a), Some(b)) = (of(reference, ordinal), of(seat, ordinal)) {
                if first.is_some_and(|first| ordinal >= first) {
                    break;
                }
                if a.0 != b.0 {
                    match same_group(&of, reference, seat, ordinal) {
                        // Within a group NCCL puts calls into an order of its own.
                        Some(next) => {
                            ordinal = next;
                            continue;
                        }
                        None => {
                            first = Some(ordinal);
                            break;
                        }
                    }
                }
                ordinal += 1;
            }
        }
        let ordinal = first?;
        let mut by_key: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for seat in 0..place.seats.len() {
            if let Some((key, _)) = of(seat, ordinal) {
                by_key.entry(key).or_default().push(seat);
            }
        }
        let most = by_key
            .values()
            .max_by_key(|seats| (seats.len(), std::cmp::Reverse(seats[0])))?
            .clone();
        let odd: Vec<usize> = by_key
            .values()
            .flatten()
            .copied()
            .filter(|seat| !most.contains(seat))
            .collect();
        let mut odd = odd;
        odd.sort_unstable();
        let key = |seat: usize, ordinal: u64| of(seat, ordinal).map(|(key, _)| key);
        let sample = *most.iter().max_by_key(|s| place.seats[**s].entered(lane))?;
        let swapped = |seat: usize| {
            key(seat, ordinal) == key(sample, ordinal + 1)
                && key(seat, ordinal + 1) == key(sample, ordinal)
        };
        let left_out = |seat: usize| {
            let mut compared = 0;
            for at in ordinal..ordinal + 64 {
                match (key(seat, at), key(sample, at + 1)) {
                    (Some(a), Some(b)) if a == b => compared += 1,
                    (Some(_), Some(_)) => return false,
                    _ => break,
                }
            }
            compared > 0
        };
        let how = if odd.iter().all(|s| swapped(*s)) {
            How::Swapped
        } else if odd.iter().all(|s| left_out(*s)) {
            How::LeftOut
        } else {
            How::Differs
        };
        Some(Mismatch {
            place: index,
            ordinal,
            most,
            odd,
            tied: false,
            how,
        })
    }
}

/// If the calls around `ordinal` are the same set in one group on both seats, the ordinal after that group.
fn same_group(
    of: &impl Fn(usize, u64) -> Option<(u32, u64)>,
    a: usize,
    b: usize,
    ordinal: u64,
) -> Option<u64> {
    let extent = |seat: usize| {
        let (_, group) = of(seat, ordinal).filter(|(_, group)| *group != 0)?;
        let inside = |at: &u64| of(seat, *at).is_some_and(|(_, g)| g == group);
        let mut begin = ordinal;
        while begin > 0 && inside(&(begin - 1)) {
            begin -= 1;
        }
        let end = (ordinal..).take_while(inside).last()? + 1;
        let mut keys: Vec<u32> = (begin..end)
            .filter_map(|at| Some(of(seat, at)?.0))
            .collect();
        keys.sort_unstable();
        Some((begin, end, keys))
    };
    let (one, other) = (extent(a)?, extent(b)?);
    (one == other && one.1 - one.0 > 1).then_some(one.1)
}

impl Judge<'_> {
    pub(super) fn mismatch(&self) -> Option<Found> {
        let mismatches = self.places.mismatches();
        let quiet = |m: &Mismatch| {
            let seats = &self.places.places[m.place].seats;
            let active = seats.iter().filter_map(|s| self.active[s.node]).max();
            self.ago(active)
        };
        let open = |m: &&Mismatch| !self.places.places[m.place].is_over();
        let first = mismatches
            .iter()
            .filter(open)
            .min_by_key(|m| {
                let call = self.places.places[m.place].seats[m.most[0]]
                    .call(Lane::Eager, m.ordinal)
                    .map(|call| self.places.made(m.place, (m.most[0], call)).0.api_ns);
                (call, m.place)
            })?
            .clone();
        let first = self.settle(first);
        let lasted = quiet(&first);
        let hang = lasted.filter(|ns| *ns >= self.brief_ns).map(|_| true);
        Some(self.say_mismatch(&first, hang, lasted))
    }

    /// Where as many made one call as another, those are the odd ones whose order is new.
    fn settle(&self, mut mismatch: Mismatch) -> Mismatch {
        if mismatch.odd.len() != mismatch.most.len() {
            return mismatch;
        }
        let new = |seats: &[usize]| {
            seats.iter().any(|seat| {
                let own = &self.places.places[mismatch.place].seats[*seat];
                let call = own.call(Lane::Eager, mismatch.ordinal);
                let before = mismatch.ordinal.checked_sub(1);
                let before = before.and_then(|before| own.call(Lane::Eager, before));
                call.is_some_and(|call| self.strayed(own.process, before, call))
            })
        };
        match (new(&mismatch.most), new(&mismatch.odd)) {
            (true, false) => {
                std::mem::swap(&mut mismatch.most, &mut mismatch.odd);
                mismatch.how = How::Differs;
            }
            (false, true) => {}
            _ => mismatch.tied = true,
        }
        mismatch
    }
}
