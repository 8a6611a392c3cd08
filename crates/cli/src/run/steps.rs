//! Has the recorder read the program's steps from its NVTX ranges.
//!
//! NVTX loads one library, which a variable names. The recorder's plugin is such a library.
//!
//! Rule: who has set the variable keeps it. Nsight Systems does so for the program that it starts.

use std::ffi::{OsStr, OsString};

/// The variable that asks for it.
const VARIABLE: &str = "NCCLSCOPE_STEPS";
/// Where NVTX finds the library to load.
const SLOT: &str = "NVTX_INJECTION64_PATH";

/// What `--steps` and its variable take.
pub fn asked(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (source, name) = match text.split_once(':') {
        Some((source, name)) => (source, Some(name.trim())),
        None => (text, None),
    };
    let is_nvtx = source.eq_ignore_ascii_case("nvtx");
    // `*` alone would make each range a step.
    let is_sound = match name {
        Some(name) => is_nvtx && !name.trim_end_matches('*').is_empty(),
        None => is_nvtx || source.eq_ignore_ascii_case("off"),
    };
    if !is_sound {
        return Err("expected nvtx, or nvtx:NAME like nvtx:train_step".to_owned());
    }
    Ok(text.to_owned())
}

/// The variables for the program. `option` is that of the command line, and `given` what a variable is for
/// the program so far.
pub fn variables(
    option: Option<String>,
    plugin: &OsStr,
    given: impl Fn(&str) -> Option<String>,
    notes: &mut Vec<String>,
) -> Vec<(String, OsString)> {
    let set = |value: String| (VARIABLE.to_owned(), value.into());
    let is_option = option.is_some();
    let value = option.or_else(|| given(VARIABLE)).unwrap_or_default();
    // The recorder complains of a value that can't be used.
    if asked(&value).is_err() || value.eq_ignore_ascii_case("off") {
        return is_option.then(|| set(value)).into_iter().collect();
    }
    match given(SLOT).filter(|path| !path.is_empty()) {
        Some(path) if OsStr::new(&path) != plugin => {
            notes.push(format!(
                "{SLOT} is `{path}`, so another tool reads the program's NVTX ranges, and ncclscope reads no \
                 steps from them"
            ));
            vec![set("off".to_owned())]
        }
        _ => vec![set(value), (SLOT.to_owned(), plugin.to_owned())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(option: Option<&str>, vars: &[(&str, &str)]) -> (Vec<String>, usize) {
        let given = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut notes = Vec::new();
        let plugin = OsStr::new("/plugin.so");
        let all = variables(option.map(str::to_owned), plugin, given, &mut notes);
        let shown = |(name, value): &(String, OsString)| format!("{name}={}", value.display());
        (all.iter().map(shown).collect(), notes.len())
    }

    #[test]
    fn the_slot_of_another_tool_stays() {
        let set = |value: &str| {
            let slot = format!("{SLOT}=/plugin.so");
            (vec![format!("{VARIABLE}={value}"), slot], 0)
        };
        let off = |notes: usize| (vec![format!("{VARIABLE}=off")], notes);
        assert_eq!(with(None, &[]), (vec![], 0));
        assert_eq!(with(None, &[(VARIABLE, "off")]), (vec![], 0));
        assert_eq!(with(None, &[(VARIABLE, "torch")]), (vec![], 0));
        assert_eq!(with(Some("nvtx"), &[]), set("nvtx"));
        assert_eq!(with(None, &[(VARIABLE, "nvtx:a*")]), set("nvtx:a*"));
        assert_eq!(with(Some("nvtx:b"), &[(VARIABLE, "nvtx:a")]), set("nvtx:b"));
        assert_eq!(with(Some("off"), &[(VARIABLE, "nvtx")]), off(0));
        assert_eq!(with(Some("nvtx"), &[(SLOT, "/plugin.so")]), set("nvtx"));
        assert_eq!(with(Some("nvtx"), &[(SLOT, "/nsys.so")]), off(1));
    }

    #[test]
    fn what_the_option_takes() {
        for sound in [
            "nvtx",
            "off",
            "NVTX",
            "nvtx:train",
            "nvtx:step *",
            "nvtx:a:b",
        ] {
            assert_eq!(asked(sound).as_deref(), Ok(sound));
        }
        for wrong in ["", "torch", "nvtx:", "nvtx:*", "off:x", "100..200"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
