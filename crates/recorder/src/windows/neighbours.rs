//! Other profilers in the process: torch.profiler and JAX's use the same CUPTI.
//!
//! CUPTI has one pair of buffer callbacks. The profiler that registers last gets all records. Buffers of ours
//! that CUPTI still holds would come back to the other profiler, which does not know them: it costs
//! torch.profiler its records (seen with CUPTI 13.0). So functions of ours stand before CUPTI's that begin
//! and end a use of it, in every library that calls them ([`crate::interpose`]). Before another use begins,
//! our window is closed and every buffer taken back. No window opens until that use has ended.
//!
//! **A use that began before ours looked** is not known from its calls. There are two signs of it. Libraries
//! that look CUPTI up by themselves keep the addresses of the functions that they have called. And
//! torch.profiler says by a call which of its operators each launch belongs to. With the first, a window
//! waits for the end of a use, or for [`UNHEARD`] without a sign of one: that use may have been over before
//! ours looked. With the second, a window waits for [`SILENCE`]. Asking CUPTI by a subscription would be
//! simpler, and must not be done. If torch.profiler finds a subscription, even one of microseconds, it gives
//! up for good (seen).
//!
//! A search for these pointers takes some 100 ms in a process with torch, on the recorder's second thread. It
//! is made again only if a library was loaded since.
//!
//! Rule: a call of another profiler's always reaches CUPTI, with what it passed, after ours has given up.

use super::cupti;
use crate::clock::nanoseconds;
use crate::guard::guard;
use crate::interpose::{interposed, Interposed, Search};
use std::ffi::c_void;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::time::Duration;

/// Kinds of activity that others have switched on, a bit each.
static ENABLED: AtomicU64 = AtomicU64::new(0);
/// Others have registered their callbacks and not switched anything on since.
static REGISTERED: AtomicBool = AtomicBool::new(false);
/// A use that began before ours looked may still go on.
static EARLIER: AtomicBool = AtomicBool::new(true);
/// An operator was announced, or a record was read, since [`none`] last looked.
static ANNOUNCED: AtomicBool = AtomicBool::new(false);
/// When `ANNOUNCED` was first false and watched, CLOCK_MONOTONIC ns; 0 not yet.
static WATCHED: AtomicU64 = AtomicU64::new(0);
/// The clock that another profiler has given to CUPTI; null is CUPTI's own.
static CLOCK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Closes our window.
static GIVE_UP: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// So long without an operator's announcement means that torch.profiler does not run: steps have thousands a
/// second.
pub const SILENCE: Duration = Duration::from_millis(300);
/// So long without a sign of a use: a profiler that is on gets buffers, and reads the records in them.
const UNHEARD: Duration = Duration::from_secs(600);

/// Watches CUPTI; `give_up` closes our window, on the thread of the other profiler.
pub fn watch(give_up: fn()) {
    GIVE_UP.store(give_up as *mut c_void, Release);
    let found = INTERPOSED.install(&[&FUNCTIONS], Search::default(), cupti::function);
    let first = WATCHED.load(Acquire) == 0;
    if found.bytes > 0 && (first || found.pointers > 0) {
        // Without looked-up addresses, only those can use it whose operators would be announced.
        LOOKED_UP.store(found.words > 0, Release);
        WATCHED.store(nanoseconds(libc::CLOCK_MONOTONIC), Release);
        // A library that was loaded since may have begun too.
        EARLIER.store(true, Release);
    }
}

/// Some library has looked up functions of CUPTI before ours watched them.
static LOOKED_UP: AtomicBool = AtomicBool::new(false);

/// Whether it is known that nobody uses CUPTI now.
pub fn none() -> bool {
    none_at(nanoseconds(libc::CLOCK_MONOTONIC))
}

fn none_at(now: u64) -> bool {
    if EARLIER.load(Acquire) {
        let since = WATCHED.load(Acquire);
        if ANNOUNCED.swap(false, AcqRel) {
            WATCHED.store(now, Release);
            return false;
        }
        let silence = if LOOKED_UP.load(Acquire) {
            UNHEARD
        } else {
            SILENCE
        };
        if since == 0 || u128::from(now.saturating_sub(since)) < silence.as_nanos() {
            return false;
        }
        EARLIER.store(false, Release);
    }
    ENABLED.load(Acquire) == 0 && !REGISTERED.load(Acquire)
}

/// What CUPTI's times are now, if it was given another clock than its own.
pub fn foreign_clock() -> Option<u64> {
    let clock = CLOCK.load(Acquire);
    if clock.is_null() {
        return None;
    }
    // SAFETY: the other profiler gave CUPTI a function of this type, to be called on any thread.
    Some(unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(clock)() })
}

/// Tools that bring a CUPTI of their own, or one that can't be shared: Nsight Systems and Compute,
/// compute-sanitizer. And XLA, as in JAX and TensorFlow: its profiler looks CUPTI up when it begins, which is
/// not seen, and would lose records to a window.
pub fn foreign_tool(loaded: &[String]) -> Option<&'static str> {
    const TOOLS: [(&str, &str); 11] = [
        ("libToolsInjection", "Nsight Systems"),
        (
            "libInterceptorInjection",
            "Nsight Compute or compute-sanitizer",
        ),
        ("libcuda-injection", "Nsight Compute"),
        ("libsanitizer-collection", "compute-sanitizer"),
        ("libnvperf_injection", "Nsight Compute"),
        ("xla_cuda_plugin", "JAX's profiler"),
        ("libjax_common", "JAX's profiler"),
        ("xla_extension", "JAX's profiler"),
        ("pjrt_c_api_gpu_plugin", "JAX's profiler"),
        ("libtensorflow_framework", "TensorFlow's profiler"),
        ("_XLAC", "torch_xla's profiler"),
    ];
    let is_loaded = |file: &str| {
        let files = loaded.iter().filter_map(|path| path.rsplit('/').next());
        files.into_iter().any(|name| name.starts_with(file))
    };
    TOOLS
        .iter()
        .find(|(file, _)| is_loaded(file))
        .map(|(_, tool)| *tool)
}

fn others_begin() {
    let give_up = GIVE_UP.load(Acquire);
    if !give_up.is_null() {
        // SAFETY: `watch` stored a function of this type.
        guard((), || unsafe {
            std::mem::transmute::<*mut c_void, fn()>(give_up)()
        });
    }
}

fn bit(kind: u32) -> u64 {
    1 << kind.min(63)
}

/// Another profiler registers its callbacks. If it has switched kinds on before, these end its use.
fn registers() {
    if ENABLED.load(Acquire) == 0 {
        REGISTERED.store(true, Release);
    }
}

/// Another profiler switches a kind on.
fn begins(kind: u32) {
    // First, so that no window of ours opens in between.
    if ENABLED.fetch_or(bit(kind), AcqRel) == 0 {
        others_begin();
    }
    REGISTERED.store(false, Relaxed);
}

/// Another profiler has switched a kind off.
fn ended(kind: u32) {
    ENABLED.fetch_and(!bit(kind), AcqRel);
    // The end of a use that began before ours looked: from here on what others do is known.
    EARLIER.store(false, Release);
}

type Pointer = *mut c_void;

interposed! { FUNCTIONS reals call;
    register "cuptiActivityRegisterCallbacks" (requested: Pointer, completed: Pointer) -> u32 {
        registers();
        others_begin();
        call()
    }
    enable "cuptiActivityEnable" (kind: u32) -> u32 {
        begins(kind);
        call()
    }
    enable_context "cuptiActivityEnableContext" (context: Pointer, kind: u32) -> u32 {
        begins(kind);
        call()
    }
    disable "cuptiActivityDisable" (kind: u32) -> u32 {
        let result = call();
        ended(kind);
        result
    }
    disable_context "cuptiActivityDisableContext" (context: Pointer, kind: u32) -> u32 {
        let result = call();
        ended(kind);
        result
    }
    set_clock "cuptiActivityRegisterTimestampCallback" (clock: Pointer) -> u32 {
        // A window has one clock.
        others_begin();
        let result = call();
        if result == 0 {
            CLOCK.store(clock, Release);
        }
        result
    }
    read "cuptiActivityGetNextRecord" (buffer: Pointer, valid: usize, record: Pointer) -> u32 {
        if !ANNOUNCED.load(Relaxed) {
            ANNOUNCED.store(true, Relaxed);
        }
        call()
    }
    announce "cuptiActivityPushExternalCorrelationId" (kind: u32, id: u64) -> u32 {
        ANNOUNCED.store(true, Relaxed);
        call()
    }
}
static INTERPOSED: Interposed = Interposed::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_that_is_over_is_not_waited_for_for_ever() {
        let unheard = UNHEARD.as_nanos() as u64;
        // A library had looked functions up, and may use them.
        EARLIER.store(true, Release);
        LOOKED_UP.store(true, Release);
        WATCHED.store(1, Release);
        assert!(!none_at(unheard));
        // It does.
        ANNOUNCED.store(true, Release);
        assert!(!none_at(unheard + 1));
        assert!(!none_at(2 * unheard));
        // No longer.
        assert!(none_at(2 * unheard + 1));
        // What others do from here on is known.
        begins(cupti::KERNEL);
        assert!(!none_at(3 * unheard));
        ended(cupti::KERNEL);
        assert!(none_at(3 * unheard));
        // In either order.
        for first in [true, false] {
            if first {
                registers();
                assert!(!none_at(3 * unheard));
            }
            begins(cupti::KERNEL);
            registers();
            assert!(!none_at(3 * unheard));
            ended(cupti::KERNEL);
            assert!(none_at(3 * unheard), "registered first: {first}");
        }
    }

    #[test]
    fn tools_that_keep_cupti_to_themselves_are_known_by_their_libraries() {
        let loaded = |path: &str| vec!["/usr/lib/libc.so.6".to_owned(), path.to_owned()];
        let jax = loaded("/venv/jax_plugins/xla_cuda12/xla_cuda_plugin.so");
        assert_eq!(foreign_tool(&jax), Some("JAX's profiler"));
        let nsight = loaded("/opt/nsys/libToolsInjection64.so");
        assert_eq!(foreign_tool(&nsight), Some("Nsight Systems"));
        assert_eq!(
            foreign_tool(&loaded("/venv/torch/lib/libtorch_cpu.so")),
            None
        );
    }
}
