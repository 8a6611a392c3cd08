//! Answers of NCCL's RAS: who is behind in which operation, who did not answer.
//!
//! The answers are in the shapes that NCCL 2.26 to 2.30 print; hosts and figures are invented.

use analyze::hang::{hang, Conditions, Hang, Verdict};
use analyze::time::Nanos;
use render::hang::Answer;
use std::fmt::Write as _;
use std::path::Path;
use tables::{Capture, ReadProgress, Which};

const TEXT: &str = "\
NCCL version 2.26.2 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  30 ranks have launched up to operation 640
  2 ranks have launched up to operation 641
  Rank 12 -- GPU 4 managed by process 2012 on node 10.0.0.2
  Rank 13 -- GPU 5 managed by process 2013 on node 10.0.0.2

";

/// A rank of JSON: operations of AllGather and AllReduce.
fn rank(rank: u32, gathers: u64, reduces: u64, error: u32) -> String {
    format!(
        r#"{{"rank": {rank}, "host": "10.0.0.1", "pid": {pid}, "cuda_dev": {rank}, "nvml_dev": {rank},
        "status": {{"init_state": 0, "async_error": {error}, "finalize_called": false,
        "destroy_flag": false, "abort_flag": false}}, "collective_counts": {{"Broadcast": 0, "Reduce": 0,
        "AllGather": {gathers}, "ReduceScatter": 0, "AllReduce": {reduces}}}}}"#,
        pid = 4000 + rank
    )
}

/// The JSON of an answer at this second of a minute.
fn json(second: u32, ranks: &[String], missing: &str) -> String {
    let n = ranks.len() + missing.matches("\"rank\"").count();
    let mut text = String::new();
    let _ = write!(
        text,
        r#"{{"nccl_version": "2.29.1", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
        "timestamp": "2025-12-19 13:06:{second:02}", "communicators_count": 1, "communicators": [
        {{"hash": "0xae94423cfbb2ef4a", "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
        "size": {n}, "ranks_count": {}, "missing_ranks_count": {}, "ranks": [{}],
        "missing_ranks": [{missing}]}}], "ras": {{"collection_time_sec": 0.0, "timeouts_count": 0}}}}"#,
        ranks.len(),
        n - ranks.len(),
        ranks.join(",\n")
    );
    text
}

fn missing(rank: u32, dead: bool) -> String {
    format!(
        r#"{{"rank": {rank}, "host": "10.0.0.1", "pid": {pid}, "cuda_dev": {rank}, "nvml_dev": {rank},
        "status": {{"unresponsive": true, "considered_dead": {dead}}}}}"#,
        pid = 4000 + rank
    )
}

fn opened(texts: &[String]) -> Capture {
    let folder = tempfile::tempdir().expect("a folder");
    for (at, text) in texts.iter().enumerate() {
        std::fs::write(folder.path().join(format!("ras-{at}")), text).expect("written");
    }
    let progress = ReadProgress::default();
    let (source, _held) = convert::open(folder.path(), &progress, Which::Last).expect("opened");
    source.load(&progress)
}

fn answer(texts: &[String]) -> (Hang, Answer) {
    let found = hang(&opened(texts), &Conditions::default());
    let answer = Answer::new(&found);
    (found, answer)
}

#[test]
fn the_text_of_a_job_with_thirty_ranks_behind_names_them_and_the_call() {
    let (_, answer) = answer(&[TEXT.to_owned()]);
    let said = "Ranks 0-11,14-31 have not made AllGather, sequence number 641 on communicator \
        fa93daea854b060b, which ranks 12-13 wait in.";
    assert_eq!(answer.sentence, said);
    // One moment does not say how long they have waited.
    assert_eq!((answer.hang, answer.verdict), (None, "missing"));
}

#[test]
fn a_count_that_stands_still_over_two_answers_is_a_wait() {
    let of = |second: u32, last: u64| {
        let ranks: Vec<String> = (0..4)
            .map(|r| rank(r, if r == 2 { last } else { 11 }, 5, 0))
            .collect();
        json(second, &ranks, "")
    };
    let (found, _) = answer(&[of(0, 10), of(50, 10)]);
    assert_eq!(found.verdict.waited(), Some(Nanos::from_seconds(50.0)));
    let Verdict::Sink(sink) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(sink.ranks.members, [2]);
    assert_eq!(sink.call.seq, Some(11));
    // It came on in between.
    let (found, _) = answer(&[of(0, 9), of(50, 10)]);
    assert_eq!(found.verdict.waited(), Some(Nanos::from_seconds(50.0)));
    let (found, _) = answer(&[of(0, 11), of(50, 10)]);
    assert_eq!(found.verdict.waited(), None);
}

#[test]
fn two_functions_are_put_into_the_order_in_which_ranks_come_to_them() {
    // Rank 2 lacks AllReduce 9, which comes first; rank 1 only the AllGather after it.
    let ranks = [rank(0, 5, 9, 0), rank(1, 4, 9, 0), rank(2, 4, 8, 0)];
    let (found, answer) = answer(&[json(0, &ranks, "")]);
    assert_eq!(
        found.verdict.call().and_then(|call| call.function.clone()),
        Some("AllReduce".into())
    );
    assert_eq!(answer.blamed.len(), 1, "{}", answer.sentence);
    assert_eq!(answer.blamed[0].rank, Some(2));
}

#[test]
fn ranks_in_other_operations_went_astray() {
    let ranks = [rank(0, 5, 8, 0), rank(1, 4, 9, 0), rank(2, 5, 8, 0)];
    let (found, _) = answer(&[json(0, &ranks, "")]);
    let Verdict::Mismatch(mismatch) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(mismatch.odd.members, [1]);
}

#[test]
fn a_process_that_ras_considers_dead_is_dead() {
    let ranks = [rank(0, 5, 8, 0), rank(1, 4, 8, 0)];
    let (found, answer) = answer(&[json(0, &ranks, &missing(2, true))]);
    assert_eq!(found.verdict.hang(), Some(true), "{}", answer.sentence);
    assert_eq!(answer.verdict, "dead");
    let problems: Vec<&str> = answer.problems.iter().map(|p| p.found.as_str()).collect();
    assert_eq!(problems, ["no answer: RAS considers its process dead"]);
}

#[test]
fn ranks_that_did_not_answer_or_report_an_error_are_problems() {
    let ranks = [rank(0, 4, 8, 0), rank(1, 4, 8, 6)];
    let (found, answer) = answer(&[json(0, &ranks, &missing(2, false))]);
    assert_eq!(found.verdict.hang(), None, "{}", answer.sentence);
    let problems: Vec<(&str, &str)> = answer
        .problems
        .iter()
        .map(|p| (p.place.as_str(), p.found.as_str()))
        .collect();
    let of = "of communicator ae94423cfbb2ef4a";
    assert_eq!(
        problems,
        [
            (
                &format!("rank 1 {of}")[..],
                "asynchronous error: remote process exited or there was a network error"
            ),
            (
                &format!("rank 2 {of}")[..],
                "no answer: its process is unresponsive"
            ),
        ]
    );
}

#[test]
fn the_text_about_status_errors_and_missing_ranks_is_read() {
    let text = TEXT.split("#0-0").next().expect("a head").to_owned()
        + "\
INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (fa93daea854b060b) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213

#0-0 (fa93daea854b060b) ERROR
  Asynchronous error on 1 rank
  Rank 3 reported remote error -- GPU 3 managed by process 7 on node 172.16.64.210

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different status
  30 ranks have status RUNNING
  Rank 4 has status FINALIZE -- GPU 4 managed by process 8 on node 172.16.64.210

  Communicator ranks have different AllReduce operation counts
  30 ranks have launched up to operation 7
  Rank 4 has not launched any operations -- GPU 4 managed by process 8 on node 172.16.64.210
";
    let (_, answer) = answer(&[text]);
    let found: Vec<&str> = answer.problems.iter().map(|p| p.found.as_str()).collect();
    let expected = [
        "asynchronous error: remote error",
        "no answer: RAS considers its process dead",
        "status FINALIZE",
    ];
    assert_eq!(found, expected);
    let said = "Rank 21 is dead and has not made AllReduce, sequence number 1 on communicator \
        fa93daea854b060b, which ranks 0-3,5-20,22-31 wait in.";
    assert_eq!(answer.sentence, said);
}

#[test]
fn counts_that_could_be_of_other_ranks_are_not_used() {
    let text = TEXT.replace(
        "  30 ranks have launched up to operation 640",
        "  15 ranks have launched up to \
        operation 640\n  15 ranks have launched up to operation 639",
    );
    let (found, answer) = answer(&[text]);
    assert_eq!(found.verdict.hang(), None);
    assert_eq!(answer.problems.len(), 1, "{:?}", answer.problems);
    assert!(answer.problems[0].found.contains("ncclras -f json"));
}

#[test]
fn a_job_in_step_is_said_to_be() {
    let in_step = TEXT.split("Warnings").next().expect("a head");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ras.txt");
    std::fs::write(&file, in_step).expect("written");
    let error = convert::open(&file, &ReadProgress::default(), Which::Last).err();
    let error = error.expect("an error").to_string();
    assert!(error.contains("32 ranks in step"), "{error}");
    // JSON has every rank.
    let ranks: Vec<String> = (0..2).map(|r| rank(r, 4, 8, 0)).collect();
    let (found, _) = answer(&[json(0, &ranks, "")]);
    assert_eq!(found.verdict.hang(), None);
    assert!(found.communicators[0].ranks.len() == 2);
}

#[test]
fn damaged_answers_are_read_to_their_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ras");
    let ranks: Vec<String> = (0..4).map(|r| rank(r, 4 + u64::from(r), 8, 0)).collect();
    let text = json(0, &ranks, &missing(4, true));
    let letters = b"{}[]\",:0123456789x \n-a";
    crate::damage::read_damaged(&file, text.as_bytes(), letters, 57);
    crate::damage::read_damaged(&file, TEXT.as_bytes(), b"# ()-0123456789\nRr", 58);
    let whole_and_half = format!("{text}\n{}", &text[..text.len() / 2]);
    std::fs::write(&file, whole_and_half).expect("written");
    let (source, _held) =
        convert::open(&file, &ReadProgress::default(), Which::Last).expect("the first answer");
    let capture = source.load(&ReadProgress::default());
    assert_eq!(capture.processes.len(), 5);
    assert!(Path::new(&file).exists());
}

#[test]
fn what_ras_says_of_a_rank_is_the_first_sentence() {
    let ranks = |error: u32| -> Vec<String> {
        (0..4)
            .map(|r| rank(r, 5, 9, if r == 2 { error } else { 0 }))
            .collect()
    };
    let in_init: Vec<String> = ranks(0)
        .iter()
        .map(|rank| rank.replace(r#""init_state": 0"#, r#""init_state": 7"#))
        .collect();
    for (text, expected) in [
        (
            json(53, &in_init, ""),
            "4 ranks are still in ncclCommInit: ranks 0-3.",
        ),
        (
            json(53, &ranks(6), ""),
            "Rank 2 reported an asynchronous error: remote process exited or there was a network error.",
        ),
        (
            json(53, &ranks(0)[..3], &missing(3, true)),
            "Rank 3 is dead: RAS can't reach the process any more. Whether others wait for it is not known.",
        ),
        (
            json(53, &ranks(0)[..3], &missing(3, false)),
            "Rank 3 gave no answer: its process is unresponsive.",
        ),
    ] {
        let (_, answer) = answer(&[text]);
        assert_eq!(answer.sentence, expected);
        assert_eq!((answer.hang, answer.next.as_str()), (None, "ncclras -f json"));
        let of_recordings = |detail: &String| detail.contains("NCCLSCOPE_TIMING");
        assert!(!answer.details.iter().any(of_recordings), "{:?}", answer.details);
    }
}

#[test]
fn a_text_that_names_only_a_silent_rank_is_read() {
    let (head, _) = TEXT.split_once("Warnings").expect("a head");
    let silent = "  Process 2009 on node 10.0.0.2 managing GPU 1\n";
    let missing = "#0-0 (fa93daea854b060b) INCOMPLETE\n  Missing communicator data from 1 rank\n  \
        The missing rank: 9\n";
    let incomplete =
        format!("INCOMPLETE\n  Missing communicator data from 1 job process\n{silent}\n");
    let dead = format!("DEAD\n  1 job process is considered dead\n{silent}\n{incomplete}");
    for (errors, expected) in [
        (dead, "is dead: RAS can't reach"),
        (incomplete, "gave no answer: its process"),
    ] {
        let (_, answer) = answer(&[format!("{head}Errors\n======\n\n{errors}{missing}")]);
        assert!(answer.sentence.contains(expected), "{}", answer.sentence);
        assert!(
            answer.sentence.starts_with("Rank 9 "),
            "{}",
            answer.sentence
        );
    }
}
