//! What NCCL may choose for a collective, and how long each choice takes.

use crate::event::Text;

/// An algorithm with a protocol that the job's communicators can use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// NCCL's name of the algorithm.
    pub algo: Text,
    /// NCCL's name of the protocol.
    pub proto: Text,
    /// A collective takes so many times what the script, or the model, says.
    pub factor: f64,
}
