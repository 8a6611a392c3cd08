//! What only some ranks do, and what happens to single ranks.

use crate::script::error::Error;
use crate::script::parser::{Parser, Said};
use crate::script::statement::{Act, Statement};
use crate::script::values::nanos;
use crate::stuck::{self, Drag, Stop, Wait};

/// `rank RANKS { … }`, `rank RANKS ACT`
pub(super) fn rank(parser: &mut Parser) -> Said {
    let ranks = parser.ranks()?;
    if parser.peek().is_some_and(|t| t.text == "{") {
        let body = parser.block()?;
        return Ok(Some(Statement::Only(ranks, body)));
    }
    let act = act(parser)?;
    parser.ends(Statement::Rank(ranks, act))
}

const ACTS: &str =
    "late TIME, slow TIME, kill, exit [STATUS], _exit [STATUS], abort, hang, hang_inside, \
                    stuck STATE, drag STATE TIME, fork, skip or a block";

fn act(parser: &mut Parser) -> Result<Act, Error> {
    let word = parser.word(ACTS, |w| Some(w.to_string()))?;
    Ok(match word.as_str() {
        "late" => Act::Late(parser.word("a time like 5ms", nanos)?),
        "slow" => Act::Slow(parser.word("a time like 5ms", nanos)?),
        "kill" => Act::Kill,
        "exit" => Act::Exit(exit_status(parser)?),
        "_exit" => Act::QuickExit(exit_status(parser)?),
        "abort" => Act::Abort,
        "hang" => Act::Hang,
        "hang_inside" => Act::HangInside,
        "fork" => Act::Fork,
        "skip" => Act::Skip,
        "stuck" => Act::Stuck(stop(parser)?),
        "drag" => Act::Drag(drag(parser)?),
        found => return parser.fail(parser.line(), ACTS, found),
    })
}

/// `[STATUS]`
fn exit_status(parser: &mut Parser) -> Result<i32, Error> {
    match parser.more() {
        None => Ok(0),
        Some(t) => match t.text.parse() {
            Ok(status) => Ok(status),
            Err(_) => parser.fail(t.line, "an exit status", &t.text),
        },
    }
}

/// `STATE [step=N] [channel=N]`
fn stop(parser: &mut Parser) -> Result<Stop, Error> {
    let words: Vec<&str> = stuck::WORDS.iter().map(|w| w.0).collect();
    let (_, send, wait) = parser.word(&format!("one of {}", words.join(", ")), |word| {
        stuck::WORDS.into_iter().find(|w| w.0 == word)
    })?;
    let mut stop = Stop {
        send,
        wait,
        step: 0,
        channel: None,
    };
    while let Some(token) = parser.more() {
        let known = match token.text.split_once('=') {
            Some(("step", n)) => n.parse().map(|n| stop.step = n).is_ok(),
            Some(("channel", n)) => n.parse().map(|n| stop.channel = Some(n)).is_ok(),
            _ => false,
        };
        if !known {
            return parser.fail(token.line, "step=N or channel=N", &token.text);
        }
    }
    Ok(stop)
}

/// `STATE TIME`
fn drag(parser: &mut Parser) -> Result<Drag, Error> {
    let states = || {
        let words = stuck::WORDS.into_iter();
        words.filter_map(|(word, send, wait)| match wait {
            Wait::State(state) => Some((word, send, state)),
            Wait::Queued => None,
        })
    };
    let words: Vec<&str> = states().map(|(word, ..)| word).collect();
    let expected = format!("one of {}", words.join(", "));
    let (_, send, state) = parser.word(&expected, |word| states().find(|s| s.0 == word))?;
    let ns = parser.word("a time like 5ms", nanos)?;
    Ok(Drag { send, state, ns })
}
