//! Where the recorder's thread may run.
//!
//! Rule: it may run where the process may, and not only where the thread does that called NCCL. That thread
//! is often tied to one CPU, which ours must leave to it. NCCL itself ties the thread to some CPUs while it
//! makes a communicator. So the process's CPUs are asked for when NCCL loads the plugin, before all that.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Words of the mask: 4096 CPUs.
const WORDS: usize = 64;

/// The CPUs of the process's first thread when the plugin was loaded.
static MASK: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// Bytes of the mask; 0 or less if it could not be asked for.
static LEN: AtomicI64 = AtomicI64::new(0);

/// The loader calls this when it has mapped the library. Miri can't ask for CPUs.
#[used]
#[cfg_attr(not(miri), link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        let mut mask = [0u64; WORDS];
        // SAFETY: the buffer is as long as said. A process's id is that of its first thread.
        let len = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                libc::getpid(),
                size_of_val(&mask),
                mask.as_mut_ptr(),
            )
        };
        for (to, from) in MASK.iter().zip(mask) {
            to.store(from, Relaxed);
        }
        LEN.store(len, Relaxed);
    }
    at_load
};

/// Gives the calling thread the process's CPUs.
pub fn as_the_process() {
    let Ok(len @ 1..) = usize::try_from(LEN.load(Relaxed)) else {
        return;
    };
    let mask: [u64; WORDS] = std::array::from_fn(|i| MASK[i].load(Relaxed));
    // SAFETY: the buffer is longer than `len`; if it fails, things stay as they are.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            0,
            len.min(size_of_val(&mask)),
            mask.as_ptr(),
        )
    };
}
