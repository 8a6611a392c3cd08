//! `ncclscope merge`: a trace of torch.profiler or Nsight Systems with NCCL's calls and waits beside it.

use crate::progress;
use crate::report::{open, print, replace_with, source};
use anyhow::{bail, Context};
use capture::live::flag;
use convert::join::{join, Joined, Made, Unjoined};
use convert::{Kind, TraceEnd};
use flate2::write::GzEncoder;
use flate2::Compression;
use render::merge::OnTrace;
use render::timeline::Timeline;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::{Capture, Which};

/// Put NCCL's calls and waits beside the kernels and Python frames of a trace of the same run
///
///   ncclscope merge run-0412 rank0.pt.trace.json.gz -o merged.json.gz
///   ncclscope merge run-0412 traces/ -o merged/
///
/// Takes traces of torch.profiler and SQLite exports of Nsight Systems. Calls are joined by order, size and
/// time, and the error of the join is printed. A trace of another run is refused. Open the result in
/// ui.perfetto.dev or chrome://tracing.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture of the run
    capture: PathBuf,
    /// Trace of a rank, or a folder with traces
    trace: PathBuf,
    /// File to write, packed if its name ends in .gz; of a folder with traces, a folder
    #[arg(short, long, value_name = "FILE|DIR")]
    output: PathBuf,
}

/// Merges, and says how well the calls fit.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let capture = open(&args.capture)?;
    let report = analyze::report(&capture);
    let timeline = Timeline::new(&capture, report.clocks.as_ref());
    let is_folder = args.trace.is_dir();
    let mut traces = vec![args.trace.clone()];
    if is_folder {
        let entries = std::fs::read_dir(&args.trace)
            .with_context(|| format!("reading `{}`", args.trace.display()))?;
        traces = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        traces.retain(|path| is_trace(path));
        traces.sort();
        std::fs::create_dir_all(&args.output)
            .with_context(|| format!("making `{}`", args.output.display()))?;
    }
    if traces.is_empty() || !is_folder && !is_trace(&args.trace) {
        bail!(
            "`{}`: expected a trace of torch.profiler or an SQLite export of Nsight Systems, found none\
             \n  hint: `ncclscope merge run trace.json.gz -o merged.json.gz`",
            args.trace.display()
        );
    }
    let mut said = Vec::new();
    for trace in &traces {
        let to = if is_folder {
            args.output.join(name_of(trace))
        } else {
            args.output.clone()
        };
        if to
            .canonicalize()
            .is_ok_and(|to| trace.canonicalize().is_ok_and(|trace| to == trace))
        {
            bail!(
                "`{}`: the merged trace would replace the trace itself\n  hint: name another file",
                to.display()
            );
        }
        said.extend(one(&timeline, trace, &to)?);
    }
    print(|out| {
        for line in &said {
            writeln!(out, "{line}")?;
        }
        writeln!(
            out,
            "Next: open {} in ui.perfetto.dev",
            args.output.display()
        )
    })
}

fn is_trace(path: &Path) -> bool {
    path.is_file() && matches!(convert::kind(path), Some(Kind::Kineto | Kind::Nsys))
}

/// The name of the merged file of a trace.
fn name_of(trace: &Path) -> String {
    let name = trace
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let stem = [".gz", ".json", ".sqlite"]
        .iter()
        .fold(name.as_str(), |name, end| {
            name.strip_suffix(end).unwrap_or(name)
        });
    format!("{stem}.merged.json.gz")
}

/// One trace: a line for each of its processes.
fn one(timeline: &Timeline<'_>, trace: &Path, to: &Path) -> anyhow::Result<Vec<String>> {
    let of_trace = progress::show("reading", |progress| {
        let (source, _held) = source(trace, progress, Which::Last)?;
        anyhow::Ok(source.load(progress))
    })?;
    let capture = timeline.capture();
    let mut found = Vec::new();
    for process in 0..of_trace.processes.len() {
        let (own, joined) = best(capture, &of_trace, process)
            .map_err(|why| refused(why, trace, &of_trace.processes[process].title()))?;
        found.push((process, own, joined));
    }
    let end = match convert::kind(trace) {
        Some(Kind::Kineto) => None,
        _ => Some(as_chrome(&of_trace)?),
    };
    let source: &Path = end.as_ref().map_or(trace, |file| file.path());
    let TraceEnd {
        at,
        base_ns,
        is_empty,
    } = convert::trace_end(source)
        .with_context(|| format!("`{}` has no end of its events", trace.display()))?;
    let mut input = convert::unpacked(source)?;
    let merged = |out: &mut dyn Write| {
        std::io::copy(&mut input.by_ref().take(at), out)?;
        if is_empty {
            // Others follow with a comma.
            write!(
                out,
                "{{\"ph\":\"M\",\"name\":\"ncclscope\",\"pid\":0,\"args\":{{}}}}"
            )?;
        }
        let mut said = Vec::new();
        for (process, own, joined) in found {
            let on = OnTrace {
                offset_ns: joined.offset_ns,
                base_ns,
                pid: 4_000_000_000 + own as u64,
                error_ns: joined.error_ns,
            };
            let slices = render::merge::write(timeline, own, on, out)?;
            said.push(format!(
                "{} of {}: all {} collectives joined with {}, clocks {:.1} µs apart, error {:.1} µs (95 %); \
                 {slices} slices of NCCL added.",
                of_trace.processes[process].title(),
                trace.display(),
                joined.pairs,
                capture.processes[own].title(),
                joined.offset_ns as f64 / 1e3,
                joined.error_ns as f64 / 1e3,
            ));
        }
        std::io::copy(&mut input, out)?;
        anyhow::Ok(said)
    };
    replace_with(to, |file| {
        let mut file = BufWriter::new(file);
        let said = if to.extension().is_some_and(|end| end == "gz") {
            let mut packed = GzEncoder::new(&mut file, Compression::fast());
            let said = merged(&mut packed)?;
            packed.finish()?;
            said
        } else {
            merged(&mut file)?
        };
        file.flush()?;
        Ok(said)
    })
}

/// A trace that is no JSON, as JSON.
fn as_chrome(capture: &Capture) -> anyhow::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    let timeline = Timeline::new(capture, None);
    render::chrome::write(&timeline, None, &mut BufWriter::new(file.as_file_mut()))?;
    Ok(file)
}

/// The process of the capture that fits: the same rank, the same number, or the one that fits best.
fn best(capture: &Capture, trace: &Capture, process: usize) -> Result<(usize, Joined), Unjoined> {
    let of = &trace.processes[process];
    let all = || 0..capture.processes.len();
    let same_rank = |own: &usize| of.rank.is_some() && capture.processes[*own].rank == of.rank;
    let same_pid = |own: &usize| of.pid != 0 && capture.processes[*own].pid == of.pid;
    let mut candidates: Vec<usize> = all().filter(same_rank).collect();
    if candidates.is_empty() {
        candidates = all().filter(same_pid).collect();
    }
    if candidates.is_empty() {
        candidates = all().collect();
    }
    let mut refused = Unjoined::TooFew(0);
    let mut found: Option<(usize, Joined)> = None;
    for moment in [Moment::Called, Moment::Ended] {
        let made = calls(trace, process, moment);
        for own in &candidates {
            match join(&calls(capture, *own, moment), &made) {
                Ok(joined) if found.is_none_or(|(_, known)| joined.error_ns < known.error_ns) => {
                    found = Some((*own, joined));
                }
                Ok(_) => {}
                Err(Unjoined::TooFew(n)) => {
                    if let Unjoined::TooFew(known) = refused {
                        refused = Unjoined::TooFew(known.max(n));
                    }
                }
                Err(why) => refused = why,
            }
        }
    }
    found.ok_or(refused)
}

/// A moment of a call that both tools may have seen.
#[derive(Clone, Copy)]
enum Moment {
    /// The program called.
    Called,
    /// Its kernel ended. A trace without the host's activities has only this. A CUDA event may come long
    /// before its kernel begins, if others fill the GPU, so beginnings fit less well.
    Ended,
}

/// The collectives that the program called itself, in their order. Operations in pieces are left out, because
/// tools see their pieces or the whole.
fn calls(capture: &Capture, process: usize, moment: Moment) -> Vec<Made> {
    const PLAIN: [&str; 5] = [
        "AllReduce",
        "AllGather",
        "ReduceScatter",
        "Broadcast",
        "Reduce",
    ];
    let of = &capture.processes[process];
    let made = of.calls.iter().filter_map(|call| {
        let shape = &of.shapes[call.shape as usize];
        let function = capture.names.get(shape.function)?;
        let is_own = !shape.is(flag::CAPTURED) && !shape.is(flag::REPLAY);
        let at = match moment {
            Moment::Called => Some(call.api_ns).filter(|at| *at != 0),
            Moment::Ended => call.gpu.on_host().map(|(_, to)| to),
        };
        let at = at.filter(|_| is_own && PLAIN.contains(&function))?;
        Some(Made {
            function: function.to_owned(),
            bytes: capture.bytes(shape),
            at,
        })
    });
    let mut made: Vec<Made> = made.collect();
    made.sort_by_key(|call| call.at);
    made
}

fn refused(why: Unjoined, trace: &Path, title: &str) -> anyhow::Error {
    let why = match why {
        Unjoined::TooFew(n) => format!("{n} calls are too few to join"),
        Unjoined::OtherCalls => {
            "its calls fit nowhere into the capture, by order and size: it is of another run, or the capture \
             lacks calls"
                .to_owned()
        }
        Unjoined::OtherTime(ns) => format!(
            "its calls fit by order and size, and the clocks would be {:.0} s apart: it is of another run",
            ns as f64 / 1e9
        ),
        Unjoined::Unclear(error, gap) => format!(
            "its calls fit by order and size, and their times differ by {:.0} µs when calls are {:.0} µs \
             apart: it is of another run",
            error as f64 / 1e3,
            gap as f64 / 1e3
        ),
    };
    anyhow::anyhow!(
        "{title} of `{}` is not joined: {why}\n  hint: profile and record the same run: `ncclscope run -- \
         torchrun train.py` with torch.profiler in the program",
        trace.display()
    )
}
