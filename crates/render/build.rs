//! Makes the scripts of the pages from their modules in `html/`.

use std::path::Path;

#[path = "build/bundle.rs"]
mod bundle;

fn main() {
    println!("cargo::rerun-if-changed=build");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    for name in ["report.js", "viewer.js"] {
        let bundle = match bundle::bundle(&Path::new("html").join(name)) {
            Ok(bundle) => bundle,
            Err(what) => {
                println!("cargo::error={what}");
                continue;
            }
        };
        for file in bundle.files {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        std::fs::write(Path::new(&out).join(name), bundle.script).expect("written");
    }
}
