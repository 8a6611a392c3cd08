//! What is wrong with a script.

/// What is wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found {found}")]
pub struct Error {
    /// The first line is 1.
    pub line: usize,
    /// What could stand there.
    pub expected: String,
    /// What stood there.
    pub found: String,
}
