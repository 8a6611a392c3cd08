//! A libnccl.so.2 that does nothing: for tests of probes, which look at entries and returns of functions.
//!
//! Each function begins with `push`, as NCCL's do, so a probe there is fast. AllReduce returns the code that
//! `ncclFakeReturn` was given. An AllReduce of 77 elements sleeps until the process ends, as in a hang.

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
        if count == 77 {
            loop {
                std::thread::sleep(std::time::Duration::from_secs(60));
            }
        }
        CODE.load(Relaxed)
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
        let mut made = vec![0i32; 0x200];
        (made[0x1d0 / 4], made[0x1d4 / 4], made[0x1d8 / 4]) = (rank, nranks, 5);
        // SAFETY: the caller's variable.
        unsafe { *communicator = made.leak().as_ptr() as usize };
        0
    }
}
