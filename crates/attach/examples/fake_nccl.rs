//! A libnccl.so.2 that does nothing: for tests of probes, which look at entries and returns of functions.
//!
//! Each function begins with `push`, as NCCL's do, so a probe there is fast. AllReduce returns the code that
//! `ncclFakeReturn` was given. Some counts of elements are special:
//!
//! ```text
//! 77  sleeps until the process ends, as in a hang
//! 78  sleeps for 30 ms
//! 79  computes until its thread has had 30 ms of CPU time
//! 80  sends packets to itself for 30 ms
//! ```
//!
//! `ncclCommInitRank` calls functions that are named as those inside NCCL's init.

#[cfg(target_arch = "x86_64")]
mod functions {
    use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

    static CODE: AtomicI32 = AtomicI32::new(0);

    macro_rules! exported {
        ($($name:ident => $function:ident;)*) => { $(
            #[unsafe(naked)]
            #[no_mangle]
            #[allow(non_snake_case)]
            pub extern "C" fn $name() {
                std::arch::naked_asm!(
                    "push rbp",
                    "mov rbp, rsp",
                    "call {function}",
                    "pop rbp",
                    "ret",
                    function = sym $function,
                );
            }
        )* };
    }

    exported! {
        ncclAllReduce => all_reduce;
        ncclBroadcast => done;
        ncclAllGather => done;
        ncclReduceScatter => done;
        ncclSend => done;
        ncclRecv => done;
        ncclPutSignal => done;
        ncclSignal => done;
        ncclWaitSignal => done;
        ncclGroupStart => done;
        ncclGroupEnd => done;
        ncclCommDestroy => done;
        ncclCommInitRank => init;
        ncclFakeReturn => fake_return;
    }

    /// Functions that say what a communicator has at this place, as NCCL's code does.
    macro_rules! getters {
        ($($name:ident = $offset:literal;)*) => { $(
            #[unsafe(naked)]
            #[no_mangle]
            #[allow(non_snake_case)]
            pub extern "C" fn $name() {
                std::arch::naked_asm!(
                    "push rbp",
                    concat!("mov eax, dword ptr [rdi + ", $offset, "]"),
                    "mov dword ptr [rsi], eax",
                    "xor eax, eax",
                    "pop rbp",
                    "ret",
                );
            }
        )* };
    }

    getters! {
        ncclCommUserRank = 0x1d0;
        ncclCommCount = 0x1d4;
        ncclCommCuDevice = 0x1d8;
    }

    extern "C" fn all_reduce(_: usize, _: usize, count: usize) -> i32 {
        match count {
            77 => loop {
                std::thread::sleep(std::time::Duration::from_secs(60));
            },
            78 => std::thread::sleep(LONG),
            79 => {
                let begin = cpu_time();
                while cpu_time() - begin < LONG {}
            }
            80 => {
                let one = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
                let to = one.local_addr().expect("bound");
                let begin = std::time::Instant::now();
                while begin.elapsed() < LONG {
                    let _ = one.send_to(&[0; 1000], to);
                }
            }
            _ => {}
        }
        CODE.load(Relaxed)
    }

    const LONG: std::time::Duration = std::time::Duration::from_millis(30);

    /// CPU time of this thread.
    fn cpu_time() -> std::time::Duration {
        // SAFETY: a struct of numbers.
        let mut time: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: the struct is ours.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    #[export_name = "_Z13bootstrapInitiPvP8ncclComm"]
    extern "C" fn bootstrap() -> i32 {
        for _ in 0..3 {
            all_gather();
        }
        0
    }

    #[export_name = "_Z18bootstrapAllGatherPvS_i"]
    #[inline(never)]
    extern "C" fn all_gather() -> i32 {
        std::thread::sleep(std::time::Duration::from_millis(2));
        0
    }

    #[export_name = "_Z15ncclTopoComputeP14ncclTopoSystemP13ncclTopoGraph"]
    #[inline(never)]
    extern "C" fn topology() -> i32 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        0
    }

    extern "C" fn done() -> i32 {
        0
    }

    extern "C" fn fake_return(code: i32) -> i32 {
        CODE.store(code, Relaxed);
        0
    }

    /// The unique id is on the stack, and nobody needs it here.
    unsafe extern "C" fn init(communicator: *mut usize, nranks: i32, rank: i32) -> i32 {
        bootstrap();
        topology();
        let mut made = vec![0i32; 0x200];
        (made[0x1d0 / 4], made[0x1d4 / 4], made[0x1d8 / 4]) = (rank, nranks, 5);
        // SAFETY: the caller's variable.
        unsafe { *communicator = made.leak().as_ptr() as usize };
        0
    }
}
