//! TCP connections of processes with NCCL, for `--net`, as the kernel counts them.
//!
//! `sock_diag` answers which TCP sockets there are, with the kernel's `struct tcp_info` of each: bytes,
//! retransmits, round trip. Which process has a socket is in `/proc/PID/fd`. A [`Net`] asks at each tick and
//! keeps a [`Connection`] from its first sight on. No probe is set, so the job pays nothing.
//!
//! A connection's other end is known if it belongs to a process that is watched, too: same addresses, the
//! other way round.
//!
//! Rule: a process's own sockets for other things (a TCPStore, Gloo, a data loader) are here as well. The
//! kernel does not know who in a process opened a socket.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const DUMP: u16 = 0x301;
const TCP_INFO: u16 = 2;
/// All states but listening, closed, and those before and after a connection: bits by TCP state.
const STATES: u32 = 0xfff & !(1 << 10 | 1 << 7 | 1 << 6 | 1 << 3 | 1 << 2);
/// Connections of all processes that are kept.
const MOST: usize = 65_536;

/// What the kernel says of a connection at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counters {
    /// Bytes that were sent, each once, and bytes that came.
    pub sent: u64,
    pub received: u64,
    /// Segments and bytes that were sent again.
    pub retransmits: u64,
    pub retransmitted: u64,
    /// Smoothed round trip, and the least one, µs.
    pub rtt: u64,
    pub least_rtt: u64,
    /// Bytes that are sent and not acknowledged, or wait to be sent; bytes that the program did not read yet.
    pub send_queue: u64,
    pub receive_queue: u64,
    /// µs in which there was something to send; of these, in which the other side's window, or the own
    /// buffer, was full.
    pub busy: u64,
    pub window_full: u64,
    pub buffer_full: u64,
}

/// A socket, as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    inode: u64,
    cookie: u64,
    counters: Counters,
}

/// A connection of a process.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Connection {
    /// The process's index in the session.
    pub process: usize,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Index of the process at the other end, if it is watched.
    pub peer: Option<usize>,
    /// It began while it was watched, and ended meanwhile.
    pub is_new: bool,
    pub has_ended: bool,
    first: Counters,
    pub last: Counters,
    /// Of all ticks at which something was sent: mean and largest round trip, µs.
    rtt_sum: u64,
    rtt_ticks: u64,
    pub most_rtt: u64,
    pub most_send_queue: u64,
    pub most_receive_queue: u64,
    /// Most bytes in both directions in one tick, and that tick's length, ns.
    pub busiest: (u64, u64),
    /// Calls of the process that began between ticks in which the connection carried data.
    pub calls: u64,
}

impl Connection {
    /// What was added since the first sight. Queues and round trips are those of the last one.
    pub fn since(&self) -> Counters {
        let (a, b) = (&self.first, &self.last);
        Counters {
            sent: b.sent.saturating_sub(a.sent),
            received: b.received.saturating_sub(a.received),
            retransmits: b.retransmits.saturating_sub(a.retransmits),
            retransmitted: b.retransmitted.saturating_sub(a.retransmitted),
            busy: b.busy.saturating_sub(a.busy),
            window_full: b.window_full.saturating_sub(a.window_full),
            buffer_full: b.buffer_full.saturating_sub(a.buffer_full),
            ..*b
        }
    }

    /// Mean of the round trips at ticks with traffic, µs; else the last one.
    pub fn mean_rtt(&self) -> u64 {
        match self.rtt_ticks {
            0 => self.last.rtt,
            ticks => self.rtt_sum / ticks,
        }
    }

    /// As series of samples name it.
    pub fn name(&self) -> String {
        format!("{}-{}", self.local, self.remote)
    }
}

/// A process, as [`Net::tick`] takes it.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// Its index in the session.
    pub index: usize,
    /// As this tool numbers it.
    pub pid: u32,
    /// Calls that it has made so far.
    pub calls: u64,
}

/// Asks at ticks.
#[derive(Default)]
pub struct Net {
    /// A socket of the kernel's in each network name space, by inode; `None` if that can't be had.
    spaces: HashMap<u64, Option<OwnedFd>>,
    /// By network name space and the kernel's own number of the socket, which no other one ever gets.
    connections: BTreeMap<(u64, u64), Connection>,
    /// Calls of processes at the tick before.
    calls: HashMap<usize, u64>,
    /// Processes that have had a tick.
    known: Vec<usize>,
    last: Option<u64>,
    /// Why something can't be asked, once each.
    pub troubles: Vec<String>,
}

fn netlink() -> io::Result<OwnedFd> {
    // SAFETY: a plain call.
    let fd = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            NETLINK_SOCK_DIAG,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made it for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket for questions in the network name space of a process. A thread that ends afterwards goes there:
/// this one stays where it is.
fn netlink_of(pid: u32) -> io::Result<OwnedFd> {
    let space = File::open(format!("/proc/{pid}/ns/net"))?;
    let own = std::fs::metadata("/proc/thread-self/ns/net")?;
    if own.ino() == space.metadata()?.ino() {
        return netlink();
    }
    let thread = std::thread::spawn(move || {
        // SAFETY: a plain call, for this thread alone.
        if unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        netlink()
    });
    thread.join().unwrap_or(Err(io::ErrorKind::Other.into()))
}

/// The TCP sockets of a family, in the name space of `socket`.
fn dump(socket: &OwnedFd, family: u8, each: &mut impl FnMut(Socket)) -> io::Result<()> {
    // struct nlmsghdr, then struct inet_diag_req_v2: family, protocol, extensions, states, no address.
    let mut request = [0u8; 72];
    request[..4].copy_from_slice(&72u32.to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    request[16] = family;
    request[17] = libc::IPPROTO_TCP as u8;
    request[18] = 1 << (TCP_INFO - 1);
    request[20..24].copy_from_slice(&STATES.to_ne_bytes());
    // SAFETY: the buffer is as long as said.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            request.as_ptr().cast(),
            request.len(),
            0,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut answer = vec![0u8; 64 << 10];
    loop {
        // SAFETY: the buffer is as long as said.
        let got = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                answer.as_mut_ptr().cast(),
                answer.len(),
                0,
            )
        };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut rest = &answer[..got as usize];
        if rest.is_empty() {
            return Ok(());
        }
        while let Some((kind, body, next)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let code = body.get(..4).and_then(|bytes| bytes.try_into().ok());
                    let code = code.map_or(0, i32::from_ne_bytes);
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => {
                    if let Some(socket) = socket_of(body) {
                        each(socket);
                    }
                }
            }
            rest = next;
        }
    }
}

/// The first message: its kind, its body, and what follows.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(16..length)?;
    let next = length.next_multiple_of(4).min(bytes.len());
    Some((kind, body, &bytes[next..]))
}

/// A `struct inet_diag_msg` with its attributes.
fn socket_of(body: &[u8]) -> Option<Socket> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let address = |at: usize| {
        let bytes: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
        Some(match body[0] {
            2 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            // One address has one spelling, whatever the family of the socket.
            _ => Ipv6Addr::from(bytes).to_canonical(),
        })
    };
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let local = SocketAddr::new(address(8)?, port(4)?);
    let remote = SocketAddr::new(address(24)?, port(6)?);
    let cookie = u64::from(u32_at(44)?) | u64::from(u32_at(48)?) << 32;
    let (receive_queue, send_queue, inode) = (u32_at(56)?, u32_at(60)?, u32_at(68)?);
    let mut counters = Counters::default();
    let mut rest = body.get(72..)?;
    // struct rtattr: length and kind, then the value.
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let kind = u16::from_ne_bytes([rest[2], rest[3]]);
        let value = rest.get(4..length)?;
        if kind == TCP_INFO {
            counters = counters_of(value);
        }
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    counters.send_queue = send_queue.into();
    counters.receive_queue = receive_queue.into();
    Some(Socket {
        local,
        remote,
        inode: inode.into(),
        cookie,
        counters,
    })
}

/// From the kernel's `struct tcp_info`, which newer kernels have longer. What it lacks is 0.
fn counters_of(info: &[u8]) -> Counters {
    let u32_at = |at: usize| {
        let bytes = info.get(at..at + 4).and_then(|b| b.try_into().ok());
        u64::from(bytes.map_or(0, u32::from_ne_bytes))
    };
    let u64_at = |at: usize| {
        let bytes = info.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    };
    // Since Linux 4.19. What is acknowledged counts the handshake as a byte at one end.
    let sent = if info.len() >= 216 {
        u64_at(200).saturating_sub(u64_at(208))
    } else {
        u64_at(120)
    };
    Counters {
        sent,
        received: u64_at(128),
        retransmits: u32_at(100),
        retransmitted: u64_at(208),
        rtt: u32_at(68),
        least_rtt: u32_at(148),
        busy: u64_at(168),
        window_full: u64_at(176),
        buffer_full: u64_at(184),
        ..Counters::default()
    }
}

/// Inodes of the sockets that a process has open.
fn sockets(pid: u32) -> io::Result<Vec<u64>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"))?;
    let links = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let inode = |link: std::path::PathBuf| {
        let text = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        text.parse().ok()
    };
    Ok(links.filter_map(inode).collect())
}

impl Net {
    fn trouble(&mut self, text: String) {
        if !self.troubles.contains(&text) {
            self.troubles.push(text);
        }
    }

    /// Asks the kernel at `now`, CLOCK_MONOTONIC in ns, and hands every connection with what it has by now to
    /// `each`.
    pub fn tick(&mut self, now: u64, processes: &[Who], mut each: impl FnMut(&Connection)) {
        let took = now.saturating_sub(self.last.unwrap_or(now));
        self.last = Some(now);
        let mut spaces: BTreeMap<u64, HashMap<u64, usize>> = BTreeMap::new();
        let mut made: HashMap<usize, u64> = HashMap::new();
        for who in processes {
            let before = self.calls.insert(who.index, who.calls).unwrap_or(who.calls);
            made.insert(who.index, who.calls.saturating_sub(before));
            let path = format!("/proc/{}/ns/net", who.pid);
            let (space, open) = match (std::fs::metadata(path), sockets(who.pid)) {
                (Ok(space), Ok(open)) => (space.ino(), open),
                (Err(error), _) | (_, Err(error)) => {
                    if error.kind() == io::ErrorKind::PermissionDenied {
                        self.trouble(format!(
                            "process {}: its sockets may not be seen; CAP_SYS_PTRACE and \
                             CAP_DAC_READ_SEARCH help, or its user's id",
                            who.pid
                        ));
                    }
                    continue;
                }
            };
            if !self.spaces.contains_key(&space) {
                let socket = netlink_of(who.pid).map_err(|error| {
                    self.trouble(format!(
                        "process {}: connections of its network name space can't be seen: {error}; \
                         CAP_SYS_ADMIN helps",
                        who.pid
                    ));
                });
                self.spaces.insert(space, socket.ok());
            }
            let owners = spaces.entry(space).or_default();
            for inode in open {
                // After a fork both have it; the first one is the older process.
                owners.entry(inode).or_insert(who.index);
            }
        }
        for (space, owners) in &spaces {
            self.ask(*space, owners, took, &made);
        }
        for who in processes {
            if !self.known.contains(&who.index) {
                self.known.push(who.index);
            }
        }
        self.find_peers();
        for connection in self.connections.values().filter(|c| !c.has_ended) {
            each(connection);
        }
    }

    fn ask(
        &mut self,
        space: u64,
        owners: &HashMap<u64, usize>,
        took: u64,
        made: &HashMap<usize, u64>,
    ) {
        let Some(Some(socket)) = self.spaces.get(&space) else {
            return;
        };
        let (connections, known) = (&mut self.connections, &self.known);
        let mut seen = Vec::new();
        let mut failed = None;
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            let mut take = |socket: Socket| {
                let Some(process) = owners.get(&socket.inode) else {
                    return;
                };
                let key = (space, socket.cookie);
                seen.push(socket.cookie);
                if connections.len() >= MOST && !connections.contains_key(&key) {
                    return;
                }
                let connection = connections.entry(key).or_insert_with(|| {
                    let is_new = known.contains(process);
                    let first = if is_new {
                        Counters::default()
                    } else {
                        socket.counters
                    };
                    Connection::new(*process, &socket, first, is_new)
                });
                let calls = made.get(process).copied().unwrap_or(0);
                connection.take(socket.counters, took, calls);
            };
            // Kernels without IPv6 say so.
            let result = dump(socket, family, &mut take);
            if let (Err(error), true) = (result, family == libc::AF_INET as u8) {
                failed = Some(error);
            }
        }
        if let Some(error) = failed {
            return self.trouble(format!(
                "TCP connections can't be seen: {error}; the kernel needs CONFIG_INET_DIAG"
            ));
        }
        for ((of, cookie), connection) in &mut self.connections {
            if *of == space && !seen.contains(cookie) {
                connection.has_ended = true;
            }
        }
    }

    fn find_peers(&mut self) {
        let ends = |c: &Connection| ((c.local, c.remote), c.process);
        let by_ends: HashMap<_, _> = self.connections.values().map(ends).collect();
        for connection in self.connections.values_mut() {
            let other = by_ends.get(&(connection.remote, connection.local));
            connection.peer = connection.peer.or(other.copied());
        }
    }

    /// All connections, by process, those with most bytes first.
    pub fn finish(self) -> Vec<Connection> {
        let mut all: Vec<Connection> = self.connections.into_values().collect();
        let bytes = |c: &Connection| c.since().sent + c.since().received;
        all.sort_by_key(|c| (c.process, std::cmp::Reverse(bytes(c)), c.local, c.remote));
        all
    }
}

impl Connection {
    fn new(process: usize, socket: &Socket, first: Counters, is_new: bool) -> Connection {
        Connection {
            process,
            local: socket.local,
            remote: socket.remote,
            peer: None,
            is_new,
            has_ended: false,
            first,
            last: first,
            rtt_sum: 0,
            rtt_ticks: 0,
            most_rtt: 0,
            most_send_queue: 0,
            most_receive_queue: 0,
            busiest: (0, 0),
            calls: 0,
        }
    }

    fn take(&mut self, counters: Counters, took: u64, calls: u64) {
        let bytes = |c: &Counters| c.sent + c.received;
        let moved = bytes(&counters).saturating_sub(bytes(&self.last));
        if moved > 0 {
            self.rtt_sum += counters.rtt;
            self.rtt_ticks += 1;
            self.calls += calls;
        }
        if took > 0 && moved > self.busiest.0 {
            self.busiest = (moved, took);
        }
        self.most_rtt = self.most_rtt.max(counters.rtt);
        self.most_send_queue = self.most_send_queue.max(counters.send_queue);
        self.most_receive_queue = self.most_receive_queue.max(counters.receive_queue);
        self.last = counters;
        self.has_ended = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Two ends of a connection of this process, through 127.0.0.1.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (other, _) = listener.accept().expect("accepted");
        (one, other)
    }

    fn me(calls: u64) -> [Who; 1] {
        [Who {
            index: 4,
            pid: std::process::id(),
            calls,
        }]
    }

    #[test]
    fn bytes_of_a_connection_are_those_that_were_sent_meanwhile() {
        let (mut one, mut other) = pair();
        let carry = |one: &mut TcpStream, other: &mut TcpStream, bytes: usize| {
            one.write_all(&vec![1; bytes]).expect("sent");
            other.read_exact(&mut vec![0; bytes]).expect("received");
            // The last bytes are acknowledged a moment later.
            std::thread::sleep(std::time::Duration::from_millis(100));
        };
        carry(&mut one, &mut other, 5_000);
        let mut net = Net::default();
        net.tick(1, &me(10), |_| ());
        if !net.troubles.is_empty() {
            return eprintln!("skipped: {:?}", net.troubles);
        }
        carry(&mut one, &mut other, 30_000);
        let (mut late, _other) = pair();
        late.write_all(&[1; 700]).expect("sent");
        // Sent, and not read by the other end.
        one.write_all(&[1; 900]).expect("sent");
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut told = 0;
        net.tick(1_000_000_001, &me(25), |_| told += 1);
        assert!(told >= 4);
        let ends = [&one, &late].map(|s| s.local_addr().expect("bound"));
        let all = net.finish();
        let of = |local: SocketAddr, is_local: bool| {
            let is_it = |c: &&Connection| {
                if is_local {
                    c.local == local
                } else {
                    c.remote == local
                }
            };
            all.iter().find(is_it).expect("seen")
        };
        let first = of(ends[0], true);
        let since = first.since();
        assert_eq!((since.sent, since.received), (30_900, 0));
        assert_eq!((first.process, first.peer), (4, Some(4)));
        assert_eq!((first.is_new, first.has_ended), (false, false));
        assert!(since.rtt > 0 && first.mean_rtt() > 0, "{first:?}");
        assert_eq!((first.calls, first.busiest), (15, (30_900, 1_000_000_000)));
        let back = of(ends[0], false);
        assert_eq!(back.since().received, 30_900);
        assert_eq!(back.most_receive_queue, 900);
        let second = of(ends[1], true);
        assert_eq!((second.since().sent, second.is_new), (700, true));
    }

    #[test]
    fn a_connection_that_ends_keeps_what_it_had() {
        let (mut one, other) = pair();
        let local = one.local_addr().expect("bound");
        let mut net = Net::default();
        net.tick(1, &me(0), |_| ());
        one.write_all(&[1; 100]).expect("sent");
        std::thread::sleep(std::time::Duration::from_millis(100));
        net.tick(2, &me(0), |_| ());
        drop((one, other));
        std::thread::sleep(std::time::Duration::from_millis(100));
        net.tick(3, &me(0), |_| ());
        if !net.troubles.is_empty() {
            return eprintln!("skipped: {:?}", net.troubles);
        }
        let all = net.finish();
        let ended = all.iter().find(|c| c.local == local).expect("seen");
        assert_eq!((ended.has_ended, ended.since().sent), (true, 100));
    }

    #[test]
    fn bytes_that_are_no_answer_give_nothing() {
        assert_eq!(counters_of(&[]), Counters::default());
        for length in 0..200 {
            for fill in [0, 1, 0xff] {
                let bytes = vec![fill; length];
                let _ = (message(&bytes), socket_of(&bytes));
            }
        }
    }
}
