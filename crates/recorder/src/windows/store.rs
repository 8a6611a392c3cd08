//! What ran in the open window, as CUPTI hands it out.
//!
//! [`add`] is called on CUPTI's threads, or on the recorder's that flushes; [`take`] on the recorder's, once
//! the window is complete. Names are numbered through all windows.
//!
//! Rule: memory is bounded by [`MOST`] and [`MOST_NAMES`]. What finds no room is counted, and ends the
//! window.

use super::cupti::{Activity, CuptiTime, COPY, FILL};
use crate::lock::Lock;
use capture::windows::{ActivityKind, GpuActivity};
use std::cell::UnsafeCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;

/// Kernels, copies and fills of a window, at most: 3.5 MiB.
pub const MOST: usize = 1 << 16;
/// Different names of kernels, at most; those beyond share one.
const MOST_NAMES: usize = 8192;
/// Bytes that are kept of a name. Names of templates are longer, and differ before that.
const NAME: usize = 1024;

/// What is kept.
#[derive(Default)]
pub struct Store {
    /// By device; times and durations are those of CUPTI's clock.
    ran: BTreeMap<u32, Vec<GpuActivity<CuptiTime>>>,
    total: usize,
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
    with(|store| (store.total, store.lost))
}

/// What ran since the last time, by device, by start; names that are new; how many found no room.
pub type Taken = (
    BTreeMap<u32, Vec<GpuActivity<CuptiTime>>>,
    Vec<(u32, Vec<u8>)>,
    u64,
);

/// Takes out what is there.
pub fn take() -> Taken {
    let (mut ran, names, lost) = with(|store| {
        store.total = 0;
        store.by_address.clear();
        (
            std::mem::take(&mut store.ran),
            std::mem::take(&mut store.new_names),
            std::mem::take(&mut store.lost),
        )
    });
    for of_device in ran.values_mut() {
        of_device.sort_unstable_by_key(|r| (r.start, r.correlation, r.node));
    }
    (ran, names, lost)
}

/// All names, for a trace file that begins anew.
pub fn names() -> Vec<(u32, Vec<u8>)> {
    with(|store| {
        store.new_names.clear();
        let all = store.names.iter();
        let mut all: Vec<_> = all.map(|(name, id)| (*id, name.clone())).collect();
        all.sort_unstable();
        all
    })
}

impl Store {
    fn add(&mut self, activity: &Activity) {
        if self.total >= MOST {
            self.lost += 1;
            return;
        }
        self.total += 1;
        let ran = GpuActivity {
            start: activity.start,
            ns: activity.end.0 - activity.start.0,
            name: self.name(activity),
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
        self.ran.entry(activity.device).or_default().push(ran);
    }

    fn name(&mut self, activity: &Activity) -> u32 {
        if activity.name.is_null() {
            return 0;
        }
        let address = activity.name as usize;
        if let Some(id) = self.by_address.get(&address) {
            return *id;
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
                self.names.insert(name.to_vec(), id);
                self.new_names.push((id, name.to_vec()));
                id
            }
        };
        self.by_address.insert(address, id);
        id
    }
}
