//! Why a call has no row of its own, or a callback had no effect: [`Cause`] and [`Odd`], and their names in
//! reports.

/// Why a call has no row of its own: indexes into [`Header::lost`](super::Header::lost).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// No free row: the table was full of calls that had not finished or not been written.
    RowsFull = 0,
    /// The trace file reached `NCCLSCOPE_MAX_SIZE`.
    SizeLimit = 1,
    /// The trace file could not be written (disk full, quota, folder gone).
    WriteFailed = 2,
    /// There were more captured calls than the template table holds. Replays of this one can't be recognised.
    TemplatesFull = 3,
    /// The totals table was full too, so the call is in no table. It is also counted under its first cause;
    /// in `profile` mode there is no other.
    TotalsFull = 4,
    /// Its communicator found no room in the table.
    CommsFull = 5,
    /// Its communicator is one that this process never had, or that was finalized.
    StaleContext = 6,
    /// `ncclscope attach` was too slow to take it out of the kernel's ring.
    RingFull = 7,
}

impl Cause {
    /// The causes for which a call never had a row.
    pub const WITHOUT_ROW: [Cause; 4] = [
        Cause::RowsFull,
        Cause::CommsFull,
        Cause::StaleContext,
        Cause::RingFull,
    ];
}

/// Names of the [`Cause`]s, in order, as reports print them.
pub const CAUSES: [&str; 8] = [
    "rows_full",
    "size_limit",
    "write_failed",
    "templates_full",
    "totals_full",
    "communicators_full",
    "stale_context",
    "ring_full",
];

/// Why a callback had no effect: indexes into [`Header::odd`](super::Header::odd).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Odd {
    /// A handle that this process never gave out (another process's, or garbage).
    ForeignHandle = 0,
    /// A handle of a row that has been sealed since.
    StaleHandle = 1,
    /// A null handle.
    NullHandle = 2,
    /// A type bit that the ABI does not define.
    UnknownType = 3,
    /// A state that the ABI does not define, or one that does not fit the handle.
    UnknownState = 4,
    /// A context that this process never gave out, or one already finalized.
    StaleContext = 5,
    /// A ProxyOp on behalf of another process (PXN).
    ForeignPid = 6,
    /// A stop for something already stopped.
    DoubleStop = 7,
    /// A Coll or P2p without the row that its API event began: the row is gone, or there never was one.
    Orphan = 8,
    /// A child of a call that has no row.
    Rowless = 9,
    /// More communicators than the table holds.
    CommsFull = 10,
    /// More distinct strings than the table holds.
    StringsFull = 11,
    /// A group entry was recycled before its calls were sealed.
    GroupLost = 12,
    /// A panic was caught at the boundary; recording is off since.
    Panic = 13,
    /// Callback records dropped in `callbacks` mode because the buffer was full.
    CallbacksDropped = 14,
    /// An aged ProxyOp, ProxyStep or KernelCh that was never stopped.
    Unstopped = 15,
    /// A ProxyOp that found no free entry in the table of open network operations.
    NetOpsFull = 16,
}

/// Names of the [`Odd`]s, in order, as reports print them.
pub const ODDS: [&str; 17] = [
    "foreign_handle",
    "stale_handle",
    "null_handle",
    "unknown_type",
    "unknown_state",
    "stale_context",
    "foreign_pid",
    "double_stop",
    "orphan",
    "rowless_child",
    "communicators_full",
    "strings_full",
    "group_lost",
    "panic",
    "callbacks_dropped",
    "unstopped",
    "net_ops_full",
];
