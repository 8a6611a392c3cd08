//! `ncclscope diff`: two runs side by side.

mod logs;

use crate::report::{open, print, replace};
use analyze::diff::{Criterion, Run};
use clap::builder::{PathBufValueParser, TypedValueParser};
use render::picture::Picture;
use render::timeline::Timeline;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::Capture;

/// Compare two runs: what became slower or faster, what changed around it, what appeared or vanished
///
///   ncclscope diff before after
///   ncclscope diff before after --fail-on slower=5% --fail-on missing
///   ncclscope diff old=run-1 new=run-2 old=run-3 new=run-4
///   ncclscope diff old.txt new.txt --ceiling 450GB/s      # logs of nccl-tests
///
/// Exit status: 0 nothing that --fail-on asks for is the case, 1 something is, 2 it can't be told, or
/// wrong usage.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture of the first run, which the other is measured by; or a log of nccl-tests, if both are
    #[arg(value_parser = PathBufValueParser::new().map(named))]
    a: Named,
    /// Capture of the second run
    #[arg(value_parser = PathBufValueParser::new().map(named))]
    b: Named,
    /// More captures: one column for each variant, and repeats of one variant together. NAME=DIR says of
    /// which variant a run is; without names, runs with the same command, software and settings are repeats
    #[arg(value_parser = PathBufValueParser::new().map(named))]
    more: Vec<Named>,
    /// Exit with 1 if slower=N% (a step, or the run if it has no steps, takes longer by more than that,
    /// beyond noise), nccl-slower=N% (the same of a kind of NCCL call, or of all together), missing (a kind
    /// of A is not in B), environment (software, variables, topology or recording differ), algorithm
    /// (algorithm, protocol or channels differ), incomplete (a capture lacks calls); may be given several
    /// times
    #[arg(long, value_name = "WHAT")]
    fail_on: Vec<Criterion>,
    /// Print JSON (ncclscope.diff/1, or ncclscope.variants/1 of more than two captures) instead of text
    #[arg(long)]
    json: bool,
    /// Write one HTML file, which needs nothing else; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "all"])]
    html: Option<PathBuf>,
    /// Print Markdown, for a pull request or a chat
    #[arg(long, conflicts_with_all = ["json", "all", "html"])]
    markdown: bool,
    /// Of two logs of nccl-tests: print how much each reaches of this rate (450GB/s), of another table
    /// of nccl-tests or `ncclscope bench --json`, or of NCCL's graphs or topology
    /// (NCCL_GRAPH_DUMP_FILE, NCCL_TOPO_DUMP_FILE); may be given several times
    #[arg(long, value_name = "RATE|FILE")]
    ceiling: Vec<String>,
    /// Print every row instead of the first of each table
    #[arg(long, conflicts_with = "json")]
    all: bool,
    #[command(flatten)]
    look: crate::look::Look,
    #[command(flatten)]
    part: crate::part::Part,
}

/// A capture, and of which variant it is a run if the user says so.
#[derive(Clone)]
struct Named {
    variant: Option<String>,
    path: PathBuf,
}

/// `NAME=DIR`, or a path, which may have a `=` in it.
fn named(path: PathBuf) -> Named {
    let parts = path.to_str().and_then(|text| text.split_once('='));
    match parts.filter(|(name, _)| !name.is_empty() && !name.contains('/') && !path.exists()) {
        Some((name, folder)) => Named {
            variant: Some(name.to_owned()),
            path: folder.into(),
        },
        None => Named {
            variant: None,
            path,
        },
    }
}

/// Prints the diff; the exit status is the verdict's.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    if logs::is_log(&args.a.path) || logs::is_log(&args.b.path) {
        return logs::main(&args);
    }
    anyhow::ensure!(
        args.ceiling.is_empty(),
        "--ceiling is for two logs of nccl-tests\n  hint: `ncclscope report --ceiling` takes a capture"
    );
    // One capture in memory at a time.
    let read = |of: &Named| {
        let mut capture = open(&of.path)?;
        args.part.keep(&mut capture)?;
        anyhow::Ok(capture)
    };
    let run = |of: &Named| {
        let run = read(of).map(|capture| Run::of(&capture))?;
        Ok(run.of_variant(of.variant.clone()))
    };
    if !args.more.is_empty() {
        return several(&args, run);
    }
    let both = |of: &Named, name: &str| {
        let capture = read(of)?;
        let picture = args.html.as_ref().map(|_| picture(&capture, name));
        anyhow::Ok((Run::of(&capture), picture.unwrap_or_default()))
    };
    let ((a, of_a), (b, of_b)) = (both(&args.a, "a")?, both(&args.b, "b")?);
    let diff = analyze::diff::diff(&a, &b, &args.fail_on);
    match &args.html {
        Some(file) => {
            let mut page = Vec::new();
            render::diff_html::write(&diff, &[of_a, of_b], &mut page)?;
            to_file(file, &page, &render::findings::changed(&diff.changed))?;
        }
        None => {
            print(|out| match (args.json, args.markdown) {
                (true, _) => render::diff_json::write(&diff, out),
                (_, true) => render::diff_html::write_markdown(&diff, out),
                _ => render::diff_text::write(&diff, args.all, args.look.of_stdout(), out),
            })?;
        }
    }
    Ok(ExitCode::from(diff.verdict.exit_status))
}

/// The first picture of a run, for a page that has several.
fn picture(capture: &Capture, name: &str) -> String {
    let report = analyze::report(capture);
    let timeline = Timeline::trimmed(capture, report.clocks.as_ref());
    Picture::of(&report, Some(&timeline)).section(name)
}

/// More than two runs.
fn several(args: &Args, run: impl Fn(&Named) -> anyhow::Result<Run>) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        args.fail_on.is_empty(),
        "--fail-on judges two captures, and there are {}\n  hint: compare them two by two",
        2 + args.more.len()
    );
    anyhow::ensure!(
        !args.markdown,
        "--markdown compares two captures, and there are {}\n  hint: compare them two by two",
        2 + args.more.len()
    );
    let captures = [&args.a, &args.b].into_iter().chain(&args.more);
    let runs: Vec<Run> = captures.map(run).collect::<Result<_, _>>()?;
    // A copy is no repeat: it would make chance look like a difference.
    for (index, run) in runs.iter().enumerate() {
        if let Some(known) = runs[..index]
            .iter()
            .find(|known| known.is_same_recording(run))
        {
            anyhow::bail!(
                "`{}` and `{}` are the same recording\n  hint: name each capture once",
                known.capture(),
                run.capture()
            );
        }
    }
    let variants = analyze::diff::side_by_side(&runs);
    if let Some(file) = &args.html {
        let mut page = Vec::new();
        render::diff_html::write_variants(&variants, &mut page)?;
        to_file(file, &page, &render::variants::summary(&variants))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(|out| {
        if args.json {
            render::diff_json::write_variants(&variants, out)
        } else {
            render::diff_text::write_variants(&variants, args.all, args.look.of_stdout(), out)
        }
    })
}

/// Writes a page to `file`, and what it says to standard output; `-` is that.
fn to_file(file: &Path, page: &[u8], summary: &str) -> anyhow::Result<()> {
    if file == Path::new("-") {
        print(|out| out.write_all(page))?;
        return Ok(());
    }
    replace(file, page)?;
    tell!("The comparison is in {}", file.display());
    print(|out| writeln!(out, "{summary}"))?;
    Ok(())
}
