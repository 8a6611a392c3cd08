//! What the ranks and their lead say to each other: one JSON value a line, over a socket for each rank.
//!
//! The lead sends each rank an [`Order`] and waits for its [`Reply`]; in between, a rank tells its
//! [`Progress`] every [`BEAT`].
//!
//! Rule: a rank does nothing without an order, so that all make the same calls.

use crate::function::Function;
use crate::plan::Plan;
use schemars::JsonSchema;
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::Mutex;
use std::time::Duration;

/// How often a rank tells where it is.
pub const BEAT: Duration = Duration::from_millis(200);

/// A rank as it presents itself.
#[derive(Clone, Debug, Serialize, JsonSchema, Deserialize)]
pub struct Hello {
    /// Its number.
    pub rank: u32,
    /// Of how many.
    pub ranks: u32,
    /// The job, as the launcher names it.
    pub job: String,
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// The same for ranks that share memory.
    pub memory: String,
    /// What it takes for the plan.
    pub plan: Plan,
}

/// A rank that has opened its libraries and its GPU.
#[derive(Clone, Debug, Serialize, JsonSchema, Deserialize)]
pub struct Device {
    /// Number among the GPUs that the process sees.
    pub device: u32,
    /// PCI address.
    pub bus: String,
    /// Name.
    pub name: String,
    /// As ncclGetVersion gives it.
    pub nccl: u32,
    /// Functions that are a group of sends and receives in this release.
    pub grouped: Vec<Function>,
    /// From rank 0: the communicator's id in hex.
    pub id: Option<String>,
}

/// What a rank shall do.
#[derive(Clone, Debug, Serialize, JsonSchema, Deserialize)]
pub enum Order {
    /// Open libraries and GPU.
    Open,
    /// Make the communicator.
    Init {
        /// Its id in hex.
        id: String,
        /// Names what the ranks of a host share.
        token: String,
        /// Number on this host.
        local: u32,
        /// Ranks on this host.
        locals: u32,
        /// Whether ranks are on other hosts too.
        hosts: u32,
    },
    /// Fill the buffers for a case.
    Prepare(Case),
    /// Make steps of the case.
    Run {
        /// How they follow each other; `None` warms up.
        timed: bool,
        /// How many.
        steps: u64,
    },
    /// Make one call and check what it brought.
    Check,
    /// Let everything go.
    End,
}

/// One line of the table, on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Case {
    /// The function.
    pub function: Function,
    /// The size that was asked for.
    pub bytes: u64,
    /// In one buffer.
    pub in_place: bool,
    /// Counts the cases.
    pub number: u64,
}

/// What a rank says.
#[derive(Clone, Debug, Serialize, JsonSchema, Deserialize)]
pub enum Reply {
    /// First of all.
    Hello(Box<Hello>),
    /// Where it is.
    Progress(Progress),
    /// To `Open`.
    Opened(Box<Device>),
    /// To `Init`, `Prepare` and `End`.
    Done,
    /// To `Run`.
    Ran(Batch),
    /// To `Check`: elements that are wrong.
    Checked(u64),
    /// What went wrong; the rank ends.
    Failed(String),
}

/// Steps that were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema, Deserialize)]
pub struct Batch {
    /// Host time of each step's start, ns.
    pub start: Vec<i64>,
    /// Host time inside each step's calls, ns.
    pub host: Vec<i64>,
    /// GPU time of each step, ns; empty where only the whole was timed.
    pub gpu: Vec<i64>,
    /// GPU time of all, ns.
    pub gpu_total: i64,
    /// Host time from the first call to the end of the last one's work, ns.
    pub wall: i64,
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub struct Progress {
    /// What it is doing.
    pub stage: Stage,
    /// Steps begun since the order.
    pub step: u64,
}

/// What a rank is doing, in the order in which it comes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, Deserialize,
)]
#[repr(u8)]
pub enum Stage {
    /// Nothing: it waits for an order.
    #[default]
    Idle,
    /// Opening libraries and the GPU.
    Opening,
    /// In ncclCommInitRank.
    Init,
    /// Filling or comparing buffers.
    Data,
    /// Waiting for the other ranks of its host, to start together.
    Meeting,
    /// Inside an NCCL call or a graph's launch.
    Calling,
    /// Waiting for the GPU.
    Gpu,
    /// In ncclCommDestroy.
    Destroy,
}

impl Stage {
    /// All, by number.
    pub const ALL: [Stage; 8] = [
        Stage::Idle,
        Stage::Opening,
        Stage::Init,
        Stage::Data,
        Stage::Meeting,
        Stage::Calling,
        Stage::Gpu,
        Stage::Destroy,
    ];
}

/// A rank's end of its socket: orders in, answers out. Answers may come from two threads.
pub struct Link {
    orders: Mutex<BufReader<File>>,
    answers: Mutex<File>,
}

impl Link {
    /// Over a socket.
    ///
    /// # Errors
    /// When it can't be used twice.
    pub fn new(socket: File) -> io::Result<Link> {
        Ok(Link {
            answers: Mutex::new(socket.try_clone()?),
            orders: Mutex::new(BufReader::new(socket)),
        })
    }

    /// The next order; `None` when the lead is gone.
    pub fn order(&self) -> Option<Order> {
        let mut line = String::new();
        let mut orders = self.orders.lock().unwrap_or_else(|e| e.into_inner());
        orders.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Says something.
    ///
    /// # Errors
    /// When the lead is gone.
    pub fn say(&self, answer: &Reply) -> io::Result<()> {
        let mut answers = self.answers.lock().unwrap_or_else(|e| e.into_inner());
        answers.write_all(&line(answer)?)
    }
}

/// A value as a line.
pub(crate) fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Takes the first whole line out of `buffer`; `Err` with the line when it can't be read.
pub(crate) fn take<T: DeserializeOwned>(buffer: &mut Vec<u8>) -> Option<Result<T, String>> {
    let end = buffer.iter().position(|b| *b == b'\n')?;
    let line: Vec<u8> = buffer.drain(..=end).collect();
    let value = serde_json::from_slice(&line);
    Some(value.map_err(|_| String::from_utf8_lossy(&line).trim_end().to_owned()))
}

/// Bytes as hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Hex as bytes.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok())
        .collect()
}
