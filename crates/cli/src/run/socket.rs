//! The run socket: where recorders on this host hand over their live parts, which `ncclscope run` then holds.
//!
//! A recorder connects, sends one message with its memfd attached, and keeps the connection as long as it lives:
//!
//! ```text
//! ncclscope-live 1\n
//! absolute path of the trace file\n
//! trace id, 16 hex digits\n
//! ```
//!
//! One thread accepts and holds. When a connection ends its process has died, and what it left is adopted.
//!
//! Rule: nothing that a client sends can make this thread wait, fail, or write outside the capture.

use super::adopt::{self, Here, Liveness, Outcome, Part};
use nix::fcntl::{fcntl, FcntlArg};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{recvmsg, ControlMessageOwned, MsgFlags};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Processes that can be held at once.
const MOST_CONNECTIONS: usize = 4096;
/// Bytes of a message; paths end at 4096.
const MOST_TEXT: usize = 8192;
/// How long the end of the program is waited for in processes that outlive it: a launcher may return while its last
/// workers are being torn down.
const GRACE: Duration = Duration::from_secs(5);

/// What became of the processes that were seen.
#[derive(Default)]
pub struct Tally {
    /// Live parts written.
    pub adopted: Vec<PathBuf>,
    /// Live parts that could not be, and why.
    pub failed: Vec<String>,
    /// Processes that went on after the program's end; only their flushed part is kept.
    pub alive: usize,
}

impl Tally {
    /// Adopts `part` and notes what became of it; true when the capture has all of it.
    pub fn adopt(&mut self, part: &Part, trace: &Path) -> bool {
        match adopt::adopt(part, trace) {
            Ok(Outcome::Adopted(path)) => self.adopted.push(path),
            Ok(Outcome::Whole) => {}
            Err(error) => {
                self.failed.push(format!("{error:#}"));
                return false;
            }
        }
        true
    }
}

/// The open socket and the thread that serves it.
pub struct Keeper {
    /// The socket's folder, removed with this.
    folder: tempfile::TempDir,
    stop: UnixStream,
    thread: JoinHandle<Tally>,
}

impl Keeper {
    /// Opens a socket for recorders that write into `capture`.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn open(capture: &Path) -> io::Result<Keeper> {
        // Whoever can reach the socket is this user, because of the folder's mode; so the messages need no secret.
        let private = |place: &Path| {
            let mode = std::fs::Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new()
                .prefix("ncclscope-")
                .permissions(mode)
                .tempdir_in(place)?;
            // Fails when the path is longer than an address can be (107 bytes).
            let listener = UnixListener::bind(folder.path().join("run"))?;
            Ok::<_, io::Error>((folder, listener))
        };
        let preferred = std::env::var_os("XDG_RUNTIME_DIR")
            .filter(|p| !p.is_empty())
            .map(PathBuf::from);
        let (folder, listener) = match preferred.map(|place| private(&place)) {
            Some(Ok(made)) => made,
            _ => private(Path::new("/tmp"))?,
        };
        listener.set_nonblocking(true)?;
        let (stop, stopped) = UnixStream::pair()?;
        let capture = capture.to_owned();
        let thread = std::thread::Builder::new()
            .name("run-socket".into())
            .spawn(move || {
                let mut server = Server {
                    capture,
                    here: Here::ask(),
                    held: Vec::new(),
                    tally: Tally::default(),
                };
                server.serve(&listener, &stopped);
                server.tally
            })?;
        Ok(Keeper {
            folder,
            stop,
            thread,
        })
    }

    /// The socket's path.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Adopts what is left, once the program has ended.
    pub fn finish(self) -> Tally {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// One recorder's connection.
struct Connection {
    stream: UnixStream,
    text: Vec<u8>,
    image: Option<OwnedFd>,
    /// The trace file and its id, once the message is whole and sound.
    trace: Option<(PathBuf, u64)>,
}

/// Whether a connection has more to say.
#[derive(PartialEq, Eq)]
enum Heard {
    Open,
    Ended,
    Nonsense,
}

impl Connection {
    /// Takes in what has come.
    fn hear(&mut self, capture: &Path) -> Heard {
        loop {
            let mut bytes = [0; 4096];
            // As many descriptors as one message can carry: those that don't fit would be lost to us, still open.
            let mut control = nix::cmsg_space!([RawFd; 253]);
            let mut parts = [IoSliceMut::new(&mut bytes)];
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
            let message = match recvmsg::<()>(
                self.stream.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                flags,
            ) {
                Ok(message) => message,
                Err(nix::Error::EAGAIN) => return Heard::Open,
                Err(nix::Error::EINTR) => continue,
                Err(_) => return Heard::Ended,
            };
            let received = message.bytes;
            for control in message.cmsgs().into_iter().flatten() {
                if let ControlMessageOwned::ScmRights(descriptors) = control {
                    for descriptor in descriptors {
                        // SAFETY: recvmsg has just made this descriptor for us, and hands it out here only.
                        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
                        self.image.get_or_insert(descriptor);
                    }
                }
            }
            if received == 0 {
                return Heard::Ended;
            }
            if self.trace.is_none() {
                self.text.extend(&bytes[..received]);
                if self.text.iter().filter(|b| **b == b'\n').count() >= 3 {
                    self.trace = self.understood(capture);
                    if self.trace.is_none() {
                        return Heard::Nonsense;
                    }
                } else if self.text.len() > MOST_TEXT {
                    return Heard::Nonsense;
                }
            }
        }
    }

    /// The message, if it is one and came with a memfd.
    fn understood(&self, capture: &Path) -> Option<(PathBuf, u64)> {
        let mut lines = self.text.split(|b| *b == b'\n');
        if lines.next()? != b"ncclscope-live 1" {
            return None;
        }
        let trace = PathBuf::from(std::ffi::OsStr::from_bytes(lines.next()?));
        adopt::inside(capture, &trace).ok()?;
        let id = u64::from_str_radix(std::str::from_utf8(lines.next()?).ok()?, 16).ok()?;
        // Only files in memory have seals: reading anything else could wait.
        fcntl(self.image.as_ref()?, FcntlArg::F_GET_SEALS).ok()?;
        Some((trace, id))
    }

    /// The live part as it is now.
    fn part(&self) -> Option<(Part, &Path)> {
        let (trace, id) = self.trace.as_ref()?;
        let file = File::from(self.image.as_ref()?.try_clone().ok()?);
        let part = Part::read(&file).ok()??;
        (part.trace_id() == *id).then_some((part, trace.as_path()))
    }
}

struct Server {
    capture: PathBuf,
    here: Here,
    held: Vec<Connection>,
    tally: Tally,
}

impl Server {
    /// Serves until `stopped` is closed at its other end and every process that was held has died, or was waited for.
    fn serve(&mut self, listener: &UnixListener, stopped: &UnixStream) {
        let mut deadline = None;
        loop {
            let mut watched = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
            watched.extend(
                self.held
                    .iter()
                    .map(|c| PollFd::new(c.stream.as_fd(), PollFlags::POLLIN)),
            );
            if deadline.is_none() {
                watched.push(PollFd::new(stopped.as_fd(), PollFlags::POLLIN));
            }
            let timeout = if deadline.is_some() {
                PollTimeout::from(20u8)
            } else {
                PollTimeout::NONE
            };
            let polled = poll(&mut watched, timeout);
            if deadline.is_none() && watched.last().is_some_and(|stop| stop.any() == Some(true)) {
                deadline = Some(Instant::now() + GRACE);
            }
            if polled.is_err() {
                // Interrupted, or out of memory for a moment.
                std::thread::sleep(Duration::from_millis(1));
            }
            // After the look at `stopped`: what connected before the program's end is accepted before ours.
            self.accept(listener);
            self.hear();
            if let Some(deadline) = deadline {
                let late = Instant::now() >= deadline;
                if self.settle(late) {
                    return;
                }
            }
        }
    }

    fn accept(&mut self, listener: &UnixListener) {
        loop {
            match listener.accept() {
                // One too many is closed at once; its recorder has other places for its live part.
                Ok((stream, _)) if self.held.len() < MOST_CONNECTIONS => {
                    self.held.push(Connection {
                        stream,
                        text: Vec::new(),
                        image: None,
                        trace: None,
                    });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Out of descriptors: the connection stays in the queue, and poll would return at once.
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            }
        }
    }

    fn hear(&mut self) {
        let mut at = 0;
        while at < self.held.len() {
            match self.held[at].hear(&self.capture) {
                Heard::Open => at += 1,
                Heard::Nonsense => drop(self.held.swap_remove(at)),
                Heard::Ended => {
                    let ended = self.held.swap_remove(at);
                    if let Some((part, trace)) = ended.part() {
                        self.tally.adopt(&part, trace);
                    }
                }
            }
        }
    }

    /// After the program's end: adopts the parts of dead writers whose connections live on in children that they
    /// forked. True when none is waited for any more.
    fn settle(&mut self, late: bool) -> bool {
        let (here, tally) = (&self.here, &mut self.tally);
        self.held.retain(|connection| {
            let Some((part, trace)) = connection.part() else {
                return false;
            };
            let dead = part.liveness(here) == Liveness::Dead;
            if dead {
                tally.adopt(&part, trace);
            }
            !dead
        });
        if late {
            tally.alive += self.held.len();
        }
        late || self.held.is_empty()
    }
}
