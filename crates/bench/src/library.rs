//! Finding and opening libnccl and libcuda at run time.
//!
//! Rule: nothing is linked against either, so `ncclscope` starts on any machine, and an error says where was
//! looked.

use anyhow::{bail, Context, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

const NCCL: &str = "libnccl.so.2";

/// Declares the functions of a library: a struct of pointers, and how they are looked up. Those after
/// `optional` may be missing.
macro_rules! functions {
    ($(#[$doc:meta])* $name:ident { $($field:ident = $symbol:literal ($($arg:ty),*);)* }
     optional { $($maybe:ident = $maybe_symbol:literal ($($maybe_arg:ty),*);)* }) => {
        $(#[$doc])*
        #[allow(missing_docs)]
        pub struct $name {
            $(pub $field: unsafe extern "C" fn($($arg),*) -> std::ffi::c_int,)*
            $(pub $maybe: Option<unsafe extern "C" fn($($maybe_arg),*) -> std::ffi::c_int>,)*
        }

        impl $name {
            /// Looks all of them up in a library that stays open.
            pub fn load(library: &'static libloading::os::unix::Library) -> anyhow::Result<$name> {
                Ok($name {
                    // SAFETY: the signatures are those of the library's headers, which keep them for a major
                    // version.
                    $($field: *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }
                        .map_err(|_| anyhow::anyhow!("expected the function {} in it, found \
                            none", $symbol))?,)*
                    // SAFETY: as above.
                    $($maybe: unsafe { library.get(concat!($maybe_symbol, "\0").as_bytes()) }
                        .ok()
                        .map(|f| *f),)*
                })
            }
        }
    };
}
pub(crate) use functions;

/// Opens a library so that others find its symbols, as if the program were linked with it. It stays open:
/// NCCL's threads may run in it until the process ends.
fn open(path: &OsStr) -> Result<&'static Library> {
    // SAFETY: these libraries' initializers have no demands on their caller.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    Ok(Box::leak(Box::new(library?)))
}

/// Opens the CUDA driver.
pub(crate) fn open_cuda(given: Option<&Path>) -> Result<&'static Library> {
    let path = given.map_or(OsStr::new("libcuda.so.1"), Path::as_os_str);
    open(path).map_err(|error| {
        anyhow::anyhow!(
            "the CUDA driver can't be opened: {error:#}\n  hint: bench needs NVIDIA's driver and a GPU; in a \
             container, pass the GPUs through (--gpus all, or --nv); --cuda PATH names another libcuda.so.1"
        )
    })
}

/// Where NCCL is: as given, else the one that this process has already (LD_PRELOAD), else the first of
/// LD_LIBRARY_PATH, python3's packages and what the linker knows.
pub fn find_nccl(given: Option<&Path>) -> OsString {
    if let Some(path) = given {
        return path.into();
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let loaded = maps.lines().any(|line| {
        let name = line.rsplit('/').next().unwrap_or_default();
        name.starts_with("libnccl.so")
    });
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    if loaded || std::env::split_paths(&folders).any(|folder| folder.join(NCCL).exists()) {
        return NCCL.into();
    }
    let packages = python_packages();
    let found = packages.into_iter().find(|path| path.exists());
    found.map_or(NCCL.into(), PathBuf::into_os_string)
}

/// Where wheels put NCCL.
fn python_packages() -> Vec<PathBuf> {
    let script = "import sys; print('\\n'.join(sys.path))";
    let printed = Command::new("python3").args(["-c", script]).output();
    let printed = printed.map(|done| done.stdout).unwrap_or_default();
    String::from_utf8_lossy(&printed)
        .lines()
        .filter(|line| line.starts_with('/'))
        .map(|line| Path::new(line).join("nvidia/nccl/lib").join(NCCL))
        .collect()
}

/// Opens NCCL.
pub(crate) fn open_nccl(path: &OsStr) -> Result<&'static Library> {
    match open(path) {
        Ok(library) => Ok(library),
        Err(error) if path == NCCL => bail!(
            "NCCL can't be opened: {error:#}\n  looked at LD_LIBRARY_PATH, python3's packages \
             (nvidia/nccl/lib) and the linker's folders\n  hint: run this in the job's own environment, `pip \
             install nvidia-nccl-cu12` (or -cu13), or name one: --nccl PATH"
        ),
        Err(error) => Err(error).with_context(|| {
            format!("NCCL can't be opened at `{}`", path.to_string_lossy())
        }),
    }
}

/// A C string of a library, which lives as long as it.
///
/// # Safety
/// `text` is NULL or points to a string that is not changed while this runs.
pub(crate) unsafe fn text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().trim_end().to_owned()
}
