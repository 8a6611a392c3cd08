//! Jobs that call the plugin's own tables, each in a process of its own because a recorder lives as long as
//! its process.
//!
//! A test runs [`Job::run`], which starts this test binary again with the name of an ignored test; that one
//! plays the job with [`Driver`]. The parent then reads the capture like a report would.
#![allow(dead_code)]

pub mod cuda;

use fake_nccl::event::Seat;
use fake_nccl::plugin::{Table, Version};
use nccl_abi::{event, state, v5};
use std::ffi::{c_int, c_void, CStr, CString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

// The rlib carries the exported tables; naming the crate links it.
use nccl_profiler_ncclscope as _;

extern "C" {
    static ncclProfiler_v1: [usize; WORDS];
    static ncclProfiler_v2: [usize; WORDS];
    static ncclProfiler_v3: [usize; WORDS];
    static ncclProfiler_v4: [usize; WORDS];
    static ncclProfiler_v5: [usize; WORDS];
    static ncclProfiler_v6: [usize; WORDS];
    static ncclProfiler_v7: [usize; WORDS];
}

/// The newest examined release whose own ABI this is.
pub fn release(abi: u8) -> Version {
    let mut all = nccl_abi::release::ALL.iter().rev();
    Version(
        all.find(|r| r.native_abi == abi)
            .expect("a release")
            .version,
    )
}

/// Words of each exported table: the name, five functions, and null words for what NCCL may add.
pub const WORDS: usize = 16;

/// The words of the plugin's table of one ABI, as the rlib exports it.
pub fn words(abi: u8) -> *const [usize; WORDS] {
    match abi {
        1 => &raw const ncclProfiler_v1,
        2 => &raw const ncclProfiler_v2,
        3 => &raw const ncclProfiler_v3,
        4 => &raw const ncclProfiler_v4,
        5 => &raw const ncclProfiler_v5,
        6 => &raw const ncclProfiler_v6,
        _ => &raw const ncclProfiler_v7,
    }
}

/// The plugin's table of one ABI.
pub fn table(abi: u8) -> Table {
    let seat = Seat {
        abi,
        native: abi,
        version: release(abi).0,
    };
    // SAFETY: the exported tables are constants of their version's layout.
    unsafe { Table::new(seat, words(abi).cast()) }
}

/// A job to be run in a child process.
pub struct Job {
    pub folder: PathBuf,
    command: Command,
    started: Vec<u32>,
}

impl Job {
    /// The ignored test `name` of the caller's `module_path!()`, with a fresh capture folder.
    pub fn new(module: &str, name: &str) -> Job {
        // The path begins with the binary's name, which is no part of a test's.
        let name = match module.split_once("::") {
            Some((_, module)) => format!("{module}::{name}"),
            None => name.to_owned(),
        };
        let folder = std::env::temp_dir().join(format!(
            "ncclscope-test-{}-{}-{:x}",
            std::process::id(),
            name.replace("::", "-"),
            unique()
        ));
        let mut command = Command::new(std::env::current_exe().expect("test binary"));
        command.args([
            "--exact",
            &name,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        command
            .env("NCCLSCOPE_OUT", &folder)
            .env("RANK", "0")
            .env("NCCLSCOPE_QUIET", "1")
            // The driver's stamps are of no clock.
            .env("NCCLSCOPE_STAMPS", "replayed");
        command.stdout(std::process::Stdio::null());
        Job {
            folder,
            command,
            started: Vec::new(),
        }
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Job {
        self.command.env(name, value);
        self
    }

    /// What it says on stderr is expected and of no interest.
    pub fn quietly(mut self) -> Job {
        self.command.stderr(std::process::Stdio::null());
        self
    }

    /// Starts it.
    pub fn spawn(&mut self) -> Child {
        let child = self.command.spawn().expect("the job starts");
        self.started.push(child.id());
        child
    }

    /// Runs it to its end.
    pub fn run(&mut self) -> ExitStatus {
        self.spawn().wait().expect("the job ends")
    }

    /// Runs it to its end; what it said on stderr.
    pub fn run_saying(&mut self) -> (ExitStatus, String) {
        self.command.stderr(std::process::Stdio::piped());
        let child = self.spawn();
        let output = child.wait_with_output().expect("the job ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status, said)
    }

    /// Its command, to be changed.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Gives the job small file systems of its own, in memory: (folder that is there, mount options).
    pub fn with_mounts(mut self, mounts: &[(&Path, &str)]) -> Job {
        let mounts: Vec<(CString, CString)> = mounts
            .iter()
            .map(|(folder, options)| {
                let folder = folder.as_os_str().as_encoded_bytes();
                let text = |bytes: &[u8]| CString::new(bytes).expect("no NUL");
                (text(folder), text(options.as_bytes()))
            })
            .collect();
        // SAFETY: system calls on memory that was made before the fork.
        unsafe { self.command.pre_exec(move || mount_all(&mounts)) };
        self
    }

    /// Brings what a process that was killed before it could make a file left in this host's memory into the
    /// folder, as `ncclscope collect` does; whether there was any.
    pub fn collect(&self) -> bool {
        let left = live_parts_of(&self.started);
        for live in &left {
            let name = live.file_name().expect("a file");
            let folder = self.folder.join("host");
            std::fs::create_dir_all(&folder).expect("made");
            std::fs::copy(live, folder.join(name)).expect("copied");
        }
        !left.is_empty()
    }

    /// The capture it left.
    pub fn capture(&self) -> tables::Capture {
        tables::Capture::open(&self.folder).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let named = live_parts(&self.folder);
        for live in named.into_iter().chain(live_parts_of(&self.started)) {
            let _ = std::fs::remove_file(live);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Waits until `done`. What the recorder's thread does comes when a busy machine lets it: no fixed time is
/// long enough.
#[track_caller]
pub fn until(mut done: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !done() {
        assert!(began.elapsed().as_secs() < 60, "it never comes");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// In a job: its capture folder.
pub fn out() -> PathBuf {
    PathBuf::from(std::env::var_os("NCCLSCOPE_OUT").expect("set"))
}

/// In a job: waits until what the recorder's thread has made of this very process's capture is `enough`.
#[track_caller]
pub fn recorded(enough: impl Fn(&tables::Process) -> bool) {
    until(|| {
        let capture = tables::Capture::open(&out());
        capture.is_ok_and(|capture| capture.processes.iter().any(&enough))
    });
}

/// In a job: its snapshot file, once it is there.
pub fn snapshot_file() -> PathBuf {
    let mut found = None;
    until(|| {
        let hosts = std::fs::read_dir(out()).into_iter().flatten().flatten();
        let files = hosts.flat_map(|host| std::fs::read_dir(host.path()).into_iter().flatten());
        let paths = files.flatten().map(|file| file.path());
        found = paths
            .into_iter()
            .find(|path| path.extension().is_some_and(|e| e == "snap"));
        found.is_some()
    });
    found.expect("waited for")
}

/// In a job: waits until all that it did so far is in the capture folder. A flush that was under way is not
/// enough, so it sees two begin and end.
pub fn flushed() {
    let snapshot = snapshot_file();
    let modified = || {
        snapshot
            .metadata()
            .and_then(|m| m.modified())
            .expect("there")
    };
    for _ in 0..2 {
        let before = modified();
        until(|| modified() != before);
    }
}

/// A counter in a file that both processes map: what the job knows it has done, independent of the recorder.
pub fn shared_counter(path: &std::path::Path) -> &'static std::sync::atomic::AtomicU64 {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .expect("opens");
    file.set_len(4096).expect("grows");
    use std::os::fd::AsRawFd;
    // SAFETY: a new shared mapping of a file of that length; it stays for the life of the process.
    unsafe {
        let base = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(base, libc::MAP_FAILED);
        &*base.cast()
    }
}

/// Whether this user may have mounts of its own; says so once where not.
pub fn mounts_are_permitted() -> bool {
    let folder = std::env::temp_dir();
    let text = CString::new(folder.as_os_str().as_encoded_bytes()).expect("no NUL");
    let mut probe = Command::new("true");
    // SAFETY: as in `with_mounts`.
    unsafe { probe.pre_exec(move || mount_all(&[(text.clone(), c"size=64k".into())])) };
    let permitted = probe.status().is_ok_and(|status| status.success());
    if !permitted {
        eprintln!("skipped: no file systems of its own are permitted here (unshare, mount)");
    }
    permitted
}

/// A mount name space of this process's own, with a tmpfs on each folder.
fn mount_all(mounts: &[(CString, CString)]) -> std::io::Result<()> {
    let check = |result: c_int| match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    let put = |file: &CStr, text: &[u8]| {
        // SAFETY: plain calls on valid arguments.
        unsafe {
            let fd = libc::open(file.as_ptr(), libc::O_WRONLY);
            let written = libc::write(fd, text.as_ptr().cast(), text.len());
            libc::close(fd);
            written == text.len() as isize
        }
    };
    // SAFETY: system calls on NUL-terminated texts.
    unsafe {
        let (uid, gid) = (libc::geteuid(), libc::getegid());
        if uid == 0 {
            check(libc::unshare(libc::CLONE_NEWNS))?;
        } else {
            check(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS))?;
            let same = |id: u32| format!("{id} {id} 1").into_bytes();
            let mapped = put(c"/proc/self/uid_map", &same(uid))
                && put(c"/proc/self/setgroups", b"deny")
                && put(c"/proc/self/gid_map", &same(gid));
            if !mapped {
                return Err(std::io::ErrorKind::PermissionDenied.into());
            }
        }
        let none = std::ptr::null();
        check(libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            none,
            libc::MS_REC | libc::MS_PRIVATE,
            none.cast(),
        ))?;
        for (folder, options) in mounts {
            check(libc::mount(
                c"tmpfs".as_ptr(),
                folder.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            ))?;
        }
        Ok(())
    }
}

fn unique() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// The live parts of processes that could write no capture, by name.
fn live_parts_of(pids: &[u32]) -> Vec<PathBuf> {
    // SAFETY: a plain call.
    let folder = format!("/dev/shm/ncclscope-{}", unsafe { libc::geteuid() });
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        pids.iter().any(|pid| name.contains(&format!("-p{pid}-")))
    };
    files.map(|f| f.path()).filter(ours).collect()
}

/// The live parts that a capture's trace files name on this machine.
fn live_parts(folder: &Path) -> Vec<PathBuf> {
    let Ok(capture) = tables::Capture::open(folder) else {
        return Vec::new();
    };
    capture
        .processes
        .iter()
        .filter_map(|p| p.fact("live"))
        .filter(|l| l.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// A communicator, driven through the plugin's v5 table in the order of NCCL 2.28.
pub struct Driver {
    plugin: &'static v5::Profiler,
    pub context: *mut c_void,
    pub mask: c_int,
    sequence: u64,
    stamp: u64,
}

// SAFETY: contexts and handles are names.
unsafe impl Send for Driver {}
// SAFETY: as above; what is not atomic changes through `&mut` only.
unsafe impl Sync for Driver {}

const ALL_REDUCE: &CStr = c"AllReduce";
const FLOAT: &CStr = c"ncclFloat32";

/// NCCL's activation mask: a process has one, as long as NCCL is loaded.
static MASK: AtomicI32 = AtomicI32::new(0);

impl Driver {
    /// A communicator of 8 ranks on one node.
    pub fn new(comm_id: u64) -> Driver {
        // SAFETY: the exported table is a constant.
        Driver::of(unsafe { &*words(5).cast() }, comm_id)
    }

    /// The same with a table of another copy of the plugin.
    pub fn of(plugin: &'static v5::Profiler, comm_id: u64) -> Driver {
        let mut context = std::ptr::null_mut();
        let init = plugin.init.expect("init");
        // SAFETY: as NCCL calls it.
        let result = unsafe {
            init(
                &mut context,
                comm_id,
                MASK.as_ptr(),
                std::ptr::null(),
                1,
                8,
                0,
                None,
            )
        };
        assert_eq!(result, 0);
        Driver {
            plugin,
            context,
            mask: MASK.load(Relaxed),
            sequence: 0,
            stamp: 1 << 40,
        }
    }

    /// The same communicator for another thread, which calls at the same time.
    pub fn beside(&self) -> Driver {
        Driver { ..*self }
    }

    /// startEvent with a descriptor whose unused bytes are poisoned.
    pub fn start(
        &self,
        kind: u64,
        parent: *mut c_void,
        fill: impl FnOnce(&mut v5::DescrUnion),
    ) -> *mut c_void {
        // SAFETY: every bit pattern is a valid descriptor: it holds integers and raw pointers.
        unsafe {
            let mut descr: v5::Descr = std::mem::zeroed();
            std::ptr::write_bytes(&raw mut descr.u, 0xa5, 1);
            descr.type_ = kind;
            descr.parent_obj = parent;
            descr.rank = 0;
            fill(&mut descr.u);
            let mut handle = std::ptr::null_mut();
            let result =
                (self.plugin.start_event.expect("start"))(self.context, &mut handle, &mut descr);
            assert_eq!(result, 0);
            assert!(!handle.is_null());
            handle
        }
    }

    /// stopEvent.
    pub fn stop(&self, handle: *mut c_void) {
        // SAFETY: the plugin must accept any handle.
        let result = unsafe { (self.plugin.stop_event.expect("stop"))(handle) };
        assert_eq!(result, 0);
    }

    /// recordEventState.
    pub fn state(&self, handle: *mut c_void, state: u32, stamp: Option<u64>) {
        let mut args = v5::StateArgs {
            kernel_ch: nccl_abi::v4::StateKernelCh {
                p_timer: stamp.unwrap_or(0),
            },
        };
        let args = if stamp.is_some() {
            &raw mut args
        } else {
            std::ptr::null_mut()
        };
        let entry = self.plugin.record_event_state.expect("state");
        // SAFETY: as NCCL calls it.
        assert_eq!(unsafe { entry(handle, state, args) }, 0);
    }

    pub fn group(&self, captured: bool) -> *mut c_void {
        let group = self.start(event::GROUP_API, std::ptr::null_mut(), |u| {
            u.group_api.graph_captured = captured.into();
            u.group_api.group_depth = 1;
        });
        self.state(group, state::GROUP_START_API_STOP, None);
        group
    }

    pub fn coll_api(&self, group: *mut c_void, count: usize, captured: bool) -> *mut c_void {
        self.coll_api_on(group, count, captured, 0)
    }

    pub fn coll_api_on(
        &self,
        group: *mut c_void,
        count: usize,
        captured: bool,
        stream: u64,
    ) -> *mut c_void {
        let api = self.start(event::COLL_API, group, |u| {
            u.coll_api.func = ALL_REDUCE.as_ptr();
            u.coll_api.count = count;
            u.coll_api.datatype = FLOAT.as_ptr();
            u.coll_api.root = 0;
            u.coll_api.stream = stream as *mut _;
            u.coll_api.graph_captured = captured.into();
        });
        self.stop(api);
        api
    }

    pub fn coll(&mut self, api: *mut c_void, count: usize, channels: u8) -> *mut c_void {
        let sequence = self.sequence;
        self.sequence += 1;
        let coll = self.start(event::COLL, api, |u| {
            u.coll.seq_number = sequence;
            u.coll.func = ALL_REDUCE.as_ptr();
            u.coll.count = count;
            u.coll.root = 0;
            u.coll.datatype = FLOAT.as_ptr();
            u.coll.n_channels = channels;
            u.coll.n_warps = 4;
            u.coll.algo = c"RING".as_ptr();
            u.coll.proto = c"LL".as_ptr();
        });
        self.stop(coll);
        coll
    }

    pub fn kernel(&mut self, coll: *mut c_void, channels: u8) {
        for channel in 0..channels {
            let kernel = self.start(event::KERNEL_CH, coll, |u| {
                u.kernel_ch.channel_id = channel;
                u.kernel_ch.p_timer = self.stamp;
            });
            self.state(kernel, state::KERNEL_CH_STOP, Some(self.stamp + 9_984));
            self.stop(kernel);
        }
        self.stamp += 32_000;
    }

    /// The host part of one eager AllReduce of `count` floats; the handle of its Coll.
    pub fn enqueue(&mut self, count: usize) -> *mut c_void {
        let group = self.group(false);
        let api = self.coll_api(group, count, false);
        self.state(group, state::GROUP_END_API_START, None);
        let launch = self.start(event::KERNEL_LAUNCH, group, |u| {
            u.kernel_launch.stream = std::ptr::null_mut()
        });
        self.stop(launch);
        let plan = self.start(event::GROUP, std::ptr::null_mut(), |_| {});
        let coll = self.coll(api, count, 2);
        self.stop(plan);
        self.stop(group);
        coll
    }

    /// One eager AllReduce of `count` floats, whole.
    pub fn all_reduce(&mut self, count: usize) {
        let coll = self.enqueue(count);
        if self.mask as u64 & event::KERNEL_CH != 0 {
            self.kernel(coll, 2);
        }
    }

    /// ncclCommDestroy.
    pub fn finalize(self) {
        let entry = self.plugin.finalize.expect("finalize");
        // SAFETY: as NCCL calls it.
        assert_eq!(unsafe { entry(self.context) }, 0);
    }
}

/// What a Coll event of an AllReduce says.
pub fn coll_fields(count: usize, channels: u8) -> v5::Coll {
    v5::Coll {
        seq_number: 0,
        func: ALL_REDUCE.as_ptr(),
        send_buff: std::ptr::null(),
        recv_buff: std::ptr::null_mut(),
        count,
        root: 0,
        datatype: FLOAT.as_ptr(),
        n_channels: channels,
        n_warps: 4,
        algo: c"RING".as_ptr(),
        proto: c"LL".as_ptr(),
        parent_group: std::ptr::null_mut(),
    }
}
