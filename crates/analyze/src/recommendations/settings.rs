//! NCCL's variables that cost time, or do nothing here.
//!
//! Rule: a variable is only named if the capture shows that it matters. A transport that is off must have
//! ranks that would use it, and a setting without effect must have calls that show so.

use super::{advice, Recommendation};
use crate::settings::SettingRow;
use crate::Report;
use std::collections::BTreeMap;
use tables::Capture;

/// Transports that a variable turns off: the variable, values that do so, and whether ranks of one node or of
/// several would use it.
const TURNED_OFF: [(&str, &[&str], bool, &str); 4] = [
    (
        "NCCL_P2P_DISABLE",
        &["1"],
        true,
        "GPUs of a node reach each other directly, over NVLink or PCIe",
    ),
    (
        "NCCL_P2P_LEVEL",
        &["LOC", "0"],
        true,
        "GPUs of a node reach each other directly, over NVLink or PCIe",
    ),
    (
        "NCCL_SHM_DISABLE",
        &["1"],
        true,
        "ranks of a node that have no direct way use shared memory, not the network",
    ),
    (
        "NCCL_IB_DISABLE",
        &["1"],
        false,
        "nodes reach each other over InfiniBand or RoCE, not over TCP",
    ),
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
    for (name, off, of_a_node, why) in TURNED_OFF {
        let would_use = if of_a_node { in_a_node } else { over_nodes };
        let set = value(name).filter(|value| off.iter().any(|off| off.eq_ignore_ascii_case(value)));
        if let Some(set) = set.filter(|_| would_use) {
            found.push(advice(
                "transport_off",
                name,
                format!("Unset {name}: without it, {why}."),
                format!(
                    "{name}={set} was set, and this job has communicators {}.",
                    if of_a_node {
                        "with several ranks on a node"
                    } else {
                        "over several nodes"
                    }
                ),
            ));
        }
    }
    let in_graphs = report
        .operations
        .iter()
        .any(|o| o.captured.unwrap_or(0) > 0);
    if value("NCCL_GRAPH_REGISTER") == Some("0") && in_graphs {
        found.push(advice(
            "registration_off",
            "NCCL_GRAPH_REGISTER",
            "Unset NCCL_GRAPH_REGISTER: without it, NCCL registers the buffers of calls in CUDA graphs, and \
             where the hardware can, data goes from buffer to buffer without a copy."
                .to_owned(),
            "NCCL_GRAPH_REGISTER=0 was set, and this job has CUDA graphs with NCCL calls.".to_owned(),
        ));
    }
    found.extend(overridden(report));
    found.extend(without_effect(report, capture, value, over_nodes));
    if let Some(level) =
        value("NCCL_DEBUG").filter(|v| ["INFO", "TRACE"].iter().any(|l| l.eq_ignore_ascii_case(v)))
    {
        found.push(advice(
            "debug_output",
            "NCCL_DEBUG",
            "Set NCCL_DEBUG=WARN: more output is for the search of an error, and is written by the threads \
             that make the calls."
                .to_owned(),
            format!("NCCL_DEBUG={level} was set."),
        ));
    }
    found
}

/// Settings of algorithm and protocol that calls did not use, by variable.
fn overridden(report: &Report) -> Vec<Recommendation> {
    let ignored = |s: &&SettingRow| !s.others.is_empty() && s.value.is_some();
    let mut by: BTreeMap<&str, Vec<&SettingRow>> = BTreeMap::new();
    for setting in report.settings.iter().filter(ignored) {
        by.entry(setting.variable).or_default().push(setting);
    }
    let one = |(variable, rows): (&str, Vec<&SettingRow>)| {
        let value = rows[0].value.as_deref().unwrap_or_default();
        let functions: Vec<&str> = rows.iter().filter_map(|s| s.function.as_deref()).collect();
        let summaries: Vec<&str> = rows.iter().map(|s| s.summary.as_str()).collect();
        let functions = functions.join(", ");
        let environment = &report.job.environment;
        let has_tuner = environment.contains_key("NCCL_TUNER_PLUGIN")
            || environment.contains_key("NCCL_TUNER_CONFIG_FILE");
        advice(
            "setting_overridden",
            variable,
            match (rows.iter().all(|s| s.why.is_some()), has_tuner) {
                (true, _) => format!(
                    "Unset {variable}={value}, or set it for single functions: NCCL used something else for \
                     {functions}."
                ),
                (false, true) => format!(
                    "Run without the tuner plugin to see if it overrides {variable}={value}: NCCL used \
                     something else for {functions}."
                ),
                (false, false) => format!(
                    "Don't rely on {variable}={value}: NCCL used something else for {functions}."
                ),
            },
            summaries.join(" "),
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
    for name in ["NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"] {
        let asked = value(name).and_then(|value| value.trim().parse::<u64>().ok());
        if let Some(asked) = asked.filter(|asked| most > 0 && *asked > most) {
            found.push(advice(
                "setting_without_effect",
                name,
                format!("Unset {name}, or set it to {most} at most: NCCL used fewer channels than it asks \
                         for."),
                format!("{name}={asked} was set, and no call used more than {most} channels."),
            ));
        }
    }
    let told = report
        .operations
        .iter()
        .filter_map(|o| o.protocol.as_deref());
    let mut told = told.peekable();
    if let Some(size) = value("NCCL_BUFFSIZE").filter(|_| told.peek().is_some()) {
        if told.all(|protocol| protocol != "SIMPLE") {
            found.push(advice(
                "setting_without_effect",
                "NCCL_BUFFSIZE",
                "Unset NCCL_BUFFSIZE: it is the buffer of Simple, a protocol that no call used.".to_owned(),
                format!("NCCL_BUFFSIZE={size} was set, and every call with a known protocol used another."),
            ));
        }
    }
    let one_node = !over_nodes && report.communicators.iter().any(|c| c.nnodes == Some(1));
    if let Some(level) =
        value("NCCL_NET_GDR_LEVEL").filter(|_| one_node && report.network.is_empty())
    {
        found.push(advice(
            "setting_without_effect",
            "NCCL_NET_GDR_LEVEL",
            "Unset NCCL_NET_GDR_LEVEL here: it is of the way between a GPU and a NIC.".to_owned(),
            format!("NCCL_NET_GDR_LEVEL={level} was set, all communicators are in one node, and no call \
                     used the network."),
        ));
    }
    found
}
