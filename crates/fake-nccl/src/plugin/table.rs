//! The plugin's struct, called through the shim of the release.

use super::log::logger;
use crate::event::{Descr, Event, Handle, Seat, StateArgs};
use core::ffi::{c_int, c_void, CStr};
use nccl_abi::{event, state, v1, v4, v5};
use std::ffi::CString;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// The plugin's struct and where it sits. Calls go through the shim of the release.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// ABI and release.
    pub seat: Seat,
    raw: v5::Profiler,
}

// SAFETY: NCCL calls a plugin from several threads and demands that it bears it; the struct itself is only
// read.
unsafe impl Send for Table {}

// SAFETY: as above.
unsafe impl Sync for Table {}

/// What a plugin did wrong that NCCL doesn't notice, counted for the process. A check looks at it.
#[derive(Debug, Default)]
pub struct Misdeeds {
    /// Calls that returned an error.
    pub errors: AtomicU64,
    /// Starts after which the word for the handle still held [`Handle::GARBAGE`].
    pub unwritten: AtomicU64,
}

/// See [`Misdeeds`].
pub static MISDEEDS: Misdeeds = Misdeeds {
    errors: AtomicU64::new(0),
    unwritten: AtomicU64::new(0),
};

fn note(result: c_int) -> c_int {
    if result != nccl_abi::result::SUCCESS {
        MISDEEDS.errors.fetch_add(1, Relaxed);
    }
    result
}

type RawStart = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int;

type RawState = unsafe extern "C" fn(*mut c_void, u32, *mut c_void) -> c_int;

/// What `init` is told about a communicator.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name, if the caller gave one.
    pub name: Option<CString>,
    /// The hash that all ranks share.
    pub hash: u64,
    /// Hosts it spans.
    pub nodes: i32,
    /// Its size.
    pub ranks: i32,
    /// This rank in it.
    pub rank: i32,
}

impl Table {
    /// The struct at `raw`, of ABI `seat.abi`.
    ///
    /// # Safety
    /// `raw` must be that version's `Profiler` with all entries set. Its library must stay mapped for as long
    /// as this lives.
    pub unsafe fn new(seat: Seat, raw: *const v5::Profiler) -> Table {
        // SAFETY: by the caller; the struct has the same six words in every version.
        let raw = unsafe { *raw };
        Table { seat, raw }
    }

    /// The plugin's name for NCCL's log.
    pub fn name(&self) -> String {
        if self.raw.name.is_null() {
            return String::from("(null)");
        }
        // SAFETY: not null, and a plugin's name is NUL-terminated static memory.
        unsafe { CStr::from_ptr(self.raw.name) }
            .to_string_lossy()
            .into_owned()
    }

    /// Where its code is.
    pub fn start_address(&self) -> usize {
        self.raw.start_event.map_or(0, |entry| entry as usize)
    }

    /// Entries that are null, which NCCL would call all the same.
    pub fn missing(&self) -> Vec<&'static str> {
        let raw = &self.raw;
        let entries = [
            ("init", raw.init.is_none()),
            ("startEvent", raw.start_event.is_none()),
            ("stopEvent", raw.stop_event.is_none()),
            ("recordEventState", raw.record_event_state.is_none()),
            ("finalize", raw.finalize.is_none()),
        ];
        entries
            .into_iter()
            .filter_map(|(name, null)| null.then_some(name))
            .collect()
    }

    /// Calls `init`: its result and the context it gave.
    pub fn init(&self, mask: &'static AtomicI32, of: &Identity) -> (c_int, Handle) {
        let mut context = std::ptr::null_mut();
        let entry = self.raw.init.expect("checked when loaded");
        let name = of.name.as_ref().map_or(std::ptr::null(), |n| n.as_ptr());
        let mask = mask.as_ptr();
        // SAFETY: the entry has the signature of its ABI version; `context`, `mask` and `name` live long
        // enough, and the mask for ever.
        let result = unsafe {
            match self.seat.abi {
                1..=3 => std::mem::transmute::<v5::Init, v1::Init>(entry)(&mut context, mask),
                4 => std::mem::transmute::<v5::Init, v4::Init>(entry)(
                    &mut context,
                    mask,
                    name,
                    of.hash,
                    of.nodes,
                    of.ranks,
                    of.rank,
                    logger(),
                ),
                _ => entry(
                    &mut context,
                    of.hash,
                    mask,
                    name,
                    of.nodes,
                    of.ranks,
                    of.rank,
                    logger(),
                ),
            }
        };
        (result, Handle(context as usize))
    }

    /// Calls `startEvent` with bytes as they are, whatever they say.
    #[inline]
    pub fn start_raw(&self, context: Handle, slot: &mut Handle, descr: &mut Descr) {
        let entry = self.raw.start_event.expect("checked when loaded");
        // SAFETY: pointers to the same-sized descriptor of another version; the plugin was told its version
        // by the symbol it was found under. `slot` is a word of ours.
        unsafe {
            let entry: RawStart = std::mem::transmute::<v5::StartEvent, RawStart>(entry);
            note(entry(
                context.ptr(),
                (slot as *mut Handle).cast(),
                descr.ptr(),
            ));
        }
        if *slot == Handle::GARBAGE {
            MISDEEDS.unwritten.fetch_add(1, Relaxed);
        }
    }

    /// Starts an event, unless the shim drops it. The slot of a dropped event becomes null or stays, as in
    /// that shim.
    ///
    /// Gives whether the plugin was called.
    #[inline]
    pub fn start(
        &self,
        context: Handle,
        event: &Event,
        parent: Handle,
        rank: i32,
        slot: &mut Handle,
    ) -> bool {
        let seat = self.seat;
        let known = event::known(seat.abi).unwrap_or(0);
        let native = event::known(seat.native).unwrap_or(0);
        if seat.shimmed() && known & event.bit() == 0 && native & event.bit() != 0 {
            // The v4 shim leaves the word as it was, the others write null.
            if seat.abi != 4 {
                *slot = Handle::NULL;
            }
            return false;
        }
        let mut descr = Descr::default();
        descr.encode(seat, event, parent, rank);
        self.start_raw(context, slot, &mut descr);
        true
    }

    /// Calls `stopEvent`.
    #[inline]
    pub fn stop(&self, handle: Handle) {
        let entry = self.raw.stop_event.expect("checked when loaded");
        // SAFETY: a handle is opaque to us, and a plugin has to bear any.
        note(unsafe { entry(handle.ptr()) });
    }

    /// Calls `recordEventState` with any number; `None` passes null.
    #[inline]
    pub fn state_raw(&self, handle: Handle, state: u32, args: Option<&mut [u64; 2]>) {
        let args = args.map_or(std::ptr::null_mut(), |a| a.as_mut_ptr().cast());
        let entry = self.raw.record_event_state.expect("checked when loaded");
        // SAFETY: as in `start_raw`; `args` is null or the 16 bytes that any version takes.
        unsafe {
            let entry: RawState = std::mem::transmute::<v5::RecordEventState, RawState>(entry);
            note(entry(handle.ptr(), state, args));
        }
    }

    /// Records a state unless the shim drops it.
    #[inline]
    pub fn state(&self, handle: Handle, value: u32, args: StateArgs) {
        if !self.forwards(value) {
            return;
        }
        let mut bytes = args.encode();
        self.state_raw(
            handle,
            value,
            (args != StateArgs::Null).then_some(&mut bytes),
        );
    }

    /// Whether the shim lets a state through. v1 to v3 behind 2.27 or later get ProxyCtrl and the five old
    /// step states only.
    fn forwards(&self, value: u32) -> bool {
        let seat = self.seat;
        if !seat.shimmed() {
            return true;
        }
        match seat.abi {
            1..=3 if seat.version >= 22700 => {
                (state::PROXY_STEP_SEND_GPU_WAIT..=state::PROXY_CTRL_APPEND_END).contains(&value)
            }
            abi => {
                let since = state::ALL.get(value as usize).map_or(0, |s| s.since);
                since <= abi
            }
        }
    }

    /// Calls `finalize`.
    pub fn finalize(&self, context: Handle) {
        let entry = self.raw.finalize.expect("checked when loaded");
        // SAFETY: a context is opaque to us.
        note(unsafe { entry(context.ptr()) });
    }
}
