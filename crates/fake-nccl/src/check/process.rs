//! What an item's process does.

use super::items::{comm, ITEMS};
use crate::fault::{self, FAULTS};
use crate::plugin::{Choice, Loader, Version, MISDEEDS};
use anyhow::Context;
use std::sync::atomic::Ordering::Relaxed;

pub(super) const SAID: &str = "item: ";

/// The newest release with this as its own ABI.
fn release(abi: u8) -> Version {
    let mut releases = nccl_abi::release::ALL.iter().rev();
    let found = releases.find(|r| r.native_abi == abi);
    Version(found.map_or(0, |r| r.version))
}

/// What an item's process does. `Ok(false)` is a failure, and its reason is printed.
///
/// # Errors
/// When there is no such item.
pub fn item_process(item: &str, abi: u8) -> anyhow::Result<bool> {
    let loader = Loader::new(Choice {
        version: release(abi),
        plugin: std::env::var("NCCL_PROFILER_PLUGIN").ok(),
        highest_abi: abi,
        log_level: nccl_abi::log::LEVEL_NONE,
    });
    let found = ITEMS.iter().find(|i| i.word == item);
    let mut result = match found {
        Some(found) => (found.play)(&loader),
        None => {
            let fault = FAULTS.iter().find(|f| f.1 == item);
            let fault = fault
                .with_context(|| format!("expected an item, found `{item}`"))?
                .0;
            comm(&loader, 0).map(|profiler| {
                for seed in 0..10 {
                    fault::play(fault, &profiler, seed);
                }
                loader.finalize(profiler);
            })
        }
    };
    let (errors, unwritten) = (
        MISDEEDS.errors.load(Relaxed),
        MISDEEDS.unwritten.load(Relaxed),
    );
    if result.is_ok() && errors > 0 {
        result = Err(format!("{errors} calls returned an error"));
    }
    if result.is_ok() && unwritten > 0 {
        result = Err(format!("{unwritten} starts did not write the handle"));
    }
    if let Err(why) = &result {
        println!("\n{SAID}{why}");
    }
    Ok(result.is_ok())
}
