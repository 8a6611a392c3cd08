//! Asks a library what it is, and programs what they know, without trusting either to come back.
//!
//! Rule: a library is opened in a child process only. Whatever it does there, the doctor goes on.

use serde_json::{json, Value};
use std::ffi::{c_int, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a library is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Why it does not open.
    pub error: Option<String>,
    /// The profiler symbols that it has.
    pub symbols: Vec<String>,
    /// What ncclGetVersion says.
    pub version: Option<u32>,
}

impl Probe {
    pub fn to_json(&self) -> Value {
        json!({ "error": self.error, "symbols": self.symbols, "version": self.version })
    }

    fn from_json(value: &Value) -> Option<Probe> {
        Some(Probe {
            error: value.get("error")?.as_str().map(str::to_owned),
            symbols: value
                .get("symbols")?
                .as_array()?
                .iter()
                .filter_map(|s| s.as_str().map(str::to_owned))
                .collect(),
            version: value
                .get("version")?
                .as_u64()
                .and_then(|v| u32::try_from(v).ok()),
        })
    }
}

/// Opens a library as NCCL opens a plugin.
pub fn here(library: &Path) -> Probe {
    let mut found = Probe::default();
    let Ok(name) = CString::new(library.as_os_str().as_bytes()) else {
        found.error = Some("a path with a zero byte".to_owned());
        return found;
    };
    // SAFETY: plain calls with NUL-terminated names. This process is the doctor's child and does nothing
    // else, so a library that misbehaves harms nobody.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            let error = libc::dlerror();
            let text = if error.is_null() {
                "dlopen gave no reason".to_owned()
            } else {
                CStr::from_ptr(error).to_string_lossy().into_owned()
            };
            found.error = Some(text);
            return found;
        }
        for symbol in nccl_abi::SYMBOLS {
            let Ok(name) = CString::new(symbol) else {
                continue;
            };
            if !libc::dlsym(handle, name.as_ptr()).is_null() {
                found.symbols.push(symbol.to_owned());
            }
        }
        let get_version = libc::dlsym(handle, c"ncclGetVersion".as_ptr());
        if !get_version.is_null() {
            // SAFETY: NCCL has had this signature since its first release.
            let get_version: extern "C" fn(*mut c_int) -> c_int = std::mem::transmute(get_version);
            let mut version = 0;
            if get_version(&mut version) == 0 {
                found.version = u32::try_from(version).ok().filter(|v| *v > 0);
            }
        }
    }
    found
}

/// [`here`] in a child process.
pub fn in_a_child(library: &Path) -> Probe {
    let failed = |why: String| Probe {
        error: Some(why),
        ..Probe::default()
    };
    let (Ok(program), Some(path)) = (std::env::current_exe(), library.to_str()) else {
        return failed("it can't be opened from here".to_owned());
    };
    let words = [&program.to_string_lossy(), "doctor", "--probe", path];
    let Some(printed) = output(&words, Duration::from_secs(30)) else {
        return failed("opening it ends or hangs the process".to_owned());
    };
    // The library may have printed something before.
    let last = printed.lines().last().unwrap_or_default();
    let value = serde_json::from_str(last).unwrap_or(Value::Null);
    Probe::from_json(&value).unwrap_or_else(|| failed("opening it ends the process".to_owned()))
}

/// Standard output of a program that succeeds within `limit`.
pub fn output(words: &[&str], limit: Duration) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut pipe = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = std::io::Read::read_to_end(&mut pipe, &mut text);
        text
    });
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    if !status?.success() {
        return None;
    }
    Some(String::from_utf8_lossy(&reader.join().ok()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_as_it_is_written() {
        let probe = Probe {
            error: None,
            symbols: vec!["ncclProfiler_v5".to_owned()],
            version: Some(22_809),
        };
        assert_eq!(Probe::from_json(&probe.to_json()), Some(probe));
        assert_eq!(Probe::from_json(&Value::Null), None);
    }

    #[test]
    fn what_is_no_library_is_said_to_be_none() {
        let found = here(Path::new("/nowhere/libnccl.so.2"));
        assert!(found
            .error
            .is_some_and(|e| e.contains("/nowhere/libnccl.so.2")));
    }

    #[test]
    fn a_program_that_fails_or_hangs_gives_nothing() {
        let limit = Duration::from_secs(10);
        assert_eq!(
            output(&["echo", "hello"], limit).as_deref(),
            Some("hello\n")
        );
        assert_eq!(output(&["false"], limit), None);
        assert_eq!(output(&["/nowhere/program"], limit), None);
        assert_eq!(output(&["sleep", "60"], Duration::from_millis(50)), None);
    }
}
