//! What of the CUDA driver's calls is to be seen.

/// As the settings have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Launches of graphs.
    pub graphs: bool,
    /// What the host asks for in kernel windows.
    pub windows: bool,
    /// Streams that wait for collectives.
    pub waits: bool,
    /// How often the driver is called, for what and by whom.
    pub counts: bool,
}
