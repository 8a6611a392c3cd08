//! The job: its command, ranks, hosts, software and time.

use crate::layout::{plural, Page};
use analyze::job::Job;
use analyze::moments::spelled;
use analyze::spelling::time;
use analyze::Report;
use std::io::Result;

pub(crate) fn some(list: &[String]) -> String {
    if list.is_empty() {
        "not known".to_owned()
    } else {
        list.join(", ")
    }
}

/// A command that is much longer than a few lines is cut.
pub(crate) fn clipped(command: &str) -> std::borrow::Cow<'_, str> {
    const MOST: usize = 600;
    match command.char_indices().nth(MOST) {
        None => command.into(),
        Some((at, _)) => {
            let more = command.len() - at;
            format!("{} … ({more} more bytes: --json)", &command[..at]).into()
        }
    }
}

pub(super) fn job(report: &Report, page: &mut Page) -> Result<()> {
    let job = &report.job;
    page.title(&format!("Job {}", job.capture));
    let mut fact = |name: &str, text: &str| {
        page.wrap(&format!("  {name:<8} "), "           ", text);
    };
    if let Some(command) = job.command.as_deref() {
        fact("command", &clipped(command));
    }
    let mut ranks = match job.sizes_of_runs() {
        Some(sizes) => format!("{sizes} processes, one run after the other,"),
        None => plural(job.nprocesses as u64, "process", "processes"),
    };
    if let Some(size) = job.world_size {
        ranks += &format!(" of {}", plural(size.into(), "rank", "ranks"));
    }
    if let Some(restarts) = job.restarts.filter(|n| *n > 0) {
        ranks += &format!(", {}", plural(restarts.into(), "restart", "restarts"));
    }
    let hosts = match job.hosts.as_slice() {
        [first, .., last] if job.hosts.len() > 4 => {
            format!("{} hosts, {first} to {last}", job.hosts.len())
        }
        hosts => some(hosts),
    };
    fact("ranks", &format!("{ranks} on {hosts}"));
    if let Some(text) = attempts(job) {
        fact("attempt", &text);
    }
    if let Some(part) = &job.part {
        fact("part", part);
    }
    jobs(report, &mut fact);
    let mut software = format!("NCCL {}", some(&job.nccl));
    for (name, values) in [("", &job.gpu), ("driver ", &job.driver)] {
        if !values.is_empty() {
            software += &format!("; {name}{}", values.join(", "));
        }
    }
    // The usual one goes without saying.
    if job
        .platform
        .iter()
        .any(|platform| platform != "Linux x86_64")
    {
        software += &format!("; {}", job.platform.join(", "));
    }
    fact("software", &software);
    let (mode, timing) = (some(&job.mode), some(&job.timing));
    fact("recorded", &format!("mode {mode}, timing {timing}"));
    fact("time", &when(report));
    if let Some(text) = crate::exits::with_last_call(&report.exits) {
        fact("ended", &text);
    }
    if let Some(energy) = &report.nodes.energy {
        fact("energy", &crate::nodes::energy(energy));
    }
    Ok(())
}

/// When a job began, and the name of the time zone in which that is said.
pub(crate) fn begun(job: &Job, started: &str) -> String {
    let began = spelled(started, 0);
    // The abbreviation of some zones is their offset.
    let says_more = |name: &&str| !name.starts_with(['+', '-']) && !began.ends_with("UTC");
    match job.zone.as_deref().filter(says_more) {
        Some(name) => format!("{began} ({name})"),
        None => began,
    }
}

/// From when to when the time of a job is. Of communicators that are older than a recording from outside, the
/// beginning is not known. What another tool recorded may be any part of a run.
pub(crate) fn from_to(job: &Job) -> &'static str {
    if job.is_of_other_tool {
        "from the first entry of the file to the last"
    } else if is_from_outside(job) {
        "from the first call or communicator to the last call"
    } else {
        "from the first communicator to the last call"
    }
}

/// Whether `ncclscope attach` recorded all of a job, so that its start and end are not the job's.
pub(crate) fn is_from_outside(job: &Job) -> bool {
    job.mode == ["attach"]
}

/// Ranks whose times differ by less than this share are told with one time.
const ALIKE: f64 = 0.98;

/// How long the job took, and when it ran.
fn when(report: &Report) -> String {
    let job = &report.job;
    let mut parts = Vec::new();
    if let Some(wall) = report.ranks.wall_us {
        // Ranks that began later or ended earlier have a time of their own.
        parts.push(if wall.min < ALIKE * wall.max {
            format!(
                "{} to {} {} of a rank: all % are of its own time",
                time(wall.min),
                time(wall.max),
                from_to(job)
            )
        } else {
            format!("{} {}: all % are of that", time(wall.max), from_to(job))
        });
    }
    match (&job.started, &job.ended, job.exit_status) {
        (Some(started), Some(_), _) if is_from_outside(job) => {
            let took = job.wall_us.map_or("unknown".to_owned(), time);
            parts.push(format!(
                "recorded from outside for {took}, begun {}",
                begun(job, started)
            ));
        }
        (Some(started), Some(_), status) => {
            let status = status.map_or(String::new(), |status| format!(", exit status {status}"));
            let took = job.wall_us.map_or("unknown".to_owned(), time);
            parts.push(format!(
                "{took} from launch to exit, begun {}{status}",
                begun(job, started)
            ));
        }
        (Some(started), ..) => parts.push(format!(
            "begun {}; its end was not recorded",
            begun(job, started)
        )),
        _ => {}
    }
    if parts.is_empty() {
        "not known".to_owned()
    } else {
        parts.join("; ")
    }
}

/// Which attempt the figures are of, and what the others were; `None` for a job that was started once.
pub(crate) fn attempts(job: &Job) -> Option<String> {
    const SHOWN: usize = 4;
    let read = job.attempt?;
    let mut text = format!("{read} of {}", job.attempts.len());
    let others = || job.attempts.iter().filter(|other| other.attempt != read);
    for (at, other) in others().rev().take(SHOWN).enumerate() {
        let time = |moment: &Option<String>| {
            let moment = moment.as_deref().map(|moment| spelled(moment, 0));
            moment.unwrap_or_else(|| "an unknown time".to_owned())
        };
        text += match at {
            0 => "; left out: ",
            _ => "; ",
        };
        let processes = plural(other.nprocesses as u64, "process", "processes");
        text += &format!("attempt {} ({processes}", other.attempt);
        if let Some(ranks) = &other.ranks {
            text += &format!(", ranks {ranks}");
        }
        text += &format!(", {} to {})", time(&other.started), time(&other.seen));
    }
    let rest = others().count().saturating_sub(SHOWN);
    if rest > 0 {
        text += &format!("; {rest} more (--json)");
    }
    let newest = others().next_back().map_or(1, |other| other.attempt);
    text += &format!(". `--attempt {newest}` reads attempt {newest}.");
    Some(text)
}

/// The jobs of a folder that holds several.
fn jobs(report: &Report, fact: &mut impl FnMut(&str, &str)) {
    let jobs = &report.job.jobs;
    if jobs.is_empty() {
        return;
    }
    if report.job.sizes_of_runs().is_some() {
        let text = format!(
            "the figures below mix {} runs of nccl-tests, one after the other. Report each from a file of \
             its own.",
            jobs.len()
        );
        return fact("WARNING", &text);
    }
    if report.job.is_benchmark() {
        let text = format!(
            "the figures below mix {} runs of nccl-tests that knew nothing of each other. If one run was \
             meant, build nccl-tests with MPI=1. Else report each run from a file of its own.",
            jobs.len()
        );
        return fact("WARNING", &text);
    }
    let text = format!(
        "this folder holds {} jobs, and the figures below mix them. Move the files of each job into a folder \
         of its own, and report that folder.",
        jobs.len()
    );
    fact("WARNING", &text);
    const SHOWN: usize = 4;
    for job in jobs.iter().take(SHOWN) {
        let started = job.started.as_deref().map(|started| spelled(started, 0));
        let mut text = format!(
            "from {}: {}",
            started.unwrap_or_else(|| "an unknown time".to_owned()),
            plural(job.nprocesses as u64, "process", "processes")
        );
        if let Some(ranks) = &job.ranks {
            text += &format!(", ranks {ranks}");
        }
        text += &format!(" on {}", some(&job.hosts));
        if let Some(batch) = &job.batch {
            text += &format!(", batch job {batch}");
        }
        if let [first, ..] = job.files.as_slice() {
            text += &format!(", first file {first}");
        }
        fact("", &text);
    }
    let rest = jobs.len().saturating_sub(SHOWN);
    if rest > 0 {
        fact("", &format!("… {rest} more jobs (--json)"));
    }
}

#[cfg(test)]
mod tests {
    use super::clipped;

    #[test]
    fn a_command_of_megabytes_is_cut() {
        assert_eq!(clipped("python3 train.py"), "python3 train.py");
        let long = "é".repeat(1 << 20);
        let cut = clipped(&long);
        assert!(
            cut.len() < 2000 && cut.ends_with(" more bytes: --json)"),
            "{}",
            cut.len()
        );
    }
}
