//! Which thread calls, by Linux's number: [`Threads`].
//!
//! The number is asked of the kernel at a thread's first call. From then on it is the thread's value of a key
//! of pthread, which costs a few loads. A seat ([`crate::seats`]) cannot keep it: a later thread with its
//! stack in the same place has the same seat, and another number.
//!
//! Rule: nothing here allocates. glibc keeps the values of the first 32 keys inside the thread, and allocates
//! for later ones. A process with PyTorch has used up those 32 before. glibc itself keeps each thread's
//! number in the thread, too, and then that is read. Its place is not promised, so it is looked at first
//! whether the number there is right. If not, the threads of calls are not known.

use std::ptr::without_provenance;

/// Keys with values that glibc keeps inside the thread.
const INSIDE: libc::pthread_key_t = 32;
/// Where glibc has a thread's number on x86-64, from the thread's pointer on (seen in 2.36). That is well
/// within what a thread of glibc has for itself.
const NUMBER_AT: usize = 0x2d0;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// They are values of this key.
    Key(libc::pthread_key_t),
    /// glibc's are read.
    Glibc,
    /// They can't be had.
    Unknown,
}

impl Threads {
    /// With a key of its own, if one can be had.
    pub fn new() -> Threads {
        let mut key = 0;
        // SAFETY: the key is stored in a variable of ours; no destructor is called.
        let made = unsafe { libc::pthread_key_create(&mut key, None) } == 0;
        if made && key < INSIDE {
            return Threads::Key(key);
        }
        if made {
            // SAFETY: a key from above, which no thread has used.
            unsafe { libc::pthread_key_delete(key) };
        }
        if of_glibc() == kernels() {
            Threads::Glibc
        } else {
            Threads::Unknown
        }
    }

    /// The number of the calling thread; 0 not known.
    #[inline]
    pub fn number(&self) -> u32 {
        match *self {
            // SAFETY: the key is never deleted.
            Threads::Key(key) => match unsafe { libc::pthread_getspecific(key) }.addr() {
                0 => ask(key),
                number => number as u32,
            },
            Threads::Glibc => of_glibc(),
            Threads::Unknown => 0,
        }
    }
}

/// What glibc has as the calling thread's number; 0 for another library or processor.
#[inline]
fn of_glibc() -> u32 {
    if !cfg!(all(target_env = "gnu", target_arch = "x86_64", not(miri))) {
        return 0;
    }
    let at = crate::seats::thread() as usize + NUMBER_AT;
    // SAFETY: a thread of glibc has 0x900 bytes from its pointer on, which live as long as it does. Only the
    // thread itself reads here; it is written before the thread runs, and by `fork`.
    unsafe { std::ptr::with_exposed_provenance::<u32>(at).read_volatile() }
}

/// The calling thread's number, by the kernel.
fn kernels() -> u32 {
    // SAFETY: a plain system call.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// A thread's first call.
#[cold]
fn ask(key: libc::pthread_key_t) -> u32 {
    let number = kernels();
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
        let number = kernels();
        assert_eq!([threads.number(), threads.number()], [number; 2]);
        (number, crate::seats::thread())
    }

    // One test, because the keys of a process are few.
    #[test]
    fn each_thread_has_its_number_also_if_all_keys_are_used() {
        let threads = Threads::new();
        assert!(matches!(threads, Threads::Key(_)));
        numbers(&threads);
        let keys: Vec<Threads> = (0..INSIDE).map(|_| Threads::new()).collect();
        let last = *keys.last().expect("one");
        if cfg!(all(target_env = "gnu", target_arch = "x86_64", not(miri))) {
            assert_eq!(last, Threads::Glibc);
            numbers(&last);
        } else {
            assert_eq!((last, last.number()), (Threads::Unknown, 0));
        }
        for key in keys {
            if let Threads::Key(key) = key {
                // SAFETY: the keys are this test's.
                unsafe { libc::pthread_key_delete(key) };
            }
        }
    }

    /// Each thread has its own, also one in the place of another that ended.
    fn numbers(threads: &Threads) {
        let one_more = || {
            let thread = std::thread::scope(|scope| scope.spawn(|| own(threads)).join());
            thread.expect("no panic")
        };
        own(threads);
        let (numbers, places): (Vec<_>, BTreeSet<_>) = (0..16).map(|_| one_more()).unzip();
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 16);
        // glibc gives a new thread the stack of one that has ended.
        if cfg!(all(target_env = "gnu", not(miri))) {
            assert!(places.len() < 16);
        }
    }
}
