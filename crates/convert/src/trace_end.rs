//! Where the events of a trace in Chrome's format end, so that others can be added there.

use crate::input;
use crate::json::{Fault, Json, Kind};
use std::io::Read;
use std::path::Path;

/// The end of the events of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceEnd {
    /// The byte of the bracket that closes them, of the unpacked file.
    pub at: u64,
    /// The trace's times count from here, ns since 1970.
    pub base_ns: i64,
    /// There is no event.
    pub is_empty: bool,
}

/// Finds the end of a file's events.
///
/// # Errors
/// If it is no whole trace.
pub fn trace_end(path: &Path) -> Result<TraceEnd, Fault> {
    of(input::open(path).map_err(Fault::Io)?)
}

fn of(input: impl Read) -> Result<TraceEnd, Fault> {
    let mut json = Json::new(input);
    let (mut end, mut is_found) = (TraceEnd::default(), false);
    if json.kind()? == Kind::Array {
        events(&mut json, &mut end)?;
        return Ok(end);
    }
    let (mut first, mut key, mut value) = (true, String::new(), String::new());
    json.enter()?;
    while json.key(&mut first, &mut key)? {
        match key.as_str() {
            "traceEvents" if json.kind()? == Kind::Array => {
                events(&mut json, &mut end)?;
                is_found = true;
            }
            "baseTimeNanoseconds" if json.scalar_or_skip(&mut value)? => {
                end.base_ns = value.parse().unwrap_or(0);
            }
            "baseTimeNanoseconds" => {}
            _ => json.skip()?,
        }
    }
    if is_found {
        Ok(end)
    } else {
        json.fail("`traceEvents`")
    }
}

fn events<R: Read>(json: &mut Json<R>, end: &mut TraceEnd) -> Result<(), Fault> {
    let mut first = true;
    end.is_empty = true;
    json.enter()?;
    while json.element(&mut first)? {
        end.is_empty = false;
        json.skip()?;
    }
    end.at = json.position() - 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_bracket() {
        for (text, base_ns, is_empty) in [
            (
                r#"{"a": [1, {"]": 2}], "traceEvents": [{"x": "]"}, 2], "baseTimeNanoseconds": 7}"#,
                7,
                false,
            ),
            (r#"{"traceEvents": [ ]}"#, 0, true),
            (r#"[{"x": [3]}]"#, 0, false),
        ] {
            let found = of(text.as_bytes()).expect(text);
            assert_eq!(
                (found.base_ns, found.is_empty),
                (base_ns, is_empty),
                "{text}"
            );
            let (before, rest) = text.split_at(found.at as usize);
            assert!(rest.starts_with(']'), "{before} | {rest}");
        }
        for text in ["{}", "{\"traceEvents\": [1", "7"] {
            assert!(of(text.as_bytes()).is_err(), "{text}");
        }
    }
}
