//! The name that only one sampler of a capture can have on a node. It goes with its process.
//!
//! It is in the abstract socket name space, where any user of the machine can take any name. So who holds a
//! name is asked of the kernel. If another user does, the next name is tried.
//!
//! Rule: nothing is sent or received.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::Duration;

/// Names that are tried.
const NAMES: u32 = 16;
/// A sampler that has a name listens at once, and a busy machine may come between.
const LOOKS: u32 = 5;

/// How an attempt ended.
pub enum Claim {
    /// It is ours until this is dropped.
    Ours(Name),
    /// Another sampler of the same user has it.
    Held,
    /// None can be had.
    Refused(String),
}

/// A name that this process holds.
pub struct Name(UnixListener);

impl Name {
    /// Lets go of those that asked who holds the name, so that the next ones get an answer.
    pub fn answer(&self) {
        for _ in 0..64 {
            if self.0.accept().is_err() {
                return;
            }
        }
    }
}

/// Tries to get the name for a capture.
pub fn claim(folder: &Path) -> Claim {
    // SAFETY: always succeeds.
    let user = unsafe { libc::geteuid() };
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    let first = format!("ncclscope-sampler-{user}-{:016x}", hasher.finish());
    for n in 0..NAMES {
        let name = match n {
            0 => first.clone(),
            n => format!("{first}-{n}"),
        };
        let address = SocketAddr::from_abstract_name(&name);
        match address.and_then(|address| UnixListener::bind_addr(&address)) {
            Ok(listener) => {
                let _ = listener.set_nonblocking(true);
                return Claim::Ours(Name(listener));
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if holder(&name) == Some(user) {
                    return Claim::Held;
                }
            }
            Err(error) => return Claim::Refused(error.to_string()),
        }
    }
    Claim::Refused(format!(
        "other users of this machine hold all of its {NAMES} names (`@{first}` and so on)"
    ))
}

/// The user whose process listens under a name; `None` if none does.
fn holder(name: &str) -> Option<u32> {
    // SAFETY: plain system calls; the address is as long as said, and the answer has room.
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        // An abstract name begins with a zero byte.
        let path = address.sun_path.get_mut(1..=name.len())?;
        for (to, from) in path.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        for _ in 0..LOOKS {
            let flags = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let socket = libc::socket(libc::AF_UNIX, flags, 0);
            if socket < 0 {
                return None;
            }
            let socket = OwnedFd::from_raw_fd(socket);
            let address = (&raw const address).cast();
            if libc::connect(socket.as_raw_fd(), address, len as libc::socklen_t) == 0 {
                let mut peer: libc::ucred = std::mem::zeroed();
                let mut size = size_of::<libc::ucred>() as libc::socklen_t;
                let told = libc::getsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_PEERCRED,
                    (&raw mut peer).cast(),
                    &mut size,
                );
                return (told == 0).then_some(peer.uid);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_of_a_node_samples_a_capture() {
        let place = tempfile::tempdir().expect("a folder");
        let ours = |folder: &Path| match claim(folder) {
            Claim::Ours(name) => Some(name),
            Claim::Held => None,
            Claim::Refused(why) => panic!("{why}"),
        };
        let first = ours(place.path());
        let name = first.as_ref().expect("ours");
        // However often others ask.
        for _ in 0..300 {
            assert!(ours(place.path()).is_none());
            name.answer();
        }
        assert!(ours(&place.path().join("other")).is_some());
        drop(first);
        assert!(ours(place.path()).is_some());
    }

    #[test]
    fn a_name_that_is_taken_and_not_listened_at_is_not_waited_for() {
        let place = tempfile::tempdir().expect("a folder");
        let Claim::Ours(name) = claim(place.path()) else {
            panic!("it is ours");
        };
        // A backlog of 0 that is full: nobody answers, as if it was another user's.
        // SAFETY: a socket of ours.
        unsafe { libc::listen(name.0.as_raw_fd(), 0) };
        let address = name.0.local_addr().expect("bound");
        let _first = std::os::unix::net::UnixStream::connect_addr(&address).expect("queued");
        assert!(matches!(claim(place.path()), Claim::Ours(_)));
    }
}
