//! Names of functions, datatypes, algorithms and protocols, each kept once for all processes.
//!
//! Rule: a [`Name`] means the same text in every process of a capture, so that rows of different ranks
//! compare as numbers.

use std::collections::HashMap;

/// An interned name. [`Name::NONE`] is "not known".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

impl Name {
    /// No name is known.
    pub const NONE: Name = Name(0);
}

/// The names of a capture.
#[derive(Debug, Default)]
pub struct Names {
    texts: Vec<String>,
    ids: HashMap<String, Name>,
}

impl Names {
    /// The name for `text`; [`Name::NONE`] for an empty one, and for any beyond 2^32.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(name) = self.ids.get(text) {
            return *name;
        }
        let Ok(id) = u32::try_from(self.texts.len() + 1) else {
            return Name::NONE;
        };
        if text.is_empty() {
            return Name::NONE;
        }
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), Name(id));
        Name(id)
    }

    /// All texts.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    /// The text of a name; `None` for [`Name::NONE`].
    pub fn get(&self, name: Name) -> Option<&str> {
        self.texts
            .get((name.0 as usize).checked_sub(1)?)
            .map(String::as_str)
    }
}
