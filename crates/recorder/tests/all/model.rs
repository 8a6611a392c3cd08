//! Model check of the ring of free slots, of a row's life and of late callbacks, on loom's atomics.
//!
//! The ring and the epochs are the very code that the recorder runs (`free_ring.rs`, `epoch.rs`). The row
//! around them repeats, store for store, what `recorder::birth` does, and `collect`, `retire` and `give_back`
//! of the writer. That is: fields relaxed, ALIVE with Release, fields read after an Acquire, FREE with
//! Release, slot given back. Loom runs every interleaving of two callers and the recorder's thread. The
//! barrier that the kernel puts into every thread at once is a fence on both sides here: loom has no system
//! calls.

use loom::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering::*};
use loom::sync::Arc;
use loom::thread;
use nccl_profiler_ncclscope::{oldest, AtomicWord, Cells, Epoch, FreeRing, Quarantine};

struct Counter(AtomicU64);

impl AtomicWord for Counter {
    fn acquire(&self) -> u64 {
        self.0.load(Acquire)
    }
    fn relaxed(&self) -> u64 {
        self.0.load(Relaxed)
    }
    fn release(&self, value: u64) {
        self.0.store(value, Release);
    }
    fn store(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
    fn swap_from(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }
}

struct Ring(Vec<AtomicU32>);

impl Cells for Ring {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn get(&self, cell: u64) -> u32 {
        self.0[cell as usize].load(Relaxed)
    }
    fn set(&self, cell: u64, slot: u32) {
        self.0[cell as usize].store(slot, Relaxed);
    }
}

/// A row with two fields that belong together: the model's stand-in for all of its lines.
struct ModelRow {
    word: AtomicU64,
    count: AtomicU64,
    again: AtomicU64,
    /// What other threads than the caller store to, while the row lives.
    late: AtomicU64,
    // Not an atomic: loom reports two threads that touch it without an order between them.
    owned: loom::cell::UnsafeCell<u64>,
}

// SAFETY: the point of the model is to check that `owned` is only touched by a row's owner.
unsafe impl Sync for ModelRow {}
// SAFETY: as above.
unsafe impl Send for ModelRow {}

struct Model {
    born: Counter,
    free: FreeRing<Ring, Counter>,
    epoch: Epoch<Counter>,
    seat: Counter,
    rows: Vec<ModelRow>,
}

const ALIVE: u64 = 2;

fn model(slots: usize) -> Arc<Model> {
    let cells = Ring((0..slots).map(|_| AtomicU32::new(0)).collect());
    let row = || ModelRow {
        word: AtomicU64::new(0),
        count: AtomicU64::new(0),
        again: AtomicU64::new(0),
        late: AtomicU64::new(0),
        owned: loom::cell::UnsafeCell::new(0),
    };
    Arc::new(Model {
        born: Counter(AtomicU64::new(0)),
        free: FreeRing::new(cells, slots as u64, Counter(AtomicU64::new(0))),
        epoch: Epoch::new(Counter(AtomicU64::new(0))),
        seat: Counter(AtomicU64::new(0)),
        rows: (0..slots).map(|_| row()).collect(),
    })
}

/// A caller's birth of one row; false when there was no free slot.
fn birth(model: &Model, value: u64) -> bool {
    let Some((ticket, slot)) = model.free.take(&model.born) else {
        return false;
    };
    let row = &model.rows[slot as usize];
    // SAFETY: the row was just taken, so it is this caller's; loom reports it if it is not.
    row.owned.with_mut(|p| unsafe { *p = value });
    row.count.store(value, Relaxed);
    row.again.store(value, Relaxed);
    row.word.store(ticket << 2 | ALIVE, Release);
    true
}

/// One look of the recorder's thread: seals every row whose birth is through. Returns what it sealed.
fn collect(model: &Model, drained: &mut u64) -> Vec<u64> {
    let mut sealed = Vec::new();
    while *drained < model.born.acquire() {
        let slot = model.free.slot_of(*drained);
        let row = &model.rows[slot as usize];
        let word = row.word.load(Acquire);
        if word != *drained << 2 | ALIVE {
            break;
        }
        let value = row.count.load(Relaxed);
        assert_eq!(
            value,
            row.again.load(Relaxed),
            "a row was read half written"
        );
        // SAFETY: an alive row is the collector's, which loom checks.
        row.owned.with_mut(|p| unsafe {
            assert_eq!(*p, value);
            *p = 0;
        });
        sealed.push(value);
        row.word.store(word & !3, Release);
        model.free.give(slot);
        *drained += 1;
    }
    sealed
}

#[test]
fn every_birth_is_sealed_once_and_no_row_is_torn() {
    loom::model(|| {
        let model = model(2);
        let callers: Vec<_> = [1u64, 2]
            .into_iter()
            .map(|id| {
                let model = model.clone();
                thread::spawn(move || {
                    (0..2)
                        .map(|i| birth(&model, id * 10 + i))
                        .filter(|born| *born)
                        .count()
                })
            })
            .collect();
        let mut drained = 0;
        let mut sealed = collect(&model, &mut drained);
        let born: usize = callers
            .into_iter()
            .map(|c| c.join().expect("no panic"))
            .sum();
        sealed.extend(collect(&model, &mut drained));
        assert_eq!(sealed.len(), born, "a row was lost or sealed twice");
        let mut distinct = sealed.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), sealed.len());
        assert!(born >= 2, "two slots serve two births");
    });
}

#[test]
fn a_slot_that_was_given_back_serves_again() {
    loom::model(|| {
        let model = model(1);
        assert!(birth(&model, 1));
        let caller = {
            let model = model.clone();
            thread::spawn(move || birth(&model, 2))
        };
        let mut drained = 0;
        let mut sealed = collect(&model, &mut drained);
        let second = caller.join().expect("no panic");
        sealed.extend(collect(&model, &mut drained));
        assert_eq!(sealed, if second { vec![1, 2] } else { vec![1] });
    });
}

/// A callback that belongs to the first call: it stores to the row, if the row is still that call's.
fn callback(model: &Model, has_seat: bool) {
    let before = has_seat.then(|| model.epoch.enter(&model.seat, || fence(SeqCst)));
    let row = &model.rows[0];
    if row.word.load(Acquire) == ALIVE {
        row.late.store(1, Relaxed);
    }
    if let Some(before) = before {
        Epoch::leave(&model.seat, before);
    }
}

/// The first call is sealed while a callback of it is under way, and its row serves a second call. Nothing of
/// the first may be found in the second.
fn late_callback(has_seat: bool) {
    loom::model(move || {
        let model = model(1);
        assert!(birth(&model, 1));
        let late = {
            let model = model.clone();
            thread::spawn(move || callback(&model, has_seat))
        };
        let caller = {
            let model = model.clone();
            thread::spawn(move || birth(&model, 2))
        };
        let row = &model.rows[0];
        // SAFETY: an alive row is the collector's, which loom checks.
        row.owned.with_mut(|p| unsafe { *p = 0 });
        row.word.store(0, Release);
        let mut quarantine = Quarantine::default();
        quarantine.put(model.epoch.now(), 0);
        model.epoch.advance();
        fence(SeqCst);
        let oldest = if has_seat {
            oldest(std::iter::once(&model.seat))
        } else {
            u64::MAX
        };
        if let Some(slot) = quarantine.take(oldest) {
            row.late.store(0, Relaxed);
            model.free.give(slot);
        }
        let born = caller.join().expect("no panic");
        late.join().expect("no panic");
        if born {
            assert_eq!(row.word.load(Relaxed), 1 << 2 | ALIVE);
            assert_eq!(row.late.load(Relaxed), 0, "the first call's");
        }
    });
}

#[test]
fn a_late_callback_stores_to_no_other_call() {
    late_callback(true);
}

/// The model finds what the seats are for.
#[test]
#[should_panic(expected = "the first call's")]
fn without_seats_a_late_callback_stores_to_another_call() {
    late_callback(false);
}
