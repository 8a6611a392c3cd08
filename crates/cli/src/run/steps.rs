//! Has the program's steps read from its NVTX ranges, or from torch's optimizers.
//!
//! NVTX loads one library, which a variable names. The recorder's plugin is such a library. [`torch`] has the
//! folder for the program's Python.
//!
//! Rule: who has set NVTX's variable keeps it. Nsight Systems does so for the program that it starts.

use std::ffi::{OsStr, OsString};
use std::path::Path;

mod torch;

pub use torch::remove;

/// The variable that asks for it.
const VARIABLE: &str = "NCCLSCOPE_STEPS";
/// Where NVTX finds the library to load.
const SLOT: &str = "NVTX_INJECTION64_PATH";
/// Where Python looks for modules first.
const PYTHONPATH: &str = "PYTHONPATH";

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
        None => is_nvtx || is_torch(source) || source.eq_ignore_ascii_case("off"),
    };
    if !is_sound {
        return Err("expected nvtx, nvtx:NAME like nvtx:train_step, or torch".to_owned());
    }
    Ok(text.to_owned())
}

fn is_torch(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("torch")
}

/// The variables for the program. `option` is that of the command line, and `given` what a variable is for
/// the program so far.
pub fn variables(
    option: Option<String>,
    plugin: &OsStr,
    capture: &Path,
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
    if is_torch(&value) {
        return match torch::prepare(capture) {
            Ok(folder) => {
                // One that is no UTF-8 is not known as given.
                let so_far = given(PYTHONPATH).map(OsString::from);
                let so_far = so_far.or_else(|| std::env::var_os(PYTHONPATH));
                let path = torch::python_path(&folder, so_far.as_deref());
                vec![set(value), (PYTHONPATH.to_owned(), path)]
            }
            Err(error) => {
                notes.push(format!(
                    "no steps are read from torch's optimizers: the capture folder can't hold what Python \
                     needs for that: {error}"
                ));
                vec![set("off".to_owned())]
            }
        };
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
        let option = option.map(str::to_owned);
        let all = variables(option, plugin, Path::new("/nowhere"), given, &mut notes);
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
        assert_eq!(with(None, &[(VARIABLE, "jax")]), (vec![], 0));
        assert_eq!(with(Some("nvtx"), &[]), set("nvtx"));
        assert_eq!(with(None, &[(VARIABLE, "nvtx:a*")]), set("nvtx:a*"));
        assert_eq!(with(Some("nvtx:b"), &[(VARIABLE, "nvtx:a")]), set("nvtx:b"));
        assert_eq!(with(Some("off"), &[(VARIABLE, "nvtx")]), off(0));
        assert_eq!(with(Some("nvtx"), &[(SLOT, "/plugin.so")]), set("nvtx"));
        assert_eq!(with(Some("nvtx"), &[(SLOT, "/nsys.so")]), off(1));
        // The capture folder can't be written.
        assert_eq!(with(Some("torch"), &[]), off(1));
    }

    #[test]
    fn python_finds_the_folder_first() {
        let capture = tempfile::tempdir().expect("made");
        let given = |name: &str| match name {
            VARIABLE => Some("Torch".to_owned()),
            PYTHONPATH => Some("/mine".to_owned()),
            _ => None,
        };
        let mut notes = Vec::new();
        let all = variables(None, OsStr::new("/x.so"), capture.path(), given, &mut notes);
        let path = format!("{}/.torch-steps:/mine", capture.path().display());
        let [steps, path] = [(VARIABLE, "Torch"), (PYTHONPATH, &path)]
            .map(|(name, value)| (name.to_owned(), OsString::from(value)));
        assert_eq!((all, notes.len()), (vec![steps, path], 0));
    }

    #[test]
    fn what_the_option_takes() {
        for sound in [
            "nvtx",
            "off",
            "torch",
            "NVTX",
            "nvtx:train",
            "nvtx:step *",
            "nvtx:a:b",
        ] {
            assert_eq!(asked(sound).as_deref(), Ok(sound));
        }
        for wrong in ["", "jax", "torch:x", "nvtx:", "nvtx:*", "off:x", "100..200"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
