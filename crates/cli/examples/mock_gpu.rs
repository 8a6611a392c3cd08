//! Just enough of libcuda and libnccl to run `ncclscope bench` without a GPU: memory is the host's, streams
//! are threads, and the ranks of a communicator exchange their buffers through files.
//!
//! Streams run behind the calls as on a GPU: a call returns before its work is done. If a rank does not make
//! a call, the others wait for their streams. There is an ncclGather, and no ncclAlltoAll and no ncclScatter,
//! so that both ways of these are tried.
//!
//! `MOCK_GPUS=4` is how many there are. Faults, each for one rank: `MOCK_HANG=RANK:CALL` never returns from
//! that NCCL call, `MOCK_STALL=RANK:CALL` never finishes its work, `MOCK_EXIT=RANK:CALL` ends the process in
//! it, `MOCK_WRONG=RANK:CALL` spoils one byte that it brings, `MOCK_LATE=RANK:MICROSECONDS` delays each of
//! its event records. `MOCK_US=N` is how long work takes. A process with a rank that hangs or stalls hangs in
//! its exit handlers too, as CUDA's may. `MOCK_COUNTS=DIR` gets a file for each rank with the calls that it
//! made, and its NCCL_HOSTID.

#![allow(missing_docs)]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

type Work = Arc<dyn Fn() + Send + Sync>;

const NOT_READY: c_int = 600;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The value of `RANK:VALUE` if it is for this rank.
fn fault(name: &str, rank: u64) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let (of, value) = text.split_once(':')?;
    (of.parse() == Ok(rank)).then(|| value.parse().ok())?
}

fn own_rank() -> u64 {
    number("RANK").unwrap_or(0)
}

fn forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

extern "C" {
    fn atexit(handler: extern "C" fn()) -> c_int;
}

extern "C" fn hang_at_exit() {
    forever();
}

fn now() -> i64 {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as i64
}

// ------------------------------------------------------------------ libcuda

#[derive(Default)]
struct Stream {
    queue: Mutex<VecDeque<Work>>,
    more: Condvar,
    pending: AtomicU64,
    captured: Mutex<Option<Vec<Work>>>,
}

impl Stream {
    fn push(&self, work: Work) {
        if let Some(captured) = self.captured.lock().expect("unpoisoned").as_mut() {
            return captured.push(work);
        }
        self.pending.fetch_add(1, SeqCst);
        self.queue.lock().expect("unpoisoned").push_back(work);
        self.more.notify_one();
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue.lock().expect("unpoisoned");
            while queue.is_empty() {
                queue = self.more.wait(queue).expect("unpoisoned");
            }
            let work = queue.pop_front().expect("not empty");
            drop(queue);
            work();
            self.pending.fetch_sub(1, SeqCst);
        }
    }
}

/// # Safety
/// `handle` is one that `cuStreamCreate` gave; streams live until the process ends.
unsafe fn stream(handle: *mut c_void) -> &'static Stream {
    // SAFETY: by the caller's promise.
    unsafe { &*handle.cast::<Stream>() }
}

#[derive(Default)]
struct Event {
    recorded: AtomicU64,
    passed: AtomicU64,
    at: AtomicI64,
}

/// # Safety
/// `handle` is one that `cuEventCreate` gave; events live until the process ends.
unsafe fn event(handle: *mut c_void) -> &'static Event {
    // SAFETY: by the caller's promise.
    unsafe { &*handle.cast::<Event>() }
}

/// A handle of something that is never freed.
fn handle<T>(value: T) -> *mut c_void {
    std::ptr::from_mut(Box::leak(Box::new(value))).cast()
}

/// Declares exported functions: pointers that they write to are valid by the API's rules, and so are handles.
macro_rules! exported {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $body:block)*) => {
        $(
            #[no_mangle]
            #[allow(non_snake_case, clippy::missing_safety_doc)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                // SAFETY: the caller keeps to the API: places for results, live handles, memory of the length
                // given.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

fn put(text: &str, to: *mut c_char, room: c_int) {
    let bytes = text.as_bytes();
    let length = bytes.len().min(room as usize - 1);
    // SAFETY: `room` bytes are the caller's.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), length);
        *to.add(length) = 0;
    }
}

exported! {
    fn cuInit(_flags: c_uint) { 0 }
    fn cuDeviceGetCount(count: *mut c_int) { *count = number("MOCK_GPUS").unwrap_or(4) as c_int; 0 }
    fn cuDeviceGet(device: *mut c_int, index: c_int) { *device = index; 0 }
    fn cuDeviceGetName(name: *mut c_char, room: c_int, _device: c_int) { put("Mock GPU", name, room); 0 }
    fn cuDeviceGetPCIBusId(name: *mut c_char, room: c_int, device: c_int) {
        put(&format!("0000:{device:02X}:00.0"), name, room);
        0
    }
    fn cuGetErrorString(_code: c_int, text: *mut *const c_char) { *text = c"mock error".as_ptr(); 0 }
    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, _device: c_int) {
        *context = std::ptr::null_mut();
        0
    }
    fn cuCtxSetCurrent(_context: *mut c_void) { 0 }
    fn cuCtxSynchronize() { 0 }
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        *address = Vec::<u128>::leak(vec![0; bytes.div_ceil(16)]).as_ptr() as u64;
        0
    }
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        std::ptr::copy(from.cast::<u8>(), to as *mut u8, bytes);
        0
    }
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        std::ptr::copy(from as *const u8, to.cast(), bytes);
        0
    }
    fn cuMemsetD8_v2(to: u64, byte: u8, bytes: usize) { std::ptr::write_bytes(to as *mut u8, byte, bytes); 0 }
    fn cuStreamCreate(to: *mut *mut c_void, _flags: c_uint) {
        *to = handle(Stream::default());
        let new = stream(*to);
        std::thread::spawn(|| new.run());
        0
    }
    fn cuStreamQuery(of: *mut c_void) { if stream(of).pending.load(SeqCst) == 0 { 0 } else { NOT_READY } }
    fn cuEventCreate(to: *mut *mut c_void, _flags: c_uint) { *to = handle(Event::default()); 0 }
    fn cuEventRecord(what: *mut c_void, into: *mut c_void) {
        if let Some(us) = fault("MOCK_LATE", own_rank()) {
            std::thread::sleep(Duration::from_micros(us));
        }
        let what = event(what);
        what.recorded.fetch_add(1, SeqCst);
        stream(into).push(Arc::new(|| {
            what.at.store(now(), SeqCst);
            what.passed.fetch_add(1, SeqCst);
        }));
        0
    }
    fn cuEventQuery(what: *mut c_void) {
        let what = event(what);
        if what.passed.load(SeqCst) == what.recorded.load(SeqCst) { 0 } else { NOT_READY }
    }
    fn cuEventElapsedTime(ms: *mut f32, from: *mut c_void, to: *mut c_void) {
        *ms = (event(to).at.load(SeqCst) - event(from).at.load(SeqCst)) as f32 / 1e6;
        0
    }
    fn cuStreamBeginCapture_v2(of: *mut c_void, _mode: c_uint) {
        *stream(of).captured.lock().expect("unpoisoned") = Some(Vec::new());
        0
    }
    fn cuStreamEndCapture(of: *mut c_void, graph: *mut *mut c_void) {
        *graph = handle(stream(of).captured.lock().expect("unpoisoned").take().unwrap_or_default());
        0
    }
    fn cuGraphInstantiateWithFlags(to: *mut *mut c_void, graph: *mut c_void, _flags: u64) { *to = graph; 0 }
    fn cuGraphLaunch(graph: *mut c_void, into: *mut c_void) {
        (*graph.cast::<Vec<Work>>()).iter().for_each(|work| stream(into).push(work.clone()));
        0
    }
    fn cuGraphExecDestroy(_graph: *mut c_void) { 0 }
    fn cuGraphDestroy(_graph: *mut c_void) { 0 }
}

// ------------------------------------------------------------------ libnccl

struct Comm {
    folder: PathBuf,
    rank: usize,
    ranks: usize,
    /// Exchanges done, in the stream's order.
    done: AtomicU64,
}

/// Memory on its way to another thread, which uses it as the stream's order allows.
#[derive(Clone, Copy)]
struct Memory {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: used by one stream at a time, as on a GPU.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(at: *mut c_void, elements: usize, kind: c_int) -> Memory {
        Memory {
            at: at.cast(),
            bytes: elements * size(kind),
        }
    }

    fn get(self) -> Vec<u8> {
        // SAFETY: memory of the caller's, as long as it said.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }.to_vec()
    }

    fn set(self, bytes: &[u8]) {
        assert!(bytes.len() <= self.bytes);
        // SAFETY: as above, and not longer.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.at, bytes.len()) }
    }
}

impl Comm {
    /// Gives every rank these bytes, and returns what each gave.
    fn exchange(&self, own: &[u8]) -> Vec<Vec<u8>> {
        let number = self.done.fetch_add(1, SeqCst);
        let file = |number: u64, rank: usize| self.folder.join(format!("{number}.{rank}"));
        let part = self.folder.join(format!("part.{}", self.rank));
        std::fs::write(&part, own).expect("written");
        std::fs::rename(&part, file(number, self.rank)).expect("renamed");
        let read = |rank: usize| loop {
            match std::fs::read(file(number, rank)) {
                Ok(bytes) => return bytes,
                Err(_) => std::thread::sleep(Duration::from_micros(50)),
            }
        };
        let all = (0..self.ranks).map(read).collect();
        // All have come to this exchange, so all have read the one before.
        if number > 0 {
            std::fs::remove_file(file(number - 1, self.rank)).expect("removed");
        }
        std::thread::sleep(Duration::from_micros(number_of("MOCK_US")));
        all
    }
}

fn number_of(name: &str) -> u64 {
    number(name).unwrap_or(0)
}

const SIZES: [usize; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];

fn size(kind: c_int) -> usize {
    SIZES[kind as usize]
}

/// Bits of exponent and mantissa, for floats.
fn float(kind: c_int) -> Option<(u32, u32)> {
    [
        None,
        None,
        None,
        None,
        None,
        None,
        Some((5, 10)),
        Some((8, 23)),
        Some((11, 52)),
        Some((8, 7)),
        Some((4, 3)),
        Some((5, 2)),
    ][kind as usize]
}

/// A whole number that is not below 0, as all that the benchmark sends are.
fn decode(bytes: &[u8], kind: c_int) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    let Some((exponent, mantissa)) = float(kind) else {
        return bits;
    };
    if bits == 0 {
        return 0;
    }
    let power = (bits >> mantissa) as i32 - ((1 << (exponent - 1)) - 1);
    let fraction = (bits & ((1 << mantissa) - 1)) as f64 / (1u64 << mantissa) as f64;
    ((1.0 + fraction) * 2f64.powi(power)) as u64
}

fn encode(value: u64, kind: c_int) -> Vec<u8> {
    let bits = match float(kind) {
        Some((exponent, mantissa)) if value > 0 => {
            let power = value.ilog2();
            let fraction = value as f64 / 2f64.powi(power as i32) - 1.0;
            let biased = u64::from(power) + (1 << (exponent - 1)) - 1;
            (biased << mantissa) + (fraction * (1u64 << mantissa) as f64) as u64
        }
        _ => value,
    };
    bits.to_le_bytes()[..size(kind)].to_vec()
}

fn reduce(all: &[Vec<u8>], kind: c_int, op: c_int) -> Vec<u8> {
    let size = size(kind);
    let element = |at: usize| {
        let values = all
            .iter()
            .map(|bytes| decode(&bytes[at * size..][..size], kind));
        let value = match op {
            0 => values.fold(0, u64::wrapping_add),
            1 => values.fold(1, u64::wrapping_mul),
            2 => values.max().unwrap_or(0),
            _ => values.min().unwrap_or(0),
        };
        encode(value, kind)
    };
    (0..all[0].len() / size).flat_map(element).collect()
}

/// What a rank has called since ncclGroupStart.
#[derive(Default)]
struct Group {
    depth: u32,
    sends: Vec<(usize, Memory)>,
    receives: Vec<(usize, Memory)>,
    at: Option<(usize, usize)>,
}

static GROUP: Mutex<Group> = Mutex::new(Group {
    depth: 0,
    sends: Vec::new(),
    receives: Vec::new(),
    at: None,
});
static COUNTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Counts a call and meets its faults; returns whether its work stalls and whether it is spoiled.
fn called(name: &'static str) -> (bool, bool) {
    *COUNTS.lock().expect("unpoisoned").entry(name).or_default() += 1;
    let (call, rank) = (CALLS.fetch_add(1, SeqCst) + 1, own_rank());
    if fault("MOCK_HANG", rank) == Some(call) {
        forever();
    }
    if fault("MOCK_EXIT", rank) == Some(call) {
        std::process::exit(3);
    }
    (
        fault("MOCK_STALL", rank) == Some(call),
        fault("MOCK_WRONG", rank) == Some(call),
    )
}

/// Puts the work of a collective into its stream: what this rank gives, and what it makes of all ranks'
/// bytes.
fn collective(
    name: &'static str,
    comm: *mut c_void,
    into: *mut c_void,
    give: Memory,
    take: Option<Memory>,
    make: impl Fn(&Comm, &[Vec<u8>]) -> Vec<u8> + Send + Sync + 'static,
) -> c_int {
    let (stalls, spoiled) = called(name);
    // SAFETY: handles that this library gave; they live until the process ends.
    let (comm, stream) = unsafe { (&*comm.cast::<Comm>(), stream(into)) };
    stream.push(Arc::new(move || {
        if stalls {
            forever();
        }
        let all = comm.exchange(&give.get());
        if let Some(take) = take {
            let mut made = make(comm, &all);
            if spoiled {
                made[0] ^= 0x40;
            }
            take.set(&made);
        }
    }));
    0
}

/// Puts what was sent and received in a group into the stream, as one exchange.
fn end_of_group() {
    let group = std::mem::take(&mut *GROUP.lock().expect("unpoisoned"));
    let Some((comm, into)) = group.at else {
        return;
    };
    // SAFETY: as in `collective`.
    let (comm, stream) = unsafe { (&*(comm as *const Comm), stream(into as *mut c_void)) };
    let (sends, receives) = (group.sends, group.receives);
    stream.push(Arc::new(move || {
        // For each rank in turn: bytes sent to it, before them their number.
        let to = |rank: usize| {
            let parts = sends.iter().filter(move |(to, _)| *to == rank);
            parts
                .flat_map(|(_, memory)| memory.get())
                .collect::<Vec<u8>>()
        };
        let mut own = Vec::new();
        for rank in 0..comm.ranks {
            let bytes = to(rank);
            own.extend((bytes.len() as u64).to_le_bytes());
            own.extend(bytes);
        }
        let mut mailboxes: Vec<Vec<u8>> = Vec::new();
        for bytes in comm.exchange(&own) {
            let mut rest = &bytes[..];
            for _ in 0..comm.rank {
                let length = decode(&rest[..8], 5) as usize;
                rest = &rest[8 + length..];
            }
            let length = decode(&rest[..8], 5) as usize;
            mailboxes.push(rest[8..8 + length].to_vec());
        }
        for (from, memory) in &receives {
            let rest = mailboxes[*from].split_off(memory.bytes);
            memory.set(&mailboxes[*from]);
            mailboxes[*from] = rest;
        }
    }));
}

fn point_to_point(
    name: &'static str,
    comm: *mut c_void,
    into: *mut c_void,
    add: impl FnOnce(&mut Group),
) -> c_int {
    called(name);
    let mut group = GROUP.lock().expect("unpoisoned");
    group.at = Some((comm as usize, into as usize));
    add(&mut group);
    let alone = group.depth == 0;
    drop(group);
    if alone {
        end_of_group();
    }
    0
}

#[repr(C)]
pub struct UniqueId([u8; 128]);

/// # Safety
/// As ncclGetErrorString.
#[no_mangle]
#[allow(non_snake_case)]
pub unsafe extern "C" fn ncclGetErrorString(_code: c_int) -> *const c_char {
    c"mock error".as_ptr()
}

exported! {
    fn ncclGetVersion(version: *mut c_int) { *version = 22809; 0 }
    fn ncclGetUniqueId(id: *mut UniqueId) {
        let folder = std::env::temp_dir().join(format!("mock-nccl-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut bytes = [0; 128];
        let path = folder.to_str().expect("a path").as_bytes();
        bytes[..path.len()].copy_from_slice(path);
        *id = UniqueId(bytes);
        0
    }
    fn ncclCommInitRank(comm: *mut *mut c_void, ranks: c_int, id: UniqueId, rank: c_int) {
        if std::env::var_os("MOCK_HANG").or(std::env::var_os("MOCK_STALL")).is_some() {
            atexit(hang_at_exit);
        }
        let text = String::from_utf8_lossy(&id.0);
        let new = Comm {
            folder: PathBuf::from(text.trim_end_matches('\0')),
            rank: rank as usize,
            ranks: ranks as usize,
            done: AtomicU64::new(0),
        };
        new.exchange(&[]);
        *comm = handle(new);
        0
    }
    fn ncclCommCount(comm: *mut c_void, count: *mut c_int) {
        *count = (*comm.cast::<Comm>()).ranks as c_int;
        0
    }
    fn ncclCommUserRank(comm: *mut c_void, rank: *mut c_int) {
        *rank = (*comm.cast::<Comm>()).rank as c_int;
        0
    }
    fn ncclCommGetAsyncError(_comm: *mut c_void, state: *mut c_int) { *state = 0; 0 }
    fn ncclCommDestroy(comm: *mut c_void) {
        let comm = &*comm.cast::<Comm>();
        if let Ok(folder) = std::env::var("MOCK_COUNTS") {
            let counts = COUNTS.lock().expect("unpoisoned");
            let host = std::env::var("NCCL_HOSTID").unwrap_or_default();
            let counts: String = counts.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
            std::fs::write(PathBuf::from(folder).join(format!("{}", comm.rank)), format!("{counts}host \
                {host}\n")).expect("written");
        }
        0
    }
    fn ncclGroupStart() { GROUP.lock().expect("unpoisoned").depth += 1; 0 }
    fn ncclGroupEnd() {
        let mut group = GROUP.lock().expect("unpoisoned");
        group.depth -= 1;
        let outermost = group.depth == 0;
        drop(group);
        if outermost {
            end_of_group();
        }
        0
    }
    fn ncclAllReduce(send: *mut c_void, recv: *mut c_void, count: usize, kind: c_int, op: c_int,
        comm: *mut c_void, stream: *mut c_void) {
        let (give, take) = (Memory::new(send, count, kind), Memory::new(recv, count, kind));
        collective("AllReduce", comm, stream, give, Some(take), move |_, all| reduce(all, kind, op))
    }
    fn ncclReduce(send: *mut c_void, recv: *mut c_void, count: usize, kind: c_int, op: c_int, root: c_int,
        comm: *mut c_void, stream: *mut c_void) {
        let take = (root as usize == (*comm.cast::<Comm>()).rank).then(|| Memory::new(recv, count, kind));
        let sent = Memory::new(send, count, kind);
        collective("Reduce", comm, stream, sent, take, move |_, all| reduce(all, kind, op))
    }
    fn ncclBroadcast(send: *mut c_void, recv: *mut c_void, count: usize, kind: c_int, root: c_int,
        comm: *mut c_void, stream: *mut c_void) {
        let (give, take) = (Memory::new(send, count, kind), Memory::new(recv, count, kind));
        collective("Broadcast", comm, stream, give, Some(take), move |_, all| all[root as usize].clone())
    }
    fn ncclAllGather(send: *mut c_void, recv: *mut c_void, count: usize, kind: c_int, comm: *mut c_void,
        stream: *mut c_void) {
        let ranks = (*comm.cast::<Comm>()).ranks;
        let (give, take) = (Memory::new(send, count, kind), Memory::new(recv, count * ranks, kind));
        collective("AllGather", comm, stream, give, Some(take), |_, all| all.concat())
    }
    fn ncclMemAlloc(address: *mut *mut c_void, bytes: usize) {
        *address = Vec::<u128>::leak(vec![0; bytes.div_ceil(16)]).as_ptr() as *mut c_void;
        0
    }
    fn ncclGather(send: *mut c_void, recv: *mut c_void, count: usize, kind: c_int, root: c_int,
        comm: *mut c_void, stream: *mut c_void) {
        let Comm { rank, ranks, .. } = &*comm.cast::<Comm>();
        let take = (root as usize == *rank).then(|| Memory::new(recv, count * ranks, kind));
        collective("Gather", comm, stream, Memory::new(send, count, kind), take, |_, all| all.concat())
    }
    fn ncclReduceScatter(send: *mut c_void, recv: *mut c_void, count: usize, kind: c_int, op: c_int,
        comm: *mut c_void, stream: *mut c_void) {
        let ranks = (*comm.cast::<Comm>()).ranks;
        let (give, take) = (Memory::new(send, count * ranks, kind), Memory::new(recv, count, kind));
        collective("ReduceScatter", comm, stream, give, Some(take), move |comm, all| {
            let part = take.bytes;
            let own = |bytes: &Vec<u8>| bytes[comm.rank * part..][..part].to_vec();
            let parts: Vec<Vec<u8>> = all.iter().map(own).collect();
            reduce(&parts, kind, op)
        })
    }
    fn ncclSend(send: *mut c_void, count: usize, kind: c_int, peer: c_int, comm: *mut c_void,
        stream: *mut c_void) {
        let memory = Memory::new(send, count, kind);
        point_to_point("Send", comm, stream, |group| group.sends.push((peer as usize, memory)))
    }
    fn ncclRecv(recv: *mut c_void, count: usize, kind: c_int, peer: c_int, comm: *mut c_void,
        stream: *mut c_void) {
        let memory = Memory::new(recv, count, kind);
        point_to_point("Recv", comm, stream, |group| group.receives.push((peer as usize, memory)))
    }
}
