//! What really ran, as a picture: a few steps of a job that was played.
//!
//! Each rank has a line for its host's launches, one for the kernels that compute and one for those of NCCL.
//! Of these, waiting for the last rank is pale and the transfer is full.

use crate::play::{Kind, Played};
use std::collections::HashMap;
use std::fmt::Write;

const WIDTH: f64 = 1600.0;
const LEFT: f64 = 70.0;
/// A line's height, and that of a rank.
const LINE: f64 = 12.0;
const RANK: f64 = 48.0;
/// Ranks in a picture.
const MOST: usize = 32;

impl Played {
    /// An SVG of `steps` steps, from this one on by the host of rank 0.
    pub fn picture(&self, first: usize, steps: usize) -> String {
        let until = (1e9 * self.seconds) as i64;
        self.picture_until(first, steps, until)
    }

    /// The same of a job that ends then, or stands still.
    pub(crate) fn picture_until(&self, first: usize, steps: usize, end: i64) -> String {
        let begun = &self.ranks[0].begun;
        let at = |step: usize| begun.get(step).copied();
        let from = at(first).unwrap_or(0);
        let until = at(first + steps).unwrap_or(end).max(from + 1);
        let x = |ns: i64| {
            let part = (ns.clamp(from, until) - from) as f64 / (until - from) as f64;
            LEFT + part * (WIDTH - LEFT)
        };
        let came = self.came();
        let ranks = self.ranks.len().min(MOST);
        let height = 30.0 + RANK * ranks as f64;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" \
             fill=\"white\"/>\n<text x=\"4\" y=\"14\">steps {first} to {}, {:.2} to {:.2} ms; grey: \
             computes, orange: extra work, blue: transfers, pale: waits, black: launches</text>\n",
            first + steps,
            from as f64 / 1e6,
            until as f64 / 1e6,
        );
        let mut bar = |x0: f64, x1: f64, y: f64, colour: &str| {
            let width = (x1 - x0).max(0.3);
            let _ = writeln!(
                out,
                "<rect x=\"{x0:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{LINE}\" fill=\"{colour}\"/>"
            );
        };
        for (number, rank) in self.ranks.iter().enumerate().take(ranks) {
            let top = 24.0 + RANK * number as f64;
            for (index, node) in rank.nodes.iter().enumerate() {
                if (from..until).contains(&node.launch)
                    && node.graph.is_none_or(|first| first == index)
                {
                    bar(x(node.launch), x(node.launch), top, "black");
                }
                // What never ends lasts until the right edge.
                let Some(start) = node.start else { continue };
                let end = node.end.unwrap_or(until);
                if end <= from || until <= start {
                    continue;
                }
                match node.does {
                    Kind::Compute("extra", _) => bar(x(start), x(end), top + LINE, "darkorange"),
                    Kind::Compute(..) => bar(x(start), x(end), top + LINE, "silver"),
                    _ => {
                        let last = came.get(&(number, index)).copied();
                        let last = match node.end {
                            Some(_) => last.unwrap_or(start),
                            None => end,
                        };
                        bar(x(start), x(last), top + 2.0 * LINE, "lightblue");
                        bar(x(last), x(end), top + 2.0 * LINE, "royalblue");
                    }
                }
            }
        }
        for number in 0..ranks {
            let y = 24.0 + RANK * number as f64 + 2.0 * LINE;
            let _ = writeln!(out, "<text x=\"4\" y=\"{y}\">rank {number}</text>");
        }
        out + "</svg>\n"
    }

    /// When all ranks had come, by rank and node of NCCL.
    fn came(&self) -> HashMap<(usize, usize), i64> {
        let mut last: HashMap<(usize, usize), i64> = HashMap::new();
        let collectives = || {
            self.ranks.iter().enumerate().flat_map(|(number, rank)| {
                rank.nodes
                    .iter()
                    .enumerate()
                    .filter_map(move |(index, node)| match node.does {
                        Kind::Collective(comm, at) => {
                            Some((number, index, (comm, at), node.start?))
                        }
                        _ => None,
                    })
            })
        };
        for (.., operation, start) in collectives() {
            let of = last.entry(operation).or_insert(start);
            *of = start.max(*of);
        }
        let mut came: HashMap<(usize, usize), i64> = collectives()
            .map(|(number, index, operation, _)| ((number, index), last[&operation]))
            .collect();
        for (number, rank) in self.ranks.iter().enumerate() {
            for (index, node) in rank.nodes.iter().enumerate() {
                if let (Kind::Pass(_, ns), Some(end)) = (&node.does, node.end) {
                    came.insert((number, index), end - ns);
                }
            }
        }
        came
    }
}
