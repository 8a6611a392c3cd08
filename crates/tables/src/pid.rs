//! Pids that are not known: files of other tools may not have them.
//!
//! Host and pid tell the processes of a job apart. So a process whose pid is not known has a number that no
//! pid can be: `UNKNOWN` plus its number among the files, from 1. Linux's pids are below 2^22.
//!
//! Rule: what is shown to anybody goes through this module, so such a number is never taken for a pid.

use serde::Serializer;

/// From here on, numbers are no pids.
pub const UNKNOWN: u32 = 1 << 31;

/// The pid, if it is one.
pub fn known(pid: u32) -> Option<u32> {
    (pid != 0 && pid < UNKNOWN).then_some(pid)
}

/// A pid for people; `?3` of the third process whose pid is not known.
pub fn shown(pid: u32) -> String {
    match (known(pid), pid) {
        (Some(pid), _) => pid.to_string(),
        (None, 0) => "?".to_owned(),
        (None, number) => format!("?{}", number - UNKNOWN),
    }
}

/// Writes null for a pid that is not known.
///
/// # Errors
/// Those of `to`.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
pub fn serialize<S: Serializer>(pid: &u32, to: S) -> Result<S::Ok, S::Error> {
    match known(*pid) {
        Some(pid) => to.serialize_u32(pid),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_that_is_not_known_is_never_a_number() {
        assert_eq!((shown(71), known(71)), ("71".to_owned(), Some(71)));
        assert_eq!(known(UNKNOWN + 3), None);
        assert_eq!(
            (shown(UNKNOWN + 3), shown(0)),
            ("?3".to_owned(), "?".to_owned())
        );
    }
}
