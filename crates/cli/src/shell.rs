//! `ncclscope completions` and `ncclscope man`: what shells and `man` know of the command.
//!
//! Rule: both are made of [`crate::help::command`], so they have every verb and option that the parser has.

use crate::help::command;
use crate::report::print;
use anyhow::{bail, Context};
use clap::Command;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the completions of a shell
///
///   ncclscope completions bash > ~/.local/share/bash-completion/completions/ncclscope
///   ncclscope completions zsh > ~/.zfunc/_ncclscope        # with ~/.zfunc in fpath, before compinit
///   ncclscope completions fish > ~/.config/fish/completions/ncclscope.fish
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints the completions.
pub fn completions(args: Completions) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "ncclscope", &mut script);
    print(|out| std::io::Write::write_all(out, &script))
}

/// Print a manual page, or write all of them
///
///   ncclscope man run | man -l -
///   ncclscope man -o ~/.local/share/man/man1
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Man {
    /// The verb to print the page of; without it the page of the command
    #[arg(conflicts_with = "output")]
    verb: Option<String>,
    /// Folder to write all pages into
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints a page, or writes all of them.
pub fn man(args: Man) -> anyhow::Result<ExitCode> {
    let mut command = command();
    if let Some(folder) = args.output {
        let writing = || format!("`{}` can't be written", folder.display());
        std::fs::create_dir_all(&folder).with_context(writing)?;
        clap_mangen::generate_to(command, &folder).with_context(writing)?;
        tell!(
            "The manual pages are in {0}; next: man -M {0}/.. ncclscope",
            folder.display()
        );
        return Ok(ExitCode::SUCCESS);
    }
    command.build();
    let shown = match &args.verb {
        None => command,
        Some(verb) => {
            let verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let Some(found) = command.find_subcommand(verb) else {
                bail!(
                    "expected a verb, found `{verb}`\n  hint: these are known: {}",
                    verbs.join(", ")
                );
            };
            found.clone().display_name(format!("ncclscope-{verb}"))
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(shown).render(&mut page)?;
    print(|out| std::io::Write::write_all(out, &page))
}
