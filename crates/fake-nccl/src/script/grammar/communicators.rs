//! Communicators: made, split and shrunk.

use crate::hash::child_hash;
use crate::script::error::Error;
use crate::script::job::Instance;
use crate::script::parser::Parser;
use crate::script::statement::Statement;
use crate::script::values::{count, name, rank_list};

impl Parser {
    pub(super) fn comm(&mut self, out: &mut Vec<Statement>) -> Result<(), Error> {
        let name = self.word("the communicator's name", name)?;
        if self.names.contains_key(&name) {
            return self.fail(self.line(), "a new communicator name", &name);
        }
        let limit = self.script.ranks;
        let (mut instances, mut label, mut hash) = (None, None, None);
        while let Some(token) = self.more() {
            match token.text.as_str() {
                "ranks" => {
                    let members = self.ranks()?;
                    instances = Some(vec![self.rooted(members)]);
                }
                "split" | "shrink" => {
                    let id = self.known_comm()?;
                    let parents = self.script.comms[id].instances.clone();
                    let of: Vec<usize> = parents.iter().flat_map(|i| i.members.clone()).collect();
                    let (ordinal, colored) = if token.text == "split" {
                        let splits = self.splits.entry(id).or_insert(0);
                        *splits += 1;
                        (*splits, self.split(&of)?)
                    } else {
                        self.word("`without`", |w| (w == "without").then_some(()))?;
                        let gone = self.word("ranks to leave out", |w| rank_list(w, limit))?;
                        let left = |i: &Instance| i.members.iter().filter(|r| !gone.contains(r)).copied().collect();
                        (0, parents.iter().map(|i| (0, left(i))).collect())
                    };
                    let children = colored.into_iter().filter(|(_, members)| !members.is_empty());
                    let children = children.map(|(color, members): (u32, Vec<usize>)| {
                        let parent = parents.iter().find(|p| members.iter().all(|m| p.members.contains(m)));
                        let hash = child_hash(parent?.hash, ordinal, color);
                        Some(Instance { hash, members })
                    });
                    instances = children.collect();
                    if instances.is_none() {
                        return self.fail(token.line, "ranks of one parent in each communicator", &token.text);
                    }
                }
                "name" => {
                    label = Some(self.word("a name in quotes", |w| {
                        let inner = w.strip_prefix('"')?.strip_suffix('"')?;
                        (!inner.contains('\0')).then(|| inner.to_string())
                    })?)
                }
                "hash" => {
                    hash = Some(self.word("a hash like 0x1f", |w| {
                        u64::from_str_radix(w.strip_prefix("0x")?, 16).ok()
                    })?)
                }
                found => {
                    return self.fail(
                        token.line,
                        "ranks LIST, split COMM colors LIST, split COMM every N, split COMM stride N, shrink COMM without LIST, name \"…\" or hash 0x…",
                        found,
                    )
                }
            }
        }
        let instances = match instances {
            Some(instances) => instances,
            None => vec![self.rooted((0..limit).collect())],
        };
        let id = self.add(name, label, instances);
        if let Some(hash) = hash {
            for instance in &mut self.script.comms[id].instances {
                instance.hash = hash;
            }
        }
        out.push(Statement::Create(id));
        Ok(())
    }

    /// Colours and the ranks that have them.
    pub(super) fn split(&mut self, of: &[usize]) -> Result<Vec<(u32, Vec<usize>)>, Error> {
        let how = self.word("`colors`, `every` or `stride`", |w| {
            matches!(w, "colors" | "every" | "stride").then(|| w.to_string())
        })?;
        let mut colors: Vec<Option<u32>> = Vec::new();
        if how == "colors" {
            for _ in of {
                colors.push(self.word(
                    "a color (a number, or `-` for none) for each rank",
                    |w| match w {
                        "-" => Some(None),
                        w => w.parse().ok().map(Some),
                    },
                )?);
            }
        } else {
            let n = self.word("a number of at least 1", count)? as usize;
            let color = |i: usize| if how == "every" { i / n } else { i % n };
            colors.extend((0..of.len()).map(|i| Some(color(i) as u32)));
        }
        let mut distinct: Vec<u32> = colors.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let with = |color: u32| {
            let pairs = of.iter().zip(&colors);
            let members = pairs.filter(|(_, c)| **c == Some(color)).map(|(r, _)| *r);
            (color, members.collect())
        };
        Ok(distinct.into_iter().map(with).collect())
    }
}
