//! A random job to look at: what really ran as a picture, or what was recorded of it as a capture.
//!
//!     cargo run -p ncclscope-simulate --example look -- 17 picture job.svg [STEP [STEPS]]
//!     cargo run -p ncclscope-simulate --example look -- 17 capture job
//!     ncclscope report job
//!
//! And a job of `hangs`, one that hangs or a healthy one that pauses:
//!
//!     cargo run -p ncclscope-simulate --example look -- hang 17 picture job.svg
//!     cargo run -p ncclscope-simulate --example look -- hang 17 capture job [SECONDS]
//!     ncclscope hang job
//!
//! Its capture is that of the running job when `hang --watch` told of the hang, or of the last stand-still,
//! or as of so many seconds.

#[allow(dead_code)]
#[path = "../tests/all/watcher.rs"]
mod watcher;

use analyze::hang::hang;
use render::hang::Answer;
use simulate::hanging::Trial;
use simulate::{files, Drawn};
use std::path::Path;
use watcher::{trial, watch};

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [story @ ("hang" | "pause"), seed, what, path, ..] => {
            let Ok(seed) = seed.parse() else {
                return usage();
            };
            let at = words.get(4).map(|seconds| seconds.parse::<f64>());
            match (what, at) {
                ("picture", None) => {
                    let trial = trial(seed, story == "hang");
                    std::fs::write(path, trial.picture(&trial.play()))?;
                    println!("{trial}");
                    Ok(())
                }
                ("capture", None) => running(&trial(seed, story == "hang"), None, path.as_ref()),
                ("capture", Some(Ok(seconds))) => {
                    let at = (1e9 * seconds) as i64;
                    running(&trial(seed, story == "hang"), Some(at), path.as_ref())
                }
                _ => usage(),
            }
        }
        [seed, what, path, ..] => match seed.parse() {
            Ok(seed) => whole(seed, what, path, &words[3..]),
            Err(_) => usage(),
        },
        _ => usage(),
    }
}

/// A job that is over.
fn whole(seed: u64, what: &str, path: &str, steps: &[&str]) -> std::io::Result<()> {
    let number = |at: usize| steps.get(at).and_then(|word| word.parse::<usize>().ok());
    let drawn = Drawn::new(seed);
    let outcome = drawn.play();
    match what {
        "picture" => {
            let first = number(0).unwrap_or(drawn.steps / 2);
            let picture = outcome.played.picture(first, number(1).unwrap_or(3));
            std::fs::write(path, picture)?;
        }
        "capture" => files::write(&outcome.played.capture_of(&drawn.evidence), path.as_ref())?,
        _ => return usage(),
    }
    println!(
        "{drawn}: {:.2} s, {:.2} s without",
        outcome.played.seconds, outcome.plain
    );
    for culprit in &outcome.culprits {
        println!("  {}: {:.3} s", culprit.cause, culprit.loss);
    }
    Ok(())
}

/// A job that runs, as of a moment.
fn running(trial: &Trial, at: Option<i64>, folder: &Path) -> std::io::Result<()> {
    let seen = watch(trial);
    let stage = trial.play();
    let (judged_at, conditions, _) = seen.judged;
    let at = at.unwrap_or(judged_at);
    let told = Answer::new(&hang(&trial.as_of(&stage, at), &conditions));
    let capture = trial.write_as_of(&stage, at, folder)?;
    let verdict = (told.hang, told.verdict, told.sentence.as_str());
    files::look(&capture, trial.at_ns(at), verdict, folder)?;
    print!("{}", seen.lines);
    println!("As of {:.1} s: {}", at as f64 / 1e9, told.sentence);
    let after = conditions.after.unwrap_or_default().seconds() as i64;
    println!("Next: ncclscope hang {} --after {after}s", folder.display());
    Ok(())
}

fn usage() -> std::io::Result<()> {
    eprintln!(
        "usage: look SEED picture FILE.svg [STEP [STEPS]]\n       look SEED capture FOLDER\n       \
         look hang|pause SEED picture FILE.svg\n       look hang|pause SEED capture FOLDER [SECONDS]"
    );
    std::process::exit(2);
}
