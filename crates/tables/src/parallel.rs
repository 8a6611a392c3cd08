//! Work on several threads, with results that do not depend on how many there are.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// What `work` makes of every item, in the order of the items, on at most `threads` threads.
pub fn map<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.into_iter().map(work).collect();
    }
    let (todo, done): (Vec<_>, Vec<_>) = items
        .into_iter()
        .map(|item| (Mutex::new(Some(item)), Mutex::new(None)))
        .unzip();
    let next = AtomicUsize::new(0);
    let turn = || loop {
        let index = next.fetch_add(1, Relaxed);
        let Some(item) = todo.get(index) else { return };
        let item = item.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = item.map(&work);
        *done[index].lock().unwrap_or_else(PoisonError::into_inner) = result;
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(turn);
        }
        turn();
    });
    done.into_iter()
        .filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_order_on_any_number_of_threads() {
        for threads in [0, 1, 2, 7] {
            let squares = super::map(threads, (0..50u64).collect(), |n| n * n);
            assert_eq!(squares, (0..50).map(|n| n * n).collect::<Vec<_>>());
        }
    }
}
