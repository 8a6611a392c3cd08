//! What befalls ranks.

use crate::script::error::Error;
use crate::script::parser::Parser;
use crate::script::statement::Act;
use crate::script::values::nanos;
use crate::stuck::{self, Drag, Stop, Wait};

impl Parser {
    pub(super) fn act(&mut self) -> Result<Act, Error> {
        let expected = "late TIME, slow TIME, kill, exit [STATUS], _exit [STATUS], abort, hang, hang_inside, stuck STATE, drag STATE TIME, fork, skip or a block";
        let word = self.word(expected, |w| Some(w.to_string()))?;
        let status = |parser: &mut Self| match parser.more() {
            None => Ok(0),
            Some(t) => match t.text.parse() {
                Ok(status) => Ok(status),
                Err(_) => parser.fail(t.line, "an exit status", &t.text),
            },
        };
        Ok(match word.as_str() {
            "late" => Act::Late(self.word("a time like 5ms", nanos)?),
            "slow" => Act::Slow(self.word("a time like 5ms", nanos)?),
            "kill" => Act::Kill,
            "exit" => Act::Exit(status(self)?),
            "_exit" => Act::QuickExit(status(self)?),
            "abort" => Act::Abort,
            "hang" => Act::Hang,
            "hang_inside" => Act::HangInside,
            "fork" => Act::Fork,
            "skip" => Act::Skip,
            "stuck" => Act::Stuck(self.stop()?),
            "drag" => Act::Drag(self.drag()?),
            found => return self.fail(self.line(), expected, found),
        })
    }

    pub(super) fn stop(&mut self) -> Result<Stop, Error> {
        let words: Vec<&str> = stuck::WORDS.iter().map(|w| w.0).collect();
        let (_, send, wait) = self.word(&format!("one of {}", words.join(", ")), |word| {
            stuck::WORDS.into_iter().find(|w| w.0 == word)
        })?;
        let mut stop = Stop {
            send,
            wait,
            step: 0,
            channel: None,
        };
        while let Some(token) = self.more() {
            let known = match token.text.split_once('=') {
                Some(("step", n)) => n.parse().map(|n| stop.step = n).is_ok(),
                Some(("channel", n)) => n.parse().map(|n| stop.channel = Some(n)).is_ok(),
                _ => false,
            };
            if !known {
                return self.fail(token.line, "step=N or channel=N", &token.text);
            }
        }
        Ok(stop)
    }

    pub(super) fn drag(&mut self) -> Result<Drag, Error> {
        let states = || {
            stuck::WORDS
                .into_iter()
                .filter_map(|(word, send, wait)| match wait {
                    Wait::State(state) => Some((word, send, state)),
                    Wait::Queued => None,
                })
        };
        let words: Vec<&str> = states().map(|(word, ..)| word).collect();
        let expected = format!("one of {}", words.join(", "));
        let (_, send, state) = self.word(&expected, |word| states().find(|s| s.0 == word))?;
        let ns = self.word("a time like 5ms", nanos)?;
        Ok(Drag { send, state, ns })
    }
}
