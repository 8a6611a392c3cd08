//! What came of a job: how its processes ended, and what they announced to the plugin.
//!
//! Rule: the job is as expected if each process ended as the script, or the recorded job, says.

use crate::announced::Announced;
use crate::plugin::Version;
use serde_json::{json, Value};

/// How a process ended, and what it announced.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its first rank.
    pub rank: usize,
    /// Its id.
    pub pid: u32,
    /// `exit N` or `signal N`.
    pub ended: String,
    /// Whether that is what the script asked for.
    pub expected: bool,
    /// What it announced. `None` if it crashed before it could report.
    pub announced: Option<Announced>,
}

/// What came of a job.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The release that was simulated.
    pub nccl: Version,
    /// The ABI that the plugin was called with, or why there was no plugin.
    pub abi: Result<u8, String>,
    /// Each process.
    pub processes: Vec<Process>,
}

impl Outcome {
    /// All processes together.
    pub fn announced(&self) -> Announced {
        let mut sum = Announced::default();
        for process in &self.processes {
            if let Some(announced) = &process.announced {
                sum.merge(announced);
            }
        }
        sum
    }

    /// Whether every process ended as expected.
    pub fn as_expected(&self) -> bool {
        self.processes.iter().all(|p| p.expected)
    }

    /// The line that the program prints.
    pub fn to_json(&self) -> Value {
        let mut line = json!({"schema": "fake-nccl.announced/1", "nccl": self.nccl.to_string()});
        match &self.abi {
            Ok(abi) => line["abi"] = json!(abi),
            Err(why) => {
                line["abi"] = Value::Null;
                line["no_plugin"] = json!(why);
            }
        }
        if let Value::Object(sum) = self.announced().to_json() {
            line.as_object_mut().expect("an object").extend(sum);
        }
        let processes = self.processes.iter().map(|p| {
            json!({
                "rank": p.rank, "pid": p.pid, "ended": p.ended, "expected": p.expected,
                "announced": p.announced.as_ref().map(Announced::total),
                "operations": p.announced.as_ref().map(|a| a.to_json()["operations"].take()),
            })
        });
        line["processes"] = processes.collect();
        line
    }
}
