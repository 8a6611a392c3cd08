//! Plays jobs that hang and jobs that pause, and holds what `ncclscope hang --watch` says of them against the
//! truth.
//!
//!     cargo run -p ncclscope-simulate --example hangs -- 100 --seed 1
//!     cargo run -p ncclscope-simulate --example hangs -- 1 --seed 17 --list

#[path = "../tests/all/watcher.rs"]
mod watcher;

use watcher::{trials, watch_all, Matrix, Seen};

fn main() {
    let (mut jobs, mut first, mut list) = (100, 1, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seed" => first = number(arguments.next()),
            "--list" => list = true,
            other => jobs = number(Some(other.to_owned())),
        }
    }
    let seen = watch_all(&trials(first..first + jobs));
    let shown = seen.iter().filter(|seen| list || !seen.is_right());
    shown.for_each(|seen| println!("{}", seen.lines));
    let matrix = Matrix::new(&seen);
    println!("{matrix}");
    println!(
        "Of {jobs} hangs, {} were found, {} with the right rank, {} told within 10 s. Of {jobs} healthy \
         jobs, {} were said to hang. {} jobs are not right.",
        matrix.found(),
        matrix.right(),
        matrix.soon(),
        matrix.false_hangs(),
        seen.iter().filter(|seen: &&Seen| !seen.is_right()).count(),
    );
}

fn number(of: Option<String>) -> u64 {
    let parsed = of.and_then(|of| of.parse().ok());
    parsed.unwrap_or_else(|| {
        eprintln!("usage: hangs [JOBS] [--seed FIRST] [--list]");
        std::process::exit(2);
    })
}
