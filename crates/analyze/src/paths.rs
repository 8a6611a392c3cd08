//! Which way NCCL goes between the ranks of a capture, and why not the fast one ([`setup::paths`]).
//!
//! Rule: the routes are what NCCL said. A host's topology only helps to judge them.

use crate::startup::Startup;
use crate::topology::Host;
use setup::log::Said;
use setup::paths::{paths, Paths};
use setup::topology::Topology;

/// The ways that lines of NCCL's debug output tell of, on hosts with this topology, if one is given.
pub fn of_said(said: &Said, topology: Option<&Topology>) -> Paths {
    paths(&said.inits, &said.apart, &said.hosts, |_| topology)
}

/// The ways that a capture's start-up tells of, on hosts of which some are known.
pub fn of_startup(startup: &Startup, hosts: &[Host]) -> Paths {
    paths(&startup.inits, &[], &startup.hosts, |name| {
        let found = hosts.iter().find(|known| known.host == name);
        found.map(|known| &known.topology)
    })
}
