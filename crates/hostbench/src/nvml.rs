//! NVML, NVIDIA's library for managing GPUs: what its calls cost.
//!
//! NCCL asks it for GPUs, NVLinks and ways between GPUs when it makes a communicator, and samplers ask it for
//! the power. The library is the one of the sampler: NCCLSCOPE_NVML, else what the loader finds.

use crate::item::{Items, Unit};
use crate::library::{ask, functions, open};
use crate::timing::{best, median};
use std::ffi::{c_char, c_int, c_uint, c_void, OsString};
use std::ptr::null_mut;
use std::time::Instant;

/// What `ncclscope run` samples by, too.
const VARIABLE: &str = "NCCLSCOPE_NVML";
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Times that it is made ready, each some ms.
const INITS: usize = 5;
/// Whether GPUs can read each other's memory.
const READ: c_int = 0;

type Device = *mut c_void;

/// A device's place on the PCI bus.
#[repr(C)]
struct Pci {
    bus_id_legacy: [c_char; 16],
    numbers: [c_uint; 5],
    bus_id: [c_char; 32],
}

functions! { Nvml of "NVML" {
    init = "nvmlInit_v2" ();
    shutdown = "nvmlShutdown" ();
    count = "nvmlDeviceGetCount_v2" (*mut c_uint);
    by_index = "nvmlDeviceGetHandleByIndex_v2" (c_uint, *mut Device);
    place = "nvmlDeviceGetPciInfo_v3" (Device, *mut Pci);
    by_place = "nvmlDeviceGetHandleByPciBusId_v2" (*const c_char, *mut Device);
    link = "nvmlDeviceGetNvLinkState" (Device, c_uint, *mut c_uint);
    way = "nvmlDeviceGetP2PStatus" (Device, Device, c_int, *mut c_uint);
    power = "nvmlDeviceGetPowerUsage" (Device, *mut c_uint);
} }

/// The library, made ready, with its first two GPUs.
struct Ready {
    nvml: Nvml,
    /// µs of making it ready, and of its end.
    init_us: f64,
    gpus: Vec<Device>,
}

/// All items of NVML.
pub fn measure(items: &mut Items) {
    items.group("NVML");
    let ready = Ready::new();
    let ready = ready.as_ref().map_err(Clone::clone);
    items.add(
        "nvml_init",
        Unit::Micros,
        "nvmlInit, and its nvmlShutdown; median",
        ready.clone().map(|ready| ready.init_us),
    );
    type Measure = fn(&Ready, Device) -> Result<f64, String>;
    let calls: [(&str, &str, Measure); 4] = [
        (
            "nvml_handle",
            "nvmlDeviceGetHandleByPciBusId, by which NCCL finds a GPU",
            Ready::handle_cost,
        ),
        (
            "nvml_link",
            "nvmlDeviceGetNvLinkState of a link",
            |ready, gpu| {
                let mut state = 0;
                timed(|| ask!(Nvml, ready.nvml, link(gpu, 0, &mut state)))
            },
        ),
        (
            "nvml_p2p",
            "nvmlDeviceGetP2PStatus of two GPUs",
            |ready, gpu| {
                let other = *ready.gpus.get(1).ok_or("one GPU")?;
                let mut status = 0;
                timed(|| ask!(Nvml, ready.nvml, way(gpu, other, READ, &mut status)))
            },
        ),
        (
            "nvml_power",
            "nvmlDeviceGetPowerUsage, as samplers ask",
            |ready, gpu| {
                let mut milliwatts = 0;
                timed(|| ask!(Nvml, ready.nvml, power(gpu, &mut milliwatts)))
            },
        ),
    ];
    for (name, what, measure) in calls {
        let value = ready.clone().and_then(|ready| {
            let gpu = *ready.gpus.first().ok_or("no GPU")?;
            measure(ready, gpu)
        });
        items.add(name, Unit::Micros, what, value);
    }
}

/// µs of a call, of which the first must succeed.
fn timed(mut call: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    call()?;
    let mut failed = Ok(());
    let took = best(|| {
        if let Err(why) = call() {
            failed = Err(why);
        }
    });
    failed.map(|()| took / 1e3)
}

impl Ready {
    fn new() -> Result<Ready, String> {
        let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let nvml = Nvml::load(open(
            &path.unwrap_or_else(|| OsString::from(LIBRARY)),
            "NVML",
        )?)?;
        let mut failed = Ok(());
        let init_us = median(INITS, || {
            let start = Instant::now();
            let done = ask!(Nvml, nvml, init());
            let done = done.and_then(|()| ask!(Nvml, nvml, shutdown()));
            failed = failed.clone().and(done);
            start.elapsed().as_nanos() as f64 / 1e3
        });
        failed?;
        ask!(Nvml, nvml, init())?;
        let mut ready = Ready {
            nvml,
            init_us,
            gpus: Vec::new(),
        };
        let mut count = 0;
        ask!(Nvml, ready.nvml, count(&mut count))?;
        for index in 0..count.min(2) {
            let mut gpu = null_mut();
            ask!(Nvml, ready.nvml, by_index(index, &mut gpu))?;
            ready.gpus.push(gpu);
        }
        Ok(ready)
    }

    fn handle_cost(&self, gpu: Device) -> Result<f64, String> {
        let mut pci = Pci {
            bus_id_legacy: [0; 16],
            numbers: [0; 5],
            bus_id: [0; 32],
        };
        ask!(Nvml, self.nvml, place(gpu, &mut pci))?;
        let mut found = null_mut();
        timed(|| ask!(Nvml, self.nvml, by_place(pci.bus_id.as_ptr(), &mut found)))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // What can't be given back goes with the process.
        let _ = ask!(Nvml, self.nvml, shutdown());
    }
}
