//! Standard output, and a reader that may leave before everything is printed.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line. A reader that has seen enough (`| head`) is no failure.
///
/// # Errors
/// When it can't be written, as to a full disk.
pub fn line(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("writing the output: {error}"),
        )),
        Ok(()) => Ok(()),
    }
}
