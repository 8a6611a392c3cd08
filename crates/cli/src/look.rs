//! How pages look on this terminal: as wide as it is, and in colour if it is one.
//!
//! Rule: what is written to a file or a pipe is as wide everywhere, and has no colour unless that is asked
//! for.

use std::io::IsTerminal;

/// Columns of a line of prose at most: longer ones are hard to read.
const MOST: u16 = 160;

/// When to use colour.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also into a file or a pipe
    Always,
    /// Never
    Never,
}

/// Options about how pages look.
#[derive(clap::Args)]
pub struct Look {
    /// Colours: on a terminal that has no NO_COLOR, always, or never
    #[arg(
        long = "color",
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    colour: Colour,
}

/// Whether what is written there is coloured, if nothing else is asked for.
pub fn is_coloured(to: &impl IsTerminal) -> bool {
    // Set and not empty, as <https://no-color.org> has it.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    to.is_terminal() && !refused && !is_dumb
}

impl Look {
    /// How a page on standard output looks.
    pub fn of_stdout(&self) -> render::layout::Look {
        let is_terminal = std::io::stdout().is_terminal();
        let size = terminal_size::terminal_size_of(std::io::stdout());
        let width = size.filter(|_| is_terminal);
        render::layout::Look {
            width: width.map_or(
                render::layout::WIDTH,
                |(terminal_size::Width(columns), _)| usize::from(columns.min(MOST)),
            ),
            colour: match self.colour {
                Colour::Auto => is_coloured(&std::io::stdout()),
                Colour::Always => true,
                Colour::Never => false,
            },
        }
    }
}
