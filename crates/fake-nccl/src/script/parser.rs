//! Reads a script word by word, and knows which communicators were made so far.

use super::error::Error;
use super::job::{Comm, Instance, Script};
use super::statement::Statement;
use super::tokens::Token;
use super::values::rank_list;
use crate::hash::mix;
use std::collections::HashMap;

pub(super) struct Parser {
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    pub(super) script: Script,
    pub(super) names: HashMap<String, usize>,
    /// How often each communicator was split so far.
    pub(super) splits: HashMap<usize, u32>,
    pub(super) destroyed_by_hand: bool,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    pub(super) fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |t| t.line)
    }

    pub(super) fn fail<T>(
        &self,
        line: usize,
        expected: impl Into<String>,
        found: &str,
    ) -> Result<T, Error> {
        let found = match found {
            ";" => "the end of the statement".into(),
            found => format!("`{found}`"),
        };
        Err(Error {
            line,
            expected: expected.into(),
            found,
        })
    }

    /// The next word of this statement, read by `read`.
    pub(super) fn word<T>(
        &mut self,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        match self.next() {
            Some(token) => match read(&token.text) {
                Some(value) => Ok(value),
                None => self.fail(token.line, expected, &token.text),
            },
            None => self.fail(self.line(), expected, ";"),
        }
    }

    /// The next word if it isn't the end of the statement.
    pub(super) fn more(&mut self) -> Option<Token> {
        match self.peek()?.text.as_str() {
            ";" | "{" | "}" => None,
            _ => self.next(),
        }
    }

    pub(super) fn end(&mut self) -> Result<(), Error> {
        match self.peek().map(|t| (t.line, t.text.clone())) {
            None => Ok(()),
            Some((_, text)) if text == ";" || text == "}" => Ok(()),
            Some((line, text)) => self.fail(line, "the end of the statement", &text),
        }
    }

    pub(super) fn block(&mut self) -> Result<Vec<Statement>, Error> {
        self.word("`{`", |w| (w == "{").then_some(()))?;
        self.statements(true)
    }

    pub(super) fn statements(&mut self, nested: bool) -> Result<Vec<Statement>, Error> {
        let mut out = Vec::new();
        loop {
            let Some(token) = self.next() else {
                return if nested {
                    self.fail(self.line(), "`}`", "the end of the script")
                } else {
                    Ok(out)
                };
            };
            match token.text.as_str() {
                ";" => {}
                "}" if nested => return Ok(out),
                word => {
                    let word = word.to_string();
                    self.statement(&word, token.line, nested, &mut out)?;
                }
            }
        }
    }

    pub(super) fn ranks(&mut self) -> Result<Vec<usize>, Error> {
        let limit = self.script.ranks;
        let expected = format!("ranks below {limit}, like 2, 0..7 or 0,3,4");
        self.word(&expected, |w| rank_list(w, limit))
    }

    pub(super) fn known_comm(&mut self) -> Result<usize, Error> {
        if self.peek().is_some_and(|t| t.text == "world") {
            self.world();
        }
        let names = self.names.clone();
        self.word("the name of a communicator made before", |w| {
            names.get(w).copied()
        })
    }

    pub(super) fn add(
        &mut self,
        name: String,
        label: Option<String>,
        instances: Vec<Instance>,
    ) -> usize {
        let id = self.script.comms.len();
        let comm = Comm {
            name: name.clone(),
            label,
            instances,
        };
        self.names.insert(name, id);
        self.script.comms.push(comm);
        id
    }

    /// A communicator that was made from a unique id, which is random in NCCL and of the script here.
    pub(super) fn rooted(&self, members: Vec<usize>) -> Instance {
        let seed = mix(self.script.comms.len() as u64 + 1, 0);
        Instance {
            hash: members.iter().fold(seed, |h, m| mix(h, *m as u64)),
            members,
        }
    }

    /// The default communicator, made before all else on its first use.
    pub(super) fn world(&mut self) -> usize {
        if let Some(id) = self.names.get("world") {
            return *id;
        }
        let world = self.rooted((0..self.script.ranks).collect());
        let id = self.add("world".into(), None, vec![world]);
        self.script.body.push(Statement::Create(id));
        id
    }

    pub(super) fn world_if_none(&mut self) {
        if self.names.is_empty() {
            self.world();
        }
    }
}
