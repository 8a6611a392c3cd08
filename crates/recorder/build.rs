//! Links the plugin so that dlclose never unmaps it: NCCL closes it when the last communicator goes, while
//! its thread and its exit handler are still there. Tests export the tables as a program does that has the
//! plugin linked in (`NCCL_PROFILER_PLUGIN=STATIC_PLUGIN`).

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    for version in 1..=7 {
        println!("cargo:rustc-link-arg-tests=-Wl,--export-dynamic-symbol=ncclProfiler_v{version}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
