//! The client: a process that does what the recorder would, as far as `ncclscope run` can see.
//!
//! It is this test binary again, with only the test [`plays_the_recorder`]. What it does is in the variable
//! `PLAY`. So it is a process of its own that can be killed.

use capture::live::{row_state, Image, Layout, View, MAGIC};
use capture::{block, snapshot};
use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::sys::signal::{kill, Signal};
use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

/// The client's test, as the test binary knows it.
pub const CLIENT: &str = "client::plays_the_recorder";

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
        "host=host0\nboot_id={}\nlive=memfd\ntrace={}\n",
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

/// Hands a memfd with `image` to `ncclscope run`.
fn hand_over(image: &Image, trace: &Path, id: u64) -> UnixStream {
    let memfd = memfd_create(c"live", MFdFlags::MFD_CLOEXEC).expect("made");
    File::from(memfd.try_clone().expect("copied"))
        .write_all(&bytes(image))
        .expect("written");
    let stream = UnixStream::connect(std::env::var("NCCLSCOPE_RUN_SOCKET").expect("set"))
        .expect("connected");
    let text = format!("ncclscope-live 1\n{}\n{id:016x}\n", trace.display());
    let descriptors = [memfd.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&descriptors)];
    let parts = [IoSlice::new(text.as_bytes())];
    sendmsg::<()>(
        stream.as_raw_fd(),
        &parts,
        &control,
        MsgFlags::empty(),
        None,
    )
    .expect("sent");
    stream
}

pub fn write_trace(trace: &Path) {
    fs::create_dir_all(trace.parent().expect("a folder")).expect("made");
    let mut bytes = block::file_header(trace_id()).to_vec();
    let start = block::begin(&mut bytes);
    bytes.extend(process(trace).bytes());
    block::finish(&mut bytes, start, block::Kind::Process, 0);
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
            let _held = hand_over(&image(&trace, false), &trace, trace_id());
            die();
        }
        "killed-before-its-trace-file" => {
            let _held = hand_over(&image(&trace, false), &trace, trace_id());
            die();
        }
        "killed-after-a-fork" => {
            write_trace(&trace);
            let held = hand_over(&image(&trace, false), &trace, trace_id());
            let heir = Stdio::from(held.as_fd().try_clone_to_owned().expect("copied"));
            #[expect(clippy::zombie_processes, reason = "it must outlive this process")]
            Command::new("sleep")
                .arg("20")
                .stdin(heir)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("started");
            die();
        }
        "ended" => {
            write_trace(&trace);
            let image = image(&trace, true);
            let _held = hand_over(&image, &trace, trace_id());
            write_snapshot(&image, &trace.with_extension("snap"));
        }
        "hostile" => {
            write_trace(&trace);
            let good = image(&trace, false);
            let elsewhere = PathBuf::from(format!("{out}/../outside.trace"));
            let _held = [
                hand_over(&good, &elsewhere, trace_id()),
                hand_over(&good, &trace, trace_id() + 1),
                hand_over(&Image::zeroed(64), &trace, trace_id()),
            ];
            let socket = std::env::var("NCCLSCOPE_RUN_SOCKET").expect("set");
            let mut babble = UnixStream::connect(&socket).expect("connected");
            let _ = babble.write_all(&[b'x'; 100_000]);
            let mut bare = UnixStream::connect(&socket).expect("connected");
            let text = format!(
                "ncclscope-live 1\n{}\n{:016x}\n",
                trace.display(),
                trace_id()
            );
            bare.write_all(text.as_bytes()).expect("sent");
            // A pipe that nobody writes to: whoever read it would wait for ever.
            let (reader, _writer) = nix::unistd::pipe().expect("made");
            let piped = UnixStream::connect(&socket).expect("connected");
            let descriptors = [reader.as_raw_fd()];
            let control = [ControlMessage::ScmRights(&descriptors)];
            let parts = [IoSlice::new(text.as_bytes())];
            sendmsg::<()>(piped.as_raw_fd(), &parts, &control, MsgFlags::empty(), None)
                .expect("sent");
            die();
        }
        "shared-memory" => {
            write_trace(&trace);
            let mut builder = fs::DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(shared_memory())
                .expect("made");
            let name = format!("r0-p{}-{:016x}.live", std::process::id(), trace_id());
            fs::write(shared_memory().join(name), bytes(&image(&trace, false))).expect("written");
            die();
        }
        other => panic!("no such play: {other}"),
    }
}
