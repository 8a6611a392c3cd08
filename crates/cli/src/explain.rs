//! `ncclscope explain`: what a word of a report is, and what an algorithm and protocol are good for.

use crate::report::print;
use anyhow::bail;
use render::words;
use std::process::ExitCode;
use strsim::osa_distance;

/// Say what a word of a report means, or what an algorithm and protocol (RING_LL) are good for
#[derive(clap::Args)]
pub struct Args {
    /// Algorithm, protocol, both as ALGORITHM_PROTOCOL, function, cause, event of NCCL, or word of a report
    /// [default: list them]
    word: Vec<String>,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints the explanation.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let (word, look) = (args.word.join(" "), args.look.of_stdout());
    if word.is_empty() {
        return print(|out| render::explain::list(look, out));
    }
    let Some(found) = render::explain::explain(&word) else {
        bail!(
            "expected a word of a report, found `{word}`\n  hint: {}",
            hint(&word)
        );
    };
    print(|out| render::explain::text(&found, look, out))
}

/// The known word that may have been meant, or how to see all of them.
fn hint(word: &str) -> String {
    let known = words::known();
    let wanted = words::plain(word);
    let far = |name: &str| osa_distance(&words::plain(name), &wanted);
    let near = known
        .iter()
        .flat_map(|(_, names)| names)
        .min_by_key(|name| far(name));
    // One letter of four may be wrong. A part of a word may be meant for all of it.
    let within = || {
        let names = known.iter().flat_map(|(_, names)| names);
        let mut names =
            names.filter(|name| wanted.len() >= 3 && words::plain(name).contains(&wanted));
        names.next()
    };
    match near
        .filter(|name| 4 * far(name) <= name.len())
        .or_else(within)
    {
        Some(near) => format!("`ncclscope explain {near}`"),
        None => {
            "`ncclscope explain` lists the words that it knows, and there are pairs like RING_LL"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_nearly_right_is_named() {
        for (written, meant) in [
            ("waht-if", "what-if"),
            ("what if repaly", "what-if replay"),
            ("load balanec", "load balance"),
            ("straglers", "straggler"),
            ("serialization", "serialisation"),
        ] {
            assert_eq!(hint(written), format!("`ncclscope explain {meant}`"));
        }
        assert!(hint("xyzzy").contains("lists the words"));
    }
}
