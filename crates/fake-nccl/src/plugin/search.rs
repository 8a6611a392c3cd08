//! Where NCCL looks for a plugin.

use super::version::Version;
use std::ffi::OsString;

/// Why a process has no plugin.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum NoPlugin {
    /// `NCCL_PROFILER_PLUGIN=none`.
    #[error("NCCL_PROFILER_PLUGIN is `none`")]
    SwitchedOff,
    /// No library opened.
    #[error("no plugin library opened; tried {0}")]
    NotOpened(String),
    /// The library has none of the symbols that the release looks up.
    #[error("`{library}` exports none of {first} down to ncclProfiler_v1, which NCCL {version} looks up")]
    NoSymbol {
        /// What was opened.
        library: String,
        /// The first symbol looked up.
        first: &'static str,
        /// The release.
        version: String,
    },
    /// An entry is null; NCCL would call it and crash.
    #[error("{symbol} has null entries: {entries}; NCCL calls them without a check")]
    NullEntry {
        /// The struct.
        symbol: &'static str,
        /// Which.
        entries: String,
    },
}

/// What NCCL would hand to dlopen, in order; `None` in the list stands for the program itself.
pub(super) fn candidates(
    version: Version,
    value: Option<&str>,
) -> Result<Vec<Option<OsString>>, NoPlugin> {
    let value = match value {
        None | Some("") => return Ok(vec![Some("libnccl-profiler.so".into())]),
        Some(value) => value,
    };
    if version.0 >= 22800 && value.eq_ignore_ascii_case("none") {
        return Err(NoPlugin::SwitchedOff);
    }
    // A prefix is enough, because NCCL compares over the length of the value.
    let word = "STATIC_PLUGIN";
    if word
        .get(..value.len())
        .is_some_and(|w| w.eq_ignore_ascii_case(value))
    {
        return Ok(vec![None]);
    }
    let value = if version.0 >= 22600 {
        // A buffer of 255 characters.
        value
            .char_indices()
            .nth(255)
            .map_or(value, |(at, _)| &value[..at])
    } else {
        value
    };
    let mut list = vec![Some(OsString::from(value))];
    let library = value.starts_with("lib") && value.ends_with(".so");
    let short = version.0 >= 22700 && !value.contains('/') && !library;
    if short || (22600..22700).contains(&version.0) {
        list.push(Some(format!("libnccl-profiler-{value}.so").into()));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(version: u32, value: Option<&str>) -> Vec<String> {
        let list = candidates(Version(version), value).unwrap();
        let text = |c: Option<OsString>| c.map_or("self".into(), |n| n.into_string().unwrap());
        list.into_iter().map(text).collect()
    }

    #[test]
    fn plugin_is_looked_up_as_nccl_does() {
        assert_eq!(names(22809, None), ["libnccl-profiler.so"]);
        assert_eq!(names(22809, Some("")), ["libnccl-profiler.so"]);
        assert_eq!(names(22809, Some("x")), ["x", "libnccl-profiler-x.so"]);
        assert_eq!(names(22809, Some("/a/b.so")), ["/a/b.so"]);
        assert_eq!(names(22809, Some("libx.so")), ["libx.so"]);
        assert_eq!(
            names(22602, Some("libx.so")),
            ["libx.so", "libnccl-profiler-libx.so.so"]
        );
        assert_eq!(names(22304, Some("x")), ["x"]);
        for value in ["STATIC_PLUGIN", "static", "s"] {
            assert_eq!(names(22809, Some(value)), ["self"]);
        }
        assert_eq!(names(22707, Some("none")).len(), 2);
        assert_eq!(
            candidates(Version(22809), Some("None")),
            Err(NoPlugin::SwitchedOff)
        );
    }
}
