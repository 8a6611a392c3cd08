//! The file that NCCL writes for `NCCL_GRAPH_DUMP_FILE`.

use crate::xml::{self, Element};
use schemars::JsonSchema;
use serde::Serialize;

/// What NCCL made of the topology: rings, trees and others, from its file of `NCCL_GRAPH_DUMP_FILE`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GraphChoice {
    /// `ring`, `tree`, `collnet` or `nvls`; NCCL's number for another.
    pub name: String,
    /// GB/s that NCCL expects of a channel within the host.
    pub gb_per_s: Option<f64>,
    /// NCCL's name for the links within the host.
    pub links: Option<String>,
    /// The GPUs by their numbers in NCCL's topology, and network cards, of each channel in its order.
    pub channels: Vec<Vec<String>>,
}

/// The graphs of such a file; nothing for another.
pub fn graphs(text: &str) -> Vec<GraphChoice> {
    let Some(root) = xml::parse(text).filter(|root| root.name == "graphs") else {
        return Vec::new();
    };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let device = |element: &Element| {
        let kind = match element.name.as_str() {
            "gpu" => "GPU",
            "net" => "NIC",
            _ => return None,
        };
        // Of a NIC, the upper half is the host.
        let n = number(element.attribute("dev")?)? & 0xffff_ffff;
        Some(format!("{kind}{n}"))
    };
    let graph = |element: &Element| GraphChoice {
        name: match element.attribute("id") {
            Some("0") => "ring".to_owned(),
            Some("1") => "tree".to_owned(),
            Some("2") => "collnet".to_owned(),
            Some("3") => "nvls".to_owned(),
            other => other.unwrap_or("?").to_owned(),
        },
        gb_per_s: element
            .attribute("speedintra")
            .and_then(|bw| bw.parse().ok()),
        links: element.attribute("typeintra").map(str::to_owned),
        channels: element
            .children
            .iter()
            .map(|channel| channel.children.iter().filter_map(device).collect())
            .collect(),
    };
    let graphs = root
        .children
        .iter()
        .filter(|element| element.name == "graph");
    graphs.map(graph).collect()
}
