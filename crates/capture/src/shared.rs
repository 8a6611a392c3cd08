//! Copies of memory that other threads store to in pieces of other sizes.
//!
//! A live part is copied eight bytes at a time, and callbacks store its fields with one, two, four or eight.
//! Every processor bears that: each field of the copy has a value that was stored. Rust's memory model does
//! not, if both are atomic accesses that nothing orders. So the load is an instruction of ours, and stands
//! for one load of each field in the word.

use std::sync::atomic::AtomicU64;

/// Appends the bytes of `words` as they are now.
pub fn append(out: &mut Vec<u8>, words: &[AtomicU64]) {
    out.extend(words.iter().flat_map(|word| load(word).to_ne_bytes()));
}

#[inline(always)]
fn load(word: &AtomicU64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let value: u64;
        // SAFETY: reads eight aligned bytes that the reference keeps alive.
        unsafe {
            core::arch::asm!("mov {}, qword ptr \
                [{}]", out(reg) value, in(reg) word, options(nostack, preserves_flags, readonly))
        };
        value
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let value: u64;
        // SAFETY: reads eight aligned bytes that the reference keeps alive.
        unsafe {
            core::arch::asm!("ldr {}, \
                [{}]", out(reg) value, in(reg) word, options(nostack, preserves_flags, readonly))
        };
        value
    }
    // Miri runs no instructions. It sees whether nothing else goes wrong, in tests that store to nothing
    // meanwhile.
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    word.load(std::sync::atomic::Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

    #[test]
    #[cfg_attr(miri, ignore = "see `load`")]
    fn each_field_of_a_copy_has_a_value_that_was_stored() {
        #[repr(C, align(8))]
        struct Fields([AtomicU32; 64]);
        let fields = Fields(std::array::from_fn(|_| AtomicU32::new(0)));
        // SAFETY: 256 aligned bytes of atomic integers.
        let words =
            unsafe { std::slice::from_raw_parts(fields.0.as_ptr().cast::<AtomicU64>(), 32) };
        let over = AtomicBool::new(false);
        let mut whole = true;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for byte in (0..=255).cycle().take_while(|_| !over.load(Relaxed)) {
                    let value = u32::from_ne_bytes([byte; 4]);
                    fields
                        .0
                        .iter()
                        .for_each(|field| field.store(value, Relaxed));
                }
            });
            for _ in 0..1000 {
                let mut copy = Vec::new();
                append(&mut copy, words);
                whole &= copy.len() == 256;
                whole &= copy.chunks(4).all(|f| f.iter().all(|byte| *byte == f[0]));
            }
            over.store(true, Relaxed);
        });
        assert!(whole);
    }
}
