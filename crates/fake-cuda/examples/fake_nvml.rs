//! NVIDIA's management library without a GPU, for tests of the node sampler.
//!
//! It has `FAKE_NVML_GPUS` GPUs (2 by default) with `FAKE_NVML_MIB` of memory (141 GiB), a quarter of it in
//! use. They are those of fake-cuda, by their UUIDs. GPU i draws `FAKE_NVML_WATTS` + 100 i W (500 by
//! default), and its energy counter goes up with the time since the library was loaded. As a real one does,
//! the power is given in mW, the counter in mJ, and NVLink's counters in KiB.
//!
//! GPUs of an odd number refuse the counters of PCIe, as drivers before R525 do. With
//! `FAKE_NVML_FAILS=init`, the library says that no driver is loaded. With `FAKE_NVML_FAILS=energy`, GPUs
//! have no energy counter, as before Volta.
//!
//! The GPU with the number `FAKE_NVML_LOST`, or each for `all`, falls off its bus half a second after the
//! library was loaded. Then NVML has no more answer about it.
//!
//! GPUs have 18 NVLinks to a switch each. The GPU with the number `FAKE_NVML_NO_NVLINK` has none, and reaches
//! the others through the link between sockets.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void, CStr};
use std::sync::OnceLock;
use std::time::Instant;

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const DRIVER_NOT_LOADED: c_int = 9;
const GPU_IS_LOST: c_int = 15;

/// What NVML fills in for a field.
#[repr(C)]
pub struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency_us: i64,
    kind: c_uint,
    result: c_int,
    value: u64,
}

/// Version 2 of what NVML says of a GPU's memory.
#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// Shares of time, percent.
#[repr(C)]
pub struct Utilisation {
    gpu: c_uint,
    memory: c_uint,
}

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

fn fails(what: &str) -> bool {
    std::env::var("FAKE_NVML_FAILS").is_ok_and(|of| of == what)
}

fn begin() -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(Instant::now)
}

/// Whether the GPU with this number has fallen off its bus.
fn is_lost(index: u64) -> bool {
    let which = std::env::var("FAKE_NVML_LOST").unwrap_or_default();
    let is_it = which == "all" || which.parse() == Ok(index);
    is_it && begin().elapsed().as_millis() >= 500
}

/// Handles are indexes, one up: null is none.
fn index(device: *mut c_void) -> u64 {
    (device as u64).saturating_sub(1)
}

fn milliwatts(device: *mut c_void) -> u64 {
    1000 * (setting("FAKE_NVML_WATTS", 500) + 100 * index(device))
}

/// # Safety
/// `to` must have room for `room` bytes.
unsafe fn put_text(text: &str, to: *mut c_char, room: c_uint) -> c_int {
    if text.len() >= room as usize {
        return INVALID_ARGUMENT;
    }
    // SAFETY: as said; the text and its end fit.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        *to.add(text.len()) = 0;
    }
    SUCCESS
}

/// # Safety
/// `to` must be a place for a value, or null.
unsafe fn give<T>(to: *mut T, value: T) -> c_int {
    if to.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: as said.
    unsafe { *to = value };
    SUCCESS
}

#[no_mangle]
extern "C" fn nvmlInit_v2() -> c_int {
    begin();
    if fails("init") {
        DRIVER_NOT_LOADED
    } else {
        SUCCESS
    }
}

#[no_mangle]
extern "C" fn nvmlShutdown() -> c_int {
    SUCCESS
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, room: c_uint) -> c_int {
    // SAFETY: as NVML says.
    unsafe { put_text("570.00.00", to, room) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    // SAFETY: as NVML says.
    unsafe { give(count, setting("FAKE_NVML_GPUS", 2) as c_uint) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut *mut c_void) -> c_int {
    if u64::from(index) >= setting("FAKE_NVML_GPUS", 2) {
        return INVALID_ARGUMENT;
    }
    // SAFETY: as NVML says.
    unsafe { give(to, (index as usize + 1) as *mut c_void) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetUUID(
    device: *mut c_void,
    to: *mut c_char,
    room: c_uint,
) -> c_int {
    // That of fake-cuda's device of the same number, byte by byte: 0xfa4e and the number from 1 on.
    let uuid = format!(
        "GPU-4efa0000-0000-0000-{:02x}00-000000000000",
        index(device) + 1
    );
    // SAFETY: as NVML says.
    unsafe { put_text(&uuid, to, room) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetName(_: *mut c_void, to: *mut c_char, room: c_uint) -> c_int {
    // SAFETY: as NVML says.
    unsafe { put_text("Fake GPU", to, room) }
}

/// A device's place on the PCI bus.
#[repr(C)]
pub struct Pci {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_sub_system_id: c_uint,
    bus_id: [c_char; 32],
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: *mut c_void, to: *mut Pci) -> c_int {
    if to.is_null() {
        return INVALID_ARGUMENT;
    }
    let bus = 0x18 + index(device) as c_uint;
    // SAFETY: as NVML says; all fields are numbers.
    let pci = unsafe {
        to.write(std::mem::zeroed());
        &mut *to
    };
    (pci.bus, pci.device) = (bus, 0);
    let text = format!("00000000:{bus:02X}:00.0");
    // SAFETY: the field is as long as said.
    unsafe { put_text(&text, pci.bus_id.as_mut_ptr(), 32) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    bus_id: *const c_char,
    to: *mut *mut c_void,
) -> c_int {
    const NOT_FOUND: c_int = 6;
    // SAFETY: the caller's text, which ends with 0.
    let bus_id = unsafe { CStr::from_ptr(bus_id) }.to_string_lossy();
    let gpus = 0..setting("FAKE_NVML_GPUS", 2);
    let mut known = gpus.filter(|gpu| bus_id == format!("00000000:{:02X}:00.0", 0x18 + gpu));
    match known.next() {
        // SAFETY: as NVML says.
        Some(gpu) => unsafe { give(to, (gpu as usize + 1) as *mut c_void) },
        None => NOT_FOUND,
    }
}

fn has_nvlinks(device: *mut c_void) -> bool {
    index(device) != setting("FAKE_NVML_NO_NVLINK", u64::MAX)
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    device: *mut c_void,
    link: c_uint,
    to: *mut c_uint,
) -> c_int {
    match has_nvlinks(device) {
        // SAFETY: as NVML says.
        true if link < 18 => unsafe { give(to, 1) },
        true => INVALID_ARGUMENT,
        false => NOT_SUPPORTED,
    }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    a: *mut c_void,
    b: *mut c_void,
    _: c_uint,
    to: *mut c_uint,
) -> c_int {
    const NOT_SUPPORTED_HERE: c_uint = 5;
    let is_ok = has_nvlinks(a) && has_nvlinks(b);
    // SAFETY: as NVML says.
    unsafe { give(to, if is_ok { 0 } else { NOT_SUPPORTED_HERE }) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    _: *mut c_void,
    _: *mut c_void,
    to: *mut c_uint,
) -> c_int {
    const SYSTEM: c_uint = 50;
    // SAFETY: as NVML says.
    unsafe { give(to, SYSTEM) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetIndex(device: *mut c_void, to: *mut c_uint) -> c_int {
    // SAFETY: as NVML says.
    unsafe { give(to, index(device) as c_uint) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: *mut c_void, to: *mut c_uint) -> c_int {
    if is_lost(index(device)) {
        return GPU_IS_LOST;
    }
    // SAFETY: as NVML says.
    unsafe { give(to, milliwatts(device) as c_uint) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    device: *mut c_void,
    to: *mut c_ulonglong,
) -> c_int {
    if fails("energy") {
        return NOT_SUPPORTED;
    }
    if is_lost(index(device)) {
        return GPU_IS_LOST;
    }
    let used = milliwatts(device) as f64 * begin().elapsed().as_secs_f64();
    // SAFETY: as NVML says.
    unsafe { give(to, 1_000_000_000 + used as c_ulonglong) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetClockInfo(_: *mut c_void, of: c_uint, to: *mut c_uint) -> c_int {
    const MEMORY: c_uint = 2;
    // SAFETY: as NVML says.
    unsafe { give(to, if of == MEMORY { 3201 } else { 1980 }) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: *mut c_void,
    to: *mut c_ulonglong,
) -> c_int {
    // SAFETY: as NVML says. The bit is "power cap by software".
    unsafe { give(to, if index(device) == 1 { 4 } else { 0 }) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: *mut c_void,
    _: c_uint,
    to: *mut c_uint,
) -> c_int {
    // SAFETY: as NVML says.
    unsafe { give(to, 50 + index(device) as c_uint) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(_: *mut c_void, to: *mut Memory) -> c_int {
    let total = setting("FAKE_NVML_MIB", 141 << 10) << 20;
    let used = total / 4;
    let memory = Memory {
        version: 2,
        total,
        reserved: 0,
        free: total - used,
        used,
    };
    // SAFETY: as NVML says.
    unsafe { give(to, memory) }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetUtilizationRates(_: *mut c_void, to: *mut Utilisation) -> c_int {
    // SAFETY: as NVML says.
    unsafe {
        give(
            to,
            Utilisation {
                gpu: 97,
                memory: 41,
            },
        )
    }
}

/// # Safety
/// As NVML says.
#[no_mangle]
unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: *mut c_void,
    n: c_int,
    values: *mut FieldValue,
) -> c_int {
    const UNSIGNED_LONG_LONG: c_uint = 3;
    let n = usize::try_from(n).unwrap_or(0);
    if values.is_null() {
        return INVALID_ARGUMENT;
    }
    let seconds = begin().elapsed().as_secs_f64();
    // SAFETY: as NVML says.
    for value in unsafe { std::slice::from_raw_parts_mut(values, n) } {
        value.kind = UNSIGNED_LONG_LONG;
        let per_second = match value.field {
            // NVLink, sent and received, KiB over all links.
            138 | 139 if value.scope == c_uint::MAX => Some(10_000_000.0),
            138 | 139 => Some(500_000.0),
            // PCIe, sent and received, bytes.
            197 | 198 if index(device).is_multiple_of(2) => Some(1e9),
            _ => None,
        };
        // The rate of an NVLink's line, MB/s.
        let told = match value.field {
            164 => Some(26_562),
            _ => per_second.map(|rate| (rate * seconds) as u64),
        };
        value.result = if told.is_some() {
            SUCCESS
        } else {
            NOT_SUPPORTED
        };
        value.value = told.unwrap_or(0);
    }
    SUCCESS
}
