//! Many starts of this program, each of which measures every item once.
//!
//! A [`Plan`] says how many and which parts. [`run`] starts them one after the other, and [`one`] is what a
//! start does. It prints its items as JSON on one line.
//!
//! Rule: the order of the parts differs from start to start, so that no part is always measured on a host
//! that the same part before it has warmed up.

use crate::facts;
use crate::item::{Item, Items};
use crate::results::{gather, Fact, Results, SCHEMA};
use crate::timing::middle;
use crate::{cpu, gpu, memory, nvml, placement, sockets, timers};
use anyhow::{bail, Context};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Clock reads.
    Clocks,
    /// Locks and atomics.
    Locks,
    /// Calls of the system.
    Calls,
    /// TCP over loopback.
    Sockets,
    /// Bandwidths, shared memory, NUMA and huge pages.
    Memory,
    /// Sleeps.
    Timers,
    /// GPUs, and NVML.
    Gpu,
}

/// Every part with its name, in the order of printing.
pub const PARTS: [(&str, Part); 7] = [
    ("clocks", Part::Clocks),
    ("locks", Part::Locks),
    ("calls", Part::Calls),
    ("timers", Part::Timers),
    ("sockets", Part::Sockets),
    ("memory", Part::Memory),
    ("gpu", Part::Gpu),
];

/// What is measured.
pub struct Plan {
    /// This program.
    pub program: PathBuf,
    /// Starts.
    pub starts: usize,
    /// Names of the parts; all if there is none.
    pub only: Vec<String>,
    /// Another libcuda.so.1.
    pub cuda: Option<PathBuf>,
}

/// What one start found.
#[derive(Debug, Serialize, JsonSchema, Deserialize)]
struct Found {
    items: Vec<Item>,
    facts: Vec<(String, String)>,
}

/// Measures. `done` gets the number of starts that have ended.
///
/// # Errors
/// When a start can't begin, or ends badly.
pub fn run(plan: &Plan, done: &mut dyn FnMut(usize)) -> anyhow::Result<Results> {
    let mut facts = facts::read();
    let mut starts = Vec::new();
    let mut busy = Vec::new();
    for number in 0..plan.starts {
        busy.extend(facts::busy_share());
        let mut command = Command::new(&plan.program);
        command.args(["hostbench", "--one-start", &number.to_string()]);
        if !plan.only.is_empty() {
            command.arg("--only").arg(plan.only.join(","));
        }
        if let Some(cuda) = &plan.cuda {
            command.arg("--cuda").arg(cuda);
        }
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.context("a start of this program failed")?;
        if !output.status.success() {
            bail!("a start of this program ended with {}", output.status);
        }
        let found: Found = serde_json::from_slice(&output.stdout)
            .context("a start of this program printed no figures")?;
        if number == 0 {
            facts.extend(found.facts);
        }
        starts.push(found.items);
        done(number + 1);
    }
    Ok(Results {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: facts::host(),
        starts: plan.starts,
        busy_share: Some(middle(busy)).filter(|share| share.is_finite()),
        facts: facts
            .into_iter()
            .map(|(name, value)| Fact { name, value })
            .collect(),
        items: gather(&starts),
    })
}

/// One start: measures the parts in an order of its own, and returns a line of JSON.
///
/// # Errors
/// When there is no JSON of it.
pub fn one(plan: &Plan, number: usize) -> anyhow::Result<String> {
    let place = placement::of_start(number);
    placement::pin(place.cpu);
    // A job has threads, and the C library takes locks and writes files faster without any.
    let (over, until) = channel::<()>();
    let idle = std::thread::spawn(move || until.recv());
    let is_wanted = |name: &str| plan.only.is_empty() || plan.only.iter().any(|only| only == name);
    let mut measured: Vec<Vec<Item>> = vec![Vec::new(); PARTS.len()];
    let mut facts = Vec::new();
    for at in order(PARTS.len(), number) {
        let (name, part) = PARTS[at];
        if !is_wanted(name) {
            continue;
        }
        let mut items = Items::default();
        match part {
            Part::Clocks => cpu::clocks(&mut items),
            Part::Locks => cpu::locks(&mut items, &place),
            Part::Calls => cpu::calls(&mut items),
            Part::Sockets => sockets::measure(&mut items, &place),
            Part::Memory => memory::measure(&mut items, &place),
            Part::Timers => timers::measure(&mut items),
            Part::Gpu => {
                gpu::measure(&mut items, &plan.program, plan.cuda.as_deref(), &mut facts);
                nvml::measure(&mut items);
            }
        }
        measured[at] = items.all;
    }
    drop(over);
    let _ = idle.join();
    Ok(serde_json::to_string(&Found {
        items: measured.into_iter().flatten().collect(),
        facts,
    })?)
}

/// The numbers below `n`, in the order of a start.
fn order(n: usize, start: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    let mut random = (start as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for last in (1..n).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        all.swap(last, (random % (last as u64 + 1)) as usize);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_has_every_part_and_orders_differ() {
        let orders: Vec<Vec<usize>> = (0..5).map(|start| order(7, start)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
        }
        assert!(orders.windows(2).any(|two| two[0] != two[1]));
    }
}
