//! Words for what threads do that others wait for.

use super::names::process;
use analyze::hang::{Does, Doing, Hang, Stands};

/// A sentence for each process that was looked at.
pub(super) fn sentences(hang: &Hang) -> impl Iterator<Item = String> + '_ {
    hang.doing.iter().map(sentence)
}

fn sentence(of: &Doing) -> String {
    let who = process(of.number, of.pid);
    let by_system = of.does.as_ref().map(|does| by_system(of, &who, does));
    let by_py_spy = of.stands.as_ref().map(|stands| by_py_spy(&who, stands));
    let all: Vec<String> = by_system.into_iter().chain(by_py_spy).collect();
    all.join(" ")
}

fn by_system(of: &Doing, who: &str, does: &Does) -> String {
    let does = match does {
        Does::Runs => "runs on a CPU".to_owned(),
        Does::Sleeps => "sleeps".to_owned(),
        Does::WaitsForFile(Some(file)) => format!("waits for the file {file}"),
        Does::WaitsForFile(None) => "waits for a file system".to_owned(),
        Does::WaitsForThread => {
            let lock = if of.is_python {
                ", perhaps Python's"
            } else {
                ""
            };
            let runs = of.runs.as_ref();
            let runs = runs.map_or(String::new(), |runs| format!("; thread {runs} runs"));
            format!("waits for a lock{lock}, or for another thread{runs}")
        }
        Does::WaitsForConnection => "waits for a connection or a pipe".to_owned(),
        Does::WaitsForChild => "waits for a child process".to_owned(),
        Does::InDriver => "is inside of the GPU's driver".to_owned(),
    };
    if of.calls_nccl {
        format!("The thread of {who} that calls NCCL {does}.")
    } else {
        format!("The first thread of {who} {does}.")
    }
}

fn by_py_spy(who: &str, stands: &Stands) -> String {
    let lock = stands.lock_is_with.as_ref();
    let lock = lock.map_or(String::new(), |thread| {
        format!(" The interpreter's lock is with {thread}.")
    });
    format!(
        "By py-spy, {who} is in {}.{lock}",
        stands.frames.join(", called by ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_does_is_one_sentence() {
        let mut of = Doing {
            number: Some(3),
            pid: 71,
            calls_nccl: true,
            is_python: true,
            does: Some(Does::WaitsForThread),
            stands: None,
            runs: Some("pt_data (74)".to_owned()),
        };
        assert_eq!(
            sentence(&of),
            "The thread of rank 3 (pid 71) that calls NCCL waits for a lock, perhaps Python's, or for \
             another thread; thread pt_data (74) runs."
        );
        of.does = Some(Does::WaitsForFile(Some("/mnt/x".to_owned())));
        of.number = None;
        of.calls_nccl = false;
        assert_eq!(
            sentence(&of),
            "The first thread of pid 71 waits for the file /mnt/x."
        );
        of.does = None;
        of.stands = Some(Stands {
            frames: vec![
                "read (data.py:5)".to_owned(),
                "step (train.py:33)".to_owned(),
            ],
            lock_is_with: Some("loader".to_owned()),
        });
        assert_eq!(
            sentence(&of),
            "By py-spy, pid 71 is in read (data.py:5), called by step (train.py:33). The interpreter's lock \
             is with loader."
        );
    }
}
