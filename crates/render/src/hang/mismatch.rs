//! Words for ranks that made different calls at the same place: who made which call, what differs between
//! the two, and whether the ranks still make calls.

use super::names::{call, capital, is_of_dumps, operation, ranks, span};
use super::phrases::{absent, Words};
use analyze::hang::{Aspect, CallRow, Hang, Mismatch, MismatchKind};
use analyze::spelling::{datatype, size, sizes_apart};

pub(super) fn words(hang: &Hang, mismatch: &Mismatch) -> Words {
    let (odd, most) = (ranks(hang, &mismatch.odd), ranks(hang, &mismatch.most));
    let expected = mismatch.expected.as_ref();
    let expected = expected.map_or("a call".to_owned(), |row| call(hang, row));
    let made = mismatch.made.as_ref();
    let made = made.map_or("another call".to_owned(), operation);
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
    let Mismatch { made, expected, .. } = mismatch;
    if let (Some(aspects), Some(made), Some(expected)) = (&mismatch.differ_in, made, expected) {
        let differ = differ(aspects, made, expected);
        details.push(format!("They differ in {differ}."));
    }
    details.push(match (mismatch.hang, mismatch.quiet_ns) {
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

/// In what two calls differ: `size 1 MiB and 2 MiB, root 0 and 1`.
fn differ(aspects: &[Aspect], a: &CallRow, b: &CallRow) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or("none".to_owned());
    let bytes = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), size);
    let root = |root: Option<u32>| root.map_or("none".to_owned(), |root| root.to_string());
    let text = |aspect: &Aspect| {
        let (what, a, b) = match aspect {
            Aspect::Function => ("function", name(&a.function), name(&b.function)),
            Aspect::Size => {
                let (a, b) = match (a.bytes, b.bytes) {
                    (Some(a), Some(b)) => sizes_apart(a, b),
                    (a, b) => (bytes(a), bytes(b)),
                };
                ("size", a, b)
            }
            Aspect::Datatype => {
                let name = |of: &Option<String>| datatype(&name(of));
                ("datatype", name(&a.datatype), name(&b.datatype))
            }
            Aspect::Root => ("root", root(a.root), root(b.root)),
        };
        format!("{what} {a} and {b}")
    };
    let aspects: Vec<String> = aspects.iter().map(text).collect();
    aspects.join(", ")
}
