//! Launches by their place in the step: which ones of different lanes are the same operation.
//!
//! A place is a kind of launch and how many of the kind came before in the step. An operation is a place in a
//! step, with the launches of all lanes.

use super::frame::Frame;
use super::launches::{Kind, Lane, Launch};
use std::collections::HashMap;

/// A launch of a lane at its place.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The place.
    pub place: u32,
    /// The step.
    pub step: u32,
    /// The lane.
    pub lane: u32,
    /// Number of its host, of those with clocks of their own.
    pub host: u32,
    /// What is known of it.
    pub launch: Launch,
}

impl Cell {
    /// For how long the computing stream stood still for it, ns, if that is known.
    pub fn still(&self) -> Option<f64> {
        Some(self.launch.still).filter(|ns| !ns.is_nan())
    }

    /// When the host had launched it, or called it if that is not known, ns since 1970.
    pub fn launched(&self) -> i64 {
        match self.launch.launched {
            0 => self.launch.api,
            at => at,
        }
    }
}

/// All launches in steps, by place.
pub struct Places {
    /// By place, step and lane.
    cells: Vec<Cell>,
    /// Where operations begin in `cells`.
    begins: Vec<u32>,
    /// How many places there are.
    pub count: usize,
    /// How many lanes there are.
    pub lanes: usize,
}

impl Places {
    /// Of these lanes.
    pub fn new(lanes: &[Lane], frame: &Frame) -> Places {
        let mut known: HashMap<(Kind, u32), u32> = HashMap::new();
        let mut cells = Vec::new();
        let mut hosts: HashMap<&str, u32> = HashMap::new();
        for (number, lane) in lanes.iter().enumerate() {
            let next = hosts.len() as u32;
            let host = *hosts.entry(&lane.clock).or_insert(next);
            let mut before = vec![0; lane.kinds.len()];
            let mut step = None;
            for launch in &lane.launches {
                let of = frame.step(number, launch.api);
                if of != step {
                    before.fill(0);
                    step = of;
                }
                let Some(step) = step else { continue };
                let ordinal = &mut before[launch.kind as usize];
                let next = known.len() as u32;
                let place = *known
                    .entry((lane.kinds[launch.kind as usize], *ordinal))
                    .or_insert(next);
                *ordinal += 1;
                cells.push(Cell {
                    place,
                    step: step as u32,
                    lane: number as u32,
                    host,
                    launch: *launch,
                });
            }
        }
        cells.sort_by_key(|cell| (cell.place, cell.step, cell.lane));
        let mut begins: Vec<u32> = Vec::new();
        let mut last = None;
        for (index, cell) in cells.iter().enumerate() {
            if last != Some((cell.place, cell.step)) {
                begins.push(index as u32);
                last = Some((cell.place, cell.step));
            }
        }
        begins.push(cells.len() as u32);
        Places {
            cells,
            begins,
            count: known.len(),
            lanes: lanes.len(),
        }
    }

    /// Operations by place and step, each with its launches by lane.
    pub fn operations(&self) -> impl Iterator<Item = &[Cell]> {
        self.begins
            .windows(2)
            .map(|pair| &self.cells[pair[0] as usize..pair[1] as usize])
    }

    /// The part of the time that lanes stood still in operations of all lanes; `None` if they did not.
    pub fn together(&self) -> Option<f64> {
        let still = |operation: &[Cell]| operation.iter().filter_map(Cell::still).sum::<f64>();
        let (mut all, mut together) = (0.0, 0.0);
        for operation in self.operations() {
            let still = still(operation);
            all += still;
            together += if operation.len() == self.lanes {
                still
            } else {
                0.0
            };
        }
        (all > 0.0).then(|| together / all)
    }

    /// Whether nearly all GPU time is of operations of all lanes.
    pub fn all_meet(&self) -> bool {
        let took = |operation: &[Cell]| {
            operation
                .iter()
                .filter_map(|cell| cell.launch.length())
                .sum::<f64>()
        };
        let (mut all, mut together) = (0.0, 0.0);
        for operation in self.operations() {
            let took = took(operation);
            all += took;
            together += if operation.len() == self.lanes {
                took
            } else {
                0.0
            };
        }
        together >= 0.9 * all
    }

    /// What `value` says of the launches of each lane, summed over all operations of steps that are in: the
    /// mean at each place, times the operations there. Also how many values are known, and which part of the
    /// operations is at places with one.
    pub fn scaled(&self, steps: &[bool], value: impl Fn(&Cell) -> Option<f64>) -> Vec<Scaled> {
        let mut all = vec![Scaled::default(); self.lanes];
        let mut at = vec![(0.0, 0u64); self.lanes];
        let (mut place, mut operations) = (0, 0u64);
        let close = |at: &mut [(f64, u64)], operations: &mut u64, all: &mut [Scaled]| {
            for ((sum, known), all) in at.iter_mut().zip(all) {
                all.operations += *operations;
                if *known > 0 {
                    all.sum += *sum / *known as f64 * *operations as f64;
                    all.known += *known;
                    all.covered += *operations;
                }
                (*sum, *known) = (0.0, 0);
            }
            *operations = 0;
        };
        for operation in self.operations() {
            if operation[0].place != place {
                close(&mut at, &mut operations, &mut all);
                place = operation[0].place;
            }
            if !steps[operation[0].step as usize] {
                continue;
            }
            operations += 1;
            for cell in operation {
                if let Some(value) = value(cell) {
                    let at = &mut at[cell.lane as usize];
                    *at = (at.0 + value, at.1 + 1);
                }
            }
        }
        close(&mut at, &mut operations, &mut all);
        all
    }
}

/// What a sample says of all operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scaled {
    /// The sum over all operations.
    pub sum: f64,
    /// Values that it rests on.
    pub known: u64,
    /// Operations at places with a value.
    pub covered: u64,
    /// All operations.
    pub operations: u64,
}
