//! `part.json`: which part of a run a capture holds, if it was written of a part.
//!
//! `ncclscope export --anonymous --steps 10..20` writes such a capture. Its files have at least the calls of
//! the part. What belongs to it is told by the spans that are written here, so a reader shows the same as of
//! the whole capture with the same selection.
//!
//! Rule: the spans are of this capture's own clocks, and a file that can't be read leaves nothing out.

use crate::problem::Problem;
use crate::spans::{self, Spans};
use crate::{whole, Capture};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file's name.
pub const FILE: &str = "part.json";
const SCHEMA: &str = "ncclscope.part/1";

/// Which part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// In words.
    pub said: String,
    /// Calls of collectives that some rank made before the part are left out on all ranks.
    pub begins_together: bool,
    /// By the files of a process, relative to the capture and without their endings.
    pub processes: BTreeMap<PathBuf, OfProcess>,
}

/// What of a process is in the part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfProcess {
    /// When that is, ns since 1970.
    pub spans: Spans,
    /// Calls that are counted, and not in the part.
    pub forgotten: u64,
}

impl Part {
    /// The content of the file.
    pub fn to_json(&self) -> String {
        let processes = self.processes.iter().map(|(files, of)| {
            let spans = of.spans.iter().map(|span| json!([span.start, span.end]));
            json!({
                "files": files, "left_out": of.forgotten, "spans_ns": spans.collect::<Vec<_>>(),
            })
        });
        let whole = json!({
            "schema": SCHEMA, "part": self.said, "begins_together": self.begins_together,
            "processes": processes.collect::<Vec<_>>(),
        });
        format!("{whole:#}\n")
    }

    /// The part that this text says; `None` if it says none.
    pub fn of_json(text: &str) -> Option<Part> {
        let whole: Value = serde_json::from_str(text).ok()?;
        if whole["schema"] != SCHEMA {
            return None;
        }
        let process = |of: &Value| {
            let spans = of["spans_ns"].as_array()?.iter();
            let span = |span: &Value| Some(span[0].as_i64()?..span[1].as_i64()?);
            let process = OfProcess {
                spans: spans.map(span).collect::<Option<Spans>>()?,
                forgotten: of["left_out"].as_u64()?,
            };
            Some((PathBuf::from(of["files"].as_str()?), process))
        };
        let processes = whole["processes"].as_array()?.iter().map(process);
        Some(Part {
            said: crate::printable(whole["part"].as_str()?).into_owned(),
            begins_together: whole["begins_together"].as_bool()?,
            processes: processes.collect::<Option<_>>()?,
        })
    }

    /// Leaves out all else of a capture that was read.
    pub(crate) fn keep(&self, capture: &mut Capture) {
        let found: Vec<Option<&OfProcess>> = capture
            .processes
            .iter()
            .map(|process| {
                let files = whole::process_of(&process.file)?;
                // The capture may be the folder of one host.
                let mut all = self.processes.iter();
                let is_it = |(of, _): &(&PathBuf, _)| of.ends_with(&files);
                all.find(is_it).map(|(_, of)| of)
            })
            .collect();
        let spans: Vec<Spans> = found
            .iter()
            .map(|of| {
                of.map_or_else(
                    || std::iter::once(i64::MIN..i64::MAX).collect(),
                    |of| of.spans.clone(),
                )
            })
            .collect();
        spans::keep(capture, &spans);
        if self.begins_together {
            spans::begin_together(capture);
        }
        for (process, of) in capture.processes.iter_mut().zip(found) {
            // Calls that are in no file any more are among them.
            process.forgotten = of.map_or(process.forgotten, |of| of.forgotten);
        }
        capture.part = Some(self.said.clone());
    }
}

/// Reads what the capture says whose folder is `root`, or the folder around that of one host.
pub(crate) fn read(root: &Path) -> (Option<Part>, Option<Problem>) {
    let places = [Some(root), root.parent()].into_iter().flatten();
    let mut files = places.map(|folder| folder.join(FILE));
    let Some(file) = files.find(|file| file.is_file()) else {
        return (None, None);
    };
    let problem = |found: String| Problem {
        file: FILE.into(),
        place: "the file".into(),
        expected: "which part of the run is here, as `ncclscope export` writes it".into(),
        found,
    };
    match crate::files::text(&file) {
        Ok(text) => match Part::of_json(&text) {
            Some(part) => (Some(part), None),
            None => (None, Some(problem("something else".into()))),
        },
        Err(error) => (None, Some(problem(error.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_as_it_was_written() {
        let of = OfProcess {
            spans: vec![3..5, 7..i64::MAX],
            forgotten: 12,
        };
        let part = Part {
            said: "steps 1 to 2 of 9".into(),
            begins_together: true,
            processes: [(PathBuf::from("host-1/r0-p7-ab"), of)].into(),
        };
        assert_eq!(Part::of_json(&part.to_json()), Some(part));
        for text in ["", "{}", r#"{"schema": "ncclscope.part/1", "part": 3}"#] {
            assert_eq!(Part::of_json(text), None, "{text}");
        }
    }
}
