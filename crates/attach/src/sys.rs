//! The system call `bpf`, as far as this crate needs it: maps, programs and links.
//!
//! Each of them is a descriptor here and nothing else. Nothing is pinned. So the kernel removes probes,
//! programs and maps when this process closes the descriptors, also if it is killed.
//!
//! Rule: every attribute block is zeroed and as long as the kernel's newest fields that are used here. Old
//! kernels accept longer blocks if the rest is 0.

use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Bytes of an attribute block.
const ATTRIBUTES: usize = 128;
/// Bytes of the kernel's explanation of why it refuses a program.
const LOG: usize = 64 << 10;

/// Commands of the system call.
const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const MAP_DELETE: i32 = 3;
const MAP_NEXT_KEY: i32 = 4;
const PROG_LOAD: i32 = 5;
const RAW_TRACEPOINT_OPEN: i32 = 17;
const LINK_CREATE: i32 = 28;

const PROG_TYPE_KPROBE: u32 = 2;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const ATTACH_PERF_EVENT: u32 = 41;
const ATTACH_UPROBE_MULTI: u32 = 48;
const UPROBE_MULTI_RETURN: u32 = 1;

/// Bytes of a page of this kernel: 4 KiB, or 64 KiB on many aarch64 machines.
pub fn page() -> usize {
    // SAFETY: a plain call.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

/// Kinds of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    LruHash = 9,
    RingBuffer = 27,
}

/// How probes are set, the best way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Way {
    /// BPF, by one link for all places of a file: Linux 6.6 on, with CAP_BPF and CAP_PERFMON.
    #[serde(rename = "uprobe_multi")]
    Multi,
    /// BPF, by one perf event for each place: Linux 5.15 on, with CAP_SYS_ADMIN.
    #[serde(rename = "perf")]
    Perf,
    /// No BPF: perf events that sample registers.
    #[serde(rename = "perf_samples")]
    Samples,
}

/// An attribute block under construction: a union in the kernel, so numbers go to their offsets.
pub(crate) struct Attributes([u64; ATTRIBUTES / 8]);

impl Attributes {
    pub(crate) fn new() -> Attributes {
        Attributes([0; ATTRIBUTES / 8])
    }

    pub(crate) fn put32(mut self, at: usize, value: u32) -> Attributes {
        let shift = (at % 8) * 8;
        self.0[at / 8] |= u64::from(value) << shift;
        self
    }

    pub(crate) fn put64(mut self, at: usize, value: u64) -> Attributes {
        self.0[at / 8] = value;
        self
    }

    pub(crate) fn as_ptr(&self) -> *const u64 {
        self.0.as_ptr()
    }

    fn text(mut self, at: usize, text: &str) -> Attributes {
        for (i, byte) in text.bytes().take(15).enumerate() {
            self.0[(at + i) / 8] |= u64::from(byte) << ((at + i) % 8 * 8);
        }
        self
    }

    /// Does `command`, which uses the first `bytes` of the block.
    fn call(&self, command: i32, bytes: usize) -> io::Result<i32> {
        // SAFETY: the block is as long as said, and lives through the call. What its pointers lead to is the
        // callers' business, which are all in this file.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                self.0.as_ptr(),
                bytes as libc::c_uint,
            )
        };
        match result {
            -1 => Err(io::Error::last_os_error()),
            result => Ok(result as i32),
        }
    }

    /// The same for a command that makes a descriptor.
    fn make(&self, command: i32, bytes: usize) -> io::Result<OwnedFd> {
        let fd = self.call(command, bytes)?;
        // SAFETY: the kernel just made it for this caller.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// A map of the kernel with keys and values of fixed sizes.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
}

impl Map {
    /// Makes one. For a ring buffer, `entries` are its bytes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn make(
        kind: MapKind,
        name: &str,
        key: usize,
        value: usize,
        entries: u32,
    ) -> io::Result<Map> {
        let attributes = Attributes::new()
            .put32(0, kind as u32)
            .put32(4, key as u32)
            .put32(8, value as u32)
            .put32(12, entries)
            .text(28, name);
        let fd = attributes.make(MAP_CREATE, 48)?;
        Ok(Map { fd, key, value })
    }

    /// Its descriptor.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn element(&self, key: &[u8], value: *const u8) -> Attributes {
        assert_eq!(key.len(), self.key);
        Attributes::new()
            .put32(0, self.fd.as_raw_fd() as u32)
            .put64(8, key.as_ptr() as u64)
            .put64(16, value as u64)
    }

    /// Stores a value.
    ///
    /// # Errors
    /// What the kernel says, for example that the map is full.
    pub fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value);
        self.element(key, value.as_ptr()).call(MAP_UPDATE, 32)?;
        Ok(())
    }

    /// Takes a value out, if there is one.
    pub fn remove(&self, key: &[u8]) {
        let _ = self.element(key, std::ptr::null()).call(MAP_DELETE, 32);
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = vec![0u8; self.value];
        let attributes = self.element(key, value.as_mut_ptr());
        attributes.call(MAP_LOOKUP, 32).ok().map(|_| value)
    }

    /// All keys, as far as they can be followed while others change the map.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let (mut keys, mut last) = (Vec::<Vec<u8>>::new(), None::<Vec<u8>>);
        loop {
            let mut next = vec![0u8; self.key];
            let attributes = Attributes::new()
                .put32(0, self.fd.as_raw_fd() as u32)
                .put64(8, last.as_ref().map_or(0, |key| key.as_ptr() as u64))
                .put64(16, next.as_mut_ptr() as u64);
            if attributes.call(MAP_NEXT_KEY, 32).is_err() || keys.len() > 1 << 16 {
                return keys;
            }
            keys.push(next.clone());
            last = Some(next);
        }
    }
}

/// Where a program is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// At functions of users' programs.
    AtFunctions(Way),
    /// At tracepoints of the kernel.
    AtTracepoints,
}

/// Loads a program.
///
/// # Errors
/// What the kernel says, with the end of its explanation if it does not accept the program.
pub fn load_program(name: &str, instructions: &[u8], runs: Runs) -> io::Result<OwnedFd> {
    let licence = c"Dual MIT/GPL";
    let (kind, attach_type) = match runs {
        Runs::AtFunctions(Way::Multi) => (PROG_TYPE_KPROBE, ATTACH_UPROBE_MULTI),
        Runs::AtFunctions(_) => (PROG_TYPE_KPROBE, 0),
        Runs::AtTracepoints => (PROG_TYPE_RAW_TRACEPOINT, 0),
    };
    let attributes = || {
        Attributes::new()
            .put32(0, kind)
            .put32(4, (instructions.len() / 8) as u32)
            .put64(8, instructions.as_ptr() as u64)
            .put64(16, licence.as_ptr() as u64)
            .text(48, name)
            .put32(68, attach_type)
    };
    attributes().make(PROG_LOAD, 72).or_else(|error| {
        let mut log = vec![0u8; LOG];
        let explained = attributes()
            .put32(24, 1)
            .put32(28, LOG as u32)
            .put64(32, log.as_mut_ptr() as u64);
        explained.make(PROG_LOAD, 72).map_err(|_| {
            let text = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = text.trim_end_matches('\0').trim().lines().collect();
            let last = lines[lines.len().saturating_sub(4)..].join("; ");
            if last.is_empty() {
                error
            } else {
                io::Error::new(error.kind(), format!("{error}: {last}"))
            }
        })
    })
}

/// Has `program` run at a tracepoint of the kernel.
///
/// # Errors
/// What the kernel says.
pub fn link_tracepoint(program: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let attributes = Attributes::new()
        .put64(0, name.as_ptr() as u64)
        .put32(8, program.as_raw_fd() as u32);
    attributes.make(RAW_TRACEPOINT_OPEN, 16)
}

/// A place in a file where a program runs, and what the program is told there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePoint {
    /// Offset in the file.
    pub offset: u64,
    /// See `bpf/calls.bpf.c`.
    pub cookie: u64,
}

/// Has `program` run at entry of functions in the file `path`, or at their return. With `process`, only in
/// that process.
///
/// # Errors
/// What the kernel says.
pub fn link_multi(
    program: &OwnedFd,
    path: &str,
    places: &[ProbePoint],
    at_return: bool,
    process: u32,
) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    let offsets: Vec<u64> = places.iter().map(|place| place.offset).collect();
    let cookies: Vec<u64> = places.iter().map(|place| place.cookie).collect();
    let flags = if at_return { UPROBE_MULTI_RETURN } else { 0 };
    let attributes = Attributes::new()
        .put32(0, program.as_raw_fd() as u32)
        .put32(8, ATTACH_UPROBE_MULTI)
        .put64(16, path.as_ptr() as u64)
        .put64(24, offsets.as_ptr() as u64)
        .put64(40, cookies.as_ptr() as u64)
        .put32(48, places.len() as u32)
        .put32(52, flags)
        .put32(56, process);
    attributes.make(LINK_CREATE, 64)
}

/// The same for one place, by a perf event, in all processes. Both descriptors must be kept.
///
/// # Errors
/// What the kernel says.
pub fn link_perf(
    program: &OwnedFd,
    path: &str,
    place: ProbePoint,
    at_return: bool,
) -> io::Result<[OwnedFd; 2]> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let kind: u32 = kind.trim().parse().map_err(io::Error::other)?;
    let path = CString::new(path)?;
    // struct perf_event_attr: type, size, config (bit 0: at return), …, config1 at 56 and config2 at 64.
    let attributes = Attributes::new()
        .put32(0, kind)
        .put32(4, 112)
        .put64(8, u64::from(at_return))
        .put64(56, path.as_ptr() as u64)
        .put64(64, place.offset);
    // Of all processes, on CPU 0: programs of a probe run on every CPU all the same.
    // SAFETY: as for `bpf` above; the attributes are longer than they say.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.0.as_ptr(),
            -1,
            0,
            -1,
            8, // PERF_FLAG_FD_CLOEXEC
        )
    };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made it for this caller.
    let event = unsafe { OwnedFd::from_raw_fd(event as i32) };
    let attributes = Attributes::new()
        .put32(0, program.as_raw_fd() as u32)
        .put32(4, event.as_raw_fd() as u32)
        .put32(8, ATTACH_PERF_EVENT)
        .put64(16, place.cookie);
    let link = attributes.make(LINK_CREATE, 64)?;
    Ok([link, event])
}
