//! What about the hosts costs bandwidth: links, network cards and CPUs that are far from their GPUs.

use super::{Advice, Evidence, Finding, Kind, Subject};
use crate::topology::Host;
use setup::topology::{FAR_CPUS, FAR_NETWORK_CARD, MISSING_NVLINK};
use tables::Capture;

/// What about the hosts costs bandwidth: one finding of each kind.
pub(crate) fn topology(hosts: &[Host], capture: &Capture) -> Vec<Finding> {
    let uses_network = capture
        .communicators
        .iter()
        .any(|communicator| communicator.nnodes.is_some_and(|n| n > 1));
    let finding = |(name, kind, advice): (&str, Kind, Advice)| {
        let mut all = hosts.iter().flat_map(|host| {
            let remarks = host.remarks.iter().filter(|remark| remark.kind == name);
            remarks.map(move |remark| (host, remark))
        });
        let (host, first) = all.next()?;
        Some(Finding {
            subject: Subject {
                hosts: vec![host.host.clone()],
                ..Subject::default()
            },
            loss: None,
            when_us: None,
            cause: None,
            evidence: Evidence::Topology {
                kind,
                remark: first.clone(),
                more: all.count(),
            },
            advice,
        })
    };
    [
        (MISSING_NVLINK, Kind::MissingNvlink, Advice::CheckNvlink),
        (FAR_NETWORK_CARD, Kind::FarNetworkCard, Advice::UseNearCards),
        (FAR_CPUS, Kind::FarCpus, Advice::BindCpus),
    ]
    .into_iter()
    .filter(|(_, kind, _)| *kind != Kind::FarNetworkCard || uses_network)
    .filter_map(finding)
    .collect()
}
