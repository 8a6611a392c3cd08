//! The formats that profilers write, one file each.

pub(crate) mod capture;
pub(crate) mod json;
