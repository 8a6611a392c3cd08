//! Colours and widths of the verbs that print pages: on a terminal, in a pipe, and as `--color` and
//! `NO_COLOR` say.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// What each verb is given to print, and what every page of it has.
const PAGES: &[(&[&str], &str)] = &[
    (&["report", "slow_host"], "Next: "),
    (&["hang", "killed_228"], "Next: "),
    (&["diff", "slow_plain", "slow_host"], "Next: "),
    (
        &[
            "diff",
            "slow_plain",
            "slow_host",
            "slow_gpu",
            "graph_host_228",
        ],
        "Next: ",
    ),
    (&["explain", "no_stamp"], "no_stamp"),
    (&["doctor", "slow_host"], "Next: "),
];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command.args(arguments);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data"));
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command.stderr(Stdio::null());
    command
}

/// What it prints into a pipe.
fn piped(mut command: Command) -> String {
    let done = command.output().expect("started");
    String::from_utf8(done.stdout).expect("UTF-8")
}

/// What it prints on a terminal of so many columns.
fn on_terminal(mut command: Command, columns: u16) -> String {
    let size = nix::pty::Winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = nix::pty::openpty(&size, None).expect("opened");
    let mut run = command.stdout(terminal.slave).spawn().expect("started");
    // The command keeps its own copy of the other end.
    drop(command);
    let mut screen = Vec::new();
    // Ends with an error when nobody has the other end any more.
    let _ = File::from(terminal.master).read_to_end(&mut screen);
    run.wait().expect("ended");
    String::from_utf8(screen).expect("UTF-8").replace('\r', "")
}

/// The page without its escape sequences for colours.
fn bare(page: &str) -> String {
    let mut parts = page.split('\u{1b}');
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
    std::iter::once(first).chain(rest).collect()
}

#[test]
fn colour_is_for_terminals_or_for_who_asks() {
    for (arguments, has) in PAGES {
        let plain = piped(command(arguments));
        assert!(plain.contains(has), "{arguments:?}: {plain}");
        let coloured = |page: &str| page.contains("\u{1b}[");
        let with = |more: &[&str]| command(&[arguments, more].concat());
        let set = |name: &str, value: &str| {
            let mut command = with(&[]);
            command.env(name, value);
            command
        };
        for (page, expected) in [
            (plain.clone(), false),
            (piped(with(&["--color", "always"])), true),
            (piped(with(&["--color", "never"])), false),
            (on_terminal(with(&[]), 120), true),
            (on_terminal(with(&["--color", "never"]), 120), false),
            (on_terminal(set("NO_COLOR", "1"), 120), false),
            // Empty counts as not set: <https://no-color.org>.
            (on_terminal(set("NO_COLOR", ""), 120), true),
            (on_terminal(set("TERM", "dumb"), 120), false),
        ] {
            assert_eq!(coloured(&page), expected, "{arguments:?}: {page}");
            assert_eq!(bare(&page), plain, "{arguments:?}");
        }
    }
}

#[test]
fn pages_are_as_wide_as_the_terminal_from_60_columns_on() {
    for (arguments, _) in PAGES {
        for columns in [40, 60, 80, 97] {
            let page = bare(&on_terminal(command(arguments), columns));
            let most = usize::from(columns.max(60));
            let wide = |line: &&str| line.chars().count() > most;
            // Commands are not broken, and paths and commands can't be.
            let can_be_broken = |line: &&str| {
                !line.starts_with("Next: ") && line.split_whitespace().all(|word| word.len() < 30)
            };
            let wide: Vec<&str> = page.lines().filter(wide).filter(can_be_broken).collect();
            assert_eq!(wide, [""; 0], "{arguments:?} at {columns}");
        }
    }
}

/// The last line of an error names the page that helps; that of the page itself stays as it is.
#[test]
fn without_a_verb_the_page_is_that_of_help() {
    let said = |arguments: &[&str]| {
        let done = command(arguments).stderr(Stdio::piped()).output();
        let done = done.expect("started");
        String::from_utf8([done.stdout, done.stderr].concat()).expect("UTF-8")
    };
    assert_eq!(said(&[]).trim_end(), said(&["--help"]).trim_end());
    assert!(said(&["report", "--no-such"]).contains("try 'ncclscope report --help'"));
}
