//! Communicators: make, split, shrink and destroy them.

use crate::hash::child_hash;
use crate::script::error::Error;
use crate::script::job::Instance;
use crate::script::parser::{Parser, Said};
use crate::script::statement::Statement;
use crate::script::values::{count, name, rank_list};

const HOW: &str = "ranks LIST, split COMM colors LIST, split COMM every N, split COMM stride N, \
                   shrink COMM without LIST, share, name \"…\" or hash 0x…";

/// `comm NAME [ranks RANKS | split COMM … | shrink COMM …] [share] [name "…"] [hash 0x…]`
pub(super) fn comm(parser: &mut Parser) -> Said {
    let name = parser.word("the communicator's name", name)?;
    if parser.names.contains_key(&name) {
        return parser.fail(parser.line(), "a new communicator name", &name);
    }
    let (mut instances, mut label, mut hash) = (None, None, None);
    let (mut parent, mut shares) = (None, None);
    while let Some(token) = parser.more() {
        match token.text.as_str() {
            "ranks" => {
                let members = parser.ranks()?;
                instances = Some(vec![parser.rooted(members)]);
            }
            "split" | "shrink" => {
                let id = parser.known_comm()?;
                parent = Some(id);
                instances = Some(match token.text.as_str() {
                    "split" => split(parser, id, token.line)?,
                    _ => shrink(parser, id, token.line)?,
                });
            }
            "share" if parent.is_some() => shares = parent,
            "name" => {
                label = Some(parser.word("a name in quotes", |w| {
                    let inner = w.strip_prefix('"')?.strip_suffix('"')?;
                    (!inner.contains('\0')).then(|| inner.to_string())
                })?)
            }
            "hash" => {
                hash = Some(parser.word("a hash like 0x1f", |w| {
                    u64::from_str_radix(w.strip_prefix("0x")?, 16).ok()
                })?)
            }
            found => return parser.fail(token.line, HOW, found),
        }
    }
    let instances = match instances {
        Some(instances) => instances,
        None => vec![parser.rooted((0..parser.script.ranks).collect())],
    };
    let id = parser.add(name, label, instances);
    parser.script.comms[id].shares = shares;
    if let Some(hash) = hash {
        for instance in &mut parser.script.comms[id].instances {
            instance.hash = hash;
        }
    }
    parser.ends(Statement::Create(id))
}

/// `colors LIST`, `every N`, `stride N`, of communicator `id`
fn split(parser: &mut Parser, id: usize, line: usize) -> Result<Vec<Instance>, Error> {
    let parents = parser.script.comms[id].instances.clone();
    let of: Vec<usize> = parents.iter().flat_map(|i| i.members.clone()).collect();
    let splits = parser.splits.entry(id).or_insert(0);
    *splits += 1;
    let ordinal = *splits;
    let colored = colored(parser, &of)?;
    match children(&parents, ordinal, colored) {
        Some(children) => Ok(children),
        None => parser.fail(line, OF_ONE_PARENT, "split"),
    }
}

/// `without RANKS`, of communicator `id`
fn shrink(parser: &mut Parser, id: usize, line: usize) -> Result<Vec<Instance>, Error> {
    let parents = parser.script.comms[id].instances.clone();
    parser.word("`without`", |w| (w == "without").then_some(()))?;
    let limit = parser.script.ranks;
    let gone = parser.word("ranks to leave out", |w| rank_list(w, limit))?;
    let left = parents.iter().map(|parent| {
        let left = parent.members.iter().filter(|r| !gone.contains(r));
        (0, left.copied().collect())
    });
    match children(&parents, 0, left.collect()) {
        Some(children) => Ok(children),
        None => parser.fail(line, OF_ONE_PARENT, "shrink"),
    }
}

const OF_ONE_PARENT: &str = "ranks of one parent in each communicator";

/// The children of `parents`, one for each colour. `None` if the ranks of a child have several parents.
fn children(
    parents: &[Instance],
    ordinal: u32,
    colored: Vec<(u32, Vec<usize>)>,
) -> Option<Vec<Instance>> {
    let children = colored
        .into_iter()
        .filter(|(_, members)| !members.is_empty());
    let children = children.map(|(color, members)| {
        let holds = |parent: &&Instance| members.iter().all(|m| parent.members.contains(m));
        let parent = parents.iter().find(holds)?;
        let hash = child_hash(parent.hash, ordinal, color);
        Some(Instance { hash, members })
    });
    children.collect()
}

/// Reads the colours, and gives each with the ranks that have it.
fn colored(parser: &mut Parser, of: &[usize]) -> Result<Vec<(u32, Vec<usize>)>, Error> {
    let how = parser.word("`colors`, `every` or `stride`", |w| {
        matches!(w, "colors" | "every" | "stride").then(|| w.to_string())
    })?;
    let mut colors: Vec<Option<u32>> = Vec::new();
    if how == "colors" {
        for _ in of {
            colors.push(
                parser.word(
                    "a color (a number, or `-` for none) for each rank",
                    |w| match w {
                        "-" => Some(None),
                        w => w.parse().ok().map(Some),
                    },
                )?,
            );
        }
    } else {
        let n = parser.word("a number of at least 1", count)? as usize;
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

/// `destroy COMM`
pub(super) fn destroy(parser: &mut Parser) -> Said {
    let id = parser.known_comm()?;
    parser.ends(Statement::Destroy(id))
}

/// `reinit COMM`
pub(super) fn reinit(parser: &mut Parser) -> Said {
    let id = parser.known_comm()?;
    parser.ends(Statement::Reinit(id))
}

/// `no_destroy`
pub(super) fn no_destroy(parser: &mut Parser) -> Said {
    parser.script.destroy = false;
    parser.ends(None)
}
