//! A program that calls a mock of NCCL both ways that programs do, for the tests of the counter.
//!
//! `mock_program NCCL USER`: opens both libraries, NCCL for itself alone (`RTLD_LOCAL`) as Python does with
//! extensions. Prints `ok` when every call returned what it should and other look-ups went as ever.
//!
//! `mock_program NCCL --own-error-file PATH`: closes its standard error, opens a file of its own, which gets
//! the number, and calls.
//!
//! `mock_program NCCL --fork-in-first-count`: forks while another thread counts its first call, which takes
//! long because the counter has something to say and nobody reads it. Prints `ok` when the child's call
//! returned.

use std::ffi::{c_char, c_int, c_void, CString};
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

type AllReduce = extern "C" fn(usize, usize, usize, c_int, c_int, usize, usize) -> c_int;
type AlltoAll = extern "C" fn(usize, usize, usize, c_int, usize, usize) -> c_int;
type Linked = extern "C" fn(c_int, usize) -> c_int;

fn open(path: &str, flags: c_int) -> *mut c_void {
    let path = CString::new(path).expect("a path");
    // SAFETY: a C string.
    let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
    assert!(!handle.is_null(), "{path:?} could not be opened");
    handle
}

fn look(handle: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).expect("a name");
    // SAFETY: a C string and a handle.
    unsafe { dlsym(handle, name.as_ptr()) }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let comm = 8 * 256 + 3;
    let mut sound = true;
    // Linked first: nothing has told yet where NCCL is. NCCL is loaded beside, as the framework's own
    // dependency.
    let nccl = open(&arguments[1], libc::RTLD_NOW | libc::RTLD_LOCAL);
    if arguments
        .get(2)
        .is_some_and(|a| a == "--fork-in-first-count")
    {
        return fork_in_first_count(nccl, comm, &arguments);
    }
    if arguments.get(2).is_some_and(|a| a == "--own-error-file") {
        return own_error_file(nccl, comm, &arguments[3]);
    }
    if let Some(user) = arguments.get(2) {
        let user = open(user, libc::RTLD_LAZY | libc::RTLD_LOCAL);
        // SAFETY: the example's own signature.
        let linked =
            unsafe { std::mem::transmute::<*mut c_void, Linked>(look(user, "use_linked")) };
        sound &= linked(20, comm) == 0;
    }
    // SAFETY: NCCL's signatures, pointers as numbers.
    let (all_reduce, all_to_all, all_gather) = unsafe {
        (
            std::mem::transmute::<*mut c_void, AllReduce>(look(nccl, "ncclAllReduce")),
            std::mem::transmute::<*mut c_void, AlltoAll>(look(nccl, "ncclAlltoAll")),
            std::mem::transmute::<*mut c_void, AlltoAll>(look(nccl, "ncclAllGather")),
        )
    };
    for _ in 0..100 {
        sound &= all_reduce(0, 0, 256, 7, 0, comm, 0) == 0;
    }
    sound &= all_reduce(0, 0, 256, 99, 0, comm, 0) == 4;
    sound &= all_to_all(0, 0, 64, 7, comm, 0) == 0;
    sound &= all_gather(0, 0, 64, 9, comm, 0) == 0;
    // Names that are none of NCCL's calls, and those that are not there, are the C library's business.
    sound &= !look(nccl, "ncclCommCount").is_null();
    sound &= look(nccl, "ncclReduceScatter").is_null() && look(nccl, "nowhere").is_null();
    sound &= std::ptr::eq(
        look(libc::RTLD_DEFAULT, "malloc"),
        libc::malloc as *mut c_void,
    );
    // SAFETY: the child only calls and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        all_reduce(0, 0, 512, 7, 0, comm, 0);
        // SAFETY: ends the process, without handlers.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: our child.
    sound &= unsafe { libc::waitpid(child, &mut status, 0) } == child && status == 0;
    println!(
        "{}",
        if sound {
            "ok"
        } else {
            "a call or a look-up went wrong"
        }
    );
    ExitCode::from(u8::from(!sound))
}

/// See the module.
fn own_error_file(nccl: *mut c_void, comm: usize, path: &str) -> ExitCode {
    let path = CString::new(path).expect("a path");
    // SAFETY: NCCL's signature, pointers as numbers; the lowest number that is free is that of the standard
    // error.
    let all_reduce = unsafe {
        libc::close(2);
        let flags = libc::O_WRONLY | libc::O_CREAT;
        assert_eq!(libc::open(path.as_ptr(), flags, 0o600), 2);
        std::mem::transmute::<*mut c_void, AllReduce>(look(nccl, "ncclAllReduce"))
    };
    assert_eq!(all_reduce(0, 0, 512, 7, 0, comm, 0), 0);
    println!("ok");
    ExitCode::SUCCESS
}

/// A pipe that is full as the standard error, from the start of a program on; its reading end.
fn full_pipe(arguments: &[String]) -> c_int {
    if let Some(reader) = arguments.get(3) {
        return reader.parse().expect("a number");
    }
    // SAFETY: system calls on descriptors of ours.
    let reader = unsafe {
        let mut pipe = [0; 2];
        assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK), 0);
        while libc::write(pipe[1], [0u8; 4096].as_ptr().cast(), 4096) > 0 {}
        assert_eq!(libc::fcntl(pipe[1], libc::F_SETFL, 0), 0);
        assert_eq!(libc::dup2(pipe[1], 2), 2);
        pipe[0]
    };
    let again = std::process::Command::new("/proc/self/exe")
        .args(&arguments[1..])
        .arg(reader.to_string())
        .exec();
    panic!("{again}");
}

fn fork_in_first_count(nccl: *mut c_void, comm: usize, arguments: &[String]) -> ExitCode {
    let reader = full_pipe(arguments);
    // SAFETY: NCCL's signature, pointers as numbers.
    let all_reduce =
        unsafe { std::mem::transmute::<*mut c_void, AllReduce>(look(nccl, "ncclAllReduce")) };
    let (tell, told) = std::sync::mpsc::channel();
    let counting = std::thread::spawn(move || {
        // SAFETY: a plain call.
        let _ = tell.send(unsafe { libc::syscall(libc::SYS_gettid) });
        all_reduce(0, 0, 512, 7, 0, comm, 0)
    });
    let path = format!("/proc/self/task/{}/syscall", told.recv().expect("a thread"));
    let writes = format!("{} 0x2 ", libc::SYS_write);
    while !std::fs::read_to_string(&path).is_ok_and(|call| call.starts_with(&writes)) {
        std::thread::yield_now();
    }
    // SAFETY: the child only calls and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child has a standard error of its own then.
        unsafe { libc::dup2(libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY), 2) };
        all_reduce(0, 0, 512, 7, 0, comm, 0);
        // SAFETY: ends the process, without handlers.
        unsafe { libc::_exit(0) };
    }
    let (mut status, mut ended) = (0, 0);
    for _ in 0..2000 {
        // SAFETY: our child.
        ended = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) };
        if ended != 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // SAFETY: our child, and our descriptor; what is read goes nowhere.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        while libc::read(reader, [0u8; 4096].as_mut_ptr().cast(), 4096) > 0 {}
    }
    let sound = ended == child && status == 0 && counting.join().is_ok_and(|result| result == 0);
    println!(
        "{}",
        if sound {
            "ok"
        } else {
            "the child never came back"
        }
    );
    ExitCode::from(u8::from(!sound))
}
