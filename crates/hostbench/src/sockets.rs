//! Sockets: making them, TCP over the loopback device at four sizes, with the system's buffers and with tuned
//! ones, and Unix sockets, by which the ranks of a host hand each other their memory.
//!
//! The methods are those of netperf: TCP_RR for the round trip (a message there, the same back, one at a
//! time) and TCP_STREAM for the throughput. Tuned sockets have TCP_NODELAY and buffers of [`TUNED`] bytes, as
//! far as the system grants them. The loopback device shows what the host's TCP costs. It says nothing about
//! the network.

use crate::item::{last_error, Items, Unit};
use crate::placement::{pin, CpuPlacement};
use crate::timing::best;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Buffers of tuned sockets.
pub const TUNED: libc::c_int = 4 << 20;
/// Sizes of messages that go there and back.
const ROUND_TRIPS: [usize; 4] = [8, 1 << 10, 16 << 10, 64 << 10];
/// Sizes of writes.
const WRITES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Bytes of a stream in one direction.
const STREAM: usize = 32 << 20;

/// All of them.
pub fn measure(items: &mut Items, place: &CpuPlacement) {
    items.group("Sockets");
    let make = best(|| {
        // SAFETY: numbers only; what was made is closed at once.
        unsafe {
            let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            libc::close(socket);
        }
    });
    items.nanos("socket_create", "TCP socket created and closed", make);
    items.add(
        "poll",
        Unit::Nanos,
        "poll of one socket, no timeout",
        poll(),
    );
    for tuned in [false, true] {
        let (kind, how) = if !tuned {
            ("default", "default buffers")
        } else {
            ("tuned", "4 MiB buffers, TCP_NODELAY")
        };
        for size in ROUND_TRIPS {
            items.add(
                &format!("tcp_round_trip_{kind}_{}", short(size)),
                Unit::Micros,
                &format!("{} there and back over loopback, {how}", short(size)),
                round_trip(TCP, pair(tuned), size, place),
            );
        }
        for size in WRITES {
            items.add(
                &format!("tcp_stream_{kind}_{}", short(size)),
                Unit::GbPerS,
                &format!("stream over loopback in writes of {}, {how}", short(size)),
                stream(TCP, pair(tuned), size, place),
            );
        }
    }
    for size in [ROUND_TRIPS[0], ROUND_TRIPS[3]] {
        items.add(
            &format!("unix_round_trip_{}", short(size)),
            Unit::Micros,
            &format!("{} there and back over a Unix socket", short(size)),
            round_trip(UNIX, UnixStream::pair(), size, place),
        );
    }
    items.add(
        "unix_stream_1M",
        Unit::GbPerS,
        "stream over a Unix socket in writes of 1M",
        stream(UNIX, UnixStream::pair(), WRITES[2], place),
    );
}

/// What failed.
const TCP: &str = "TCP over loopback";
const UNIX: &str = "a Unix socket";

/// A size as part of a name.
pub fn short(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 => format!("{}M", b >> 20),
        b if b >= 1 << 10 => format!("{}K", b >> 10),
        b => format!("{b}B"),
    }
}

fn poll() -> Result<f64, String> {
    // SAFETY: numbers only.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(last_error("socket"));
    }
    let mut one = libc::pollfd {
        fd: socket,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live element.
    let took = best(|| unsafe { _ = libc::poll(&mut one, 1, 0) });
    // SAFETY: opened above.
    unsafe { libc::close(socket) };
    Ok(took)
}

/// Two ends of a connection.
fn pair(tuned: bool) -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    if tuned {
        // Sockets that are accepted have the listener's buffers, and the window is agreed on at once.
        buffers(&listener)?;
    }
    let address = listener.local_addr()?;
    let a = TcpStream::connect(address)?;
    let (b, _) = listener.accept()?;
    if tuned {
        buffers(&a)?;
        a.set_nodelay(true)?;
        b.set_nodelay(true)?;
    }
    Ok((a, b))
}

fn buffers(socket: &impl AsRawFd) -> std::io::Result<()> {
    for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        // SAFETY: a live number of the size that is given.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const TUNED_VALUE).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if set != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

static TUNED_VALUE: libc::c_int = TUNED;

/// What the system made of the buffers that were asked for, bytes.
pub fn granted() -> Option<u64> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    buffers(&socket).ok()?;
    let mut value: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: a live place of the size that is given.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw mut value).cast(),
            &mut size,
        )
    };
    // The kernel doubles what is asked for, for its own use.
    (got == 0).then_some(value as u64 / 2)
}

fn round_trip<S: Read + Write + Send>(
    what: &str,
    ends: std::io::Result<(S, S)>,
    size: usize,
    place: &CpuPlacement,
) -> Result<f64, String> {
    let answer = |b: &mut S| {
        let mut message = vec![0; size];
        while b.read_exact(&mut message).is_ok() && b.write_all(&message).is_ok() {}
    };
    let took = with_partner(ends, place, answer, |a| {
        let mut message = vec![1; size];
        let mut failed = None;
        let took = best(|| {
            let done = a
                .write_all(&message)
                .and_then(|()| a.read_exact(&mut message));
            failed = failed.take().or(done.err());
        });
        failed.map_or(Ok(took / 1e3), Err)
    });
    took.map_err(|error| format!("{what}: {error}"))
}

/// Measures at one end, while a thread on another CPU does its part at the other.
fn with_partner<S: Send>(
    ends: std::io::Result<(S, S)>,
    place: &CpuPlacement,
    answer: impl FnOnce(&mut S) + Send,
    measure: impl FnOnce(&mut S) -> std::io::Result<f64>,
) -> std::io::Result<f64> {
    let (mut a, mut b) = ends?;
    let cpu = place.partner;
    std::thread::scope(|threads| {
        threads.spawn(move || {
            if let Some(cpu) = cpu {
                pin(cpu);
            }
            answer(&mut b);
        });
        let measured = measure(&mut a);
        // The partner reads the end, and ends.
        drop(a);
        measured
    })
}

fn stream<S: Read + Write + Send>(
    what: &str,
    ends: std::io::Result<(S, S)>,
    size: usize,
    place: &CpuPlacement,
) -> Result<f64, String> {
    let answer = |b: &mut S| {
        let mut room = vec![0; size];
        let mut left = STREAM;
        while let Ok(n @ 1..) = b.read(&mut room) {
            left = left.saturating_sub(n);
            if left == 0 {
                left = STREAM;
                if b.write_all(&[1]).is_err() {
                    break;
                }
            }
        }
    };
    let sent = with_partner(ends, place, answer, |a| {
        let data = vec![1; size];
        let mut best = f64::INFINITY;
        // The first one opens the window.
        for pass in 0..4 {
            let start = Instant::now();
            for _ in 0..STREAM / size {
                a.write_all(&data)?;
            }
            a.read_exact(&mut [0])?;
            if pass > 0 {
                best = best.min(start.elapsed().as_nanos() as f64);
            }
        }
        Ok(STREAM as f64 / best)
    });
    sent.map_err(|error| format!("{what}: {error}"))
}
