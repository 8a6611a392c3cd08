//! Tables of fixed size.

/// A table of fixed size, made on the heap.
pub fn boxed<T, const N: usize>(entries: Box<[T]>) -> Box<[T; N]> {
    entries
        .try_into()
        .unwrap_or_else(|_| unreachable!("made with the layout's size"))
}
