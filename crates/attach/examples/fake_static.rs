//! A program that links NCCL statically and has nothing to do with a libnccl.so.2: for tests of `attach`.
//!
//! It reads lines from its input: `loop N` makes N AllReduces, and it prints `done`.

/// By this text a program is known to have NCCL, also without symbols.
static RELEASE: [u8; 26] = *b"\0NCCL version 2.99.1+fake\0";

#[path = "fake_nccl.rs"]
mod nccl;

#[cfg(target_arch = "x86_64")]
extern "C" {
    fn ncclAllReduce(send: usize, receive: usize, count: usize) -> i32;
}

fn main() {
    std::hint::black_box(&RELEASE);
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        let calls = line.strip_prefix("loop ").and_then(|n| n.parse().ok());
        for _ in 0..calls.unwrap_or(0) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the fake looks at the count alone.
            unsafe {
                ncclAllReduce(0, 0, 1024);
            }
        }
        println!("done");
    }
}
