//! Tables on the heap that are zero at first, so that their pages take memory only when they are used.

use std::alloc::{alloc, alloc_zeroed, Layout};

/// A value of zeros that lives as long as the process. `None` if there is no memory.
///
/// # Safety
/// Zeros are a value of `T`.
pub unsafe fn zeroed<T>() -> Option<&'static T> {
    const { assert!(std::mem::size_of::<T>() != 0) };
    // SAFETY: the layout has a size; the caller knows that zeros are a value; and nobody frees it.
    unsafe { alloc_zeroed(Layout::new::<T>()).cast::<T>().as_ref() }
}

/// `N` zeros that live as long as the process, in a slice. `None` if there is no memory.
///
/// # Safety
/// Zeros are a value of `T`, which has a size.
pub unsafe fn zeros<T>(count: usize) -> Option<&'static [T]> {
    let layout = Layout::array::<T>(count).ok().filter(|l| l.size() != 0)?;
    // SAFETY: as above.
    unsafe {
        let place = alloc_zeroed(layout).cast::<T>();
        (!place.is_null()).then(|| std::slice::from_raw_parts(place, count))
    }
}

/// A value that lives as long as the process. `None` if there is no memory.
pub fn leaked<T>(value: T) -> Option<&'static T> {
    const { assert!(std::mem::size_of::<T>() != 0) };
    // SAFETY: the layout has a size; the place is new, fits the value, and nobody frees it.
    unsafe {
        let place = alloc(Layout::new::<T>()).cast::<T>();
        if place.is_null() {
            return None;
        }
        place.write(value);
        Some(&*place)
    }
}

/// The entries as a table of fixed size, on the heap. There must be `N` of them.
pub fn boxed<T, const N: usize>(entries: Box<[T]>) -> Box<[T; N]> {
    entries
        .try_into()
        .unwrap_or_else(|_| unreachable!("made with the layout's size"))
}
