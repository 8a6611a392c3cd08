//! What is written into a page: text with nothing in it that HTML obeys, and data for its scripts.

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The name by which the page's policy knows a script or style.
pub(crate) fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// `text` for the inside of an element or of a quoted attribute. Control characters, which HTML can't have,
/// show as `\u{1b}`.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        // A browser obeys what turns the direction of text, as a terminal does.
        for c in tables::printable(line).chars() {
            match c {
                '&' => out += "&amp;",
                '<' => out += "&lt;",
                '>' => out += "&gt;",
                '"' => out += "&quot;",
                '\'' => out += "&#39;",
                c => out.push(c),
            }
        }
    }
    out
}

/// `text` for the inside of an element, with what stands in backquotes as code.
pub(super) fn marked(text: &str) -> String {
    let text = escaped(text);
    let mut parts = text.split('`');
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        let _ = match parts.next() {
            Some(rest) => write!(out, "<code>{code}</code>{rest}"),
            None => write!(out, "`{code}"),
        };
    }
    out
}

/// JSON for the inside of a script element: what could end it, or a line, or turn text, is written by its
/// number. These characters stand in strings only.
pub(crate) fn embedded_json(data: &Value) -> String {
    let json = data.to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if matches!(c, '<' | '>' | '&') || tables::obeyed(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}
