//! Links the plugin so that dlclose never unmaps it: NCCL closes it when the last communicator goes, while
//! its thread and its exit handler are still there. Tests export the tables as a program does that has the
//! plugin linked in (`NCCL_PROFILER_PLUGIN=STATIC_PLUGIN`).

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A table for each version that crates/nccl-abi has.
    let versions = std::fs::read_dir("../nccl-abi/src").expect("the ABI versions");
    let versions = versions.filter_map(|file| {
        let name = file.ok()?.file_name().into_string().ok()?;
        name.strip_prefix('v')?
            .strip_suffix(".rs")?
            .parse::<u8>()
            .ok()
    });
    for version in versions {
        println!("cargo:rustc-link-arg-tests=-Wl,--export-dynamic-symbol=ncclProfiler_v{version}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../nccl-abi/src");
}
