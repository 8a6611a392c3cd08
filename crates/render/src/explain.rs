//! What `ncclscope explain` knows: the words of `analyze`, and the heads of the columns of HTML pages.
//!
//! Rule: whatever heads a column, names a cause or is the kind of a finding is explained
//! (`tests/explain.rs`).

use crate::html::columns::{Column, ALL};
use analyze::words::{self, Explanation};

/// What `word` means; nothing if it is not known.
pub fn explain(word: &str) -> Option<Explanation> {
    words::explain(word).or_else(|| of_columns(word))
}

/// What the columns of HTML pages with this head are.
fn of_columns(word: &str) -> Option<Explanation> {
    let wanted = words::plain(word);
    let heads = |column: &&Column| !wanted.is_empty() && words::plain(column.name) == wanted;
    let mut paragraphs: Vec<String> = Vec::new();
    for column in ALL.iter().copied().flatten().filter(heads) {
        let unit = match column.unit {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        let paragraph = format!("{}{unit}: {}.", column.name, column.help);
        if !paragraphs.contains(&paragraph) {
            paragraphs.push(paragraph);
        }
    }
    let title = word.to_owned();
    (!paragraphs.is_empty()).then_some(Explanation { title, paragraphs })
}
