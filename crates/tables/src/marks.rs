//! Steps and phases that the program marked itself, from `NAME.marks` and `NAME.1.marks` beside its trace.
//!
//! `python/ncclscope/_marks.py` writes the first of these files. The second has steps from NVTX ranges, which
//! the recorder writes, or from torch's optimizers, which Python writes (`ncclscope run --steps`). Each mark
//! is a line of JSON. [`read`] takes what is sound. Times are CLOCK_MONOTONIC there, and realtime ns here, by
//! the anchors of the process's trace. If both have steps, those of `NAME.marks` count, because somebody has
//! put them into the program for that.
//!
//! Rule: a file of any content is read within bounds. A last line without an end is one that was being
//! written, and no problem.

use crate::clock::Clock;
use crate::files::{self, Limit};
use crate::printable;
use crate::problem::Problem;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// No larger file is written.
const MARKS: Limit = Limit {
    most: 128 << 20,
    slack: 16 << 20,
};
/// Characters of the name of a phase, and names that are kept; later ones are [`OTHERS`].
const LONGEST_NAME: usize = 48;
const MOST_NAMES: usize = 64;
const OTHERS: &str = "other phases";
/// Characters of the name of a range or an optimizer.
const LONGEST_ORIGIN: usize = 128;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Steps by begin; none overlaps the next.
    pub steps: Vec<MarkedStep>,
    /// Phases by begin.
    pub phases: Vec<MarkedPhase>,
    /// Names of phases, by their numbers.
    pub names: Vec<String>,
    /// Marks that the program made and could not write.
    pub dropped: u64,
    /// Of steps that the program did not mark itself, if they were asked for and there was one.
    pub origin: Option<Origin>,
}

/// Where steps are from that the program did not mark itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// What told them.
    pub source: Source,
    /// Which ranges of NVTX these are, if frameworks push them, and `None` if the user named them; or the
    /// class of the optimizer.
    pub name: Option<String>,
    /// So many of them are no steps, because the program marks its steps otherwise, too.
    pub unused: u64,
}

/// What tells steps of a program that does not mark them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Its NVTX ranges.
    Nvtx,
    /// torch's optimizers.
    Torch,
}

/// A step of the program, ns since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkedStep {
    /// Its begin.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// The program's number.
    pub number: i64,
}

/// A phase of the program, ns since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkedPhase {
    /// Its begin.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// Index into [`Marks::names`].
    pub name: u16,
}

/// The marks of the process whose files have this stem.
pub(crate) fn read(stem: &Path, clock: &Clock, problems: &mut Vec<Problem>) -> Marks {
    let mut own = one(stem, "marks", clock, problems);
    let others = one(stem, "1.marks", clock, problems);
    let Some(mut origin) = others.origin else {
        return own;
    };
    if own.steps.is_empty() {
        own.steps = others.steps;
    } else {
        origin.unused = others.steps.len() as u64;
    }
    own.dropped = own.dropped.saturating_add(others.dropped);
    own.origin = Some(origin);
    own
}

/// The marks in one of the files.
fn one(stem: &Path, ending: &str, clock: &Clock, problems: &mut Vec<Problem>) -> Marks {
    let Some(path) = there(stem, ending) else {
        return Marks::default();
    };
    let bytes = files::load(&path, MARKS, problems);
    let (marks, unsound) = parse(&bytes, clock);
    let mut say = |expected: &str, found: String| {
        problems.push(Problem {
            file: path.clone(),
            place: "its lines".into(),
            expected: expected.into(),
            found,
        });
    };
    if unsound > 0 {
        say("marks of a program", format!("{unsound} other lines"));
    }
    if marks.dropped > 0 {
        let found = format!("{} marks that were not written", marks.dropped);
        say("all marks of the program", found);
    }
    marks
}

fn there(stem: &Path, ending: &str) -> Option<PathBuf> {
    let name = stem.file_name()?.to_str()?;
    let paths = ["", ".zst"].map(|zst| stem.with_file_name(format!("{name}.{ending}{zst}")));
    paths.into_iter().find(|path| files::exists(path))
}

/// The marks in a file's bytes, and how many lines are none.
fn parse(bytes: &[u8], clock: &Clock) -> (Marks, u64) {
    let mut marks = Marks::default();
    let mut unsound = 0;
    let whole = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    for line in bytes[..whole]
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
    {
        match serde_json::from_slice(line) {
            Ok(Value::Array(mark)) => {
                if add(&mut marks, &mark, clock).is_none() {
                    unsound += 1;
                }
            }
            Ok(Value::Object(said)) => {
                let dropped = said.get("dropped").and_then(Value::as_u64).unwrap_or(0);
                marks.dropped = marks.dropped.saturating_add(dropped);
                marks.origin = origin(&said).or(marks.origin);
            }
            _ => unsound += 1,
        }
    }
    marks.steps.sort_unstable();
    marks.phases.sort_unstable();
    // A step ends when the next one begins, whatever the file says.
    for at in 1..marks.steps.len() {
        let next = marks.steps[at].from;
        marks.steps[at - 1].to = marks.steps[at - 1].to.min(next);
    }
    (marks, unsound)
}

/// What a first line says of steps that the program did not mark itself.
fn origin(said: &Map<String, Value>) -> Option<Origin> {
    let text = |key: &str| said.get(key).and_then(Value::as_str);
    let (source, name) = match text("from")? {
        "nvtx" => (Source::Nvtx, text("range")),
        "torch" => (Source::Torch, text("optimizer")),
        _ => return None,
    };
    let name = name.map(|name| printable(name).chars().take(LONGEST_ORIGIN).collect());
    Some(Origin {
        source,
        name,
        unused: 0,
    })
}

/// Adds a mark; a kind that a later program may write is passed over.
fn add(marks: &mut Marks, mark: &[Value], clock: &Clock) -> Option<()> {
    let [kind, name, from, to] = mark else {
        return None;
    };
    let (from, to) = (from.as_u64()?, to.as_u64()?);
    if from > to {
        return None;
    }
    // Without a clock that can be compared, there is no time to give it.
    let Some((from, to)) = clock.of_monotonic(from).zip(clock.of_monotonic(to)) else {
        return Some(());
    };
    match kind.as_str()? {
        "step" => {
            let number = name.as_i64()?;
            marks.steps.push(MarkedStep { from, to, number });
        }
        "phase" => {
            let name = called(&mut marks.names, name.as_str()?);
            marks.phases.push(MarkedPhase { from, to, name });
        }
        _ => {}
    }
    Some(())
}

/// The number of a name.
fn called(names: &mut Vec<String>, name: &str) -> u16 {
    let cut: String = printable(name).chars().take(LONGEST_NAME).collect();
    let known = |names: &[String], name: &str| names.iter().position(|n| n == name);
    let number = known(names, &cut).unwrap_or_else(|| {
        let name = if names.len() + 1 < MOST_NAMES {
            &cut
        } else {
            OTHERS
        };
        known(names, name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        })
    });
    number as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Anchor;
    use capture::rows::Ticks;

    fn clock() -> Clock {
        let at = |seconds: u64| Anchor {
            ticks: Ticks(seconds * 1_000_000_000),
            realtime: (1_000 + seconds) * 1_000_000_000,
            monotonic: seconds * 1_000_000_000,
        };
        Clock::new([at(1), at(9)], true)
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn marks_are_on_the_clock_of_calls() {
        let text = "{\"schema\":\"ncclscope.marks/1\"}\n[\"step\",7,2000000000,3000000000]\n\
                    [\"phase\",\"eval\",3000000000,4000000000]\n";
        let (marks, unsound) = parse(text.as_bytes(), &clock());
        assert_eq!(unsound, 0);
        let step = MarkedStep {
            from: 1_002 * SECOND,
            to: 1_003 * SECOND,
            number: 7,
        };
        assert_eq!(marks.steps, [step]);
        assert_eq!(marks.phases[0].to, 1_004 * SECOND);
        assert_eq!(marks.names, ["eval"]);
    }

    #[test]
    fn steps_of_another_origin_count_if_nobody_marked_others() {
        let folder = tempfile::tempdir().expect("made");
        let stem = folder.path().join("r0-p1-00000001");
        let write = |ending: &str, text: &str| {
            let name = format!("r0-p1-00000001.{ending}");
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        let read = || {
            let mut problems = Vec::new();
            let marks = read(&stem, &clock(), &mut problems);
            (marks, problems.len())
        };
        write(
            "1.marks",
            "{\"schema\":\"ncclscope.marks/1\",\"from\":\"nvtx\",\"range\":\"ProfilerStep#*\"}\n\
             [\"step\",0,2000000000,3000000000]\n[\"step\",1,3000000000,4000000000]\n",
        );
        let (marks, problems) = read();
        let origin = |source, name: &str, unused| {
            let name = Some(name.to_owned());
            Some(Origin {
                source,
                name,
                unused,
            })
        };
        let nvtx = |unused| origin(Source::Nvtx, "ProfilerStep#*", unused);
        assert_eq!((marks.steps.len(), marks.origin, problems), (2, nvtx(0), 0));
        // Phases alone are no steps.
        write("marks", "[\"phase\",\"eval\",5000000000,6000000000]\n");
        let (marks, _) = read();
        assert_eq!((marks.steps.len(), marks.phases.len()), (2, 1));
        write("marks", "[\"step\",7,2000000000,4000000000]\n");
        let (marks, problems) = read();
        assert_eq!(marks.steps[0].number, 7);
        assert_eq!((marks.steps.len(), marks.origin, problems), (1, nvtx(2), 0));
        write(
            "1.marks",
            "{\"schema\":\"ncclscope.marks/1\",\"from\":\"torch\",\"optimizer\":\"AdamW\"}\n\
             [\"step\",0,2000000000,3000000000]\n",
        );
        let (marks, _) = read();
        assert_eq!(marks.origin, origin(Source::Torch, "AdamW", 1));
    }

    #[test]
    fn any_content_is_read_within_bounds() {
        // Kinds of later programs, a step that ends before it begins, no JSON, and a line without an end.
        let text = "[\"note\",\"x\",1,2]\n[\"step\",0,9,2]\nnonsense\n[\"step\"]\n\
                    {\"dropped\":3}\n[\"step\",1";
        let (marks, unsound) = parse(text.as_bytes(), &clock());
        assert_eq!((marks.steps.len(), marks.dropped, unsound), (0, 3, 3));
        let many: String = (0..1_000)
            .map(|n| format!("[\"phase\",\"{}\",1,2]\n", format!("{n}-").repeat(90)))
            .collect();
        let (marks, _) = parse(many.as_bytes(), &clock());
        assert_eq!(marks.names.len(), MOST_NAMES);
        assert_eq!(marks.names[MOST_NAMES - 1], OTHERS);
        assert!(marks.names.iter().all(|name| name.len() <= LONGEST_NAME));
        assert_eq!(marks.phases.len(), 1_000);
        // Steps that overlap do so no more.
        let (marks, _) = parse(b"[\"step\",0,1,900]\n[\"step\",1,5,700]\n", &clock());
        assert_eq!(marks.steps[0].to, marks.steps[1].from);
        // Without a clock there are none.
        assert_eq!(
            parse(b"[\"step\",0,1,900]\n", &Clock::default()).0,
            Marks::default()
        );
    }
}
