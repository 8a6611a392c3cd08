//! Exports from the program what a plugin finds there first: `ncclGetVersion`, as when NCCL is linked in, and
//! what tells the host. All that is public is exported, because the linker of portable programs knows no
//! other way.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic");
    println!("cargo:rerun-if-changed=build.rs");
}
