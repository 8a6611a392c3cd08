//! Copies of one process in a capture.

use crate::reading::Scan;
use crate::{Problem, Unreadable};
use std::collections::HashMap;
use std::path::Path;

/// A process, or what is known of one of which nothing is sound; nothing of a copy.
pub(crate) type Scanned = (Result<Scan, Option<Unreadable>>, Vec<Problem>);

/// Leaves out all but the best copy of each process, and says so. Copies have the same trace id. Counted
/// twice, they would double every sum.
pub(super) fn without_copies(mut scanned: Vec<Scanned>, root: &Path) -> Vec<Scanned> {
    let mut best: HashMap<u64, usize> = HashMap::new();
    for index in 0..scanned.len() {
        let Some(id) = scanned[index].0.as_ref().ok().and_then(|scan| scan.id) else {
            continue;
        };
        let kept = *best.entry(id).or_insert(index);
        if kept == index {
            continue;
        }
        let worth = |index: usize| scanned[index].0.as_ref().ok().map(Scan::worth);
        // Of equals, the first by path.
        let (keep, leave) = if worth(index) > worth(kept) {
            (index, kept)
        } else {
            (kept, index)
        };
        best.insert(id, keep);
        let name = |index: usize| {
            let scan = scanned[index].0.as_ref().ok();
            scan.map(|scan| scan.process.file.clone())
        };
        let (Some(original), Some(copy)) = (name(keep), name(leave)) else {
            continue;
        };
        let (scan, problems) = &mut scanned[leave];
        *scan = Err(None);
        problems.push(Problem {
            file: copy,
            place: "its header".into(),
            expected: "each process once in a capture".into(),
            found: format!(
                "a copy of {} (trace {id:016x}), which is left out",
                super::relative(&original, root).display()
            ),
        });
    }
    scanned
}
