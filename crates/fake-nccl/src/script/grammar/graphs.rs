//! CUDA graphs: capture and launch.

use crate::script::parser::{Parser, Said};
use crate::script::statement::Statement;
use crate::script::values::{count, name};

/// `graph NAME { CALLS, GROUPS, REPEATS }`
pub(super) fn graph(parser: &mut Parser) -> Said {
    let line = parser.line();
    let name = parser.word("the graph's name", name)?;
    let body = parser.block()?;
    let group = |s: &Statement| matches!(s, Statement::Group { .. });
    let groups = |s: &Statement| match s {
        Statement::Repeat(_, body) => body.iter().all(group),
        s => group(s),
    };
    if !body.iter().all(groups) {
        let expected = "only calls, groups and repeats of them in a graph";
        return parser.fail(line, expected, "graph");
    }
    let graphs = &mut parser.script.graphs;
    let known = graphs.iter().position(|g| *g == name);
    let id = known.unwrap_or_else(|| {
        graphs.push(name);
        graphs.len() - 1
    });
    Ok(Some(Statement::Graph(id, body)))
}

/// `replay NAME [xN]`
pub(super) fn replay(parser: &mut Parser) -> Said {
    let graphs = parser.script.graphs.clone();
    let id = parser.word("the name of a graph captured before", |w| {
        graphs.iter().position(|g| g == w)
    })?;
    let times = match parser.more() {
        None => 1,
        Some(t) => match t.text.strip_prefix('x').and_then(count) {
            Some(n) => n,
            None => return parser.fail(t.line, "a count like x10", &t.text),
        },
    };
    parser.ends(Statement::Replay(id, times))
}
