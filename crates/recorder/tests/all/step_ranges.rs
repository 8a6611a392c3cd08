//! Steps from NVTX ranges. Each job is a client of NVTX: it has the tables that NVTX's header puts into a
//! program, hands them over as the header does, and calls what it finds there.

use crate::job::{flushed, Driver, Job};
use analyze::notes::Note;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::mpsc;
use tables::marks::{Marks, Source};

extern "C" {
    fn InitializeInjectionNvtx2(export: Option<extern "C" fn(u32) -> *const c_void>) -> c_int;
}

/// Functions of modules 1 and 5, from 1 on.
const CORE: usize = 16;
const CORE2: usize = 16;
type Places<const N: usize> = [AtomicPtr<c_void>; N];

#[repr(C)]
struct Callbacks {
    bytes: usize,
    module_table: extern "C" fn(u32, *mut *const *const c_void, *mut c_uint) -> c_int,
}

/// A library in the program that has NVTX's header.
macro_rules! client {
    ($name:ident) => {
        mod $name {
            use super::*;

            static CORE_PLACES: Places<CORE> = [const { AtomicPtr::new(null_mut()) }; CORE];
            static CORE2_PLACES: Places<CORE2> = [const { AtomicPtr::new(null_mut()) }; CORE2];

            extern "C" fn export_table(id: u32) -> *const c_void {
                static TABLE: Callbacks = Callbacks {
                    bytes: size_of::<Callbacks>(),
                    module_table,
                };
                if id == 1 {
                    (&raw const TABLE).cast()
                } else {
                    null()
                }
            }

            extern "C" fn module_table(
                module: u32,
                table: *mut *const *const c_void,
                places: *mut c_uint,
            ) -> c_int {
                let of = match module {
                    1 => &CORE_PLACES[..],
                    5 => &CORE2_PLACES[..],
                    _ => return 0,
                };
                // The first entry is none.
                let mut pointers: Vec<*const c_void> = of
                    .iter()
                    .map(|place| place.as_ptr().cast_const().cast())
                    .collect();
                pointers[0] = null();
                let pointers = Vec::leak(pointers);
                // SAFETY: both are variables of the caller.
                unsafe {
                    *table = pointers.as_ptr();
                    *places = pointers.len() as c_uint;
                }
                1
            }

            /// Hands the tables over, as a program does at its first range. An error if nobody reads ranges.
            pub fn begin() -> Result<Client, Client> {
                // SAFETY: as NVTX calls it.
                let is_read = unsafe { InitializeInjectionNvtx2(Some(export_table)) } != 0;
                let client = Client {
                    core: &CORE_PLACES,
                    core2: &CORE2_PLACES,
                };
                if is_read {
                    Ok(client)
                } else {
                    Err(client)
                }
            }
        }
    };
}

client!(first);
client!(second);

#[repr(C)]
struct Attributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

fn attributes(message_type: i32, message: *const c_void) -> Attributes {
    Attributes {
        version: 3,
        bytes: 48,
        category: 0,
        color_type: 0,
        color: 0,
        payload_type: 0,
        reserved: 0,
        payload: 0,
        message_type,
        message,
    }
}

#[derive(Clone, Copy, Debug)]
struct Client {
    core: &'static Places<CORE>,
    core2: &'static Places<CORE2>,
}

/// The function at a place, of a type.
macro_rules! at {
    ($of:expr, $type:ty) => {{
        let found = $of.load(Relaxed);
        assert!(!found.is_null());
        // SAFETY: NVTX's header has this type for this place.
        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
    }};
}

impl Client {
    /// Whether nothing is in the tables.
    fn is_empty(self) -> bool {
        let mut all = self.core.iter().chain(self.core2);
        all.all(|place| place.load(Relaxed).is_null())
    }

    fn push(self, text: &CStr) -> c_int {
        at!(self.core[9], extern "C" fn(*const c_char) -> c_int)(text.as_ptr())
    }

    fn push_wide(self, text: &str) {
        let wide: Vec<u32> = text.chars().map(|c| c as u32).chain([0]).collect();
        at!(self.core[10], extern "C" fn(*const u32) -> c_int)(wide.as_ptr());
    }

    fn push_ex(self, of: *const Attributes) {
        at!(self.core[8], extern "C" fn(*const Attributes) -> c_int)(of);
    }

    fn pop(self) -> c_int {
        at!(self.core[11], extern "C" fn() -> c_int)()
    }

    fn start(self, text: &CStr) -> u64 {
        at!(self.core[5], extern "C" fn(*const c_char) -> u64)(text.as_ptr())
    }

    fn end(self, number: u64) {
        at!(self.core[7], extern "C" fn(u64))(number);
    }

    fn mark(self, text: &CStr) {
        at!(self.core[2], extern "C" fn(*const c_char))(text.as_ptr());
    }

    fn domain(self, name: *const c_char) -> usize {
        at!(self.core2[12], extern "C" fn(*const c_char) -> usize)(name)
    }

    fn registered(self, domain: usize, text: *const c_char) -> usize {
        at!(self.core2[10], extern "C" fn(usize, *const c_char) -> usize)(domain, text)
    }

    fn push_in(self, domain: usize, of: *const Attributes) -> c_int {
        at!(
            self.core2[4],
            extern "C" fn(usize, *const Attributes) -> c_int
        )(domain, of)
    }

    fn pop_in(self, domain: usize) -> c_int {
        at!(self.core2[5], extern "C" fn(usize) -> c_int)(domain)
    }

    /// A range with some work of the job in it.
    fn range(self, text: &CStr, work: impl FnOnce()) {
        self.push(text);
        work();
        self.pop();
    }
}

/// The marks of the job, which ends well.
fn marks_of(name: &str, steps: &str) -> Marks {
    let mut job = Job::new(module_path!(), name)
        .env("NCCLSCOPE_STEPS", steps)
        .env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let mut capture = job.capture();
    assert_eq!(capture.problems, []);
    assert_eq!(capture.processes.len(), 1);
    std::mem::take(&mut capture.processes[0].marks)
}

/// How many steps there are, each of which ends before the next begins.
fn count(marks: &Marks) -> usize {
    let follow = |pair: &[tables::marks::MarkedStep]| pair[0].to <= pair[1].from;
    assert!(marks.steps.windows(2).all(follow), "{marks:?}");
    assert!(marks.steps.iter().all(|step| step.from <= step.to));
    marks.steps.len()
}

#[test]
#[ignore = "played by the test below"]
fn job_with_ranges_around_its_steps() {
    let nvtx = first::begin().expect("read");
    // Before there is a communicator.
    nvtx.range(c"ProfilerStep#0", || ());
    let mut comm = Driver::new(0x57);
    for at in 1..20 {
        let name = std::ffi::CString::new(format!("ProfilerStep#{at}")).expect("no zero byte");
        nvtx.range(&name, || {
            nvtx.range(c"forward", || comm.all_reduce(at));
            // Its optimizer is a part of the step.
            nvtx.range(c"Optimizer.step#AdamW.step", || comm.all_reduce(1));
            if at % 2 == 0 {
                comm.all_reduce(7);
            }
        });
        if at == 10 {
            flushed();
        }
    }
    comm.finalize();
}

#[test]
fn ranges_around_steps_are_the_program_s_steps() {
    let mut job = Job::new(module_path!(), "job_with_ranges_around_its_steps")
        .env("NCCLSCOPE_STEPS", "nvtx")
        .env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let marks = &capture.processes[0].marks;
    assert_eq!((count(marks), marks.dropped), (20, 0));
    let origin = marks.origin.as_ref().expect("read");
    assert_eq!(
        (origin.name.as_deref(), origin.unused),
        (Some("ProfilerStep#*"), 0)
    );
    let report = analyze::report(&capture);
    let steps = report.steps.expect("steps");
    assert_eq!(steps.source, analyze::steps::StepSource::Program);
    // The first has no calls.
    assert_eq!((steps.rows[0].steps, steps.rows[0].calls), (19, 2));
    let notes = &report.notes;
    let steps = Note::Steps {
        source: Source::Nvtx,
        names: vec!["ProfilerStep#*".to_owned()],
    };
    assert!(notes.contains(&steps), "{notes:?}");
    assert!(!notes.iter().any(had_no_effect), "{notes:?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_with_ranges_of_optimizers() {
    let nvtx = first::begin().expect("read");
    let mut comm = Driver::new(0x57);
    for at in 0..12 {
        comm.all_reduce(at);
        // The first of several that a loop has, one of a class that calls its parent's, and what torch says
        // beside the name.
        nvtx.range(c"Optimizer.step#AdamW.step, op_id = 12", || {
            nvtx.range(c"Optimizer.step#AdamW.step", || comm.all_reduce(1));
        });
        nvtx.range(c"Optimizer.step#Muon.step", || comm.all_reduce(2));
    }
    comm.finalize();
}

#[test]
fn the_end_of_an_optimizer_s_range_ends_a_step() {
    let marks = marks_of("job_with_ranges_of_optimizers", "nvtx");
    assert_eq!(count(&marks), 11);
    assert!(marks
        .steps
        .windows(2)
        .all(|pair| pair[0].to == pair[1].from));
    let range = marks.origin.and_then(|origin| origin.name);
    assert_eq!(range.as_deref(), Some("Optimizer.step#*"));
}

#[test]
#[ignore = "played by the test below"]
fn job_with_all_kinds_of_ranges() {
    let (nvtx, other) = (
        first::begin().expect("read"),
        second::begin().expect("read"),
    );
    let mut comm = Driver::new(0x57);
    let mut call = || comm.all_reduce(3);
    let domain = nvtx.domain(c"training".as_ptr());
    assert_eq!(other.domain(c"training".as_ptr()), domain);
    assert_ne!(nvtx.domain(c"loading".as_ptr()), domain);
    // 1: a text. 2: of another client. 3: wide. 4: in attributes.
    assert_eq!(nvtx.push(c"other"), 0);
    assert_eq!(nvtx.push(c"batch 1"), 1);
    call();
    assert_eq!((nvtx.pop(), nvtx.pop()), (1, 0));
    other.range(c"batch 2", &mut call);
    nvtx.push_wide("batch 3");
    call();
    nvtx.pop();
    nvtx.push_ex(&attributes(1, c"batch 4".as_ptr().cast()));
    call();
    nvtx.pop();
    // 5: a registered string, in a domain. 6: from here to there, on two threads. 7: an instant.
    let text = nvtx.registered(domain, c"batch 5".as_ptr());
    let none = nvtx.registered(domain, c"loader".as_ptr());
    for handle in [none, text] {
        nvtx.push_in(domain, &attributes(3, handle as *const c_void));
    }
    call();
    // Of another domain, so it ends nothing here.
    nvtx.pop();
    nvtx.pop_in(domain);
    nvtx.pop_in(domain);
    let number = nvtx.start(c"batch 6");
    call();
    std::thread::spawn(move || nvtx.end(number))
        .join()
        .expect("no panic");
    nvtx.end(number);
    nvtx.mark(c"batch 7");
    call();
    // NCCL's and our own ranges are no steps, whatever they are called.
    for name in [c"NCCL", c"ncclscope"] {
        let domain = nvtx.domain(name.as_ptr());
        nvtx.push_in(domain, &attributes(1, c"batch".as_ptr().cast()));
        call();
        nvtx.pop_in(domain);
    }
    comm.finalize();
}

#[test]
fn every_kind_of_range_may_be_a_step() {
    let marks = marks_of("job_with_all_kinds_of_ranges", "nvtx:batch*");
    assert_eq!(count(&marks), 7);
    // The user knows the name.
    assert_eq!(marks.origin.expect("read").name, None);
}

#[test]
#[ignore = "played by the test below"]
fn job_that_misuses_nvtx() {
    // SAFETY: null is no function.
    assert_eq!(unsafe { InitializeInjectionNvtx2(None) }, 0);
    extern "C" fn nothing(_: u32) -> *const c_void {
        null()
    }
    // SAFETY: a function that has no table.
    assert_eq!(unsafe { InitializeInjectionNvtx2(Some(nothing)) }, 0);
    let nvtx = first::begin().expect("read");
    let mut comm = Driver::new(0x57);
    let step = |comm: &mut Driver| nvtx.range(c"step", || comm.all_reduce(9));
    step(&mut comm);
    // Nothing to pop, in any domain; no text; no attributes, or too few.
    for _ in 0..3 {
        nvtx.pop();
        nvtx.pop_in(5);
        nvtx.pop_in(usize::MAX);
    }
    at!(nvtx.core[9], extern "C" fn(*const c_char) -> c_int)(null());
    nvtx.push_ex(null());
    let mut short = attributes(1, c"step".as_ptr().cast());
    short.bytes = 16;
    nvtx.push_ex(&short);
    for message_type in [0, 1, 2, 3, 4, -1] {
        nvtx.push_ex(&attributes(message_type, null()));
    }
    // Handles of nobody.
    nvtx.push_ex(&attributes(3, 0x7fff_1234_5678_usize as *const c_void));
    nvtx.push_in(0xdead_beef, &attributes(1, c"step".as_ptr().cast()));
    nvtx.pop_in(0xdead_beef);
    assert_ne!(nvtx.registered(0, null()), 0);
    assert_ne!(nvtx.domain(null()), 0);
    for number in [1, 15, 16, u64::MAX] {
        nvtx.end(number);
    }
    // More domains than are counted, and more ranges that never end.
    for at in 0..100 {
        let name = std::ffi::CString::new(format!("domain {at}")).expect("no zero byte");
        let domain = nvtx.domain(name.as_ptr());
        nvtx.push_in(domain, &attributes(1, c"other".as_ptr().cast()));
        nvtx.start(c"other");
    }
    step(&mut comm);
    // An exception leaves a step open. Of the next two, one is lost, and no later one.
    nvtx.push(c"step");
    nvtx.push(c"forward");
    for _ in 0..10 {
        step(&mut comm);
    }
    comm.finalize();
}

#[test]
fn misuse_of_nvtx_loses_a_step_at_most() {
    let marks = marks_of("job_that_misuses_nvtx", "nvtx:step");
    assert_eq!((count(&marks), marks.dropped), (2 + 9, 0));
}

#[test]
#[ignore = "played by the test below"]
fn job_of_many_threads() {
    let nvtx = first::begin().expect("read");
    let mut comm = Driver::new(0x57);
    let (go, wait) = mpsc::channel::<()>();
    // The first thread with a step.
    let owner = std::thread::spawn(move || {
        for _ in 0..5 {
            nvtx.range(c"step", || ());
        }
        wait.recv()
    });
    let mut seen = 0;
    while seen < 5 {
        comm.all_reduce(1);
        flushed();
        seen = tables::Capture::open(&crate::job::out()).map_or(0, |capture| {
            capture
                .processes
                .first()
                .map_or(0, |of| of.marks.steps.len())
        });
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1_000_000 / 8 {
                    nvtx.push(c"aten::mm, seq = 12, op_id = 3");
                    nvtx.pop();
                }
                // It has a rank of its own, and so the same steps.
                nvtx.range(c"step", || ());
            });
        }
    });
    drop(go);
    assert!(owner.join().expect("no panic").is_err());
    // Another thread goes on with the loop.
    for _ in 0..3 {
        nvtx.range(c"step", || comm.all_reduce(1));
    }
    comm.finalize();
}

#[test]
fn of_many_threads_one_has_the_steps() {
    let marks = marks_of("job_of_many_threads", "nvtx:step");
    assert_eq!((count(&marks), marks.dropped), (5 + 3, 0));
}

#[test]
#[ignore = "played by the test below"]
fn job_that_goes_on_behind_the_recorder() {
    let nvtx = first::begin().expect("read");
    // The recorder's handler runs first, because it was there last.
    extern "C" fn last() {
        let nvtx = first::begin().expect("read");
        for _ in 0..10_000 {
            nvtx.range(c"step", || ());
        }
    }
    // SAFETY: the function stays.
    unsafe { libc::atexit(last) };
    let mut comm = Driver::new(0x57);
    for _ in 0..4 {
        nvtx.range(c"step", || comm.all_reduce(1));
    }
    comm.finalize();
    // SAFETY: the handlers run, the plugin's too.
    unsafe { libc::exit(0) };
}

#[test]
fn ranges_behind_the_recorder_s_end_do_no_harm() {
    let marks = marks_of("job_that_goes_on_behind_the_recorder", "nvtx:step");
    assert!(count(&marks) >= 4);
}

#[test]
#[ignore = "played by the test below"]
fn job_that_forks_between_steps() {
    let nvtx = first::begin().expect("read");
    let mut comm = Driver::new(0xa);
    for _ in 0..3 {
        nvtx.range(c"step", || comm.all_reduce(1));
    }
    // SAFETY: the child calls the plugin and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut own = Driver::new(0xc);
        flushed();
        for _ in 0..6 {
            nvtx.range(c"step", || own.all_reduce(1));
        }
        own.finalize();
        // SAFETY: the handlers run, the plugin's too.
        unsafe { libc::exit(0) };
    }
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    nvtx.range(c"step", || comm.all_reduce(1));
    comm.finalize();
}

#[test]
fn a_child_s_steps_are_its_own() {
    let mut job = Job::new(module_path!(), "job_that_forks_between_steps")
        .env("NCCLSCOPE_STEPS", "nvtx:step")
        .env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let mut steps: Vec<usize> = capture
        .processes
        .iter()
        .map(|of| count(&of.marks))
        .collect();
    steps.sort_unstable();
    assert_eq!(steps, [4, 6]);
}

#[test]
#[ignore = "played by the test below"]
fn job_without_steps() {
    assert!(first::begin().expect_err("not read").is_empty());
    let mut comm = Driver::new(0x57);
    comm.all_reduce(1);
    comm.finalize();
}

#[test]
fn without_the_setting_nothing_is_put_into_the_program() {
    for steps in ["", "off", "torch", "jax"] {
        let mut job = Job::new(module_path!(), "job_without_steps").env("NCCLSCOPE_STEPS", steps);
        let (status, said) = job.run_saying();
        assert!(status.success(), "{said}");
        assert_eq!(
            said.contains("none of torch, nvtx, nvtx:NAME, off"),
            steps == "jax",
            "{said}"
        );
        let capture = job.capture();
        assert_eq!(capture.processes[0].marks, Marks::default());
    }
}

/// That NCCLSCOPE_STEPS had no effect.
fn had_no_effect(note: &Note) -> bool {
    says_why(note, "")
}

/// The same, if this is a part of the reason.
fn says_why(note: &Note, part: &str) -> bool {
    matches!(note, Note::NoEffect { variable: "NCCLSCOPE_STEPS", why, .. } if why.contains(part))
}

fn marked_none(note: &Note) -> bool {
    matches!(note, Note::NoSteps { .. })
}

#[test]
#[ignore = "played by the test below"]
fn job_whose_slot_is_taken() {
    let mut comm = Driver::new(0x57);
    comm.all_reduce(1);
    comm.finalize();
}

#[test]
fn a_slot_that_is_taken_is_said() {
    for (slot, why) in [
        (
            "/opt/nsys.so",
            "is `/opt/nsys.so`, so another tool reads NVTX ranges",
        ),
        ("", "is not set"),
    ] {
        let mut job = Job::new(module_path!(), "job_whose_slot_is_taken")
            .env("NCCLSCOPE_STEPS", "nvtx")
            .env("NVTX_INJECTION64_PATH", slot);
        job.command().env_remove("NCCLSCOPE_QUIET");
        let (status, said) = job.run_saying();
        assert!(status.success(), "{said}");
        let found = said.lines().filter(|line| line.contains("NCCLSCOPE_STEPS"));
        let found: Vec<&str> = found.collect();
        assert!(found.len() == 1 && found[0].contains(why), "{said}");
        let notes = analyze::report(&job.capture()).notes;
        assert!(notes.iter().any(|note| says_why(note, why)), "{notes:?}");
        assert!(!notes.iter().any(marked_none), "{notes:?}");
    }
}

#[test]
fn steps_of_torch_without_the_folder_of_run_are_said() {
    let capture = tempfile::tempdir().expect("made");
    let folder = capture.path().join(".torch-steps");
    let path = format!("/mine:{}", folder.display());
    let gone = format!("`{}` of PYTHONPATH is not on this host", folder.display());
    for (path, why) in [
        ("/mine", Some("PYTHONPATH has no folder of")),
        (&path, Some(gone.as_str())),
        (&path, None),
    ] {
        if why.is_none() {
            std::fs::create_dir(&folder).expect("made");
        }
        let mut job = Job::new(module_path!(), "job_whose_slot_is_taken")
            .env("NCCLSCOPE_STEPS", "torch")
            .env("PYTHONPATH", path);
        job.command().env_remove("NCCLSCOPE_QUIET");
        let (status, said) = job.run_saying();
        assert!(status.success(), "{said}");
        let no_effect = "NCCLSCOPE_STEPS=torch has no effect";
        assert_eq!(said.contains(no_effect), why.is_some(), "{said}");
        let notes = analyze::report(&job.capture()).notes;
        let count = |is: fn(&Note) -> bool| notes.iter().filter(|note| is(note)).count();
        let is_off = usize::from(why.is_some());
        let counts = (count(had_no_effect), count(marked_none));
        assert_eq!(counts, (is_off, 1 - is_off), "{notes:?}");
        let has_why = |why| notes.iter().any(|note| says_why(note, why));
        assert!(why.is_none_or(has_why), "{notes:?}");
    }
}
