//! Links the plugin so that dlclose never unmaps it: NCCL's threads may still be on their way out of a
//! callback.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
