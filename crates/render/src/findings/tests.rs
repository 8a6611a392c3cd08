//! What findings say, word by word.

use super::*;
use analyze::arrivals::InheritedFrom;
use analyze::efficiency::{CeilingSource, Named, ShareOfCeiling};
use analyze::findings::*;
use analyze::mismatch::{CallPlace, Differing, Made};
use analyze::subject::ProcessId;

fn rank(number: u32) -> RankId {
    RankId {
        process: ProcessId {
            rank: Some(number),
            host: "n1".to_owned(),
            pid: 100 + number,
        },

        ..RankId::default()
    }
}

fn loss(us: f64, interval_us: (f64, f64), method: Method) -> Loss {
    Loss {
        wall_us: us,
        interval_us: Some(interval_us),
        at_most_us: None,
        method,
        coverage: None,
        untimed_in_graphs: None,
        run_us: Some(1e7),
    }
}

fn late(of: RankId, loss: Loss, cause: Cause, evidence: Late) -> Finding {
    Finding {
        subject: Subject::of(of),
        loss: Some(loss),
        when_us: None,
        cause: Some(cause),
        evidence: Evidence::Late(evidence),
        advice: Advice::ProfileHost,
    }
}

#[test]
fn a_late_rank_is_said_with_how_it_is_known() {
    let gpu = RankId {
        device: Some(0),
        ..rank(1)
    };
    let by_account = Late {
        last: 90,
        operations: 100,
        of_all: 100,
        steps: Some(InSteps {
            steps: 50,
            wall_us: 9e6,
            still: (0.1, 0.3),
            timed: 0.25,
            ..InSteps::default()
        }),
        ..Late::default()
    };
    let close = loss(2e6, (1e6, 3.1e6), Method::Account);
    let found = late(gpu.clone(), close, Cause::Host, by_account.clone());
    assert_eq!(
        sentence(&found),
        "Rank 1 (GPU 0 on n1) costs this job about 2.00 s of 10.0 s: its host launches most collectives late."
    );
    assert!(evidence(&found).ends_with("Interval of the cost: 1.00 to 3.10 s."));
    let slowing = |slowing_us: f64| {
        let mut late_rank = by_account.clone();
        late_rank.steps.as_mut().expect("steps").slowing_us = slowing_us;
        let close = loss(2e6, (1e6, 3.1e6), Method::Account);
        evidence(&late(gpu.clone(), close, Cause::Host, late_rank))
    };
    assert!(slowing(1.5e6).ends_with(
        "Interval of the cost: 1.00 to 3.10 s. About 1.50 s of the cost is what their kernels lose beside \
         calls that wait for it."
    ));
    assert!(slowing(0.2e6).ends_with("Interval of the cost: 1.00 to 3.10 s."));
    let mut untimed = by_account.clone();
    untimed.steps.as_mut().expect("steps").timed = 0.0;
    let close = loss(2e6, (1e6, 3.1e6), Method::Account);
    assert!(
        evidence(&late(gpu.clone(), close, Cause::Host, untimed)).ends_with(
            "By the hosts' times of 50 steps of 180 ms. How long GPUs stood still in communication is not \
             known, because a rank has no GPU time of any call. Interval of the cost: 1.00 to 3.10 s."
        )
    );
    assert_eq!(
        cause(&found),
        "rank 1 (GPU 0 on n1) is late: its host launches most collectives late"
    );
    let in_sends = Late {
        in_sends: true,
        ..by_account.clone()
    };
    let wide = loss(2e6, (1e6, 4.1e6), Method::Account);
    let found = late(rank(1), wide.clone(), Cause::Host, in_sends);
    assert_eq!(
        sentence(&found),
        "Rank 1 costs this job 1.00 to 4.10 s of 10.0 s: its host launches most operations late."
    );
    let found = late(rank(1), wide, Cause::Gpu, by_account.clone());
    assert_eq!(
        sentence(&found),
        "Rank 1 costs this job 1.00 to 4.10 s of 10.0 s: its GPU is busy with other work before most \
         collectives."
    );
    // Most calls are in graphs, and have no times.
    let in_graphs = Loss {
        untimed_in_graphs: Some(900),
        ..loss(2e6, (1e6, 3e6), Method::WhatIf)
    };
    let by_times = Late {
        arrivals: Some(LateByArrivals::default()),
        ..by_account
    };
    let found = late(rank(3), in_graphs, Cause::Unknown, by_times);
    assert_eq!(
        sentence(&found),
        "Rank 3 costs this job 2.00 s or more of 10.0 s: it comes late to most collectives, and why is not \
         known."
    );
    assert!(evidence(&found).contains("900 calls in CUDA graphs have none"));
}

#[test]
fn what_was_inherited_is_said_with_where_it_came_from() {
    let from = |id: &str, cost: f64, waiting: f64, waited_for| InheritedFrom {
        communicator: Some(id.to_owned()),
        cost_rank_us: cost,
        waiting_rank_us: waiting,
        waited_for,
        ..InheritedFrom::default()
    };
    let by = LateByArrivals {
        inherited: vec![
            from("0", 3000.0, 2700.0, Some(0)),
            from("2", 1200.0, 0.0, None),
            from("4", 10.0, 0.0, None),
        ],
        ..LateByArrivals::default()
    };
    let of = Late {
        arrivals: Some(by),
        ..Late::default()
    };
    let found = late(
        rank(1),
        loss(1e6, (1e6, 1e6), Method::WhatIf),
        Cause::Host,
        of,
    );
    let says = "late because of other operations: 3.00 ms from communicator 0, where it waited for rank 0 \
                (90 % of that); 1.20 ms from communicator 2, where it moved bytes; the rest from 1 more.";
    assert!(evidence(&found).contains(says), "{}", evidence(&found));
}

#[test]
fn calls_that_differ_are_said_with_what_differs() {
    let made = |function: &str, bytes, root| Made {
        function: Some(function.to_owned()),
        datatype: Some("ncclFloat32".to_owned()),
        bytes: Some(bytes),
        root,
    };
    let of = Differing {
        communicator: "0".to_owned(),
        place: CallPlace::Call(281),
        rank: Some(rank(2)),
        made: made("Broadcast", 1024, Some(1)),
        against: Some(rank(0)),
        against_made: made("Broadcast", 1024, Some(0)),
        places: 2,
    };
    let said = |of: &Differing| {
        sentence(&Finding {
            subject: Subject::default(),
            loss: None,
            when_us: None,
            cause: None,
            evidence: Evidence::Differing {
                first: of.clone(),
                more: 0,
                stood_still_ns: None,
            },
            advice: Advice::SameOrder,
        })
    };
    assert_eq!(
        said(&of),
        "Rank 2 made Broadcast of 1 KiB where rank 0 made Broadcast of 1 KiB: call 281 on communicator 0. \
         They differ in root 1 and 0."
    );
    let other = Differing {
        place: CallPlace::SequenceNumber(20),
        made: made("AllReduce", 4096, None),
        against_made: made("AllGather", 1024, None),
        ..of
    };
    assert_eq!(
        said(&other),
        "Rank 2 made AllReduce of 4 KiB where rank 0 made AllGather of 1 KiB: sequence number 20 on \
         communicator 0. They differ in function AllReduce and AllGather, size 4 KiB and 1 KiB."
    );
}

#[test]
fn a_change_of_the_environment_is_never_said_to_be_none() {
    use analyze::diff::{Changed, TimeChange, What, Why};
    let said = |others: &[&str]| {
        let others = others.iter().map(|key| (*key).to_owned()).collect();
        super::changed::changed(&Changed {
            what: What::Time(TimeChange {
                of_step: true,
                us: (26_100.0, 27_400.0),
                why: Why::Nothing(others),
                new: None,
                gone: None,
            }),
            incomplete: Vec::new(),
        })
    };
    assert!(said(&[]).ends_with("nothing changed in the environment."));
    assert!(said(&["GPU ids", "command"]).ends_with("need not be the reason: GPU ids, command."));
}

#[test]
fn a_change_names_what_is_new_beside_what_is_gone() {
    use analyze::diff::{Changed, TimeChange, What, Why};
    let settings = |operations| {
        Box::new(Finding {
            subject: Subject::default(),
            loss: None,
            when_us: None,
            cause: None,
            evidence: Evidence::DifferingSettings(operations),
            advice: Advice::SameSettings,
        })
    };
    let said = |to, why, new, gone| {
        super::changed::changed(&Changed {
            what: What::Time(TimeChange {
                of_step: true,
                us: (20_000.0, to),
                why,
                new,
                gone,
            }),
            incomplete: Vec::new(),
        })
    };
    let (new, gone) = (settings(7), settings(3));
    let (of_new, of_gone) = (super::cause(&new), super::cause(&gone));
    assert_ne!(of_new, of_gone);
    let faster = said(15_000.0, Why::Gone(gone.clone()), Some(new.clone()), None);
    assert!(
        faster.ends_with(&format!("Gone is: {of_gone}. New is: {of_new}.")),
        "{faster}"
    );
    let same = said(20_000.0, Why::Same, Some(new.clone()), Some(gone.clone()));
    assert!(
        same.ends_with(&format!("New is: {of_new}. Gone is: {of_gone}.")),
        "{same}"
    );
    let slower = said(30_000.0, Why::New(new), None, Some(gone));
    assert!(
        slower.contains(&format!("because {of_new}.")) && slower.ends_with(&format!("{of_gone}.")),
        "{slower}"
    );
}

#[test]
fn three_reasons_for_slow_calls_are_a_list_and_two_are_a_sentence() {
    let ceiling = ShareOfCeiling {
        source: CeilingSource::Given,
        named: Named::Given("the given 18 GB/s".to_owned()),
        ceiling_gb_per_s: 18.0,
        share: 0.4,
        lowest_gb_per_s: 18.0,
    };
    let mut below = BelowCeiling {
        nranks: Some(2),
        operations: 40.0,
        compared: 40,
        time_us: 4e3,
        ceiling_us: 1.5e3,
        busbw_gb_per_s: 7.2,
        ceiling,
        others: Vec::new(),
        transfer_us: 160e3,
        exposed_us: Some(100e3),
        at_most_us: 60e3,
        candidates: vec![Candidate::Protocol, Candidate::Buffers],
        more: 1,
    };
    let finding = |below: &BelowCeiling| Finding {
        evidence: Evidence::BelowCeiling(Box::new(below.clone())),
        ..late(
            rank(0),
            loss(6e4, (5e4, 7e4), Method::WhatIf),
            Cause::Host,
            Late::default(),
        )
    };
    let (said, list) = evidence_and_list(&finding(&below));
    assert_eq!((said, list), (evidence(&finding(&below)), Vec::new()));
    below.candidates.push(Candidate::Size(1 << 20));
    let (said, list) = evidence_and_list(&finding(&below));
    assert!(
        said.ends_with("1 kind of call more like this. Possible reasons:"),
        "{said}"
    );
    assert_eq!(list.len(), 3);
    // JSON has it as one text.
    let whole = evidence(&finding(&below));
    assert_eq!(whole, format!("{said} {}.", list.join("; ")));
    assert!(
        whole.ends_with("up to 1 MiB, latency is most of the time."),
        "{whole}"
    );
}
