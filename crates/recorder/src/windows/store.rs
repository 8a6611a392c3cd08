//! What ran in the open window, as CUPTI hands it out.
//!
//! [`add`] is called on CUPTI's threads, or on the recorder's that flushes; [`take`] on the recorder's, once
//! the window is complete. Names are numbered through all windows.
//!
//! Rule: memory is bounded by [`MOST`] and [`MOST_NAMES`]. What finds no room is counted, and ends the
//! window.

use super::cupti::{Activity, CuptiTime, COPY, FILL};
use crate::heap::{copied, when_there_is_memory};
use crate::lock::Lock;
use capture::windows::{ActivityKind, GpuActivity};
use std::cell::UnsafeCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;

/// Kernels, copies and fills of a window, at most: 4 MiB.
pub const MOST: usize = 1 << 16;
/// Different names of kernels, at most; those beyond share one.
const MOST_NAMES: usize = 8192;
/// Bytes that are kept of a name. Names of templates are longer, and differ before that.
const NAME: usize = 1024;

/// What is kept.
#[derive(Default)]
pub struct Store {
    /// With their devices; times and durations are those of CUPTI's clock.
    ran: Vec<(u32, GpuActivity<CuptiTime>)>,
    lost: u64,
    names: HashMap<Vec<u8>, u32>,
    /// Names that no block has yet.
    new_names: Vec<(u32, Vec<u8>)>,
    /// The addresses of names that were seen in this window: the same address is the same name while it is
    /// open.
    by_address: HashMap<usize, u32>,
}

struct Shared {
    lock: Lock,
    store: UnsafeCell<Option<Store>>,
}

// SAFETY: `store` is only touched under `lock`.
unsafe impl Sync for Shared {}

static STORE: Shared = Shared {
    lock: Lock::new(),
    store: UnsafeCell::new(None),
};

fn with<T>(act: impl FnOnce(&mut Store) -> T) -> T {
    let _held = STORE.lock.lock();
    // SAFETY: under the lock, and `act` does not come back here.
    act(unsafe { &mut *STORE.store.get() }.get_or_insert_with(Store::default))
}

/// Takes a record in.
pub fn add(activity: &Activity) {
    // Not over when all buffers were taken back.
    if activity.end == CuptiTime(0) || activity.end < activity.start {
        return with(|store| store.lost += 1);
    }
    with(|store| store.add(activity));
}

/// How many are there, and how many found no room.
pub fn count() -> (usize, u64) {
    with(|store| (store.ran.len(), store.lost))
}

/// What ran since the last time, by device, by start; names that are new; how many found no room.
pub type Taken = (
    BTreeMap<u32, Vec<GpuActivity<CuptiTime>>>,
    Vec<(u32, Vec<u8>)>,
    u64,
);

/// Takes out what is there.
pub fn take() -> Taken {
    let (ran, names, lost) = with(|store| {
        store.by_address.clear();
        (
            std::mem::take(&mut store.ran),
            std::mem::take(&mut store.new_names),
            std::mem::take(&mut store.lost),
        )
    });
    let mut by_device = BTreeMap::<u32, Vec<_>>::new();
    for (device, activity) in ran {
        by_device.entry(device).or_default().push(activity);
    }
    for of_device in by_device.values_mut() {
        of_device.sort_unstable_by_key(|r| (r.start, r.correlation, r.node));
    }
    (by_device, names, lost)
}

/// All names, for a trace file that begins anew.
pub fn names() -> Vec<(u32, Vec<u8>)> {
    let mut all = when_there_is_memory(|| with(Store::all_names));
    all.sort_unstable();
    all
}

impl Store {
    fn add(&mut self, activity: &Activity) {
        let name = self.name(activity);
        if self.ran.len() >= MOST || name.is_none() || self.ran.try_reserve(1).is_err() {
            self.lost += 1;
            return;
        }
        let ran = GpuActivity {
            start: activity.start,
            ns: activity.end.0 - activity.start.0,
            name: name.unwrap_or(0),
            stream: activity.stream,
            correlation: activity.correlation,
            graph: activity.graph,
            node: activity.node,
            kind: match activity.kind {
                COPY => ActivityKind::Copy,
                FILL => ActivityKind::Fill,
                _ => ActivityKind::Kernel,
            },
            size: activity.size,
        };
        self.ran.push((activity.device, ran));
    }

    /// `None` if there is no memory.
    fn all_names(&mut self) -> Option<Vec<(u32, Vec<u8>)>> {
        let mut all = Vec::new();
        all.try_reserve_exact(self.names.len()).ok()?;
        for (name, id) in &self.names {
            all.push((*id, copied(name)?));
        }
        self.new_names.clear();
        Some(all)
    }

    /// The number of its name, 0 for none; `None` if there is no memory.
    fn name(&mut self, activity: &Activity) -> Option<u32> {
        if activity.name.is_null() {
            return Some(0);
        }
        let address = activity.name as usize;
        if let Some(id) = self.by_address.get(&address) {
            return Some(*id);
        }
        // SAFETY: CUPTI's records point to names that end with 0 and are there as long as the kernel's module
        // is.
        let name = unsafe { CStr::from_ptr(activity.name) }.to_bytes();
        let name = &name[..name.len().min(NAME)];
        let id = match self.names.get(name) {
            Some(id) => *id,
            None if self.names.len() >= MOST_NAMES => MOST_NAMES as u32 + 1,
            None => {
                let id = self.names.len() as u32 + 1;
                let (known, new) = (copied(name)?, copied(name)?);
                self.names.try_reserve(1).ok()?;
                self.new_names.try_reserve(1).ok()?;
                self.names.insert(known, id);
                self.new_names.push((id, new));
                id
            }
        };
        if self.by_address.try_reserve(1).is_ok() {
            self.by_address.insert(address, id);
        }
        Some(id)
    }
}
