//! Another profiler plugin behind the recorder, in words.

use analyze::behind::{Behind, Inside, What};
use analyze::findings::RankId;
use analyze::spelling::{plural, ranges};

/// What is known of it, in a sentence or several.
pub(crate) fn sentence(of: &Behind) -> String {
    let who = who(&of.processes);
    match &of.what {
        What::Ran {
            name,
            path,
            abi,
            events,
        } => {
            let abi = abi.map_or(String::new(), |abi| format!(", ABI v{abi}"));
            let asked = if events.is_empty() {
                "no events".to_owned()
            } else {
                events.join(", ")
            };
            format!(
                "Another profiler plugin ran behind ncclscope on {who}: {name} (`{path}`{abi}). It asked \
                 for {asked}. What it cost is a part of the job's times, and no part of what recording cost."
            )
        }
        What::Refused {
            path,
            got_none,
            why,
        } => {
            let what = if *got_none {
                "got no events"
            } else {
                "did not get all events"
            };
            let why = refused(why);
            format!("The profiler plugin `{path}` of NCCLSCOPE_CHAIN {what} on {who}: {why}.")
        }
        What::Errors(errors) => format!(
            "The other profiler plugin of {who} returned an error for {}.",
            plural(u64::from(*errors), "call", "calls")
        ),
        What::Inside {
            inside: of,
            is_now: true,
        } => format!("Of {who}, {} at this moment.", inside(of)),
        What::Inside {
            inside: of,
            is_now: false,
        } => format!(
            "Of {who}, {} at its end, or when it was last seen.",
            inside(of)
        ),
    }
}

/// Who was inside, and of what, as it follows a process's name.
pub(crate) fn inside(of: &Inside) -> String {
    let path = of.path.as_deref().unwrap_or("of an unknown path");
    let what = match of.threads {
        1 => format!("one thread ({})", of.newest),
        n => format!("{n} threads (the newest is {})", of.newest),
    };
    format!("{what} was inside the profiler plugin `{path}` of NCCLSCOPE_CHAIN")
}

/// Why it got no events, by the recorder's word.
fn refused(why: &str) -> &str {
    match why {
        "not_loaded" => "it could not be loaded",
        "no_table" => "it has no table of a version that fits this NCCL",
        "half_a_table" => "its table has null entries",
        "is_ncclscope" => "it is ncclscope itself",
        "other_version" => "the process has two releases of NCCL",
        "init_failed" => "its init returned an error",
        other => other,
    }
}

fn who(of: &[RankId]) -> String {
    let numbers: Option<Vec<u32>> = of.iter().map(|id| id.process.rank).collect();
    match (numbers, of) {
        (Some(numbers), [one]) => format!(
            "rank {} (pid {} on {})",
            numbers[0], one.process.pid, one.process.host
        ),
        (Some(numbers), _) => format!("ranks {}", ranges(numbers)),
        (None, [one]) => format!("pid {} on {}", one.process.pid, one.process.host),
        (None, _) => format!("{} processes", of.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::subject::ProcessId;

    fn said(ranks: &[u32], what: What) -> String {
        let id = |rank: &u32| RankId {
            process: ProcessId {
                rank: Some(*rank),
                host: "n1".to_owned(),
                pid: 70 + rank,
            },

            ..RankId::default()
        };
        sentence(&Behind {
            processes: ranks.iter().map(id).collect(),
            what,
        })
    }

    #[test]
    fn plugins_are_named_with_what_they_got() {
        let ran = What::Ran {
            name: "Inspector".to_owned(),
            path: "/x.so".to_owned(),
            abi: Some(5),
            events: vec!["Coll".to_owned(), "KernelCh".to_owned()],
        };
        assert_eq!(
            said(&[0, 1, 2], ran),
            "Another profiler plugin ran behind ncclscope on ranks 0-2: Inspector (`/x.so`, ABI v5). It \
             asked for Coll, KernelCh. What it cost is a part of the job's times, and no part of what \
             recording cost."
        );
        let refused = What::Refused {
            path: "/y.so".to_owned(),
            got_none: true,
            why: "no_table".to_owned(),
        };
        assert_eq!(
            said(&[3], refused),
            "The profiler plugin `/y.so` of NCCLSCOPE_CHAIN got no events on rank 3 (pid 73 on n1): it has \
             no table of a version that fits this NCCL."
        );
    }

    #[test]
    fn errors_and_ends_inside_of_it_are_said_of_a_process() {
        assert_eq!(
            said(&[1], What::Errors(3)),
            "The other profiler plugin of rank 1 (pid 71 on n1) returned an error for 3 calls."
        );
        let inside = Inside {
            path: Some("/x.so".to_owned()),
            threads: 1,
            newest: 7,
        };
        let is_now = false;
        assert_eq!(
            said(&[1], What::Inside { inside, is_now }),
            "Of rank 1 (pid 71 on n1), one thread (7) was inside the profiler plugin `/x.so` of \
             NCCLSCOPE_CHAIN at its end, or when it was last seen."
        );
    }
}
