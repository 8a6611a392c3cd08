//! `ncclscope export`: a capture in another tool's format.

use crate::progress::{self, CountingReader};
use crate::report::{open_attempt, print, unwritable};
use analyze::clocks::Clocks;
use analyze::streams::kernels;
use anyhow::{bail, Context};
use render::events::Events;
use render::samples;
use render::timeline::Timeline;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::{Capture, Which};

/// Write a capture in another format
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder, the folder of one host in it, or one trace file; or traces of torch.profiler
    capture: PathBuf,
    /// Format to write
    #[arg(long, value_enum)]
    to: Format,
    /// Table to write, of parquet and jsonl
    #[arg(long, value_enum)]
    table: Option<Table>,
    /// Draw every event that NCCL told the profiler of, in place of calls; of perfetto and chrome. Needs a
    /// capture made with `--mode callbacks`
    #[arg(long)]
    events: bool,
    /// File to write to; standard output without it, or as `-`. Parquet needs a folder, and chrome writes one
    /// file per rank into one
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    offsets: crate::offsets::Offsets,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Chrome Trace Event JSON with a slice per call; compressed with gzip unless the file's name ends in
    /// `.json`
    Chrome,
    /// The table of calls as Parquet files, one folder per communicator; or another `--table`
    Parquet,
    /// Perfetto trace with a slice per call
    Perfetto,
    /// One JSON object for each profiler callback, with every field; needs a capture made with
    /// `--mode callbacks`. Or another `--table`
    Jsonl,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Table {
    /// A row for each NCCL call of a rank; Parquet's default
    Calls,
    /// A row for each kernel, copy and fill in kernel windows
    Kernels,
    /// A row for each value that the node sampler read
    Samples,
    /// A row for each time in which a thread that the node sampler watched was off its CPU
    Switches,
    /// A row for each time in which a thread was inside of MPI
    Mpi,
}

impl Table {
    /// Of what is around the calls.
    fn sampled(self) -> Option<samples::SampleTable> {
        match self {
            Table::Samples => Some(samples::SampleTable::Samples),
            Table::Switches => Some(samples::SampleTable::Switches),
            Table::Mpi => Some(samples::SampleTable::Mpi),
            Table::Calls | Table::Kernels => None,
        }
    }
}

/// Writes the export.
pub fn main(mut args: Args) -> anyhow::Result<ExitCode> {
    args.output = args.output.filter(|path| path != Path::new("-"));
    let given = args.offsets.read()?;
    if given.is_some() && !matches!(args.to, Format::Chrome | Format::Perfetto) {
        bail!(
            "expected `--offsets` with a time line, found it with a table of times as they were recorded\
             \n  hint: `--to perfetto` and `--to chrome` move the times of all hosts onto one clock"
        );
    }
    match (args.to, args.table) {
        (Format::Chrome | Format::Perfetto, Some(_)) => bail!(
            "expected `--table` with `--to parquet` or `--to jsonl`, found it with a time line\n  \
             hint: a time line has calls and kernels"
        ),
        (Format::Jsonl, Some(Table::Calls)) => {
            bail!("the table of calls is not written as JSON lines\n  hint: `--to parquet`")
        }
        _ => {}
    }
    if args.events && matches!(args.to, Format::Parquet) {
        bail!(
            "expected `--events` with `--to perfetto`, `chrome` or `jsonl`, found it with a table of calls"
        );
    }
    if args.events && args.table.is_some() {
        bail!("expected `--events` or `--table`, found both");
    }
    let capture = open_attempt(&args.capture, Which::All)?;
    if args.events {
        has_callbacks(&capture)?;
    }
    for problem in &capture.problems {
        tell!("warning: {problem}");
    }
    if args.table == Some(Table::Kernels) {
        if let Some(why) = kernels::why_none(&capture) {
            tell!("warning: the table of kernels is empty: {why}");
        }
    }
    let sampled = args.table.and_then(Table::sampled);
    if sampled.is_some() && capture.nodes.is_empty() {
        tell!("warning: the table is empty: no node was sampled. `ncclscope run` samples nodes");
    }
    match (args.to, sampled) {
        (Format::Parquet, Some(table)) => {
            return parquet(&args, "rows", |folder| table.parquet(&capture, folder))
        }
        (Format::Jsonl, Some(table)) => {
            return to_file(&args, "rows", |mut out| table.jsonl(&capture, &mut out))
        }
        _ => {}
    }
    match args.to {
        Format::Jsonl if args.table == Some(Table::Kernels) => {
            to_file(&args, "kernels, copies and fills", |mut out| {
                render::kernels::jsonl(&capture, &mut out)
            })
        }
        Format::Jsonl => {
            has_callbacks(&capture)?;
            to_file(&args, "callbacks", |mut out| {
                render::jsonl::write(&capture, &mut out)
            })
        }
        Format::Parquet if args.table == Some(Table::Kernels) => {
            parquet(&args, "kernels, copies and fills", |folder| {
                render::kernels::parquet(&capture, folder)
            })
        }
        Format::Parquet => {
            has_calls(&capture)?;
            parquet(&args, "calls", |folder| {
                render::parquet::write(&capture, folder)
            })
        }
        Format::Chrome if args.events => {
            let clocks = analyze::clocks_of(&capture, given);
            let events = drawn(&capture, clocks.as_ref())?;
            if let Some(folder) = args.output.as_deref().filter(|path| is_folder(path)) {
                bail!(
                    "`{}`: events of all ranks go into one file, because links join them\
                     \n  hint: name a file with `-o FILE`",
                    folder.display()
                );
            }
            let plain = is_plain(args.output.as_deref());
            to_file(&args, "events", |mut out| match plain {
                true => render::chrome::write_events(&events, &mut out),
                false => render::chrome::write_events_gzip(&events, out),
            })
        }
        Format::Perfetto if args.events => {
            let clocks = analyze::clocks_of(&capture, given);
            let events = drawn(&capture, clocks.as_ref())?;
            to_file(&args, "events", |mut out| {
                render::perfetto::write_events(&events, &mut out)
            })
        }
        Format::Chrome => {
            has_calls(&capture)?;
            if let Some(folder) = args.output.as_deref().filter(|path| is_folder(path)) {
                let clocks = analyze::clocks_of(&capture, given);
                let clocks = clocks.as_ref();
                let timeline = checked(Timeline::new(&capture, clocks), clocks)?;
                return chrome_by_rank(&timeline, folder).with_context(|| unwritten(folder));
            }
            let report = analyze::report_with(&capture, given);
            let clocks = report.clocks.as_ref();
            let timeline = checked(Timeline::new(&capture, clocks), clocks)?;
            let plain = is_plain(args.output.as_deref());
            to_file(&args, "slices", |out| {
                chrome(&timeline, Some(&report), None, plain, out)
            })
        }
        Format::Perfetto => {
            has_calls(&capture)?;
            let report = analyze::report_with(&capture, given);
            let clocks = report.clocks.as_ref();
            let timeline = checked(Timeline::trimmed(&capture, clocks), clocks)?;
            to_file(&args, "slices", |mut out| {
                render::perfetto::write(&timeline, Some(&report), &mut out)
            })
        }
    }
}

/// Runs `write` on the file or standard output, and says how much of `what` there was.
fn to_file(
    args: &Args,
    what: &str,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<u64>,
) -> anyhow::Result<ExitCode> {
    match &args.output {
        Some(path) => {
            let file = File::create(path).map_err(|error| unwritable(path, &error))?;
            let written = progress::show("writing", |progress| {
                let bytes = &progress.done;
                let mut out = BufWriter::new(CountingReader { to: file, bytes });
                write(&mut out).and_then(|written| out.flush().map(|()| written))
            })
            .map_err(|error| unwritable(path, &error))?;
            tell!("{written} {what} written to {}", path.display());
            Ok(ExitCode::SUCCESS)
        }
        None => {
            if args.to != Format::Jsonl && std::io::stdout().is_terminal() {
                bail!(
                    "this format is not text and standard output is a terminal\
                    \n  hint: name a file with `-o FILE`"
                );
            }
            print(|out| write(out).map(|_| ()))
        }
    }
}

fn unwritten(folder: &Path) -> String {
    format!(
        "`{}` can't be written; name another folder with `-o FOLDER`",
        folder.display()
    )
}

/// Whether a file is to be plain JSON, by its name.
fn is_plain(output: Option<&Path>) -> bool {
    output.is_some_and(|path| path.extension().is_some_and(|e| e == "json"))
}

/// A name that ends in `/` says that a folder is meant before there is one.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Fails for a capture without a single call to write: an empty file would look as if the job had made none.
fn has_calls(capture: &Capture) -> anyhow::Result<()> {
    if capture.processes.iter().any(|p| !p.calls.is_empty()) {
        return Ok(());
    }
    let shown = capture.path.display();
    if capture.processes.iter().any(|p| !p.totals.is_empty()) {
        bail!(
            "`{shown}` holds totals only, and no single call that could be written\
             \n  hint: `ncclscope report {shown}` shows the totals; \
             NCCLSCOPE_MODE=trace records calls (this was recorded in mode {})",
            modes(capture)
        );
    }
    bail!("`{shown}` holds no call\n  hint: `ncclscope doctor {shown}` says why");
}

/// Fails for a capture without callbacks.
fn has_callbacks(capture: &Capture) -> anyhow::Result<()> {
    if capture.has_mode("callbacks") {
        return Ok(());
    }
    bail!(
        "`{}`: expected a capture with callbacks, found one of calls\
         \n  hint: `ncclscope run --mode callbacks -- COMMAND` records every callback; \
         `ncclscope report {0} --json` has what is here",
        capture.path.display()
    );
}

/// Every event on a time line; fails if there is nothing to draw.
fn drawn<'a>(capture: &'a Capture, clocks: Option<&Clocks>) -> anyhow::Result<Events<'a>> {
    for note in clocks.iter().flat_map(|clocks| &clocks.notes) {
        tell!("warning: {note}");
    }
    let events = Events::new(capture, clocks);
    if events.loose > 0 {
        tell!(
            "warning: {} callbacks belong to no event that was recorded, and are left out",
            events.loose
        );
    }
    if events.bars.is_empty() {
        bail!("`{}` holds no event", capture.path.display());
    }
    Ok(events)
}

fn modes(capture: &Capture) -> String {
    let modes = capture.processes.iter().filter_map(|p| p.fact("mode"));
    let modes: BTreeSet<&str> = modes.collect();
    modes.into_iter().collect::<Vec<_>>().join(", ")
}

/// Says what is left out of a time line; fails for one with nothing to draw.
fn checked<'a>(timeline: Timeline<'a>, clocks: Option<&Clocks>) -> anyhow::Result<Timeline<'a>> {
    let capture = timeline.capture();
    for note in clocks.iter().flat_map(|clocks| &clocks.notes) {
        tell!("warning: {note}");
    }
    if timeline.unplaced > 0 {
        tell!(
            "warning: {} calls have no time and are left out",
            timeline.unplaced
        );
    }
    let calls: usize = capture.processes.iter().map(|p| p.calls.len()).sum();
    if timeline.unplaced >= calls as u64 {
        bail!(
            "no call of `{0}` has a time, so there is nothing to draw\
             \n  hint: `ncclscope report {0}` says why",
            capture.path.display()
        );
    }
    Ok(timeline)
}

fn chrome(
    timeline: &Timeline<'_>,
    report: Option<&analyze::Report>,
    only: Option<usize>,
    plain: bool,
    mut out: &mut dyn Write,
) -> std::io::Result<u64> {
    if plain {
        render::chrome::write_with(timeline, report, only, &mut out)
    } else {
        render::chrome::write_gzip_with(timeline, report, only, out)
    }
}

/// One file per process with a common time base, as HolisticTraceAnalysis reads them.
fn chrome_by_rank(timeline: &Timeline<'_>, folder: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder)?;
    let mut slices = 0;
    let processes = timeline.capture().processes.len();
    progress::show("writing", |progress| {
        for process in 0..processes {
            let path = folder.join(format!("rank-{}.json.gz", timeline.number(process)));
            let (to, bytes) = (File::create(path)?, &progress.done);
            let mut out = BufWriter::new(CountingReader { to, bytes });
            slices += chrome(timeline, None, Some(process), false, &mut out)?;
            out.flush()?;
        }
        std::io::Result::Ok(())
    })?;
    tell!(
        "{slices} slices written to {processes} files in {}",
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn parquet<E>(
    args: &Args,
    what: &str,
    write: impl FnOnce(&Path) -> Result<u64, E>,
) -> anyhow::Result<ExitCode>
where
    Result<u64, E>: Context<u64, E>,
{
    let Some(folder) = &args.output else {
        bail!(
            "a folder of Parquet files can't go to standard output\
             \n  hint: name a folder with `-o FOLDER`"
        );
    };
    // Files of an earlier export would be read together with the new ones.
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!(
            "`{}`: expected a new or an empty folder, found one with files in it\
             \n  hint: name another one with `-o FOLDER`",
            folder.display()
        );
    }
    let written = progress::show("writing", |_| write(folder));
    let rows = written.with_context(|| unwritten(folder))?;
    tell!("{rows} {what} written to {}", folder.display());
    Ok(ExitCode::SUCCESS)
}
