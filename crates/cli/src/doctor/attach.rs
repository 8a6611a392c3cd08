//! Whether `ncclscope attach` can work here: asked by loading its programs, which changes nothing.
//!
//! Rule: that it can't is no fault of the machine. Most users record with `run` and never need it.

use super::{Check, Checks, Status};
use ::attach::probes::{Probes, Refusal};
use ::attach::Way;

/// The smallest ring, for the time of the check.
const RING: usize = 64 << 10;

/// The check.
pub fn checks() -> Vec<Check> {
    of(Probes::new(RING, None).map(|mut probes| {
        let scheduler = probes.watch_scheduler().err();
        (probes.way, probes.ns_per_call, scheduler)
    }))
}

/// How probes are set, what a call costs, and why the scheduler can't be watched.
type Found = (Way, Option<f64>, Option<Refusal>);

fn of(found: Result<Found, Refusal>) -> Vec<Check> {
    let mut checks = Checks::new("Attach");
    match found {
        Ok((way, ns, scheduler)) => {
            // The words for this way say already that there is no --sched.
            let scheduler = scheduler.filter(|_| way != Way::Samples);
            let way = crate::attach::by(way);
            let cost = ns.map_or(String::new(), |ns| {
                format!("; a recorded call costs {:.2} µs", ns / 1e3)
            });
            let without = scheduler.map_or(String::new(), |why| format!("; {why}"));
            checks.ok(
                "attach",
                format!("`ncclscope attach` works here, by {way}{cost}{without}"),
            );
        }
        Err(refusal) => checks.add(
            "attach",
            Status::Ok,
            format!("not here, and `ncclscope run` needs none of it: {refusal}"),
            Some(refusal.way_out().to_owned()),
        ),
    }
    checks.list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_says_what_helps_and_fails_no_check() {
        let refusals = [
            Refusal::Processor,
            Refusal::Scheduler("no BTF".into()),
            Refusal::Gvisor,
            Refusal::Kernel("system call `bpf`".into()),
            Refusal::Old("5.4.0".into()),
            Refusal::Lockdown,
            Refusal::Privileges("CAP_BPF missing".into()),
            Refusal::Other("no space".into()),
            Refusal::Neither {
                bpf: Box::new(Refusal::Lockdown),
                samples: "no tracefs".into(),
            },
        ];
        for refusal in refusals {
            let check = of(Err(refusal.clone())).remove(0);
            assert_eq!((check.name, check.status), ("attach", Status::Ok));
            assert!(check.finding.contains(&refusal.to_string()));
            assert_eq!(check.remedy.as_deref(), Some(refusal.way_out()));
        }
        let check = of(Ok((Way::Multi, Some(1240.0), None))).remove(0);
        assert!(check.finding.ends_with("1.24 µs"), "{}", check.finding);
        let why = Refusal::Scheduler("it needs BPF".into());
        let check = of(Ok((Way::Samples, Some(2400.0), Some(why)))).remove(0);
        assert!(check.finding.contains("without BPF"), "{}", check.finding);
        assert_eq!(check.finding.matches("--sched").count(), 1);
        let why = Refusal::Scheduler("no BTF".into());
        let check = of(Ok((Way::Multi, None, Some(why)))).remove(0);
        let said = "--sched can't work here: no BTF";
        assert!(check.finding.ends_with(said), "{}", check.finding);
    }
}
