//! `ncclscope export`: a capture in another tool's format.

use crate::progress::{self, CountingReader};
use crate::report::{open_attempt, print, unwritable};
use analyze::clocks::Clocks;
use anyhow::{bail, Context};
use choices::{By, Format, Tables};
use flate2::write::GzEncoder;
use flate2::Compression;
use render::dataset::{self, Key};
use render::events::Events;
use render::left_out;
use render::table::{self, Rows, Table};
use render::timeline::Timeline;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::Capture;

mod choices;
mod share;
mod target;

/// Write a capture in another format
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder, the folder of one host in it, or one trace file; or files of other tools
    capture: PathBuf,
    /// Format to write. Without it, the name of the file says: `.json`, `.pftrace`, `.otf2`, `.cubex`,
    /// `.parquet`, `.csv` or `.jsonl`
    #[arg(long, value_enum)]
    to: Option<Format>,
    /// Table to write, of parquet, csv and jsonl
    #[arg(long, value_enum)]
    table: Option<Tables>,
    /// Write Parquet as a data set, in folders by these columns, the first one outermost: `--partition
    /// host,day` writes `host=NAME/day=2026-11-27/part-0.parquet`. Calls are in folders by communicator
    /// without it
    #[arg(long, value_enum, value_delimiter = ',', value_name = "COLUMN,...")]
    partition: Vec<By>,
    /// Draw every event that NCCL told the profiler of, in place of calls; of perfetto and chrome. Needs a
    /// capture made with `--mode callbacks`
    #[arg(long)]
    events: bool,
    /// Write a capture with stand-ins for the names of hosts, users, paths, programs, functions and threads,
    /// and for addresses and settings. Times and sizes stay, so `report` finds the same. With `--steps`,
    /// `--last` or `--phase`, only that part of the run
    #[arg(long, conflicts_with_all =
        ["to", "table", "partition", "events", "offsets", "attempt"])]
    anonymous: bool,
    /// File to write to; standard output without it, or as `-`. Parquet writes one file if the name ends in
    /// `.parquet`, else a folder. Chrome writes one file per rank into a folder
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the file that is there, or, of a folder, what an earlier export wrote
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    offsets: crate::offsets::Offsets,
    #[command(flatten)]
    attempt: crate::attempt::Attempt,
    #[command(flatten)]
    part: crate::part::Part,
}

/// Writes the export.
pub fn main(mut args: Args) -> anyhow::Result<ExitCode> {
    args.output = args.output.filter(|path| path != Path::new("-"));
    if args.anonymous {
        return share::main(
            &args.capture,
            &args.part,
            args.output.as_deref(),
            args.force,
        );
    }
    let given = args.offsets.read()?;
    // A folder of all tables has no name that says a format.
    let is_all = matches!(args.table, Some(Tables::All));
    let format = match args.output.as_deref() {
        output if is_all && args.to.is_none() => {
            output.and_then(Format::of_name).unwrap_or(Format::Parquet)
        }
        output => Format::of(args.to, output)?,
    };
    let is_line = matches!(format, Format::Chrome | Format::Perfetto | Format::Otf2);
    if given.is_some() && !is_line {
        bail!(
            "expected `--offsets` with a time line, found it with a table of times as they were recorded\
             \n  hint: `--to perfetto` and `--to chrome` move the times of all hosts onto one clock"
        );
    }
    if is_line && args.table.is_some() {
        bail!(
            "expected `--table` with `--to parquet`, `csv` or `jsonl`, found it with a time line\n  \
             hint: a time line has calls and kernels"
        );
    }
    check_partition(&args, format)?;
    if args.events && matches!(format, Format::Otf2 | Format::Cube) {
        bail!("expected `--events` with `--to perfetto`, `chrome` or `jsonl`, found it with `{format}`");
    }
    if args.table.is_some() && format == Format::Cube {
        bail!("expected `--table` with `--to parquet`, `csv` or `jsonl`, found it with a profile");
    }
    if args.events && matches!(format, Format::Parquet | Format::Csv) {
        bail!(
            "expected `--events` with `--to perfetto`, `chrome` or `jsonl`, found it with a table\
             \n  hint: `--table events` is the table of events"
        );
    }
    if args.events && args.table.is_some() {
        bail!("expected `--events` or `--table`, found both");
    }
    if let (Format::Otf2, Some(path)) = (format, &args.output) {
        target::check_archive(&target::anchor(path), args.force)?;
    } else if let Some(path) = &args.output {
        target::check(path, &args.capture, args.force)?;
    }
    let mut capture = open_attempt(&args.capture, args.attempt.which())?;
    crate::attempt::tell(&capture);
    args.part.keep(&mut capture)?;
    if args.events {
        has_callbacks(&capture)?;
    }
    for problem in &capture.problems {
        tell!("warning: {problem}");
    }
    match format {
        Format::Jsonl if args.table.is_none() => {
            has_callbacks(&capture)?;
            tell_callbacks(&capture);
            to_file(&args, format, "callbacks", |mut out| {
                render::jsonl::write(&capture, &mut out)
            })
        }
        Format::Parquet | Format::Csv | Format::Jsonl => {
            let table = args.table.unwrap_or(Tables::One(Table::Calls));
            table_or_all(&args, format, table, &capture)
        }
        Format::Chrome if args.events => {
            let clocks = analyze::clocks_of(&capture, given);
            let events = drawn(&capture, clocks.as_ref())?;
            if let Some(folder) = args
                .output
                .as_deref()
                .filter(|path| target::is_folder(path))
            {
                bail!(
                    "`{}`: events of all ranks go into one file, because links join them\
                     \n  hint: name a file with `-o FILE`",
                    folder.display()
                );
            }
            let plain = is_plain(args.output.as_deref());
            to_file(&args, format, "events", |mut out| {
                if plain {
                    render::chrome::write_events(&events, &mut out)
                } else {
                    render::chrome::write_events_gzip(&events, out)
                }
            })
        }
        Format::Perfetto if args.events => {
            let clocks = analyze::clocks_of(&capture, given);
            let events = drawn(&capture, clocks.as_ref())?;
            to_file(&args, format, "events", |out| {
                render::perfetto::write_events_gzip(&events, out)
            })
        }
        Format::Chrome => {
            has_calls(&capture)?;
            let report = analyze::report_with(&capture, given);
            let clocks = report.clocks.as_ref();
            let timeline = checked(Timeline::new(&capture, clocks), &report)?;
            if let Some(folder) = args
                .output
                .as_deref()
                .filter(|path| target::is_folder(path))
            {
                return chrome_by_rank(&timeline, folder).with_context(|| unwritten(folder));
            }
            let plain = is_plain(args.output.as_deref());
            to_file(&args, format, "slices", |out| {
                chrome(&timeline, Some(&report), None, plain, out)
            })
        }
        Format::Otf2 => {
            has_calls(&capture)?;
            let report = analyze::report_with(&capture, given);
            otf2(&args, &capture, &report)
        }
        Format::Cube => {
            has_calls(&capture)?;
            let report = analyze::report(&capture);
            for said in left_out::calls(&report) {
                tell!("warning: {said}");
            }
            let profile = render::cube::Profile::of(&capture, &report);
            for said in profile.left_out() {
                tell!("warning: {said}");
            }
            to_file(&args, format, "calls", |out| {
                profile.write(out).map(|written| written.calls)
            })
        }
        Format::Perfetto => {
            has_calls(&capture)?;
            let report = analyze::report_with(&capture, given);
            let clocks = report.clocks.as_ref();
            let timeline = checked(Timeline::trimmed(&capture, clocks), &report)?;
            to_file(&args, format, "slices", |out| {
                render::perfetto::write_gzip(&timeline, Some(&report), out)
            })
        }
    }
}

/// Fails if `--partition` does not fit the other options.
fn check_partition(args: &Args, format: Format) -> anyhow::Result<()> {
    if args.partition.is_empty() {
        return Ok(());
    }
    if format != Format::Parquet {
        bail!("expected `--partition` with `--to parquet`, found it with `{format}`");
    }
    if let Some(path) = args.output.as_ref().filter(|path| is_one_file(path)) {
        bail!(
            "expected a folder with `--partition`, found `{}`, which is one file\
             \n  hint: name a folder with `-o FOLDER`",
            path.display()
        );
    }
    let keys = keys(&args.partition);
    let table = match args.table {
        Some(Tables::One(table)) => table,
        // Each table is divided by those columns that it has. Calls have all of them.
        None | Some(Tables::All) => Table::Calls,
    };
    dataset::check(table, &keys).map_err(|said| anyhow::anyhow!("`--partition`: {said}"))
}

fn keys(by: &[By]) -> Vec<Key> {
    by.iter().map(|by| by.key()).collect()
}

/// Whether Parquet is to be one file, by its name.
fn is_one_file(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "parquet") && !path.is_dir()
}

/// Writes an OTF2 archive: an anchor file, definitions, and a folder with a file for each location.
fn otf2(args: &Args, capture: &Capture, report: &analyze::Report) -> anyhow::Result<ExitCode> {
    let Some(path) = &args.output else {
        bail!(
            "an OTF2 archive can't go to standard output\
             \n  hint: name its file with `-o FILE.otf2`, or a folder with `-o FOLDER`"
        );
    };
    let anchor = target::anchor(path);
    let timeline = checked(Timeline::trimmed(capture, report.clocks.as_ref()), report)?;
    let written = progress::show("writing", |_| {
        render::otf2::write(&timeline, report, &anchor)
    });
    let written = written.map_err(|error| unwritable(&anchor, &error))?;
    tell!(
        "{} regions on hosts, {} on GPUs and {} kernels written to {} ({} GPU locations)",
        written.on_host,
        written.on_gpu,
        written.kernels,
        anchor.display(),
        written.gpu_locations
    );
    Ok(ExitCode::SUCCESS)
}

/// Writes one table, or all that have rows.
fn table_or_all(
    args: &Args,
    format: Format,
    table: Tables,
    capture: &Capture,
) -> anyhow::Result<ExitCode> {
    let rows = Rows::new(capture);
    let Tables::One(table) = table else {
        return all_tables(args, format, capture, &rows);
    };
    match table {
        Table::Calls => {
            has_calls(capture)?;
            for said in left_out::calls(rows.report()) {
                tell!("warning: {said}");
            }
        }
        table => {
            if table == Table::Events {
                tell_callbacks(capture);
            }
            if let Some(why) = rows.why_empty(table) {
                tell!("warning: the table of {} is empty: {why}", table.name());
            }
        }
    }
    match (format, &args.output) {
        (Format::Parquet, None) => bail!(
            "Parquet can't go to standard output\
             \n  hint: name a folder with `-o FOLDER`, or a file with `-o FILE.parquet`"
        ),
        (Format::Parquet, Some(path)) if is_one_file(path) => {
            let written = parquet_file(&rows, table, path)?;
            tell!("{written} {} written to {}", table.title(), path.display());
            Ok(ExitCode::SUCCESS)
        }
        (Format::Parquet, Some(folder)) => {
            let mut keys = keys(&args.partition);
            if keys.is_empty() && table == Table::Calls {
                keys.push(Key::Communicator);
            }
            let written =
                progress::show("writing", |_| dataset::write(&rows, table, &keys, folder));
            let written = written.with_context(|| unwritten(folder))?;
            tell!(
                "{written} {} written to {}",
                table.title(),
                folder.display()
            );
            Ok(ExitCode::SUCCESS)
        }
        (Format::Csv, _) => to_file(args, format, table.title(), |out| {
            table::csv(&rows, table, out)
        }),
        _ => to_file(args, format, table.title(), |out| {
            table::jsonl(&rows, table, out)
        }),
    }
}

/// A file for each table that has rows.
fn all_tables(
    args: &Args,
    format: Format,
    capture: &Capture,
    rows: &Rows<'_>,
) -> anyhow::Result<ExitCode> {
    let Some(folder) = &args.output else {
        bail!("all tables can't go to standard output\n  hint: name a folder with `-o FOLDER`");
    };
    for said in left_out::calls(rows.report()) {
        tell!("warning: {said}");
    }
    std::fs::create_dir_all(folder).with_context(|| unwritten(folder))?;
    for table in Table::ALL {
        if let Some(why) = rows.why_empty(table) {
            tell!("no file for the table of {}: {why}", table.name());
            continue;
        }
        if table == Table::Events {
            tell_callbacks(capture);
        }
        let keys = keys(&args.partition).into_iter();
        let keys: Vec<Key> = keys.filter(|key| key.is_of(table)).collect();
        let path = folder.join(if keys.is_empty() {
            format!("{}.{}", table.name(), format.extension())
        } else {
            table.name().to_owned()
        });
        let text = || -> std::io::Result<u64> {
            let mut out = BufWriter::new(File::create(&path)?);
            let written = match format {
                Format::Csv => table::csv(rows, table, &mut out)?,
                _ => table::jsonl(rows, table, &mut out)?,
            };
            out.flush().map(|()| written)
        };
        let written = progress::show("writing", |_| match format {
            Format::Parquet if !keys.is_empty() => {
                dataset::write(rows, table, &keys, &path).with_context(|| unwritten(&path))
            }
            Format::Parquet => parquet_file(rows, table, &path),
            _ => text().map_err(|error| unwritable(&path, &error)),
        })?;
        tell!("{written} {} written to {}", table.title(), path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn parquet_file(rows: &Rows<'_>, table: Table, path: &Path) -> anyhow::Result<u64> {
    let written = File::create(path).and_then(|file| {
        let out = BufWriter::new(file);
        table::parquet(rows, table, out)
    });
    written.map_err(|error| unwritable(path, &error))
}

/// Runs `write` on the file or standard output, and says how much of `what` there was.
fn to_file(
    args: &Args,
    format: Format,
    what: &str,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<u64>,
) -> anyhow::Result<ExitCode> {
    match &args.output {
        Some(path) => {
            let file = File::create(path).map_err(|error| unwritable(path, &error))?;
            let written = progress::show("writing", |progress| {
                let bytes = &progress.done;
                let mut out = BufWriter::new(CountingReader { to: file, bytes });
                let is_packed = path.extension().is_some_and(|e| e == "gz");
                let written = match format {
                    Format::Csv | Format::Jsonl if is_packed => {
                        let mut packed = GzEncoder::new(&mut out, Compression::default());
                        let written = write(&mut packed)?;
                        packed.finish()?;
                        written
                    }
                    _ => write(&mut out)?,
                };
                out.flush().map(|()| written)
            })
            .map_err(|error| unwritable(path, &error))?;
            tell!("{written} {what} written to {}", path.display());
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let is_text = matches!(format, Format::Jsonl | Format::Csv);
            if !is_text && std::io::stdout().is_terminal() {
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

/// Says how many callbacks are not there.
fn tell_callbacks(capture: &Capture) {
    if let Some(said) = left_out::callbacks(capture) {
        tell!("warning: {said}");
    }
}

/// Every event on a time line; fails if there is nothing to draw.
fn drawn<'a>(capture: &'a Capture, clocks: Option<&Clocks>) -> anyhow::Result<Events<'a>> {
    for note in clocks.into_iter().flat_map(render::clocks::notes) {
        tell!("warning: {note}");
    }
    tell_callbacks(capture);
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
fn checked<'a>(timeline: Timeline<'a>, report: &analyze::Report) -> anyhow::Result<Timeline<'a>> {
    let capture = timeline.capture();
    for said in left_out::calls(report) {
        tell!("warning: {said}");
    }
    for note in report.clocks.iter().flat_map(render::clocks::notes) {
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
