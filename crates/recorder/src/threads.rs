//! Which thread calls, by Linux's number: [`Threads`].
//!
//! The number is asked of the kernel at a thread's first call. From then on it is the thread's value of a key
//! of pthread, which costs a few loads. A seat ([`crate::seats`]) cannot keep it: a later thread with its
//! stack in the same place has the same seat, and another number.
//!
//! Rule: nothing here allocates. glibc keeps the values of the first 32 keys inside the thread, and allocates
//! for later ones. If the process had used up those 32 before, the threads of its calls are not known.

use std::ptr::without_provenance;

/// Keys with values that glibc keeps inside the thread.
const INSIDE: libc::pthread_key_t = 32;

/// See the module.
pub struct Threads(Option<libc::pthread_key_t>);

impl Threads {
    /// With a key of its own, if one can be had.
    pub fn new() -> Threads {
        let mut key = 0;
        // SAFETY: the key is stored in a variable of ours; no destructor is called.
        let made = unsafe { libc::pthread_key_create(&mut key, None) } == 0;
        if made && key >= INSIDE {
            // SAFETY: a key from above, which no thread has used.
            unsafe { libc::pthread_key_delete(key) };
            return Threads(None);
        }
        Threads(made.then_some(key))
    }

    /// The number of the calling thread; 0 not known.
    #[inline]
    pub fn number(&self) -> u32 {
        let Some(key) = self.0 else { return 0 };
        // SAFETY: the key is never deleted.
        match unsafe { libc::pthread_getspecific(key) }.addr() {
            0 => ask(key),
            number => number as u32,
        }
    }
}

/// A thread's first call.
#[cold]
fn ask(key: libc::pthread_key_t) -> u32 {
    // SAFETY: a plain system call.
    let number = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    // SAFETY: the key is never deleted, and the value is a number that nobody follows.
    unsafe { libc::pthread_setspecific(key, without_provenance(number as usize)) };
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The number of the calling thread, and its place.
    fn own(threads: &Threads) -> (u32, u64) {
        // SAFETY: a plain system call.
        let number = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        assert_eq!([threads.number(), threads.number()], [number; 2]);
        (number, crate::seats::thread())
    }

    // One test, because the keys of a process are few.
    #[test]
    fn each_thread_has_its_number_while_there_are_keys() {
        let threads = Threads::new();
        let one_more = || {
            let thread = std::thread::scope(|scope| scope.spawn(|| own(&threads)).join());
            thread.expect("no panic")
        };
        own(&threads);
        let (numbers, places): (Vec<_>, BTreeSet<_>) = (0..16).map(|_| one_more()).unzip();
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 16);
        // glibc gives a new thread the stack of one that has ended.
        if cfg!(all(target_env = "gnu", not(miri))) {
            assert!(places.len() < 16);
        }

        let keys: Vec<Threads> = (0..INSIDE).map(|_| Threads::new()).collect();
        let last = keys.last().expect("one");
        assert_eq!((last.0, last.number()), (None, 0));
        for key in keys.into_iter().filter_map(|threads| threads.0) {
            // SAFETY: the keys are this test's.
            unsafe { libc::pthread_key_delete(key) };
        }
    }
}
