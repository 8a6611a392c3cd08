//! Writes the calls of one process into a capture, as the recorder does from inside.
//!
//! ```text
//! begin ──▶ row in the live part (DIR/HOST/NAME.live, mapped) ──▶ block (NAME.trace)
//!           visible at once, also if it never ends                after `end`, by `flush`
//! ```
//!
//! A [`Writer`] has the live part and the trace file of its process. The live part is a mapped file of the
//! capture itself. So if this tool is killed, what it saw is there up to the last event that it took.
//!
//! Rule: a row is freed after the block that has it was written, so a call is always in at least one place.

use capture::block::{self, BlockKind};
use capture::live::{row_state, Cause, Layout, View, MAGIC};
use capture::rows::{definitions, Encoder, Record, Ticks};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Rows that are open or wait for a block.
const ROWS: u32 = 16_384;
/// A block is written when so many calls have ended, at the latest.
const BLOCK_ROWS: usize = 4096;

/// A place of a row in the live part.
pub type Slot = usize;

/// What is known of a call when it begins.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Begun {
    pub time: u64,
    pub function: u8,
    pub datatype: u8,
    pub count: u64,
    pub root: i32,
    pub peer: u32,
    pub communicator: u32,
    pub stream: u64,
    pub thread: u32,
    pub flags: u8,
    /// Sequence number + 1, or 0.
    pub seq: u64,
    /// Ticket of its group + 1, or 0.
    pub group: u64,
}

/// What is known of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct About {
    pub hash: u64,
    pub nranks: u32,
    pub rank: Option<u32>,
    pub device: Option<u32>,
    pub made: u64,
    pub ended: u64,
    pub thread: u32,
}

/// Writes one process.
pub struct Writer {
    /// Mapped for as long as this lives.
    view: View<'static>,
    base: *mut u8,
    bytes: usize,
    trace: File,
    written: u64,
    blocks: u32,
    encoder: Encoder,
    free: Vec<Slot>,
    ended: Vec<Slot>,
    strings: Vec<String>,
    /// Strings and communicators that the trace file does not have yet, or not as they are now.
    fresh_strings: Vec<u8>,
    fresh_comms: Vec<u16>,
    groups: u64,
    /// Calls that found no row.
    rowless: u64,
    /// The last write failed. The next one is tried when the session asks for it, and not at each call: a
    /// full disk would cost an encoding of all rows each time.
    is_stuck: bool,
}

// SAFETY: the mapping belongs to the writer and not to a thread.
unsafe impl Send for Writer {}

pub(crate) fn clock(id: libc::clockid_t) -> u64 {
    // SAFETY: a struct of numbers.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the struct is ours.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Now, on the clock of the kernel's events: CLOCK_MONOTONIC, ns.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

impl Writer {
    /// Makes `STEM.trace` and `STEM.live` for a process with these facts, which has `pid` in its own name
    /// space.
    ///
    /// # Errors
    /// If a file can't be made.
    pub fn make(stem: &Path, trace_id: u64, facts: &str, who: [u64; 3]) -> io::Result<Writer> {
        let named = |ending: &str| {
            let mut name = stem.as_os_str().to_owned();
            name.push(ending);
            name
        };
        let new = |path: std::ffi::OsString| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).open(path)
        };
        let layout = Layout {
            strings: 255,
            comms: 4096,
            groups: 2048,
            totals: 1,
            pages: 1,
            rows: ROWS,
            staging: 8,
            net_ops: 1,
            most_comms: 0,
            most_rows: 0,
            most_graphs: 0,
            graphs: 1,
            launches: 1,
        };
        let (live, bytes) = (new(named(".live"))?, layout.bytes());
        // With all its blocks: if the disk is full later, a store to the mapping would end this process.
        // SAFETY: a plain call on a descriptor of ours.
        match unsafe { libc::posix_fallocate(live.as_raw_fd(), 0, bytes as libc::off_t) } {
            0 => {}
            errno => {
                let _ = std::fs::remove_file(named(".live"));
                return Err(io::Error::from_raw_os_error(errno));
            }
        }
        // SAFETY: a new shared mapping, which replaces none.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                live.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base: *mut u8 = base.cast();
        // SAFETY: so many bytes are mapped, and zero. They are unmapped when the writer is dropped, which is
        // the only user of the view.
        let view: View<'static> = unsafe { View::create(base, &layout) };
        let mut writer = Writer {
            view,
            base,
            bytes,
            trace: new(named(".trace"))?,
            written: 0,
            blocks: 0,
            encoder: Encoder::new(),
            free: (0..ROWS as usize).rev().collect(),
            ended: Vec::new(),
            strings: Vec::new(),
            fresh_strings: Vec::new(),
            fresh_comms: Vec::new(),
            groups: 0,
            rowless: 0,
            is_stuck: false,
        };
        let header = view.header();
        header.trace_id.store(trace_id, Relaxed);
        let [pid, start, namespace] = who;
        header.pid.store(pid as u32, Relaxed);
        header.pid_start.store(start, Relaxed);
        header.pid_namespace.store(namespace, Relaxed);
        let room = facts.len().min(header.process.len());
        for (to, byte) in header.process.iter().zip(facts.bytes()) {
            to.store(byte, Relaxed);
        }
        header.process_len.store(room as u32, Release);
        writer.anchor(&[&header.first, &header.last]);
        writer.trace.write_all(&block::file_header(trace_id))?;
        writer.written = block::FILE_HEADER as u64;
        header.staged_base.store(writer.written, Relaxed);
        writer.block(BlockKind::Process, |out| out.extend(facts.as_bytes()))?;
        writer.anchor_block()?;
        header.magic.store(MAGIC, Release);
        Ok(writer)
    }

    fn anchor(&self, to: &[&capture::live::LiveAnchor]) {
        let (ticks, realtime) = (now(), clock(libc::CLOCK_REALTIME));
        let version = &self.view.header().anchor_version;
        version.fetch_add(1, Release);
        for anchor in to {
            anchor.ticks.store(Ticks(ticks), Relaxed);
            anchor.monotonic.store(ticks, Relaxed);
            anchor.realtime.store(realtime, Relaxed);
        }
        version.fetch_add(1, Release);
    }

    fn anchor_block(&mut self) -> io::Result<()> {
        let (ticks, realtime) = (now(), clock(libc::CLOCK_REALTIME));
        self.block(BlockKind::Anchor, |out| {
            for value in [ticks, ticks, realtime] {
                out.extend(value.to_le_bytes());
            }
        })
    }

    /// Appends a block to the trace file. If that fails, the file is as it was.
    fn block(&mut self, kind: BlockKind, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut out = Vec::new();
        let start = block::begin(&mut out);
        fill(&mut out);
        block::finish(&mut out, start, kind, self.blocks);
        if let Err(error) = self.trace.write_all(&out) {
            let _ = self.trace.set_len(self.written);
            let errno = error.raw_os_error().unwrap_or(0) as u32;
            self.view.header().write_errno.store(errno, Relaxed);
            return Err(error);
        }
        self.written += out.len() as u64;
        self.blocks += 1;
        let header = self.view.header();
        header.block_number.store(self.blocks, Relaxed);
        header.staged_base.store(self.written, Release);
        Ok(())
    }

    /// The number of a string; 0 if there is no room for it.
    pub fn string(&mut self, text: &str) -> u8 {
        if let Some(at) = self.strings.iter().position(|known| known == text) {
            return at as u8 + 1;
        }
        let at = self.strings.len();
        let Some(to) = self
            .view
            .strings()
            .get(at)
            .filter(|to| text.len() <= to.bytes.len())
        else {
            return 0;
        };
        for (to, byte) in to.bytes.iter().zip(text.bytes()) {
            to.store(byte, Relaxed);
        }
        to.len.store(2 + text.len() as u32, Release);
        self.strings.push(text.to_owned());
        self.fresh_strings.push(at as u8 + 1);
        at as u8 + 1
    }

    /// Says what is known of communicator `uid`, counted from 1. Those beyond the table are left out.
    pub fn communicator(&mut self, uid: u32, about: &About) {
        let at = uid as usize - 1;
        let Some(comm) = self.view.comms().get(at) else {
            return;
        };
        comm.hash.store(about.hash, Relaxed);
        comm.nranks.store(about.nranks, Relaxed);
        comm.rank.store(about.rank.unwrap_or(u32::MAX), Relaxed);
        comm.device.store(about.device.unwrap_or(u32::MAX), Relaxed);
        comm.t_init.store(Ticks(about.made), Relaxed);
        comm.t_final.store(Ticks(about.ended), Relaxed);
        comm.finalized.store(u32::from(about.ended != 0), Relaxed);
        comm.tid.store(about.thread, Relaxed);
        comm.uid.store(uid, Release);
        if !self.fresh_comms.contains(&(at as u16)) {
            self.fresh_comms.push(at as u16);
        }
    }

    /// The process's rank in its largest communicator; `None` if that is not known, or if the process has
    /// several ranks there.
    pub fn rank(&self) -> Option<u32> {
        let comms = self.view.comms().iter();
        let known = comms.filter(|comm| comm.uid.load(Relaxed) != 0);
        let about = known.map(|comm| (comm.nranks.load(Relaxed), comm.rank.load(Relaxed)));
        let sound: Vec<(u32, u32)> = about.filter(|(nranks, rank)| rank < nranks).collect();
        let (largest, rank) = *sound.iter().max_by_key(|(nranks, _)| *nranks)?;
        let is_other = |of: &&(u32, u32)| of.0 == largest && of.1 != rank;
        sound.iter().find(is_other).is_none().then_some(rank)
    }

    /// Begins a group; returns its ticket + 1.
    pub fn group(&mut self, time: u64) -> u64 {
        self.groups += 1;
        let header = self.view.header();
        header.groups_seen.store(self.groups, Relaxed);
        let group = self.entry_of(self.groups);
        group.t_start.store(Ticks(time), Relaxed);
        group.t_closing.store(Ticks::default(), Relaxed);
        group.t_stop.store(Ticks::default(), Relaxed);
        group.calls.store(0, Relaxed);
        group.comm.store(0, Relaxed);
        group.first_row.store(0, Relaxed);
        group.word.store(self.groups, Release);
        self.groups
    }

    fn entry_of(&self, group: u64) -> &'static capture::live::Group {
        let groups = self.view.groups();
        &groups[(group as usize - 1) % groups.len()]
    }

    /// The last `ncclGroupEnd` of a group was called, and returns at `stop` if that is not 0.
    pub fn close_group(&mut self, group: u64, closing: u64, stop: u64) {
        let entry = self.entry_of(group);
        if entry.word.load(Relaxed) == group {
            entry.t_closing.store(Ticks(closing), Relaxed);
            entry.t_stop.store(Ticks(stop), Release);
        }
    }

    /// A call begins. `None` if there is no row for it, which is counted.
    pub fn begin(&mut self, call: &Begun) -> Option<Slot> {
        if self.free.is_empty() && !self.is_stuck {
            // What has ended makes room. If that can't be written, the call is lost, and counted below.
            let _ = self.flush();
        }
        let header = self.view.header();
        let Some(slot) = self.free.pop() else {
            self.rowless += 1;
            header.lost[Cause::RingFull as usize].fetch_add(1, Relaxed);
            return None;
        };
        let row = &self.view.rows()[slot];
        let ticket = header.born.load(Relaxed);
        row.t_api.store(Ticks(call.time), Relaxed);
        row.t_end.store(Ticks::default(), Relaxed);
        row.count.store(call.count, Relaxed);
        row.group.store(call.group, Relaxed);
        row.stream.store(call.stream, Relaxed);
        row.comm.store(call.communicator, Relaxed);
        row.root.store(call.root as u32, Relaxed);
        row.func.store(call.function, Relaxed);
        row.datatype.store(call.datatype, Relaxed);
        row.flags.store(call.flags, Relaxed);
        row.seq.store(call.seq, Relaxed);
        row.peer.store(call.peer, Relaxed);
        row.thread.store(call.thread, Relaxed);
        row.error.store(0, Relaxed);
        let word = row_state::word(0, ticket, row_state::ALIVE);
        row.word.store(word, Release);
        header.born.store(ticket + 1, Release);
        header.drained.store(ticket + 1, Relaxed);
        if call.group != 0 {
            let entry = self.entry_of(call.group);
            if entry.word.load(Relaxed) == call.group && entry.calls.fetch_add(1, Relaxed) == 0 {
                entry.comm.store(call.communicator, Relaxed);
                entry.first_row.store(slot as u32 + 1, Relaxed);
            }
        }
        Some(slot)
    }

    /// NCCL's return code of a call that goes on in its group.
    pub fn returned(&mut self, slot: Slot, code: i32) {
        let code = u8::try_from(code).unwrap_or(u8::MAX);
        self.view.rows()[slot].error.store(code, Relaxed);
    }

    /// A call has ended at `time`; 0 if that is not known.
    pub fn end(&mut self, slot: Slot, time: u64) {
        self.view.rows()[slot].t_end.store(Ticks(time), Release);
        self.ended.push(slot);
        if self.ended.len() >= BLOCK_ROWS && !self.is_stuck {
            let _ = self.flush();
        }
    }

    /// Calls that the kernel had no room for in its ring, so far.
    pub fn lost(&mut self, calls: u64) {
        let lost = &self.view.header().lost[Cause::RingFull as usize];
        lost.store(calls + self.rowless, Relaxed);
    }

    /// Writes what has ended into the trace file.
    ///
    /// # Errors
    /// If that fails. Then all is still in the live part.
    pub fn flush(&mut self) -> io::Result<()> {
        let written = self.write_ended();
        self.is_stuck = written.is_err();
        written
    }

    fn write_ended(&mut self) -> io::Result<()> {
        let header = self.view.header();
        self.anchor(&[&header.last]);
        if !self.fresh_strings.is_empty() || !self.fresh_comms.is_empty() {
            let view = self.view;
            let (strings, comms) = (self.fresh_strings.clone(), self.fresh_comms.clone());
            self.block(BlockKind::Definitions, |out| {
                for id in &strings {
                    definitions::put_text(out, *id, &view.strings()[usize::from(*id) - 1]);
                }
                for at in &comms {
                    definitions::put_comm(out, *at, &view.comms()[usize::from(*at)]);
                }
            })?;
            self.fresh_strings.clear();
            self.fresh_comms.clear();
        }
        if self.ended.is_empty() {
            return Ok(());
        }
        let rows = self.view.rows();
        let records = self
            .ended
            .iter()
            .filter_map(|slot| Record::load(&rows[*slot]));
        let mut records: Vec<Record> = records.collect();
        records.sort_unstable_by_key(|record| record.ticket);
        let mut payload = Vec::new();
        self.encoder.encode(&mut payload, &records);
        if let Err(error) = self.block(BlockKind::Rows, |out| out.extend(&payload)) {
            // Shapes that were in this block only must be written again.
            self.encoder.restart();
            return Err(error);
        }
        header.sealed.fetch_add(records.len() as u64, Relaxed);
        for slot in self.ended.drain(..) {
            rows[slot].word.store(0, Release);
            self.free.push(slot);
        }
        Ok(())
    }

    /// Writes all that is left. Calls that have not ended stay in the live part. If the process has not ended
    /// either, the capture does not say that it has: it goes on without us.
    ///
    /// # Errors
    /// If that fails.
    pub fn finish(&mut self, has_ended: bool) -> io::Result<()> {
        self.flush()?;
        self.anchor_block()?;
        if has_ended {
            self.block(BlockKind::End, |_| {})?;
            self.view.header().state.store(1, Release);
        }
        Ok(())
    }

    /// Adds lines to what the process said about its set-up.
    ///
    /// # Errors
    /// If that can't be written.
    pub fn setup(&mut self, lines: &str) -> io::Result<()> {
        self.block(BlockKind::Setup, |out| out.extend(lines.as_bytes()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: mapped in `make`, and nobody else has the view.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}
