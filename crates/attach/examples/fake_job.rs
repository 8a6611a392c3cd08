//! A program that calls a libnccl.so.2 as it is told on standard input: for tests of probes.
//!
//! ```text
//! fake_job LIBRARY
//! load            opens the library
//! code N          AllReduce returns N from now on
//! init NRANKS RANK  makes a communicator, the same for all processes with the same size
//! heap N          N communicators of N ranks, one for each rank, all put into the same place of the heap
//! loop THREADS N  new threads, each with N AllReduces of 1024 floats on the newest communicator
//! group N         a group of N sends and receives
//! also PATH       loads another copy of the library; `loop` uses it from then on
//! long COUNT CPU  an AllReduce of so many elements, on a thread of its own that only that CPU runs
//! hog CPU         a thread that keeps this CPU busy until the process ends
//! listen          waits for a connection to 127.0.0.1; prints its port first
//! connect PORT    connects to 127.0.0.1
//! send BYTES      sends over the newest connection
//! receive BYTES   takes from it
//! pid             prints the process's own number
//! hang            an AllReduce that does not return, on a thread of its own
//! end             ends the newest communicator
//! fork            a child process that makes 5 AllReduces after SIGUSR1; prints its number
//! ```
//!
//! After each line it prints one: `done`, and for `loop` and `long` the threads.

use std::ffi::{c_void, CString};
use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};

type Reduce = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    i32,
    i32,
    *const c_void,
    *const c_void,
) -> i32;
type Send =
    unsafe extern "C" fn(*const c_void, usize, i32, i32, *const c_void, *const c_void) -> i32;
type Plain = unsafe extern "C" fn() -> i32;
type One = unsafe extern "C" fn(usize) -> i32;
type Init = unsafe extern "C" fn(*mut usize, i32, [u8; 128], i32) -> i32;

/// A pointer that threads may share.
#[derive(Clone, Copy)]
struct Library(usize);

impl Library {
    fn get<T: Copy>(self, name: &str) -> T {
        let symbol = CString::new(name).expect("a name");
        // SAFETY: the library is open, and stays so.
        let found = unsafe { libc::dlsym(self.0 as *mut c_void, symbol.as_ptr()) };
        assert!(!found.is_null(), "no {name}");
        // SAFETY: the callers ask for the type that nccl.h gives the function.
        unsafe { std::mem::transmute_copy(&found) }
    }

    fn reduce(self, count: usize, communicator: usize) -> i32 {
        let (null, out) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: the fake looks at nothing but the count.
        unsafe {
            self.get::<Reduce>("ncclAllReduce")(
                null,
                out,
                count,
                7,
                0,
                communicator as *const c_void,
                null,
            )
        }
    }
}

/// Linux's number of this thread.
fn thread() -> i64 {
    // SAFETY: a plain call.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// Has only one CPU run this thread.
fn pin(cpu: usize) {
    // SAFETY: the set is ours, and for this thread alone.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set);
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("a library");
    let open = |path: &str| {
        let path = CString::new(path).expect("a path");
        // SAFETY: the fake's initialisers do nothing.
        let opened = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!opened.is_null(), "{path:?} can't be loaded");
        Library(opened as usize)
    };
    let (mut library, mut communicator) = (None, 0usize);
    let mut connection: Option<TcpStream> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().expect("a number");
        let lib = match words[0] {
            "load" => *library.insert(open(&path)),
            "also" => *library.insert(open(words[1])),
            "pid" | "listen" | "connect" | "send" | "receive" => Library(0),
            _ => library.expect("load comes first"),
        };
        match words[0] {
            "load" | "also" => {}
            "pid" => {
                println!("{}", std::process::id());
                continue;
            }
            "long" => {
                let (count, cpu) = (number(1), number(2));
                let call = std::thread::spawn(move || {
                    pin(cpu);
                    lib.reduce(count, communicator);
                    thread()
                });
                println!("{}", call.join().expect("ends"));
                continue;
            }
            "hog" => {
                let cpu = number(1);
                std::thread::spawn(move || {
                    pin(cpu);
                    loop {
                        std::hint::spin_loop();
                    }
                });
            }
            "listen" => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                println!("{}", listener.local_addr().expect("bound").port());
                connection = Some(listener.accept().expect("accepted").0);
                continue;
            }
            "connect" => {
                let to = ("127.0.0.1", number(1) as u16);
                connection = Some(TcpStream::connect(to).expect("connected"));
            }
            "send" => {
                let to = connection.as_mut().expect("connected");
                to.write_all(&vec![1; number(1)]).expect("sent");
            }
            "receive" => {
                let from = connection.as_mut().expect("connected");
                from.read_exact(&mut vec![0; number(1)]).expect("came");
            }
            "code" => {
                // SAFETY: as the fake defines it.
                unsafe { lib.get::<One>("ncclFakeReturn")(number(1)) };
            }
            "init" => {
                let id = [number(1) as u8; 128];
                // SAFETY: as nccl.h has it.
                unsafe {
                    lib.get::<Init>("ncclCommInitRank")(
                        &mut communicator,
                        number(1) as i32,
                        id,
                        number(2) as i32,
                    )
                };
            }
            "heap" => {
                let place = Box::leak(Box::new(0usize));
                for rank in 0..number(1) {
                    let id = [number(1) as u8; 128];
                    // SAFETY: as nccl.h has it.
                    unsafe {
                        lib.get::<Init>("ncclCommInitRank")(
                            place,
                            number(1) as i32,
                            id,
                            rank as i32,
                        )
                    };
                    lib.reduce(1024, *place);
                }
            }
            "loop" => {
                let calls = number(2);
                let threads = (0..number(1)).map(|_| {
                    std::thread::spawn(move || {
                        (0..calls).for_each(|_| {
                            lib.reduce(1024, communicator);
                        });
                        thread()
                    })
                });
                let threads: Vec<_> = threads.collect();
                let ids = threads
                    .into_iter()
                    .map(|t| t.join().expect("ends").to_string());
                println!("{}", ids.collect::<Vec<_>>().join(" "));
                continue;
            }
            "group" => {
                let null = std::ptr::null();
                // SAFETY: as nccl.h has it; the fake looks at nothing.
                unsafe {
                    lib.get::<Plain>("ncclGroupStart")();
                    for peer in 0..number(1) as i32 {
                        let to = communicator as *const c_void;
                        lib.get::<Send>("ncclSend")(null, 16, 0, peer, to, null);
                        lib.get::<Send>("ncclRecv")(null, 16, 0, peer, to, null);
                    }
                    lib.get::<Plain>("ncclGroupEnd")();
                }
            }
            "signals" => {
                for _ in 0..number(1) {
                    for name in [
                        "ncclPutSignal",
                        "ncclPutSignal",
                        "ncclSignal",
                        "ncclWaitSignal",
                    ] {
                        // SAFETY: it does nothing with its arguments.
                        unsafe { lib.get::<Plain>(name)() };
                    }
                }
            }
            "hang" => {
                std::thread::spawn(move || lib.reduce(77, communicator));
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            "end" => {
                // SAFETY: as nccl.h has it.
                unsafe { lib.get::<One>("ncclCommDestroy")(communicator) };
            }
            // SAFETY: the child calls nothing but the fake and exit.
            "fork" => unsafe {
                let mut signal: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&mut signal, libc::SIGUSR1);
                libc::pthread_sigmask(libc::SIG_BLOCK, &signal, std::ptr::null_mut());
                match libc::fork() {
                    0 => {
                        libc::sigwait(&signal, &mut 0);
                        (0..5).for_each(|_| {
                            lib.reduce(1024, communicator);
                        });
                        std::thread::sleep(std::time::Duration::from_millis(500));
                        libc::_exit(0);
                    }
                    child => {
                        println!("{child}");
                        libc::waitpid(child, std::ptr::null_mut(), 0);
                        continue;
                    }
                }
            },
            other => panic!("unknown: {other}"),
        }
        println!("done");
    }
}
