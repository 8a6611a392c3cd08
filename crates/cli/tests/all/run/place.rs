//! A folder to work in, and the command in it.

use crate::run::client::CLIENT;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder to work in, with a file that stands for the plugin.
pub struct RunFolder(tempfile::TempDir);

impl RunFolder {
    pub fn new() -> RunFolder {
        let place = RunFolder(tempfile::tempdir().expect("a folder"));
        fs::write(place.path().join("plugin.so"), "").expect("written");
        place
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command, away from launchers' variables that the tests themselves may run under.
    pub fn ncclscope(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
        // Under nohup, or started in the background by a script, tests begin with signals ignored, and no
        // shell can trap what was ignored when it started. SAFETY: signal() is safe to call between fork and
        // exec.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || {
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        command.args(args).current_dir(self.path()).env_clear();
        command
            .env("PATH", std::env::var_os("PATH").expect("set"))
            .env("NCCLSCOPE_PLUGIN", self.path().join("plugin.so"));
        command.env("CLIENT", std::env::current_exe().expect("known"));
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.ncclscope(&[&["run"], args].concat())
            .output()
            .expect("started")
    }

    /// Runs a shell script that calls the client as `play`.
    pub fn run_playing(&self, script: &str) -> Output {
        let play = format!(
            "play() {{ PLAY=$1 \"$CLIENT\" --exact {CLIENT} --ignored --nocapture >/dev/null; }}"
        );
        self.run(&["-o", "c", "--", "sh", "-c", &format!("{play}\n{script}")])
    }

    pub fn files(&self, ending: &str) -> Vec<PathBuf> {
        let folder = self.path().join("c/host0");
        let mut found: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        found.retain(|p| p.extension().is_some_and(|e| e == ending));
        found
    }

    pub fn mark(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.path().join("c/capture.json")).expect("there"))
            .expect("JSON")
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
