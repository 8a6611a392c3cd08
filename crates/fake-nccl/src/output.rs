//! Standard output, and a reader that may leave before everything is printed.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};

/// Says a line on standard error, without what a terminal obeys. If that is full or closed, the line is lost.
pub fn tell(text: Arguments) {
    let whole = format!("{text}\n");
    let _ = io::stderr().write_all(tables::printable_lines(&whole).as_bytes());
}

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
