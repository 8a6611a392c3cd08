//! Which formats there are, and what a reader does about one that it does not know.
//!
//! The header of a trace file and of a live part [states](Stated) a [`Format`], and two sets of features that
//! the file uses. What a reader does with them:
//!
//! - another major number, or a *required* feature that it does not know: it refuses, and names what it met
//!   ([`Stated::refused`]);
//! - an *optional* feature that it does not know: it reads on, and says so ([`Stated::unknown`]);
//! - a newer minor number: it reads on. What it does not know (kinds of blocks, columns, keys, sections,
//!   spare bytes) can be left out without misreading the rest.
//!
//! Rule: a change that would make an older reader misread something takes a required feature, or a new major
//! number.

use std::fmt;

/// A format's number. Bytes of one major number are read in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Format {
    pub major: u16,
    pub minor: u16,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The format that is written.
pub const FORMAT: Format = Format { major: 2, minor: 0 };

/// The oldest major number that is read.
pub const OLDEST: u16 = 1;

/// The features that a reader must know to read a file, a bit each. This reader knows these; there are none
/// yet.
pub const REQUIRED: u32 = 0;
/// The features that a reader may leave out, as [`REQUIRED`].
pub const OPTIONAL: u32 = 0;

/// What a header says of its format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// Its number.
    pub format: Format,
    /// Features that a reader must know, a bit each.
    pub required: u32,
    /// Features that a reader may leave out, a bit each.
    pub optional: u32,
}

impl Stated {
    /// Why this reader can't read on; `None` if it can.
    pub fn refused(&self) -> Option<Refused> {
        let unknown = self.required & !REQUIRED;
        if !is_known(self.format.major) {
            Some(Refused::Format(self.format))
        } else if unknown != 0 {
            Some(Refused::Features(self.format, unknown))
        } else {
            None
        }
    }

    /// The optional features that this reader does not know.
    pub fn unknown(&self) -> u32 {
        self.optional & !OPTIONAL
    }
}

/// Whether a format with this major number is read.
pub fn is_known(major: u16) -> bool {
    (OLDEST..=FORMAT.major).contains(&major)
}

/// What a reader met and does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A major number.
    Format(Format),
    /// Required features, a bit each.
    Features(Format, u32),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Format(format) => write!(f, "format {format}"),
            Refused::Features(format, features) => {
                write!(f, "format {format} with required {}", named(*features))
            }
        }
    }
}

/// Features by number: `feature 3`, or `features 3 and 5`.
pub fn named(features: u32) -> String {
    let numbers = (0..32).filter(|bit| features >> bit & 1 != 0);
    let numbers: Vec<String> = numbers.map(|bit: u32| bit.to_string()).collect();
    match numbers.split_last() {
        Some((last, [])) => format!("feature {last}"),
        Some((last, others)) => format!("features {} and {last}", others.join(", ")),
        None => "no feature".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_named() {
        let stated = |major, required, optional| Stated {
            format: Format { major, minor: 4 },
            required,
            optional,
        };
        let said = |stated: Stated| stated.refused().map(|refused| refused.to_string());
        assert_eq!(said(stated(1, 0, 0)), None);
        assert_eq!(said(stated(2, 0, 8)), None);
        assert_eq!(said(stated(3, 0, 0)).as_deref(), Some("format 3.4"));
        assert_eq!(said(stated(0, 0, 0)).as_deref(), Some("format 0.4"));
        let found = "format 2.4 with required features 0, 3 and 31";
        assert_eq!(said(stated(2, 1 << 31 | 9, 0)).as_deref(), Some(found));
        assert_eq!(named(stated(2, 0, 8).unknown()), "feature 3");
        assert_eq!(stated(2, 0, 0).unknown(), 0);
    }
}
