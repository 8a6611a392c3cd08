//! Where the programs and the plugin of this build are.

use std::path::{Path, PathBuf};

/// The folder of the built programs.
pub fn folder() -> &'static Path {
    let program = Path::new(env!("CARGO_BIN_EXE_ncclscope"));
    program.parent().expect("target/PROFILE")
}

/// The plugin that jobs load: the one that `NCCLSCOPE_PLUGIN` names, or the one of this build.
pub fn plugin() -> PathBuf {
    let places = ["", "deps"].map(|f| folder().join(f).join("libnccl_profiler_ncclscope.so"));
    let given = std::env::var_os("NCCLSCOPE_PLUGIN").map(PathBuf::from);
    let plugin = given.or_else(|| places.into_iter().find(|p| p.is_file()));
    plugin.expect("the plugin; `make debug` builds it")
}
