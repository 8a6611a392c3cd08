//! Which NCCL_ALGO and NCCL_PROTO settings took effect.
//!
//! What was asked for is read from the environment that the recorder saw. What was done is read from the
//! algorithm and protocol that NCCL reported for each call. Kernel names show neither.
//!
//! Rule: a call whose algorithm NCCL did not tell is counted as not told, never as obeyed. A reason is only
//! given where it is a property of the algorithm.

use crate::algorithms::algorithms_of;
use crate::operations::Operation;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Capture, Process};

/// A setting and what one function did with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SettingRow {
    /// Variable of NCCL: `NCCL_ALGO` or `NCCL_PROTO`.
    #[schemars(extend("enum" = ["NCCL_ALGO", "NCCL_PROTO"]))]
    pub variable: &'static str,
    /// What was asked for; null where some processes have none.
    pub value: Option<String>,
    /// Processes that have it.
    pub nprocesses: u64,
    /// Function; null where the setting says nothing about any that was called, or differs over processes.
    pub function: Option<String>,
    /// Executions of the function.
    pub calls: u64,
    /// Calls that used what was asked for.
    pub obeyed: u64,
    /// Calls that used something else, by what.
    pub others: BTreeMap<String, u64>,
    /// Calls of which NCCL told nothing.
    pub not_told: u64,
    /// All processes of the job, if they differ in the value; `None` if all have the same.
    #[serde(skip)]
    pub of_processes: Option<u64>,
    /// All algorithms that the function has, if others were used because none of them was asked for.
    #[serde(skip)]
    pub only: Vec<&'static str>,
}

/// What a value asks for: names in capitals without `_`, or all but these.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    except: bool,
    names: BTreeSet<String>,
}

impl Wish {
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.names.contains(&plain(name)) != self.except
    }

    /// Whether the value has the name, and allows it.
    pub(crate) fn asks_for(&self, name: &str) -> bool {
        !self.except && self.allows(name)
    }
}

fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect::<String>()
        .to_uppercase()
}

/// What `value` asks of `function`: `allreduce:tree;ring` is TREE for AllReduce and RING for others.
pub(crate) fn wish(value: &str, function: &str) -> Option<Wish> {
    let mut of_all = None;
    let mut own = None;
    for part in value.split(';').filter(|p| !p.trim().is_empty()) {
        match part.split_once(':') {
            None => of_all = Some(part),
            Some((named, list)) if plain(named) == plain(function) => own = Some(list),
            Some(_) => {}
        }
    }
    let list = own.or(of_all)?.trim();
    let (except, list) = match list.strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, list),
    };
    // `nvls/ring` names an algorithm for one node and one for several.
    let names = list.split([',', '/']).map(plain).filter(|n| !n.is_empty());
    let names: BTreeSet<String> = names.collect();
    (!names.is_empty()).then_some(Wish { except, names })
}

/// What was asked for and what was done, by variable and function.
pub fn settings(capture: &Capture, operations: &[Operation]) -> Vec<SettingRow> {
    let mut rows = Vec::new();
    for (variable, pick) in [
        (
            "NCCL_ALGO",
            (|o| o.algorithm.as_deref()) as fn(&Operation) -> Option<&str>,
        ),
        ("NCCL_PROTO", |o| o.protocol.as_deref()),
    ] {
        let of = |p: &Process| p.fact(&format!("env.{variable}")).map(str::to_owned);
        let mut values: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for process in &capture.processes {
            *values.entry(of(process)).or_insert(0) += 1;
        }
        match values.iter().next() {
            Some((Some(value), n)) if values.len() == 1 => {
                rows.extend(one(variable, value, *n, operations, pick));
            }
            _ => rows.extend(
                values
                    .iter()
                    .filter(|_| values.len() > 1)
                    .map(|(value, n)| SettingRow {
                        variable,
                        value: value.clone(),
                        nprocesses: *n,
                        of_processes: Some(capture.processes.len() as u64),
                        ..SettingRow::default()
                    }),
            ),
        }
    }
    rows
}

fn one(
    variable: &'static str,
    value: &str,
    nprocesses: u64,
    operations: &[Operation],
    pick: fn(&Operation) -> Option<&str>,
) -> Vec<SettingRow> {
    let mut rows: BTreeMap<&str, SettingRow> = BTreeMap::new();
    for operation in operations.iter().filter(|o| o.calls > 0 && !o.is_p2p()) {
        let Some(function) = operation.function.as_deref() else {
            continue;
        };
        let Some(wish) = wish(value, function) else {
            continue;
        };
        // These are sends and receives, which have neither.
        if matches!(function, "AlltoAll" | "Gather" | "Scatter") {
            continue;
        }
        let row = rows.entry(function).or_default();
        row.calls += operation.calls;
        match pick(operation) {
            None => row.not_told += operation.calls,
            Some(name) if wish.allows(name) => row.obeyed += operation.calls,
            Some(name) => *row.others.entry(name.to_owned()).or_insert(0) += operation.calls,
        }
        if variable == "NCCL_ALGO" && !wish.except {
            let can = algorithms_of(function);
            let none = !can.iter().any(|name| wish.names.contains(&plain(name)));
            row.only = if none { can } else { Vec::new() };
        }
    }
    if rows.is_empty() {
        return vec![SettingRow {
            variable,
            value: Some(value.to_owned()),
            nprocesses,
            ..SettingRow::default()
        }];
    }
    let rows = rows.into_iter().map(|(function, mut row)| {
        if row.others.is_empty() {
            row.only.clear();
        }
        SettingRow {
            variable,
            value: Some(value.to_owned()),
            nprocesses,
            function: Some(function.to_owned()),
            ..row
        }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(value: &str, function: &str, name: &str) -> Option<bool> {
        wish(value, function).map(|w| w.allows(name))
    }

    #[test]
    fn values_are_read_as_nccl_reads_them() {
        assert_eq!(allows("Tree", "AllReduce", "TREE"), Some(true));
        assert_eq!(allows("ring,tree", "AllReduce", "NVLS"), Some(false));
        assert_eq!(
            allows("^NVLS,NVLSTree", "AllReduce", "NVLS_TREE"),
            Some(false)
        );
        assert_eq!(allows("^NVLS", "AllReduce", "RING"), Some(true));
        let by_function = "ring;allreduce:tree,collnetdirect";
        assert_eq!(
            allows(by_function, "AllReduce", "COLLNET_DIRECT"),
            Some(true)
        );
        assert_eq!(allows(by_function, "AllReduce", "RING"), Some(false));
        assert_eq!(allows(by_function, "AllGather", "RING"), Some(true));
        assert_eq!(allows("broadcast:ring", "AllReduce", "RING"), None);
        assert_eq!(allows("", "AllReduce", "RING"), None);
    }
}
