//! The page of `ncclscope --help`: all verbs in groups, each with an example.
//!
//! [`command`] is clap's command with that page, and with the example at the end of each verb's own help.
//! Completions and manual pages are made of the same command.
//!
//! Rule: every verb is in [`GROUPS`] once, and every example is one that the parser takes. Tests hold both.

use clap::error::ErrorKind;
use clap::{Command, CommandFactory};
use std::io::Write;

/// Groups of verbs: each verb in a few words, with an example.
const GROUPS: [(&str, &[[&str; 3]]); 4] = [
    ("Record a job", &[
        ["run", "run a program and record its NCCL calls",
            "ncclscope run -- torchrun --nproc-per-node 8 train.py"],
        ["attach", "record NCCL calls of processes that already run, from outside",
            "sudo ncclscope attach 4711 --for 30s -o DIR"],
        ["doctor", "what can be recorded here; with DIR: why is it empty?", "ncclscope doctor"],
        ["collect", "bring what dead processes left on this node into the capture",
            "srun --ntasks=$SLURM_NNODES --ntasks-per-node=1 ncclscope collect DIR"],
        ["plugin-path", "where the plugin is, for jobs that set the environment themselves",
            "NCCL_PROFILER_PLUGIN=$(ncclscope plugin-path) NCCLSCOPE_OUT=DIR srun python train.py"],
    ]),
    ("Read a capture", &[
        ["report", "what communication costs the job, which rank is late, and what to do",
            "ncclscope report DIR"],
        ["list", "captures below a folder, the newest first, each with its verdict", "ncclscope list runs"],
        ["hang", "does it hang, which rank is missing, which transfer is stuck", "ncclscope hang DIR"],
        ["top", "watch a running job: which rank it waits for, what is in flight", "ncclscope top DIR"],
        ["serve", "metrics of a running job, for Prometheus and Grafana", "ncclscope serve DIR"],
        ["startup", "what took long before the first call; also from NCCL's own output",
            "ncclscope startup DIR"],
        ["paths", "which way NCCL goes between ranks, and why not the fast one",
            "ncclscope paths slurm-1234.out"],
        ["memory", "what each communicator takes of the GPU's memory, and what more would take",
            "ncclscope memory DIR"],
        ["topo", "links between GPUs and network cards: what costs bandwidth, what differs",
            "ncclscope topo DIR"],
        ["diff", "what became slower, and what changed around it; exit status for CI",
            "ncclscope diff before after --fail-on slower=5%"],
        ["history", "over many runs, which rank, host, GPU or link was to blame again and again",
            "ncclscope history runs/*"],
        ["view", "lanes of ranks over time, in a browser", "ncclscope view DIR"],
        ["export", "a capture for Perfetto, Chrome, Parquet or JSON lines",
            "ncclscope export DIR --to perfetto -o job.pftrace"],
        ["merge", "a trace of torch.profiler or nsys with NCCL's calls and waits beside it",
            "ncclscope merge DIR trace.json.gz -o merged.json.gz"],
        ["mcp", "let an agent read captures (Model Context Protocol)", "ncclscope mcp runs"],
        ["explain", "what a word of a report, an algorithm or a protocol means", "ncclscope explain RING_LL"],
    ]),
    ("Measure", &[
        ["bench", "how fast NCCL is here, call by call", "ncclscope bench all_reduce -b 1K -e 1G -f 4"],
        ["hostbench", "what this host's clocks, sockets, memory and launches cost",
            "ncclscope hostbench diff a.json b.json"],
        ["model", "what a call would cost at another size, or on more ranks",
            "ncclscope model bench.json --size 64MiB --ranks 64"],
        ["estimate", "what communication costs one forward pass of a model",
            "ncclscope estimate --layers 32 --per-layer 2 --bytes 8M --from bench.json"],
        ["tune", "which NCCL setting makes your job faster, proved over rounds of runs",
            "ncclscope tune --try NCCL_ALGO=Ring,Tree --rounds 5 -- torchrun train.py"],
        ["judge", "is a profiler complete, right and cheap?",
            "ncclscope judge --work bench -- all_reduce -b 1K"],
    ]),
    ("Set up your shell", &[
        ["completions", "completions for bash, zsh, fish and others",
            "ncclscope completions bash > ~/.local/share/bash-completion/completions/ncclscope"],
        ["man", "manual pages", "ncclscope man -o ~/.local/share/man/man1"],
    ]),
];

const TEMPLATE: &str = "{about}

{usage-heading} {usage}

GROUPSOptions:
{options}

`ncclscope VERB --help` says more. The manuals are in docs/.
";

/// The command as it is parsed and shown.
pub fn command() -> Command {
    let mut command = crate::Cli::command();
    for [verb, _, example] in GROUPS.iter().flat_map(|(_, verbs)| *verbs) {
        command = command.mut_subcommand(verb, |verb| {
            let paragraphs = verb.get_long_about().map(|text| flowing(&text.to_string()));
            let verb = match paragraphs {
                Some(paragraphs) => verb.long_about(paragraphs),
                None => verb,
            };
            with_example(verb, example)
        });
    }
    let template = TEMPLATE.replace("GROUPS", &groups());
    command
        .help_template(template)
        .subcommand_value_name("VERB")
}

/// The text with one line for each paragraph, so that it can be broken at any width. Lines that begin with a
/// blank stay as they are.
fn flowing(text: &str) -> String {
    let mut flowing = String::new();
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with([' ', '-']);
    let mut before = "";
    for line in text.lines() {
        if !flowing.is_empty() {
            let joined = is_prose(before) && is_prose(line);
            flowing.push(if joined { ' ' } else { '\n' });
        }
        flowing += line;
        before = line;
    }
    flowing
}

/// The verb with its example, if its description has none.
fn with_example(verb: Command, example: &str) -> Command {
    let has_one = |text: &clap::builder::StyledStr| text.to_string().contains("\n  ncclscope ");
    if verb.get_long_about().is_some_and(has_one) {
        return verb;
    }
    verb.after_help(format!("Example:\n  {example}"))
}

/// The groups, as they stand on the page.
fn groups() -> String {
    let mut page = String::new();
    for (title, verbs) in GROUPS {
        page += &format!("{title}:\n");
        for [verb, words, example] in verbs {
            page += &format!("  {verb:<12} {words}\n{:15}{example}\n", "");
        }
        page.push('\n');
    }
    page
}

/// Says what is wrong with the command line, and which help has the right one. Help that was asked for is
/// printed.
pub fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        let text = if crate::look::is_coloured(&std::io::stdout()) {
            error.render().ansi().to_string()
        } else {
            error.render().to_string()
        };
        // Between the paragraphs of an option, clap prints as many blanks as it is indented.
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stdout(), "{}", lines.join("\n"));
        std::process::exit(error.exit_code());
    }
    let verb = std::env::args().nth(1).unwrap_or_default();
    let is_verb = |(_, verbs): &(&str, &[[&str; 3]])| verbs.iter().any(|[name, ..]| *name == verb);
    let command = if GROUPS.iter().any(is_verb) {
        format!("ncclscope {verb} --help")
    } else {
        "ncclscope --help".to_owned()
    };
    // clap repeats what it was given, which may be a name from a shell's pattern.
    let plain = error.render().to_string();
    let is_clean = tables::printable_lines(&plain) == plain;
    let coloured = is_clean && crate::look::is_coloured(&std::io::stderr());
    let text = if coloured {
        error.render().ansi().to_string()
    } else {
        plain
    };
    // The last line of an error is: For more information, try '--help'. Without arguments, it is a page.
    let is_page = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let text = match text.rsplit_once("--help") {
        Some((before, after)) if !is_page => format!("{before}{command}{after}"),
        _ => text,
    };
    if coloured {
        let text = format!("{}\n", text.trim_end());
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    } else {
        tell!("{}", text.trim_end())
    }
    std::process::exit(error.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_flow_and_commands_stay() {
        let text = "What it does\n\nFirst half,\nsecond half:\n\n  ncclscope a\n  ncclscope b\n\nEnd\nof it.";
        let flows = "What it does\n\nFirst half, second half:\n\n  ncclscope a\n  ncclscope b\n\nEnd of it.";
        assert_eq!(flowing(text), flows);
    }

    fn listed() -> Vec<(&'static str, &'static str)> {
        let verbs = GROUPS.iter().flat_map(|(_, verbs)| *verbs);
        verbs.map(|[verb, _, example]| (*verb, *example)).collect()
    }

    #[test]
    fn every_verb_is_in_one_group() {
        let mut names: Vec<&str> = listed().iter().map(|(verb, _)| *verb).collect();
        let command = crate::Cli::command();
        let mut verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        names.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(names, verbs);
    }

    #[test]
    fn every_example_is_taken_by_the_parser() {
        for (verb, example) in listed() {
            let words: Vec<&str> = example.split(' ').collect();
            let ours = words.iter().position(|word| word.ends_with("ncclscope"));
            let line = &words[ours.expect("the command") + 1..];
            // What the shell takes for itself.
            let end = line
                .iter()
                .position(|word| *word == ">" || word.ends_with(')'));
            let line: Vec<&str> = line[..end.map_or(line.len(), |end| end.max(1))]
                .iter()
                .map(|word| word.trim_end_matches(')'))
                .collect();
            assert_eq!(line[0], verb);
            let parsed = command().try_get_matches_from([&["ncclscope"][..], &line].concat());
            assert!(parsed.is_ok(), "{example}: {parsed:?}");
        }
    }

    #[test]
    fn every_verb_s_help_has_an_example() {
        for (verb, _) in listed() {
            let mut command = command();
            command.build();
            let help = command
                .find_subcommand_mut(verb)
                .expect("a verb")
                .render_long_help();
            let help = help.to_string();
            assert!(
                help.contains("\n  ncclscope ") || help.contains("Example:\n  "),
                "{verb}: {help}"
            );
        }
    }

    #[test]
    fn the_page_shows_verbs_in_groups_with_examples() {
        let page = command().render_help().to_string();
        for (title, verbs) in GROUPS {
            assert!(page.contains(&format!("\n{title}:\n")), "{page}");
            assert!(
                verbs
                    .iter()
                    .all(|line| line.iter().all(|part| page.contains(part))),
                "{page}"
            );
        }
        assert!(page.contains("\nOptions:\n"), "{page}");
        assert!(
            page.lines().all(|line| line.chars().count() <= 110),
            "{page}"
        );
    }
}
