//! Where the recorder is: what each callback looks up first.
//!
//! The address of the recorder lies in a private page that the kernel zeroes in a forked child, because a
//! child must not touch its parent's rows. So one load of the page's address and one of its content tell a
//! callback both: whether there is a recorder, and whether this process made it.
//!
//! [`get`] finds the recorder. [`plain`] finds it only if an event callback has nothing to do but to hand the
//! event on.

use super::Recorder;
use crate::pages;
use capture::live::Odd;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

/// The page's address.
static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::addr_of!(NONE).cast_mut());
/// The page before there is one.
static NONE: Page = Page {
    any: AtomicPtr::new(std::ptr::null_mut()),
    plain: AtomicPtr::new(std::ptr::null_mut()),
};

struct Page {
    /// The recorder that this process made, or null.
    any: AtomicPtr<Recorder>,
    /// The same, but null in `callbacks` mode, with another plugin behind ours, and if recording is off: each
    /// callback then has more to do, or less.
    plain: AtomicPtr<Recorder>,
}

fn page() -> &'static Page {
    // SAFETY: PAGE leads to NONE or to a page that is never unmapped.
    unsafe { &*PAGE.load(Acquire) }
}

/// The process's recorder, if there is one and this is the process that made it.
#[inline]
pub fn get() -> Option<&'static Recorder> {
    // SAFETY: null, or a box that this process leaked.
    unsafe { page().any.load(Acquire).as_ref() }
}

/// The process's recorder, if an event callback only has to hand its event on to it.
#[inline(always)]
pub fn plain() -> Option<&'static Recorder> {
    // SAFETY: as above.
    unsafe { page().plain.load(Acquire).as_ref() }
}

/// Lets [`plain`] find the recorder again, after a test switched recording off.
#[cfg(debug_assertions)]
pub fn resume() {
    if let Some(recorder) = get().filter(|r| r.is_plain()) {
        page()
            .plain
            .store(std::ptr::from_ref(recorder).cast_mut(), Release);
    }
}

/// Counts a panic that the guard caught, and says in the header that recording is off.
pub fn count_panic() {
    if let Some(recorder) = get() {
        page().plain.store(std::ptr::null_mut(), Release);
        recorder.odd(Odd::Panic);
        recorder.header().state.store(2, Relaxed);
    }
}

/// Makes `recorder` the one that [`get`] gives, in a page that is mapped at the first time.
pub fn publish(recorder: &'static Recorder) -> std::io::Result<()> {
    if std::ptr::eq(page(), &NONE) {
        let fresh = pages::map(4096)?;
        // SAFETY: the page is ours. On kernels before 4.14 the advice fails; a child that calls NCCL there is
        // on its own.
        unsafe { libc::madvise(fresh, 4096, libc::MADV_WIPEONFORK) };
        PAGE.store(fresh.cast(), Release);
    }
    let pointer = std::ptr::from_ref(recorder).cast_mut();
    if recorder.is_plain() {
        page().plain.store(pointer, Release);
    }
    page().any.store(pointer, Release);
    Ok(())
}
