//! `ncclscope report`: what was recorded, and what it says.

use crate::progress;
use anyhow::Context;
use render::picture::Picture;
use render::text::Options;
use render::timeline::Timeline;
use render::view::View;
use std::io::{BufWriter, StdoutLock, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use tables::{Capture, OpenError, ReadProgress, Source, Which};

/// Say what a capture holds: is every call there, and where did the time go?
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("picture").multiple(true))]
pub struct Args {
    /// Capture folder, the folder of one host in it, or one trace file; or files of other tools [default: the
    /// newest capture in this folder or below]
    #[arg(value_name = "DIR")]
    capture: Option<PathBuf>,
    /// Print JSON (ncclscope.report/1) instead of text
    #[arg(long)]
    json: bool,
    /// Write one HTML file with plots, which needs nothing else; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "all", "explain"])]
    html: Option<PathBuf>,
    /// Write the first picture, 1200 x 630: the answer, where the time of each rank went, and a typical step;
    /// of a job that died or hung, how far each rank came
    #[arg(long, value_name = "FILE", group = "picture")]
    #[arg(conflicts_with_all = ["json", "all", "explain", "html"])]
    svg: Option<PathBuf>,
    /// The same picture as PNG, for what shows no SVG; beside `--svg`, both are written
    #[arg(long, value_name = "FILE", group = "picture")]
    #[arg(conflicts_with_all = ["json", "all", "explain", "html"])]
    png: Option<PathBuf>,
    /// Colours of the picture
    #[arg(long, value_enum, default_value_t = Theme::Light, requires = "picture")]
    theme: Theme,
    /// Print every row instead of the first of each table
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print the GPUs' kernels by name, from kernel windows; DIR/communication-kernels.txt says which ones
    /// communicate beside NCCL, in addition to those that are known
    #[arg(long, conflicts_with_all = ["json", "html"])]
    kernels: bool,
    /// Print what the words and figures mean
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Hold each bandwidth against a ceiling: a rate (450GB/s, of a GPU's links in one direction) or a file
    /// from the same kind of machine: of `ncclscope bench --json`, nccl-tests, NCCL's graphs
    /// (NCCL_GRAPH_DUMP_FILE) or its topology (NCCL_TOPO_DUMP_FILE); may be given several times
    #[arg(long, value_name = "RATE|FILE")]
    ceiling: Vec<String>,
    #[command(flatten)]
    offsets: crate::offsets::Offsets,
    #[command(flatten)]
    look: crate::look::Look,
    #[command(flatten)]
    attempt: crate::attempt::Attempt,
    #[command(flatten)]
    part: crate::part::Part,
}

/// Colours of a picture.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Theme {
    /// Dark on white
    Light,
    /// Light on black
    Dark,
}

/// The HTML page has lanes of single calls up to so many bytes of trace files: some 30 million calls, which
/// take 6 GB of memory.
const MOST_WITH_LANES: u64 = 600 << 20;

/// Prints the report.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let path = crate::captures::named_or_newest(args.capture)?;
    let given = args.offsets.read()?;
    let is_given = given.is_some();
    let measured = bench::ceiling::read_unchecked(&args.ceiling)?;
    let ceilings = measured.iter().map(|of| of.ceiling.clone()).collect();
    let (report, capture) = progress::show("reading", |progress| {
        let (source, _held) = source(&path, progress, args.attempt.which())?;
        // Lanes and a typical step need all calls in memory.
        let has_lanes = args.html.is_some() || args.svg.is_some() || args.png.is_some();
        let has_lanes = has_lanes && progress.of.load(Relaxed) <= MOST_WITH_LANES;
        if !has_lanes && !args.part.is_given() {
            let report = analyze::report_from_against(source, given, ceilings, progress);
            return anyhow::Ok((report, None));
        }
        let mut capture = source.load(progress);
        args.part.keep(&mut capture)?;
        let report = analyze::report_against(&capture, given, ceilings);
        Ok((report, Some(capture).filter(|_| has_lanes)))
    })?;
    for of in &measured {
        bench::ceiling::check_machine(of, &report.job.gpu)?;
    }
    let timeline = capture
        .as_ref()
        .map(|capture| Timeline::trimmed(capture, report.clocks.as_ref()));
    let write_html = |out: &mut dyn Write| {
        let view = timeline
            .as_ref()
            .map(|timeline| View::new(timeline, &report));
        let view = view.filter(|view| view.calls_in_all() > 0);
        render::html::write_with(&report, view.as_ref(), &mut { out })
    };
    if is_given && report.clocks.is_none() {
        tell!("warning: offsets were given, and there are no two hosts that they could be of");
    }
    if args.svg.is_some() || args.png.is_some() {
        let theme = match args.theme {
            Theme::Light => render::picture::Theme::Light,
            Theme::Dark => render::picture::Theme::Dark,
        };
        let picture = Picture::of(&report, timeline.as_ref());
        let svg = args.svg.map(|file| (file, picture.svg(theme).into_bytes()));
        let draw = |file| Some((file, picture.png(theme)?));
        let png = args
            .png
            .map(|file| draw(file).context("drawing the picture"));
        return put_pictures(svg.into_iter().chain(png.transpose()?).collect(), &report);
    }
    if let Some(file) = args.html.as_deref().filter(|file| *file != Path::new("-")) {
        let mut page = Vec::new();
        write_html(&mut page)?;
        replace(file, &page)?;
        tell!("The report is in {}", file.display());
        return print(|out| writeln!(out, "{}", render::verdict::sentence(&report)));
    }
    let options = Options {
        all: args.all,
        explain: args.explain,
        kernels: args.kernels,
        look: args.look.of_stdout(),
    };
    print(|out| {
        if args.json {
            render::report_json::write(&report, out)
        } else if args.html.is_some() {
            write_html(out)
        } else {
            render::text::write(&report, options, out)
        }
    })
}

/// Writes pictures into their files. If one goes to standard output, nothing else does.
fn put_pictures(
    pictures: Vec<(PathBuf, Vec<u8>)>,
    report: &analyze::Report,
) -> anyhow::Result<ExitCode> {
    let is_stdout = |file: &Path| file == Path::new("-");
    let (out, files): (Vec<_>, Vec<_>) = pictures.iter().partition(|(file, _)| is_stdout(file));
    if out.len() > 1 {
        anyhow::bail!(
            "two pictures can't both go to standard output\n  hint: give one of them a file"
        );
    }
    for (file, bytes) in files {
        replace(file, bytes)?;
        tell!("The picture is in {}", file.display());
    }
    match out.first() {
        Some((_, bytes)) => print(|out| out.write_all(bytes)),
        None => print(|out| writeln!(out, "{}", render::verdict::sentence(report))),
    }
}

/// Puts `bytes` in the place of `path`, so that a reader sees the old file or the new one, never a part. What
/// is there and is no file, such as a pipe, is written to.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    replace_with(path, |out| {
        out.write_all(bytes)
            .map_err(|error| unwritable(path, &error))
    })
}

/// The same with what `write` writes. If it fails, the old file stays.
pub(crate) fn replace_with<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let failed = |error: std::io::Error| unwritable(path, &error);
    // A link stays a link.
    let target = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if target.metadata().is_ok_and(|there| !there.is_file()) {
        let mut there = std::fs::OpenOptions::new()
            .write(true)
            .open(target)
            .map_err(failed)?;
        return write(&mut there);
    }
    let folder = target.parent().filter(|folder| *folder != Path::new(""));
    let mut file = tempfile::Builder::new()
        .prefix(".ncclscope-")
        // As any new file: the process's mask takes away what it must not allow.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    let written = write(file.as_file_mut())?;
    file.persist(target).map_err(|e| failed(e.error))?;
    Ok(written)
}

/// The error of a file that can't be written, with what to do.
pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    // The kind: the error itself may name a temporary file.
    let why = match error.kind() {
        std::io::ErrorKind::NotFound => "its folder is not there".to_owned(),
        kind => kind.to_string(),
    };
    anyhow::anyhow!(
        "`{}` can't be written: {why}\n  hint: name a file in a folder that is there and can be written",
        path.display(),
    )
}

/// Opens a capture with all its calls, of the last attempt if the job was started again; an error says what
/// to do.
pub(crate) fn open(path: &Path) -> anyhow::Result<Capture> {
    let capture = open_attempt(path, Which::Last)?;
    crate::attempt::tell(&capture);
    Ok(capture)
}

/// As [`open`], of this attempt; says nothing.
pub(crate) fn open_attempt(path: &Path, which: Which) -> anyhow::Result<Capture> {
    progress::show("reading", |progress| {
        let (source, _held) = source(path, progress, which)?;
        Ok(source.load(progress))
    })
}

/// Opens this attempt of a capture, or what another tool wrote, but for its calls; an error says what to do.
pub(crate) fn source(
    path: &Path,
    progress: &ReadProgress,
    which: Which,
) -> anyhow::Result<(Source, convert::Held)> {
    convert::open(path, progress, which).map_err(|error| match error {
        convert::Error::Open(error) => hinted(error),
        other => anyhow::anyhow!("{other}\n  hint: {}", other.hint()),
    })
}

pub(crate) fn hinted(error: OpenError) -> anyhow::Error {
    anyhow::anyhow!("{error}\n  hint: {}", error.hint())
}

/// Writes to stdout and gives the exit status. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(
    write: impl FnOnce(&mut BufWriter<StdoutLock>) -> std::io::Result<()>,
) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => written
            .map(|()| ExitCode::SUCCESS)
            .context("writing the output"),
    }
}
