//! Plays random jobs, and holds what the report says of them against the truth.
//!
//!     cargo run -p ncclscope-simulate --example play -- 100 --seed 1
//!     cargo run -p ncclscope-simulate --example play -- 1 --seed 17 --list
//!     cargo run -p ncclscope-simulate --example play -- 100 --account

#[path = "../tests/all/judge.rs"]
mod judge;

fn main() {
    let (mut jobs, mut first, mut list) = (100, 1, false);
    let mut reader: judge::Reader = judge::told;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seed" => first = number(arguments.next()),
            "--list" => list = true,
            "--account" => reader = judge::told_by_account,
            other => jobs = number(Some(other.to_owned())),
        }
    }
    let (matrix, lines) = judge::judge_all(first..first + jobs, reader);
    if list {
        lines.iter().for_each(|(_, _, lines)| println!("{lines}"));
    }
    println!("{matrix}");
    let wrong = lines.iter().filter(|(_, right, _)| !right);
    let wrong: Vec<String> = wrong.map(|(seed, ..)| seed.to_string()).collect();
    println!("Seeds whose report is not right: {}", wrong.join(" "));
}

fn number(of: Option<String>) -> u64 {
    let parsed = of.and_then(|of| of.parse().ok());
    parsed.unwrap_or_else(|| {
        eprintln!("usage: play [JOBS] [--seed FIRST] [--list] [--account]");
        std::process::exit(2);
    })
}
