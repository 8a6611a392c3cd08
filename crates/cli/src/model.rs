//! `ncclscope model`: what a call would cost at another size, or on more ranks.

use crate::measured::{self, Assumed};
use crate::report::print;
use analyze::models::{fit, nearest, CostModel};
use render::model::Answer;
use std::path::PathBuf;
use std::process::ExitCode;

/// Fit latency and bandwidth to what was measured, and predict other sizes and numbers of ranks
///
///   ncclscope model DIR                                        # the models, the measurements, a plot
///   ncclscope model bench.json --size 64MiB --ranks 64         # a prediction, and how far outside it is
///   ncclscope model nccl-tests.txt --algorithm tree --size 1G
///
/// Reads captures, `ncclscope bench --json` and what nccl-tests printed. Exit status: 0 done, 1 what was
/// asked for can't be predicted, 2 nothing can be read, or wrong usage.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Captures, or files of `ncclscope bench --json` or nccl-tests
    #[arg(required = true)]
    measured: Vec<PathBuf>,
    /// Only this function; of tables that name none, the function they measured
    #[arg(long, value_name = "NAME", value_parser = measured::function)]
    function: Option<String>,
    /// The algorithm of tables of benchmarks, which do not say it (ring without this): ring or tree
    #[arg(long, value_name = "NAME", value_parser = ["ring", "tree"])]
    algorithm: Option<String>,
    /// How many ranks measured a table that does not list them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    measured_ranks: Option<u32>,
    /// Predict this size; may be given several times
    #[arg(long, value_name = "SIZE", value_parser = measured::size)]
    size: Vec<u64>,
    /// Predict over so many ranks (those of the measurements without this)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..), requires = "size")]
    ranks: Option<u32>,
    /// On so many nodes (as many ranks a node as measured without this)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "ranks")]
    nodes: Option<u32>,
    /// Print JSON (ncclscope.model/1) instead of text
    #[arg(long)]
    json: bool,
    /// Print every row instead of the first of each table
    #[arg(long, conflicts_with = "json")]
    all: bool,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints models and predictions.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let assumed = Assumed {
        function: args.function.clone(),
        algorithm: args.algorithm.as_ref().map(|name| name.to_uppercase()),
        nranks: args.measured_ranks,
    };
    let rows = measured::read_all(&args.measured, &assumed)?;
    let mut models = fit(&rows);
    if let Some(function) = &args.function {
        models.retain(|model| model.of.function == *function);
    }
    let mut notes = Vec::new();
    let mut predictions = Vec::new();
    let mut functions: Vec<&str> = models
        .iter()
        .map(|model| model.of.function.as_str())
        .collect();
    functions.dedup();
    for function in &functions {
        for bytes in &args.size {
            match nearest(&models, function, *bytes, args.ranks, args.nodes) {
                Some(found) => predictions.push(found),
                None => notes.push(no_formula(&models, function)),
            }
        }
    }
    notes.dedup();
    if models.is_empty() {
        let what = args.function.as_deref().unwrap_or("any function");
        notes.push(format!(
            "No group of ranks measured {what} at three sizes: record `ncclscope bench`, or give its file."
        ));
    }
    let failed = models.is_empty() || predictions.is_empty() && !args.size.is_empty();
    let names = args.measured.iter().map(|path| path.display().to_string());
    let answer = Answer {
        schema: render::model::SCHEMA,
        sources: names.collect(),
        models,
        predictions,
        notes,
    };
    print(|out| {
        if args.json {
            render::model::json(&answer, out)
        } else {
            render::model::text(&answer, args.all, args.look.of_stdout(), out)
        }
    })?;
    Ok(ExitCode::from(u8::from(failed)))
}

fn no_formula(models: &[CostModel], function: &str) -> String {
    let of = models.iter().filter(|model| model.of.function == function);
    if let Some(model) = of.clone().find(|model| !model.line_holds) {
        return render::model::no_line(model);
    }
    let mut algorithms: Vec<&str> = of
        .filter_map(|model| model.of.algorithm.as_deref())
        .collect();
    algorithms.dedup();
    format!(
        "{function} by {} is predicted for as many ranks as measured only: there is no formula for more.",
        algorithms.join(", ")
    )
}
