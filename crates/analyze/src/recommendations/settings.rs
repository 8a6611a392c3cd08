//! NCCL's variables that cost time, or do nothing here.
//!
//! Rule: a variable is only named if the capture shows that it matters. A transport that is off must have
//! ranks that would use it, and a setting without effect must have calls that show so.

use super::{advice, Action, Grounds, OverriddenBy, Recommendation, Transport, Useless};
use crate::settings::SettingRow;
use crate::Report;
use std::collections::BTreeMap;
use tables::Capture;

/// Variables that turn a transport off, with the values that do so.
const TURNED_OFF: [(&str, &[&str], Transport); 4] = [
    ("NCCL_P2P_DISABLE", &["1"], Transport::PeerToPeer),
    ("NCCL_P2P_LEVEL", &["LOC", "0"], Transport::PeerToPeer),
    ("NCCL_SHM_DISABLE", &["1"], Transport::SharedMemory),
    ("NCCL_IB_DISABLE", &["1"], Transport::Rdma),
];

/// What variables should be changed.
pub(super) fn recommendations(report: &Report, capture: &Capture) -> Vec<Recommendation> {
    // One value on all processes, or the value of some.
    let value = |name: &str| {
        let values = report.job.environment.get(name)?;
        values.iter().flatten().next().map(String::as_str)
    };
    let mut found = Vec::new();
    let sizes = || {
        report
            .communicators
            .iter()
            .filter_map(|c| c.nranks.zip(c.nnodes))
    };
    let in_a_node = sizes().any(|(ranks, nodes)| ranks > nodes);
    let over_nodes = sizes().any(|(_, nodes)| nodes > 1);
    for (variable, off, transport) in TURNED_OFF {
        let would_use = if transport.is_in_a_node() {
            in_a_node
        } else {
            over_nodes
        };
        let is_off = |value: &&str| off.iter().any(|off| off.eq_ignore_ascii_case(value));
        if let Some(set) = value(variable).filter(is_off).filter(|_| would_use) {
            found.push(advice(
                variable,
                Action::AllowTransport {
                    variable,
                    transport,
                },
                Grounds::TurnedOff {
                    variable,
                    value: set.to_owned(),
                    transport,
                },
            ));
        }
    }
    let in_graphs = report
        .operations
        .iter()
        .any(|o| o.captured.unwrap_or(0) > 0);
    if value("NCCL_GRAPH_REGISTER") == Some("0") && in_graphs {
        found.push(advice(
            "NCCL_GRAPH_REGISTER",
            Action::AllowRegistration,
            Grounds::UnregisteredGraphs,
        ));
    }
    found.extend(overridden(report));
    found.extend(without_effect(report, capture, value, over_nodes));
    if let Some(level) =
        value("NCCL_DEBUG").filter(|v| ["INFO", "TRACE"].iter().any(|l| l.eq_ignore_ascii_case(v)))
    {
        found.push(advice(
            "NCCL_DEBUG",
            Action::LessDebugOutput,
            Grounds::DebugLevel(level.to_owned()),
        ));
    }
    found
}

/// Settings of algorithm and protocol that calls did not use, by variable.
fn overridden(report: &Report) -> Vec<Recommendation> {
    let ignored = |s: &&SettingRow| !s.others.is_empty() && s.value.is_some();
    let mut by: BTreeMap<&'static str, Vec<&SettingRow>> = BTreeMap::new();
    for setting in report.settings.iter().filter(ignored) {
        by.entry(setting.variable).or_default().push(setting);
    }
    let one = |(variable, rows): (&'static str, Vec<&SettingRow>)| {
        let value = rows[0].value.as_deref().unwrap_or_default();
        let environment = &report.job.environment;
        let has_tuner = environment.contains_key("NCCL_TUNER_PLUGIN")
            || environment.contains_key("NCCL_TUNER_CONFIG_FILE");
        let by = if rows.iter().all(|s| !s.only.is_empty()) {
            OverriddenBy::Property
        } else if has_tuner {
            OverriddenBy::Tuner
        } else {
            OverriddenBy::Unknown
        };
        advice(
            variable,
            Action::DropSetting {
                variable,
                value: value.to_owned(),
                functions: rows.iter().filter_map(|s| s.function.clone()).collect(),
                by,
            },
            Grounds::Overridden(rows.into_iter().cloned().collect()),
        )
    };
    by.into_iter().map(one).collect()
}

/// Settings that can't do anything in this job.
fn without_effect<'a>(
    report: &Report,
    capture: &Capture,
    value: impl Fn(&str) -> Option<&'a str>,
    over_nodes: bool,
) -> Vec<Recommendation> {
    let mut found = Vec::new();
    let shapes = || capture.processes.iter().flat_map(|process| &process.shapes);
    let most = shapes()
        .map(|shape| u64::from(shape.nchannels))
        .max()
        .unwrap_or(0);
    let useless = |of: Useless| {
        let evidence = Grounds::Useless(of.clone());
        advice(of.variable(), Action::UnsetUseless(of), evidence)
    };
    for variable in ["NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"] {
        let asked = value(variable).and_then(|value| value.trim().parse::<u64>().ok());
        if let Some(asked) = asked.filter(|asked| most > 0 && *asked > most) {
            found.push(useless(Useless::MinChannels {
                variable,
                asked,
                most,
            }));
        }
    }
    let told = report
        .operations
        .iter()
        .filter_map(|o| o.protocol.as_deref());
    let mut told = told.peekable();
    if let Some(size) = value("NCCL_BUFFSIZE").filter(|_| told.peek().is_some()) {
        if told.all(|protocol| protocol != "SIMPLE") {
            let value = size.to_owned();
            found.push(useless(Useless::BufferSize { value }));
        }
    }
    let one_node = !over_nodes && report.communicators.iter().any(|c| c.nnodes == Some(1));
    if let Some(level) =
        value("NCCL_NET_GDR_LEVEL").filter(|_| one_node && report.network.is_empty())
    {
        let value = level.to_owned();
        found.push(useless(Useless::GdrLevel { value }));
    }
    found
}
