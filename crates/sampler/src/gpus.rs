//! GPUs of this node, as NVML tells of them.
//!
//! Rule: a GPU is known by its UUID. Indexes differ between processes and containers. A figure that a GPU
//! refuses is not asked for again, and has no value.

use capture::samples::{GPU_ENERGY, GPU_POWER};
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{field_id, nvmlDevice_t, nvmlFieldValue_t};
use std::ffi::OsString;

/// The library, as drivers install it.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// Stands for all NVLinks of a GPU.
const ALL_LINKS: u32 = u32::MAX;

/// The library, and what is known of its GPUs.
pub struct Gpus {
    nvml: Nvml,
    gpus: Vec<Gpu>,
}

/// One GPU.
pub struct Gpu {
    index: u32,
    /// Its UUID.
    pub uuid: String,
    /// Its product name.
    pub name: String,
    /// Its memory in all, bytes.
    pub memory: Option<u64>,
    /// Figures that it refused, a bit each.
    refused: u32,
    /// The same of its links' counters.
    refused_links: u64,
}

/// What is asked in each reading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Readings {
    /// Power and energy.
    Energy,
    /// Memory in use. By itself, because it is cheap and short jobs need it at each tick.
    Memory,
    /// Everything else.
    Others,
}

/// One figure: how it is asked for.
struct Figure {
    name: &'static str,
    ask: fn(&Device<'_>) -> Result<u64, NvmlError>,
}

const ENERGY: [Figure; 2] = [
    Figure {
        name: GPU_POWER,
        ask: |gpu| gpu.power_usage().map(u64::from),
    },
    Figure {
        name: GPU_ENERGY,
        ask: |gpu| gpu.total_energy_consumption(),
    },
];

const MEMORY: [Figure; 1] = [Figure {
    name: "gpu_memory_bytes",
    ask: |gpu| gpu.memory_info().map(|memory| memory.used),
}];

const OTHERS: [Figure; 4] = [
    Figure {
        name: "gpu_sm_mhz",
        ask: |gpu| gpu.clock_info(Clock::SM).map(u64::from),
    },
    Figure {
        name: "gpu_memory_mhz",
        ask: |gpu| gpu.clock_info(Clock::Memory).map(u64::from),
    },
    Figure {
        name: "gpu_throttle",
        ask: |gpu| gpu.current_throttle_reasons().map(|bits| bits.bits()),
    },
    Figure {
        name: "gpu_temperature_c",
        ask: |gpu| gpu.temperature(TemperatureSensor::Gpu).map(u64::from),
    },
];

/// Counters that one call brings: name, field, links, and the factor to bytes.
const FIELDS: [(&str, u32, u32, u64); 4] = [
    (
        "gpu_nvlink_sent_bytes",
        field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        ALL_LINKS,
        1024,
    ),
    (
        "gpu_nvlink_received_bytes",
        field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        ALL_LINKS,
        1024,
    ),
    (
        "gpu_pcie_sent_bytes",
        field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
        0,
        1,
    ),
    (
        "gpu_pcie_received_bytes",
        field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
        0,
        1,
    ),
];

/// NVLinks that a GPU has at most.
const MOST_LINKS: usize = 18;

/// Counters of one link: name, field, and the factor to bytes. One call brings those of all links of a GPU.
/// It takes 8 to 11 ms on an H200 beside training, so it comes seldom.
const OF_LINK: [(&str, u32, u64); 2] = [
    (
        "gpu_nvlink_link_sent_bytes",
        field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        1024,
    ),
    (
        "gpu_nvlink_link_received_bytes",
        field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        1024,
    ),
];

/// Bits of [`Gpu::refused`]: the energy's figures, memory, the others, utilisation, and the fields.
const FIRST_MEMORY: u32 = 4;
const FIRST_OTHER: u32 = 8;
const UTILISATION: u32 = 16;
const FIRST_FIELD: u32 = 24;

impl Gpus {
    /// Opens NVML.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn open(library: Option<OsString>) -> Result<Gpus, String> {
        let library = library.unwrap_or_else(|| LIBRARY.into());
        let nvml = Nvml::builder()
            .lib_path(&library)
            .init()
            .map_err(|error| why(&library.to_string_lossy(), &error))?;
        let count = nvml
            .device_count()
            .map_err(|error| format!("NVML can't count GPUs: {error}"))?;
        let mut gpus = Vec::new();
        for index in 0..count {
            // A GPU that a container must not see, or that has fallen off its bus, is left out.
            let Ok(device) = nvml.device_by_index(index) else {
                continue;
            };
            let Ok(uuid) = device.uuid() else {
                continue;
            };
            gpus.push(Gpu {
                index,
                uuid,
                name: device.name().unwrap_or_default(),
                memory: device.memory_info().ok().map(|memory| memory.total),
                refused: 0,
                refused_links: 0,
            });
        }
        if gpus.is_empty() {
            Err("NVML shows no GPU".to_owned())
        } else {
            Ok(Gpus { nvml, gpus })
        }
    }

    /// The driver's release.
    pub fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    /// The library.
    pub fn nvml(&self) -> &Nvml {
        &self.nvml
    }

    /// NVML's own handles of the GPUs, without those that are gone.
    pub fn devices(&self) -> impl Iterator<Item = Device<'_>> {
        let gpus = self.gpus.iter();
        gpus.filter_map(|gpu| self.nvml.device_by_index(gpu.index).ok())
    }

    /// The GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Hands the figures of all GPUs to `each`: name, UUID, and value.
    pub fn read(&mut self, what: Readings, mut each: impl FnMut(&'static str, &str, u64)) {
        let Gpus { nvml, gpus } = self;
        for gpu in gpus {
            let Ok(device) = nvml.device_by_index(gpu.index) else {
                continue;
            };
            let (figures, first) = match what {
                Readings::Energy => (&ENERGY[..], 0),
                Readings::Memory => (&MEMORY[..], FIRST_MEMORY),
                Readings::Others => (&OTHERS[..], FIRST_OTHER),
            };
            for (bit, figure) in (first..).zip(figures) {
                if gpu.may(bit) {
                    if let Some(value) = gpu.heard(bit, (figure.ask)(&device)) {
                        each(figure.name, &gpu.uuid, value);
                    }
                }
            }
            if what != Readings::Others {
                continue;
            }
            if gpu.may(UTILISATION) {
                if let Some(busy) = gpu.heard(UTILISATION, device.utilization_rates()) {
                    each("gpu_busy_percent", &gpu.uuid, busy.gpu.into());
                    each("gpu_memory_busy_percent", &gpu.uuid, busy.memory.into());
                }
            }
            // SAFETY: the handle is used while `nvml` lives.
            let handle = unsafe { device.handle() };
            fields(nvml, handle, gpu, &mut each);
        }
    }
}

impl Gpus {
    /// Hands what each NVLink of all GPUs carried to `each`: name, UUID and link, and value.
    pub fn read_links(&mut self, mut each: impl FnMut(&'static str, &str, u64)) {
        let Gpus { nvml, gpus } = self;
        for gpu in gpus {
            let Ok(device) = nvml.device_by_index(gpu.index) else {
                continue;
            };
            // SAFETY: the handle is used while `nvml` lives.
            let handle = unsafe { device.handle() };
            links(nvml, handle, gpu, &mut each);
        }
    }
}

impl Gpu {
    fn may(&self, bit: u32) -> bool {
        self.refused >> bit & 1 == 0
    }

    /// The value. A figure that this GPU does not have is not asked for again.
    fn heard<T>(&mut self, bit: u32, asked: Result<T, NvmlError>) -> Option<T> {
        match asked {
            Ok(value) => Some(value),
            Err(
                NvmlError::NotSupported
                | NvmlError::NoPermission
                | NvmlError::InvalidArg
                | NvmlError::FunctionNotFound
                | NvmlError::FailedToLoadSymbol(_),
            ) => {
                self.refused |= 1 << bit;
                None
            }
            // It may be there next time.
            Err(_) => None,
        }
    }
}

/// Asks for all counters of a GPU in one call.
fn fields(
    nvml: &Nvml,
    handle: nvmlDevice_t,
    gpu: &mut Gpu,
    each: &mut impl FnMut(&'static str, &str, u64),
) {
    let bit = |place: usize| 1 << (FIRST_FIELD + place as u32);
    let refused = gpu.refused;
    let wanted = (0..FIELDS.len()).filter(|place| refused & bit(*place) == 0);
    let wanted = wanted.map(|place| (place, FIELDS[place].1, FIELDS[place].2));
    ask::<{ FIELDS.len() }>(nvml, handle, wanted, |place, value| {
        let (name, _, _, factor) = FIELDS[place];
        match value {
            Some(value) => each(name, &gpu.uuid, value.saturating_mul(factor)),
            None => gpu.refused |= bit(place),
        }
    });
}

/// Asks for the counters of all links of a GPU in one call.
fn links(
    nvml: &Nvml,
    handle: nvmlDevice_t,
    gpu: &mut Gpu,
    each: &mut impl FnMut(&'static str, &str, u64),
) {
    const MOST: usize = MOST_LINKS * OF_LINK.len();
    let link = |place: usize| place / OF_LINK.len();
    let counter = |place: usize| OF_LINK[place % OF_LINK.len()];
    let refused = gpu.refused_links;
    let wanted = (0..MOST).filter(|place| refused >> place & 1 == 0);
    let wanted = wanted.map(|place| (place, counter(place).1, link(place) as u32));
    ask::<MOST>(nvml, handle, wanted, |place, value| {
        let (name, _, factor) = counter(place);
        let of = format!("{}/{}", gpu.uuid, link(place));
        match value {
            Some(value) => each(name, &of, value.saturating_mul(factor)),
            // This GPU has fewer links.
            None => gpu.refused_links |= 1 << place,
        }
    });
}

/// Asks for these fields of a GPU in one call: a place below `MOST`, a field, and its scope. `heard` gets the
/// place and value of each; no value if the GPU does not have the field.
fn ask<const MOST: usize>(
    nvml: &Nvml,
    handle: nvmlDevice_t,
    wanted: impl Iterator<Item = (usize, u32, u32)>,
    mut heard: impl FnMut(usize, Option<u64>),
) {
    let Ok(ask) = nvml.lib().nvmlDeviceGetFieldValues.as_ref() else {
        return;
    };
    // SAFETY: plain numbers, of which zero is a value each.
    let mut values: [nvmlFieldValue_t; MOST] = unsafe { std::mem::zeroed() };
    let mut asked = [0; MOST];
    let mut n = 0;
    for ((place, field, scope), value) in wanted.zip(&mut values) {
        (value.fieldId, value.scopeId) = (field, scope);
        asked[n] = place;
        n += 1;
    }
    // SAFETY: the device is NVML's own, and there are `n` values to fill in.
    if n == 0 || unsafe { ask(handle, n as i32, values.as_mut_ptr()) } != 0 {
        return;
    }
    for (value, place) in values[..n].iter().zip(asked) {
        match value.nvmlReturn {
            // SAFETY: the type says which member was stored.
            0 => heard(place, Some(unsafe { number(value) })),
            // Not supported, invalid argument, no permission.
            2..=4 => heard(place, None),
            _ => {}
        }
    }
}

/// The value of a field; all that are asked for are integers.
///
/// # Safety
/// The type of the value must be that of what was stored.
unsafe fn number(value: &nvmlFieldValue_t) -> u64 {
    const UNSIGNED: u32 = 1;
    match value.valueType {
        // SAFETY: as said.
        UNSIGNED => unsafe { value.value.uiVal }.into(),
        // SAFETY: as said; the others have eight bytes.
        _ => unsafe { value.value.ullVal },
    }
}

/// Why there is no NVML, in words.
fn why(library: &str, error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => format!("`{library}` can't be loaded"),
        NvmlError::DriverNotLoaded => "NVIDIA's driver is not loaded".to_owned(),
        NvmlError::LibraryNotFound => "NVML found no driver library".to_owned(),
        NvmlError::NoPermission => "this user may not use NVML".to_owned(),
        other => format!("NVML can't be started: {other}"),
    }
}
