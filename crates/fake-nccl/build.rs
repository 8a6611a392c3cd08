//! Exports `ncclGetVersion` from the program, where a plugin looks for it when NCCL is linked in.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=ncclGetVersion");
    println!("cargo:rerun-if-changed=build.rs");
}
