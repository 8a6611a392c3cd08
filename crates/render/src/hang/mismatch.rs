//! Words for ranks that made different calls at the same place: who made which call, what differs between
//! the two, and whether the ranks still make calls.

use super::names::{call_as, capital, is_of_dumps, operation, ranks, span};
use super::phrases::{absent, Words};
use analyze::hang::{Aspect, CallRow, Hang, Mismatch, MismatchKind};
use analyze::spelling::{datatype, sizes_apart};

pub(super) fn words(hang: &Hang, mismatch: &Mismatch) -> Words {
    let (odd, most) = (ranks(hang, &mismatch.odd), ranks(hang, &mismatch.most));
    let [made, expected] = operations(mismatch);
    let row = mismatch.expected.as_ref();
    let expected = row.map_or(expected.clone(), |row| call_as(hang, row, &expected));
    let sentence = match mismatch.how {
        MismatchKind::LeftOut => {
            format!("{odd} left out {expected}, which {most} made, and went on with {made}.")
        }
        MismatchKind::Swapped => {
            format!("{odd} made {made} before {expected}, which {most} made first.")
        }
        MismatchKind::Differs => format!("{odd} made {made} where {most} made {expected}."),
    };
    let mut details = Vec::new();
    details.push(match (mismatch.hang, mismatch.quiet_for) {
        (Some(true), Some(ns)) => format!("None of them has made a call for {}.", span(ns)),
        // Of a job that was ended the evidence ends there.
        (_, Some(ns)) => format!(
            "Some of them made a call {} before the newest evidence, so whether the job hangs can't be \
             told from it.",
            span(ns)
        ),
        (_, None) if is_of_dumps(hang) => {
            "When the dumps were written is not known, so whether the job hangs can't be told.".to_owned()
        }
        (_, None) => "When they made calls is not known, so whether the job hangs can't be told.".to_owned(),
    });
    details.extend(absent(hang, mismatch.odd.communicator));
    Words {
        sentence: capital(sentence),
        details,
    }
}

/// What the odd ranks made, and what the others made, so that the two can be told apart:
/// `AllGather of 32800 B`, `Broadcast of 1 MiB (root 1)`.
fn operations(mismatch: &Mismatch) -> [String; 2] {
    let Mismatch { made, expected, .. } = mismatch;
    let (Some(made), Some(expected)) = (made, expected) else {
        let name = |row: &Option<CallRow>, unknown: &str| {
            row.as_ref().map_or(unknown.to_owned(), operation)
        };
        return [name(made, "another call"), name(expected, "a call")];
    };
    let aspects = mismatch.differ_in.as_deref().unwrap_or_default();
    let differs = |aspect: Aspect| aspects.contains(&aspect);
    let sizes = made.bytes.zip(expected.bytes);
    let sizes = sizes.map(|(a, b)| sizes_apart(a, b)).unzip();
    let name = |row: &CallRow, size: Option<String>| {
        let function = row.function.as_deref().unwrap_or("a call");
        let mut text = match size {
            Some(size) => format!("{function} of {size}"),
            None => operation(row),
        };
        let mut marks = Vec::new();
        if differs(Aspect::Datatype) {
            let name = row.datatype.as_deref();
            marks.push(name.map_or("no datatype".to_owned(), datatype));
        }
        // Of two functions, one may have no root.
        if differs(Aspect::Root) && !differs(Aspect::Function) {
            marks.push(
                row.root
                    .map_or("no root".to_owned(), |root| format!("root {root}")),
            );
        }
        if !marks.is_empty() {
            text += &format!(" ({})", marks.join(", "));
        }
        text
    };
    [name(made, sizes.0), name(expected, sizes.1)]
}
