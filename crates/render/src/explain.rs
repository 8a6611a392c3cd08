//! What `ncclscope explain` knows: its words, and the heads of the columns of HTML pages.
//!
//! Rule: whatever heads a column, names a cause or is the kind of a finding is explained
//! (`tests/all/explain.rs`).

use crate::html::columns::{Column, ALL};
use crate::layout::{Look, Page, Style};
use crate::words::{self, Explanation};
use std::io::{Result, Write};

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
        let meaning = column.meaning().map(|found| found.after_a_colon());
        let paragraph = meaning.map(|text| format!("{}{unit}: {text}", column.name));
        paragraphs.extend(paragraph.filter(|paragraph| !paragraphs.contains(paragraph)));
    }
    let title = word.to_owned();
    (!paragraphs.is_empty()).then_some(Explanation { title, paragraphs })
}

/// Writes what a word means.
///
/// # Errors
/// Those of `out`.
pub fn text(found: &Explanation, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, true);
    for paragraph in &found.paragraphs {
        // Longer ones are sentences with a colon.
        let is_word = |(word, _): &(&str, &str)| word.len() < 30;
        match paragraph.split_once(": ").filter(is_word) {
            Some((word, text)) => page.labelled(Style::Title, &format!("{word}: "), "  ", text),
            None => page.wrap("", "  ", paragraph),
        }
    }
    page.finish(out)
}

/// Writes all words that have an explanation, by what they are.
///
/// # Errors
/// Those of `out`.
pub fn list(look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, true);
    page.wrap(
        "",
        "",
        "Words that are explained, and pairs of an algorithm and a protocol, like RING_LL.",
    );
    for (what, mut words) in words::known() {
        words.sort_unstable_by_key(|word| word.to_lowercase());
        page.title(&format!("{}{}", what[..1].to_uppercase(), &what[1..]));
        page.line(&words.join(", "));
    }
    page.gap();
    page.next("ncclscope explain busbw");
    page.finish(out)
}
