//! A random job to look at: what really ran as a picture, or what was recorded of it as a capture.
//!
//!     cargo run -p ncclscope-simulate --example look -- 17 picture job.svg [STEP [STEPS]]
//!     cargo run -p ncclscope-simulate --example look -- 17 capture job
//!     ncclscope report job

use simulate::{files, Drawn};

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok());
    let (Some(seed), Some(path)) = (number(0), words.get(2)) else {
        return usage();
    };
    let drawn = Drawn::new(seed as u64);
    let outcome = drawn.play();
    match words[1].as_str() {
        "picture" => {
            let first = number(3).unwrap_or(drawn.steps / 2);
            let picture = outcome.played.picture(first, number(4).unwrap_or(3));
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

fn usage() -> std::io::Result<()> {
    eprintln!("usage: look SEED picture FILE.svg [STEP [STEPS]]\n       look SEED capture FOLDER");
    std::process::exit(2);
}
