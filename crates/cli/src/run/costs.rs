//! Has NCCL's own estimates recorded, by ncclscope's tuner library.
//!
//! NCCL hands its table of costs to a tuner before each collective. The library keeps it and leaves NCCL's
//! choice as it is.
//!
//! Rule: who has set a tuner gets that one, because NCCL loads one.

use crate::plugin_path;
use crate::tune::TUNER;
use std::ffi::OsString;
use std::path::Path;

/// The variable that asks for it, and tells the library the folder.
const VARIABLE: &str = "NCCLSCOPE_COSTS";

/// The variables for the program, if it is asked for.
///
/// # Errors
/// If the library is not there.
pub fn variables(
    capture: &Path,
    env: impl Fn(&str) -> Option<String>,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<(String, OsString)>> {
    if !env(VARIABLE).is_some_and(|value| value.eq_ignore_ascii_case("on")) {
        return Ok(Vec::new());
    }
    let folder = (VARIABLE.to_owned(), std::path::absolute(capture)?.into());
    match env("NCCL_TUNER_PLUGIN") {
        None => {
            let library = plugin_path::installed(TUNER)?;
            Ok(vec![
                folder,
                ("NCCL_TUNER_PLUGIN".to_owned(), library.into()),
            ])
        }
        // `tune --within` has set it.
        Some(own) if own.ends_with(TUNER) => Ok(vec![folder]),
        Some(other) => {
            notes.push(format!(
                "NCCL's own estimates are not recorded: NCCL_TUNER_PLUGIN is `{other}`, and NCCL loads one \
                 tuner"
            ));
            Ok(Vec::new())
        }
    }
}

/// Removes them from a capture in which nothing was recorded.
pub fn remove(capture: &Path) {
    for entry in std::fs::read_dir(capture).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("costs-") && name.ends_with(".bin") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuner_of_the_user_stays() {
        let with = |vars: &[(&str, &str)]| {
            let env = |name: &str| {
                let found = vars.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let mut notes = Vec::new();
            let all = variables(Path::new("/c"), env, &mut notes).expect("nothing to look for");
            (all.len(), notes.len())
        };
        let (on, own) = (
            ("NCCLSCOPE_COSTS", "on"),
            ("NCCL_TUNER_PLUGIN", "/x/libnccl_tuner_ncclscope.so"),
        );
        assert_eq!(with(&[]), (0, 0));
        assert_eq!(with(&[("NCCLSCOPE_COSTS", "/c")]), (0, 0));
        assert_eq!(with(&[on, ("NCCL_TUNER_PLUGIN", "libother.so")]), (0, 1));
        assert_eq!(with(&[on, own]), (1, 0));
    }
}
