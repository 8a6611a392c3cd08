//! Exports from the program what a plugin finds there first: `ncclGetVersion`, as when NCCL is linked in, and
//! what tells the host.

fn main() {
    for symbol in ["ncclGetVersion", "clock_gettime", "gethostname"] {
        println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol={symbol}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
