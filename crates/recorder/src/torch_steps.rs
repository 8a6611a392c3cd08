//! Steps of torch's optimizers (`NCCLSCOPE_STEPS=torch`): whether any can come.
//!
//! The program's Python marks them, with files that `ncclscope run --steps torch` puts into a folder on
//! PYTHONPATH (`crates/cli/src/run/steps/`). The recorder only says why there will be none.

use std::path::Path;

/// The name of that folder.
const FOLDER: &str = ".torch-steps";

/// Whether the value of the setting asks for them.
pub fn is_asked(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("torch")
}

/// Why Python can't have run these files, if that is seen.
pub fn missing() -> Option<String> {
    let path = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let folder = std::env::split_paths(&path).find(|place| place.ends_with(Path::new(FOLDER)));
    let Some(folder) = folder else {
        return Some("PYTHONPATH has no folder of `ncclscope run --steps torch`".to_owned());
    };
    (!folder.is_dir()).then(|| {
        format!(
            "`{}` of PYTHONPATH is not on this host",
            folder.to_string_lossy()
        )
    })
}
