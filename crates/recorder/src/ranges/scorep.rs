//! Regions of Score-P, by the functions of its user instrumentation that take names. They are in a program
//! that was built with `scorep --user`, or runs under `python -m scorep`.
//!
//! Rule: only looked up, never loaded. A process without Score-P has none of these functions.

use super::FUNCTIONS;
use std::ffi::{c_char, c_void, CStr};

type Begin = unsafe extern "C" fn(*const c_char, u32, *const c_char, u32);
type End = unsafe extern "C" fn(*const c_char);

/// SCOREP_USER_REGION_TYPE_COMMON.
const COMMON: u32 = 0;
/// Regions need a file and a line. All of NCCL are in this one.
const FILE: &CStr = c"NCCL";

/// Score-P in this process.
pub struct Tool {
    begin: Begin,
    end: End,
}

/// Names of regions, in the order of `nccl_abi::names::FUNCS`.
const REGIONS: [&CStr; FUNCTIONS] = [
    c"ncclBroadcast",
    c"ncclReduce",
    c"ncclAllGather",
    c"ncclReduceScatter",
    c"ncclAllReduce",
    c"ncclSendRecv",
    c"ncclSend",
    c"ncclRecv",
    c"ncclAlltoAll",
    c"ncclScatter",
    c"ncclGather",
    c"ncclAllGatherV",
    c"ncclPutSignal",
    c"ncclSignal",
    c"ncclWaitSignal",
    c"NCCL",
];

fn region(function: u8) -> &'static CStr {
    REGIONS.get(usize::from(function)).unwrap_or(&c"NCCL")
}

impl Tool {
    /// If Score-P is in this process.
    pub fn find() -> Option<Tool> {
        let symbol = |name: &CStr| {
            // SAFETY: a plain call with a text that ends in 0.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        let begin = symbol(c"SCOREP_User_RegionByNameBegin")?;
        let end = symbol(c"SCOREP_User_RegionByNameEnd")?;
        // SAFETY: Score-P's header says that the functions of these names are ones.
        let (begin, end) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Begin>(begin),
                std::mem::transmute::<*mut c_void, End>(end),
            )
        };
        Some(Tool { begin, end })
    }

    pub fn begin(&self, function: u8) {
        // SAFETY: texts that end in 0 and stay.
        unsafe { (self.begin)(region(function).as_ptr(), COMMON, FILE.as_ptr(), 0) };
    }

    pub fn end(&self, function: u8) {
        // SAFETY: a text that ends in 0 and stays.
        unsafe { (self.end)(region(function).as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_abi::names;

    #[test]
    fn regions_are_named_as_nccl_names_functions() {
        for (name, region) in names::FUNCS.iter().zip(REGIONS) {
            assert_eq!(region.to_str(), Ok(format!("nccl{name}").as_str()));
        }
    }
}
