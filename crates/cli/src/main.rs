//! The words a user types.

/// A line on standard error. Where that is full or closed the line is lost, and what is being done goes on.
macro_rules! tell {
    ($($text:tt)*) => {{
        let text = format!("{}\n", format_args!($($text)*));
        // A name in it, of a folder or of what is in a file, must not command the terminal.
        let line = tables::printable_lines(&text);
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}

use clap::{FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

mod attach;
mod attempt;
mod bench;
mod captures;
mod collect;
mod diff;
mod doctor;
mod estimate;
mod explain;
mod export;
mod hang;
mod help;
mod history;
mod hostbench;
mod http;
mod judge;
mod list;
mod look;
mod mcp;
mod measured;
mod memory;
mod merge;
mod model;
mod offsets;
mod pace;
mod part;
mod paths;
mod plugin_path;
mod progress;
mod report;
mod run;
mod serve;
mod shell;
mod startup;
mod top;
mod topo;
mod tune;
mod view;

/// Find the rank, GPU or network link that your distributed job waits for.
#[derive(Parser)]
#[command(name = "ncclscope", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Run(run::Args),
    Attach(attach::Args),
    Report(report::Args),
    List(list::Args),
    View(view::Args),
    Explain(explain::Args),
    Diff(diff::Args),
    Merge(merge::Args),
    History(history::Args),
    Doctor(doctor::Args),
    Hang(hang::Args),
    Top(top::Args),
    Serve(serve::Args),
    Startup(startup::Args),
    Paths(paths::Args),
    Memory(memory::Args),
    Topo(topo::Args),
    Export(export::Args),
    Mcp(mcp::Args),
    Model(model::Args),
    Estimate(estimate::Args),
    Tune(Box<tune::Args>),
    Judge(Box<judge::Args>),
    Collect(collect::Args),
    Bench(Box<bench::Args>),
    Hostbench(hostbench::Args),
    PluginPath(plugin_path::Args),
    Completions(shell::Completions),
    Man(shell::Man),
}

fn main() -> ExitCode {
    let matches = help::command().try_get_matches();
    let matches = matches.unwrap_or_else(|error| help::refuse(&error));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // Each verb returns its exit status; an error is 2, as for wrong usage.
    let done = match cli.verb {
        Verb::Run(args) => run::main(args),
        Verb::Attach(args) => attach::main(args),
        Verb::Report(args) => report::main(args),
        Verb::List(args) => list::main(args),
        Verb::View(args) => view::main(args),
        Verb::Explain(args) => explain::main(args),
        Verb::Diff(args) => diff::main(args),
        Verb::Merge(args) => merge::main(args),
        Verb::History(args) => history::main(args),
        Verb::Doctor(args) => doctor::main(args),
        Verb::Hang(args) => hang::main(args),
        Verb::Top(args) => top::main(args),
        Verb::Serve(args) => serve::main(args),
        Verb::Startup(args) => startup::main(args),
        Verb::Paths(args) => paths::main(args),
        Verb::Memory(args) => memory::main(args),
        Verb::Topo(args) => topo::main(args),
        Verb::Export(args) => export::main(args),
        Verb::Mcp(args) => mcp::main(args),
        Verb::Model(args) => model::main(args),
        Verb::Estimate(args) => estimate::main(args),
        Verb::Tune(args) => tune::main(*args),
        Verb::Judge(args) => judge::main(*args),
        Verb::Collect(args) => collect::main(args),
        Verb::Bench(args) => bench::main(*args),
        Verb::Hostbench(args) => hostbench::main(args),
        Verb::PluginPath(args) => plugin_path::main(args),
        Verb::Completions(args) => shell::completions(args),
        Verb::Man(args) => shell::man(args),
    };
    done.unwrap_or_else(|error| {
        tell!("error: {error:#}");
        ExitCode::from(2)
    })
}
