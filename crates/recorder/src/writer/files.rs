//! Trace files: blocks go into the live part's staging area, and from there into one trace file after
//! another, within the size limit.

use super::{Writer, FLUSH};
use crate::clock::HostAnchor;
use crate::facts::host_gpus;
use crate::kept_file::KeptFile;
use crate::place;
use crate::recorder::messages::say;
use capture::block::{self, BlockKind};
use capture::live::Odd;
use capture::rotated;
use capture::rows::definitions;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// Time between flushes to a network file system, which bears few large writes better. A call is there 5 s
/// after it ended, with the time of the write itself.
const NETWORK_FLUSH: Duration = Duration::from_millis(4500);

/// Communicators in a block of definitions at most, so that it fits in the staging area.
const DEFINED: usize = 512;

impl Writer {
    /// Bytes of the trace file that is written to, staged ones included.
    pub(super) fn size(&self) -> u64 {
        let header = self.recorder.header();
        header.staged_base.load(Relaxed) + header.staged_len.load(Relaxed)
    }

    /// Begins the next trace file if this one has its share. False if that can't be done.
    pub(super) fn make_room(&mut self) -> bool {
        if !self.rotation.is_full(self.size(), self.batch) {
            return true;
        }
        self.write_staged();
        // What is staged belongs to the file that it could not be written to.
        if self.recorder.header().staged_len.load(Relaxed) != 0 {
            return false;
        }
        match self.next_file() {
            Ok(()) => true,
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    /// Begins another trace file, with the account of the one that is removed for it.
    ///
    /// If the process ends meanwhile, each call is still in one place. The account counts once it is whole in
    /// the new file, and nothing is staged until the header has the new file's number.
    fn next_file(&mut self) -> io::Result<()> {
        let header = self.recorder.header();
        let first_block = header.block_number.load(Relaxed);
        let recorder = self.recorder;
        let known = |uid: u32| recorder.slot_of(uid).is_some();
        let current = header.trace_number.load(Relaxed);
        let (number, rotated) = self.rotation.next(current, first_block, known);
        let mut bytes = block::file_header(header.trace_id.load(Relaxed)).to_vec();
        let start = block::begin(&mut bytes);
        rotated.put(&mut bytes);
        block::finish(&mut bytes, start, BlockKind::Rotated, first_block);
        let path = self.path(&rotated::file_ending(number));
        let mut file = KeptFile::create(&path)?;
        if let Err(error) = file.write_all_at(&bytes, 0) {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        header.block_number.store(first_block + 1, Relaxed);
        header.staged_base.store(bytes.len() as u64, Release);
        header.trace_number.store(number, Release);
        self.file = Some(file);
        let gone = self.rotation.begun(number, first_block, rotated);
        let removed = gone.map(|n| std::fs::remove_file(self.path(&rotated::file_ending(n))));
        if let Some(Err(error)) = removed {
            self.complain(&error);
        }
        // The file must have all that is needed to read its rows, because the others may be removed.
        self.encoder.restart();
        self.strings_written = 0;
        self.stacks.restart();
        let comms = recorder.live.comms().iter().enumerate();
        for (slot, _) in comms.filter(|(_, comm)| comm.uid.load(Acquire) != 0) {
            recorder.comms.changed.put(slot as u16);
        }
        recorder.writer.definitions.store(true, Relaxed);
        self.definitions();
        self.begin_graphs();
        self.begin_windows();
        self.mpi.restart();
        self.rotation.begins_with(self.size());
        Ok(())
    }

    /// The path of a file of this process.
    pub(super) fn path(&self, ending: &str) -> PathBuf {
        let mut path = self.recorder.names.stem.clone().into_os_string();
        path.push(ending);
        PathBuf::from(path)
    }

    /// Moves recorded callbacks into blocks. They take half of the trace file at most, so that rows of calls,
    /// which take a twentieth of that, have room.
    pub(super) fn drain_callbacks(&mut self) {
        let Some(callbacks) = &self.recorder.callbacks else {
            return;
        };
        let header = self.recorder.header();
        let most = self.recorder.settings.max_size / 2;
        loop {
            // Counted as it happens, because the process may end before the ring is empty.
            let dropped = callbacks.dropped.load(Relaxed);
            header.odd[Odd::CallbacksDropped as usize].store(dropped, Relaxed);
            let number = header.block_number.load(Relaxed);
            self.buffer.clear();
            let start = block::begin(&mut self.buffer);
            let room = most.saturating_sub(self.callback_bytes);
            let full = room == 0 || self.size() >= 2 * most;
            let limit = if full { u64::MAX } else { room }.min(128 << 10);
            let taken = callbacks.take(&mut self.buffer, limit as usize);
            if taken == 0 {
                return;
            }
            block::finish(&mut self.buffer, start, BlockKind::Callbacks, number);
            if !full && self.stage() {
                self.callback_bytes += self.buffer.len() as u64;
            } else {
                callbacks.dropped.fetch_add(taken, Relaxed);
                // The disk takes nothing now, but may do so again before the ring is full.
                if !full {
                    return;
                }
            }
        }
    }

    /// Stages `buffer` (whole blocks), writing staged bytes out first when there is no room.
    pub(super) fn stage(&mut self) -> bool {
        let staging = self.recorder.live.staging();
        let header = self.recorder.header();
        if header.staged_len.load(Relaxed) as usize + self.buffer.len() > staging.len() {
            self.write_staged();
        }
        let at = header.staged_len.load(Relaxed) as usize;
        let Some(room) = staging.get(at..at + self.buffer.len()) else {
            return false;
        };
        for (to, from) in room.iter().zip(&self.buffer) {
            to.store(*from, Relaxed);
        }
        // Counted when it is there: if the process is killed in between, readers find one block more than was
        // counted. One less would be a block that is missing.
        header
            .staged_len
            .store((at + self.buffer.len()) as u64, Release);
        header.block_number.fetch_add(1, Release);
        true
    }

    /// Writes the staged bytes to the trace file.
    fn write_staged(&mut self) {
        let header = self.recorder.header();
        let len = header.staged_len.load(Relaxed) as usize;
        if len == 0 {
            return;
        }
        if self.file.is_none() {
            self.open();
        }
        let Some(file) = &mut self.file else { return };
        // SAFETY: only this thread stores to the staging area, and not during this call.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.recorder.live.staging().as_ptr().cast::<u8>(), len)
        };
        let base = header.staged_base.load(Relaxed);
        match file.write_all_at(bytes, base) {
            Ok(()) => {
                header.staged_base.store(base + len as u64, Release);
                header.staged_len.store(0, Release);
                header.write_errno.store(0, Relaxed);
                self.failed = false;
            }
            Err(error) => self.complain(&error),
        }
    }

    pub(super) fn complain(&mut self, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        self.recorder
            .header()
            .write_errno
            .store(errno as u32, Relaxed);
        if !std::mem::replace(&mut self.failed, true) {
            say(format_args!(
                "cannot write {}: {error}; calls are counted in totals until it works again",
                self.recorder.names.stem.display()
            ));
        }
    }

    /// Opens a new trace file and a new snapshot file. If that fails, later flushes try again.
    pub(super) fn open(&mut self) {
        let (trace, snapshot) = match self.make_files() {
            Ok(files) => files,
            Err(error) => return self.complain(&error),
        };
        let settings = &self.recorder.settings;
        let network = place::is_network(&self.recorder.names.folder);
        self.interval = settings
            .flush
            .map_or(if network { NETWORK_FLUSH } else { FLUSH }, |seconds| {
                Duration::from_secs_f64(seconds)
            });
        (self.file, self.snapshot) = (Some(trace), Some(snapshot));
        let header = self.recorder.header();
        if header.staged_base.load(Relaxed) != 0 {
            return;
        }
        header.staged_base.store(block::FILE_HEADER as u64, Release);
        let process = header.process_text();
        // First in the file, before anything that was staged while the folder could not be made; and at once,
        // because it says where the live part is.
        if header.block_number.load(Relaxed) == 0 {
            // Read here and not with the other facts, because the first communicator's init waits for those.
            let gpus = host_gpus(Path::new("/proc/driver/nvidia"));
            let flush = format!("flush={}\n", self.interval.as_secs_f64());
            self.block(BlockKind::Process, |out| {
                out.extend(process);
                out.extend(gpus.as_bytes());
                out.extend(flush.as_bytes());
            });
            self.write_staged();
        }
    }

    /// A new trace file with its header, and a new snapshot file; or neither, so that a full disk can be
    /// tried again.
    fn make_files(&self) -> io::Result<(KeptFile, KeptFile)> {
        let names = &self.recorder.names;
        private_folders(names.stem.parent().unwrap_or(&names.folder))?;
        let trace_id = self.recorder.header().trace_id.load(Relaxed);
        let path = self.path(".trace");
        let mut trace = KeptFile::create(&path)?;
        let others = trace
            .write_all_at(&block::file_header(trace_id), 0)
            .and_then(|()| KeptFile::create(&self.path(".snap")));
        match others {
            Ok(snapshot) => Ok((trace, snapshot)),
            Err(error) => {
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Stages one block.
    pub(super) fn block(&mut self, kind: BlockKind, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let number = self.recorder.header().block_number.load(Relaxed);
        self.buffer.clear();
        let start = block::begin(&mut self.buffer);
        fill(&mut self.buffer);
        block::finish(&mut self.buffer, start, kind, number);
        self.stage()
    }

    /// Makes everything durable: definitions, this pass's anchor, staged blocks, snapshot.
    pub(super) fn flush(&mut self, anchor: HostAnchor, end: bool) {
        let header = self.recorder.header();
        self.definitions();
        if let Some(stacks) = &self.recorder.stacks {
            stacks.modules.refresh();
        }
        let staged = header.staged_len.load(Relaxed) != 0;
        if staged || end {
            self.block(BlockKind::Anchor, |out| {
                let numbers = [anchor.ticks.0, anchor.monotonic, anchor.realtime];
                out.extend(numbers.iter().flat_map(|v| v.to_le_bytes()))
            });
        }
        if end {
            self.block(BlockKind::End, |_| {});
        }
        self.write_staged();
        if end {
            header.state.store(1, Release);
        }
        self.take_snapshot(end);
    }

    /// Stages strings, communicators and stacks that are new or changed.
    pub(super) fn definitions(&mut self) {
        let recorder = self.recorder;
        let strings = recorder.live.strings();
        let known = strings
            .iter()
            .take_while(|s| s.len.load(Acquire) >= 2)
            .count();
        let mut comms_changed = recorder.writer.definitions.swap(false, Acquire);
        while comms_changed || known != self.strings_written {
            let slots = recorder.comms.changed.take(DEFINED);
            let from = self.strings_written;
            let written = self.block(BlockKind::Definitions, |out| {
                for (i, text) in strings[..known].iter().enumerate().skip(from) {
                    definitions::put_text(out, (i + 1) as u8, text);
                }
                for slot in &slots {
                    if let Some(comm) = recorder.live.comms().get(usize::from(*slot)) {
                        definitions::put_comm(out, *slot, comm);
                    }
                }
            });
            if !written {
                slots
                    .iter()
                    .for_each(|slot| recorder.comms.changed.put(*slot));
                recorder.writer.definitions.store(true, Relaxed);
                return;
            }
            self.strings_written = known;
            comms_changed = slots.len() == DEFINED;
        }
        self.write_stacks();
    }
}

/// Makes a folder and those above it that are missing, for this user only.
fn private_folders(folder: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    // O_NOFOLLOW | O_DIRECTORY: the host's folder must be a folder, not a link that another user put there.
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated; the descriptor is closed at once.
    unsafe {
        let fd = libc::open(
            path.as_ptr(),
            libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC,
        );
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::close(fd);
    }
    Ok(())
}
