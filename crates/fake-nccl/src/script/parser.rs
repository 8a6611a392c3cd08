//! Reads a script word by word.
//!
//! A [`Parser`] gives the words to functions that read one statement each. It holds what they have found: the
//! job so far, and the communicators that can be named. It has the dispatch over statements as a function, so
//! that it does not know them.

use super::error::Error;
use super::job::{Comm, Instance, Script};
use super::statement::Statement;
use super::tokens::{tokens, Token};
use super::values::rank_list;
use crate::hash::mix;
use std::collections::HashMap;

/// What a statement came to; `None` if nothing happens at its place in the job.
pub(super) type Said = Result<Option<Statement>, Error>;

/// Reads the rest of a statement. It gets the statement's first word, and whether nothing came before.
type ReadStatement = fn(&mut Parser, &Token, bool) -> Said;

/// A script that is being read.
pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    statement: ReadStatement,
    /// The job, as far as it has been read.
    pub(super) script: Script,
    /// Index in [`Script::comms`] by name.
    pub(super) names: HashMap<String, usize>,
    /// How often each communicator was split so far.
    pub(super) splits: HashMap<usize, u32>,
}

impl Parser {
    /// At the first word of `source`.
    pub(super) fn new(source: &str, statement: ReadStatement) -> Parser {
        Parser {
            tokens: tokens(source),
            at: 0,
            statement,
            script: Script::default(),
            names: HashMap::new(),
            splits: HashMap::new(),
        }
    }

    /// The next word, brace or end of a statement, which stays the next one.
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// The line of the next word. After a statement's first word it is that statement's line.
    pub(super) fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |t| t.line)
    }

    /// The error that something else was expected at this line.
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

    /// The next word, unless a brace or the end of the statement comes.
    pub(super) fn more(&mut self) -> Option<Token> {
        match self.peek()?.text.as_str() {
            ";" | "{" | "}" => None,
            _ => self.next(),
        }
    }

    /// The end of a statement that has no block.
    pub(super) fn ends(&mut self, said: impl Into<Option<Statement>>) -> Said {
        match self.peek().map(|t| (t.line, t.text.clone())) {
            Some((line, text)) if text != ";" && text != "}" => {
                self.fail(line, "the end of the statement", &text)
            }
            _ => Ok(said.into()),
        }
    }

    /// The statements between braces.
    pub(super) fn block(&mut self) -> Result<Vec<Statement>, Error> {
        self.word("`{`", |w| (w == "{").then_some(()))?;
        self.statements(true)
    }

    /// All statements to the end of the script, or of a block if `nested`.
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
                _ => {
                    let first = !nested && out.is_empty();
                    out.extend((self.statement)(self, &token, first)?);
                }
            }
        }
    }

    /// Ranks of the job.
    pub(super) fn ranks(&mut self) -> Result<Vec<usize>, Error> {
        let limit = self.script.ranks;
        let expected = format!("ranks below {limit}, like 2, 0..7 or 0,3,4");
        self.word(&expected, |w| rank_list(w, limit))
    }

    /// A communicator that was made before.
    pub(super) fn known_comm(&mut self) -> Result<usize, Error> {
        if self.peek().is_some_and(|t| t.text == "world") {
            self.world();
        }
        let names = self.names.clone();
        self.word("the name of a communicator made before", |w| {
            names.get(w).copied()
        })
    }

    /// Adds a communicator, so that later statements can name it.
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
            shares: None,
            instances,
        };
        self.names.insert(name, id);
        self.script.comms.push(comm);
        id
    }

    /// A communicator made from a unique id. Its hash is random in NCCL; here it depends on the script alone.
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

    /// Makes the default communicator if there is none at all.
    pub(super) fn world_if_none(&mut self) {
        if self.names.is_empty() {
            self.world();
        }
    }
}
