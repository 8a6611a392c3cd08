//! One figure of a host, and the list to which the modules add theirs.
//!
//! Rule: an item is in the list on every host. A host that does not have it says why, so that two hosts can
//! be compared item by item.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a figure is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// 10^9 bytes a second.
    #[serde(rename = "GB/s")]
    GbPerS,
}

impl Unit {
    /// As people read it.
    pub fn spelled(self) -> &'static str {
        match self {
            Unit::Nanos => "ns",
            Unit::Micros => "µs",
            Unit::GbPerS => "GB/s",
        }
    }

    /// Whether less is better.
    pub fn less_is_better(self) -> bool {
        self != Unit::GbPerS
    }
}

/// A figure of one start, or why there is none.
#[derive(Clone, Debug, Serialize, JsonSchema, Deserialize)]
pub struct Item {
    /// Its name, which is the same on every host.
    pub name: String,
    /// The group that it is printed in.
    pub group: String,
    /// What was measured.
    pub what: String,
    /// What `value` is in.
    pub unit: Unit,
    /// The figure; `None` if it does not apply here.
    pub value: Option<f64>,
    /// Why it does not apply.
    pub not_applicable: Option<String>,
}

/// The items of one start, as they are measured.
#[derive(Default)]
pub struct Items {
    /// In the order of printing.
    pub all: Vec<Item>,
    group: String,
}

impl Items {
    /// Begins a group.
    pub fn group(&mut self, name: &str) {
        name.clone_into(&mut self.group);
    }

    /// Adds an item, with its figure or with the reason why it has none.
    pub fn add(&mut self, name: &str, unit: Unit, what: &str, value: Result<f64, String>) {
        let (value, not_applicable) = match value {
            Ok(value) if value.is_finite() => (Some(value), None),
            Ok(_) => (None, Some("it gave no figure".to_owned())),
            Err(why) => (None, Some(why)),
        };
        self.all.push(Item {
            name: name.to_owned(),
            group: self.group.clone(),
            what: what.to_owned(),
            unit,
            value,
            not_applicable,
        });
    }

    /// Adds a time in ns.
    pub fn nanos(&mut self, name: &str, what: &str, value: f64) {
        self.add(name, Unit::Nanos, what, Ok(value));
    }
}

/// What the system says of its last error.
pub fn last_error(of: &str) -> String {
    format!("{of}: {}", std::io::Error::last_os_error())
}
