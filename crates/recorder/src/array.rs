//! Tables of a size that is known when compiling.

/// The entries as a table of fixed size, on the heap. There must be `N` of them.
pub fn boxed<T, const N: usize>(entries: Box<[T]>) -> Box<[T; N]> {
    entries
        .try_into()
        .unwrap_or_else(|_| unreachable!("made with the layout's size"))
}
