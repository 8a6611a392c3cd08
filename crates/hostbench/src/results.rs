//! The figures of a host: each item's values, one for each start, with their median and its interval.
//!
//! Rule: the interval of a median is between two of the values themselves (J.-Y. Le Boudec, "Performance
//! evaluation of computer and communication systems", EPFL Press, 2010, theorem 2.1). It assumes nothing
//! about how the values are spread, and below six starts there is none.

use crate::item::{Item, Unit};
use crate::timing::middle;
use anyhow::{bail, Context};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The format of the JSON.
pub const SCHEMA: &str = "ncclscope.hostbench/1";
/// How sure an interval is.
pub const CONFIDENCE: f64 = 0.95;
/// Fewer starts give no interval.
pub const LEAST_STARTS: usize = 6;

/// What `ncclscope hostbench --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of ncclscope.
    pub version: String,
    /// The host's name.
    pub host: String,
    /// Processes that measured every item once.
    pub starts: usize,
    /// The share of the CPUs that others' work took between starts, the median; null if it is not known.
    #[serde(default)]
    pub busy_share: Option<f64>,
    /// What the host is: processor, kernel, settings, GPUs.
    pub facts: Vec<Fact>,
    /// The items, in the order of the text. An item has the same name on every host.
    pub items: Vec<Figure>,
}

/// One thing that the host is or has.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// What it is here.
    pub value: String,
}

/// An item over all starts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// The group that it is printed in.
    pub group: String,
    /// What was measured.
    pub what: String,
    /// What the figures are in.
    pub unit: Unit,
    /// Whether less is better.
    pub less_is_better: bool,
    /// The median over starts, in `unit`. Null if the item does not apply here.
    pub median: Option<f64>,
    /// Ends of the median's 95 % interval, in `unit`. Null below six starts.
    pub interval: Option<[f64; 2]>,
    /// One value for each start, in `unit`.
    pub values: Vec<f64>,
    /// Why it does not apply.
    pub not_applicable: Option<String>,
}

impl Figure {
    /// Of an item, without values.
    fn new(item: &Item) -> Figure {
        Figure {
            name: item.name.clone(),
            group: item.group.clone(),
            what: item.what.clone(),
            unit: item.unit,
            less_is_better: item.unit.less_is_better(),
            median: None,
            interval: None,
            values: Vec::new(),
            not_applicable: None,
        }
    }
}

/// Puts the starts together, in the order in which the first one has the items.
pub fn gather(starts: &[Vec<Item>]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for item in starts.iter().flatten() {
        let at = figures.iter().position(|figure| figure.name == item.name);
        let at = at.unwrap_or_else(|| {
            figures.push(Figure::new(item));
            figures.len() - 1
        });
        figures[at].values.extend(item.value);
        if figures[at].not_applicable.is_none() {
            figures[at].not_applicable.clone_from(&item.not_applicable);
        }
    }
    for figure in &mut figures {
        if figure.values.is_empty() {
            continue;
        }
        // Some starts have it, so it applies.
        figure.not_applicable = None;
        figure.median = Some(middle(figure.values.clone()));
        figure.interval = interval(&figure.values);
    }
    figures
}

/// The 95 % interval of the median.
pub fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let n = values.len();
    if n < LEAST_STARTS {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The chance that fewer than so many of n values are below the true median.
    let (mut below, mut term) = (0.0, 0.5f64.powi(n as i32));
    let mut leave_out = 0;
    for k in 0..n / 2 {
        below += term;
        if 2.0 * below > 1.0 - CONFIDENCE {
            break;
        }
        leave_out = k;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    Some([sorted[leave_out], sorted[n - 1 - leave_out]])
}

/// Reads what `ncclscope hostbench --json FILE` wrote.
///
/// # Errors
/// When it is not that.
pub fn read(path: &Path) -> anyhow::Result<Results> {
    let name = path.display();
    let text = std::fs::read(path).with_context(|| format!("`{name}` can't be read"))?;
    let results: Result<Results, _> = serde_json::from_slice(&text);
    match results {
        Ok(results) if results.schema == SCHEMA => Ok(results),
        Ok(results) => bail!("`{name}`: expected {SCHEMA}, found {}", results.schema),
        Err(error) => {
            bail!("`{name}`: expected what `ncclscope hostbench --json FILE` writes ({error})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, value: Option<f64>) -> Item {
        Item {
            name: name.to_owned(),
            group: "G".to_owned(),
            what: "w".to_owned(),
            unit: Unit::Nanos,
            value,
            not_applicable: value.is_none().then(|| "none here".to_owned()),
        }
    }

    #[test]
    fn intervals_are_the_ones_of_the_tables() {
        let values = |n: usize| (1..=n).map(|v| v as f64).collect::<Vec<_>>();
        assert_eq!(interval(&values(5)), None);
        // Ranks from the tables of the sign test.
        assert_eq!(interval(&values(6)), Some([1.0, 6.0]));
        assert_eq!(interval(&values(8)), Some([1.0, 8.0]));
        assert_eq!(interval(&values(9)), Some([2.0, 8.0]));
        assert_eq!(interval(&values(10)), Some([2.0, 9.0]));
        assert_eq!(interval(&values(20)), Some([6.0, 15.0]));
    }

    #[test]
    fn an_item_that_some_starts_have_applies() {
        let starts = vec![
            vec![item("a", Some(1.0)), item("b", None)],
            vec![item("a", Some(3.0)), item("b", None)],
            vec![item("a", None), item("b", None)],
        ];
        let figures = gather(&starts);
        assert_eq!(figures[0].median, Some(2.0));
        assert_eq!(figures[0].not_applicable, None);
        assert_eq!(figures[1].median, None);
        assert_eq!(figures[1].not_applicable.as_deref(), Some("none here"));
    }
}
