//! What the system shows of the network of ranks that are in an operation which does not end. Whoever looks
//! at a running job fills it in.

use crate::time::Nanos;
/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// For how long it was looked at.
    pub lasted: Nanos,
    /// TCP connections with data that did not go on meanwhile.
    pub connections: Vec<StuckConnection>,
    /// Counters of RDMA adapters for errors and retries that grew meanwhile, as
    /// `mlx5_0/1 local_ack_timeout_err`.
    pub errors: Vec<(String, u64)>,
}

/// A TCP connection of which nothing was sent although there is something to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckConnection {
    /// The rank's number for people.
    pub number: Option<u32>,
    /// Its process.
    pub pid: u32,
    /// The network interface, if its address is one of this machine's.
    pub interface: Option<String>,
    /// Its address and port.
    pub local: String,
    /// Those of the other side.
    pub remote: String,
    /// The rank on the other side, if it runs on this machine.
    pub peer: Option<u32>,
    /// Bytes that wait to be sent, or are not acknowledged.
    pub unsent: u64,
    /// Segments that were sent again, since the connection was made.
    pub retransmits: u64,
    /// The other side takes no more: its program does not read.
    pub is_other_full: bool,
}
