//! `ncclscope explain`: what a word of a report is, and what an algorithm and protocol are good for.

use crate::report::print;
use analyze::words;
use anyhow::bail;
use std::process::ExitCode;

/// Say what a word of a report means, or what an algorithm and protocol (RING_LL) are good for
#[derive(clap::Args)]
pub struct Args {
    /// Algorithm, protocol, both as ALGORITHM_PROTOCOL, function, cause, event of NCCL, or word of a report
    #[arg(required = true)]
    word: Vec<String>,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints the explanation.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let (word, look) = (args.word.join(" "), args.look.of_stdout());
    let Some(found) = render::explain::explain(&word) else {
        let mut hint = String::from("hint: these are known, and pairs like RING_LL:");
        for (what, names) in words::known() {
            hint += &format!("\n    {what}: {}", names.join(", "));
        }
        bail!("expected a word of a report, found `{word}`\n  {hint}");
    };
    print(|out| render::text::explanation(&found, look, out))
}
