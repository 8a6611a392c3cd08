//! `ncclscope estimate`: what communication costs one forward pass of a model.

use crate::measured::{self, Assumed};
use crate::report::print;
use analyze::estimate::{in_graphs, measured as passes, Asked};
use analyze::models::fit;
use anyhow::bail;
use render::estimate::Answer;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say what communication costs a forward pass: measured in a serving loop, or computed for a model
///
///   ncclscope estimate --from DIR                             # a recorded loop: calls, time, exposed time
///   ncclscope estimate --layers 32 --per-layer 2 --bytes 8M --from bench.json
///   ncclscope estimate --layers 32 --per-layer 2 --bytes 8M --from 8gpus.txt --baseline 1gpu.txt
///
/// Reads captures, `ncclscope bench --json` and what nccl-tests printed. Exit status: 0 done, 1 it can't be
/// told from this file, 2 nothing can be read, or wrong usage.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// A capture, or a file of `ncclscope bench --json` or nccl-tests
    #[arg(long, value_name = "PATH")]
    from: PathBuf,
    /// Layers of the model
    #[arg(long, value_name = "N", requires_all = ["bytes"])]
    layers: Option<u64>,
    /// Calls of each layer: 2 in tensor parallelism, one after attention and one after the MLP
    #[arg(long, value_name = "N", default_value_t = 2)]
    per_layer: u64,
    /// Bytes of one call: batch × tokens × hidden size × bytes of an element
    #[arg(long, value_name = "SIZE", value_parser = measured::size, requires = "layers")]
    bytes: Option<u64>,
    /// The function that is called; of tables that name none, the function they measured [default:
    /// all_reduce, of what names its functions]
    #[arg(long, value_name = "NAME", value_parser = measured::function)]
    function: Option<String>,
    /// Over so many ranks (those of the measurements without this)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// How many ranks measured a table that does not list them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    measured_ranks: Option<u32>,
    /// Time to first token, of which communication is to be a share
    #[arg(long, value_name = "TIME", value_parser = measured::micros)]
    ttft: Option<f64>,
    /// The same measured on other GPUs, such as on one: the ratio of both times is printed
    #[arg(long, value_name = "PATH", requires = "layers")]
    baseline: Option<PathBuf>,
    /// Print JSON (ncclscope.estimate/1) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints what was measured and what is estimated.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let assumed = |nranks| Assumed {
        function: args.function.clone(),
        algorithm: None,
        nranks,
    };
    let from = measured::read(&args.from, &assumed(args.measured_ranks))?;
    let measured = from.report.as_ref().map_or(Vec::new(), passes);
    let function = args.function.clone().unwrap_or("AllReduce".to_owned());
    let asked = args.layers.zip(args.bytes).map(|(layers, bytes)| Asked {
        function: function.clone(),
        layers,
        per_layer: args.per_layer,
        bytes,
        nranks: args.ranks,
        ttft_us: args.ttft,
    });
    if asked.is_none() && from.report.is_none() {
        bail!(
            "a benchmark has no forward pass\n  hint: say what a pass calls: --layers 32 --per-layer 2 \
             --bytes 8M"
        );
    }
    // A table of one GPU often does not list it.
    let baseline = args.baseline.as_ref();
    let baseline = baseline
        .map(|path| measured::read(path, &assumed(Some(1))))
        .transpose()?;
    let baseline = baseline.map(|read| (fit(&read.rows), read.rows));
    let models = fit(&from.rows);
    let operations = from.report.as_ref().map(|report| &report.operations[..]);
    let in_graphs = in_graphs(operations.unwrap_or_default());
    let estimate = asked.as_ref().and_then(|asked| {
        let baseline = baseline
            .as_ref()
            .map(|(models, rows)| (&rows[..], &models[..]));
        asked.estimate(&from.rows, &in_graphs, &models, baseline)
    });
    let failed = match &asked {
        Some(_) => estimate.is_none(),
        None => measured.is_empty(),
    };
    let answer = Answer {
        schema: render::estimate::SCHEMA,
        source: args.from.display().to_string(),
        function,
        measured,
        asked: asked.is_some(),
        estimate,
    };
    print(|out| {
        if args.json {
            render::estimate::json(&answer, out)
        } else {
            render::estimate::text(&answer, args.look.of_stdout(), out)
        }
    })?;
    Ok(ExitCode::from(u8::from(failed)))
}
