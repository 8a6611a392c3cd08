//! Text of a capture as it may be shown on a terminal.
//!
//! Names of communicators, hosts and files, and command lines are a program's to choose. A report must not
//! hand a terminal what it obeys: control characters, and those that turn the direction of text. JSON has its
//! own escapes.

use std::borrow::Cow;

/// `text` with `\u{1b}` and the like in place of what a terminal obeys, line ends and tabs included.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if obeyed(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Several lines as they may be shown: as [`printable`] does it, but line ends and tabs stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let laid_out = |c: char| matches!(c, '\n' | '\t');
    if !text.contains(|c| obeyed(c) && !laid_out(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for piece in text.split_inclusive(laid_out) {
        let end = piece.ends_with(laid_out).then(|| piece.len() - 1);
        let (words, end) = piece.split_at(end.unwrap_or(piece.len()));
        shown.push_str(&printable(words));
        shown.push_str(end);
    }
    Cow::Owned(shown)
}

/// Whether a terminal, or what else shows text, obeys a character rather than showing it. All of them have
/// four digits at most.
pub fn obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_as_an_escape() {
        assert_eq!(printable("a b\u{e9}"), "a b\u{e9}");
        assert_eq!(printable("a\u{61c}b"), "a\\u{61c}b");
        assert_eq!(
            printable_lines("\u{1b}[2Ja\n\tb\r\n"),
            "\\u{1b}[2Ja\n\tb\\r\n"
        );
        assert_eq!(
            printable("\x1b]0;x\x07\n\u{9b}\u{202e}"),
            "\\u{1b}]0;x\\u{7}\\n\\u{9b}\\u{202e}"
        );
    }
}
