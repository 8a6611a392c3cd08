//! The client: a process that does what the recorder would, as far as `ncclscope run` can see.
//!
//! It is this test binary again, with only the test [`plays_the_recorder`]. What it does is in the variable
//! `PLAY`. So it is a process of its own that can be killed.

use capture::live::{row_state, Image, Layout, View, MAGIC};
use capture::{block, snapshot};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// The client's test, as the test binary knows it.
pub const CLIENT: &str = "run::client::plays_the_recorder";

const CALLS: u64 = 5;

/// The image of a process with five calls, one of them open unless it ended.
pub fn image(trace: &Path, ended: bool) -> Image {
    let layout = Layout::for_memory(0);
    let image = Image::zeroed(layout.bytes());
    // SAFETY: the image is zeroed, aligned, as long as the layout says, and outlives the view.
    let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
    let header = view.header();
    let stat = fs::read_to_string("/proc/self/stat").expect("read");
    let start = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
    header.trace_id.store(trace_id(), Relaxed);
    header.pid.store(std::process::id(), Relaxed);
    header.pid_start.store(start.expect("a number"), Relaxed);
    header.pid_namespace.store(
        fs::metadata("/proc/self/ns/pid").expect("read").ino(),
        Relaxed,
    );
    header.born.store(CALLS, Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after 1970").as_nanos() as u64;
    header.last.realtime.store(now, Relaxed);
    header.state.store(u32::from(ended), Relaxed);
    view.rows()[7].word.store(
        if ended {
            row_state::FREE
        } else {
            7 << 2 | row_state::ALIVE
        },
        Relaxed,
    );
    let process = process(trace);
    for (to, from) in header.process.iter().zip(process.bytes()) {
        to.store(from, Relaxed);
    }
    header.process_len.store(process.len() as u32, Relaxed);
    header.magic.store(MAGIC, Relaxed);
    image
}

fn trace_id() -> u64 {
    u64::from(std::process::id()) << 8 | 1
}

fn process(trace: &Path) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    format!(
        "host=host0\nboot_id={}\nlive=/nowhere\ntrace={}\n",
        boot.trim(),
        trace.display()
    )
}

pub fn bytes(image: &Image) -> Vec<u8> {
    let bytes = Layout::for_memory(0).bytes();
    image
        .words()
        .iter()
        .flat_map(|word| word.load(Relaxed).to_le_bytes())
        .take(bytes)
        .collect()
}

/// Puts `image` where the recorder has its live part.
fn leave(image: &Image) {
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(shared_memory())
        .expect("made");
    let name = format!("r0-p{}-{:016x}.live", std::process::id(), trace_id());
    fs::write(shared_memory().join(name), bytes(image)).expect("written");
}

pub fn write_trace(trace: &Path) {
    fs::create_dir_all(trace.parent().expect("a folder")).expect("made");
    let mut bytes = block::file_header(trace_id()).to_vec();
    let start = block::begin(&mut bytes);
    bytes.extend(process(trace).bytes());
    block::finish(&mut bytes, start, block::BlockKind::Process, 0);
    fs::write(trace, bytes).expect("written");
}

pub fn write_snapshot(image: &Image, path: &Path) {
    let mut out = Vec::new();
    let size = Layout::for_memory(0).bytes();
    snapshot::begin(&mut out);
    snapshot::span(&mut out, 0, &image.words()[..size / 8]);
    snapshot::finish(&mut out, 0, size);
    fs::write(path, out).expect("written");
}

pub fn shared_memory() -> PathBuf {
    PathBuf::from(format!("/dev/shm/ncclscope-{}", nix::unistd::geteuid()))
}

fn die() -> ! {
    kill(Pid::this(), Signal::SIGKILL).expect("sent");
    unreachable!("killed")
}

#[test]
#[ignore = "the client of the other tests"]
fn plays_the_recorder() {
    let play = std::env::var("PLAY").unwrap_or_default();
    let Ok(out) = std::env::var("NCCLSCOPE_OUT") else {
        return;
    };
    let trace = PathBuf::from(format!(
        "{out}/host0/r0-p{}-{:08x}.trace",
        std::process::id(),
        trace_id() as u32
    ));
    match play.as_str() {
        "killed" => {
            write_trace(&trace);
            leave(&image(&trace, false));
            die();
        }
        "killed-before-its-trace-file" => {
            leave(&image(&trace, false));
            die();
        }
        "ended" => {
            write_trace(&trace);
            let image = image(&trace, true);
            leave(&image);
            write_snapshot(&image, &trace.with_extension("snap"));
        }
        other => panic!("no such play: {other}"),
    }
}
