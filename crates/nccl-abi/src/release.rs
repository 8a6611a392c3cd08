//! Which NCCL release looks up which plugin symbols.
//!
//! [`ALL`] lists the releases that were examined, and [`Release::symbols`] what each looks up. A release
//! calls the newest symbol that it finds, through a shim of its own if that is older than its native ABI.
//! Shims lose events and fields, so a plugin should export all of [`SYMBOLS`].
//!
//! Rule: only what was examined is listed. A release that isn't here is `None`, also between two that agree.
//!
//! Versions are numbers as ncclGetVersion gives them: 2.28.9 is 22809.

use crate::SYMBOLS;

/// One NCCL release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// As ncclGetVersion gives it.
    pub version: u32,
    /// The newest ABI it looks up, and the one its core calls without a shim, from 1 to
    /// [`NEWEST`](crate::NEWEST).
    pub native_abi: u8,
}

impl Release {
    /// The symbols it looks up, oldest first. NCCL goes from the last to the first and takes the first that
    /// is there.
    pub fn symbols(&self) -> &'static [&'static str] {
        &SYMBOLS[..usize::from(self.native_abi).min(SYMBOLS.len())]
    }
}

const fn row(version: u32, native_abi: u8) -> Release {
    Release {
        version,
        native_abi,
    }
}

/// Every examined release, oldest first.
pub const ALL: [Release; 22] = [
    row(22304, 1),
    row(22403, 2),
    row(22501, 2),
    row(22602, 3),
    row(22603, 3),
    row(22605, 3),
    row(22606, 3),
    row(22703, 4),
    row(22705, 4),
    row(22706, 4),
    row(22707, 4),
    row(22803, 5),
    row(22807, 5),
    row(22809, 5),
    row(22902, 6),
    row(22903, 6),
    row(22907, 6),
    row(23003, 6),
    row(23004, 6),
    row(23007, 6),
    row(23102, 7),
    row(23203, 7),
];

/// The native ABI of a release in [`ALL`].
pub fn native_abi(version: u32) -> Option<u8> {
    ALL.iter()
        .find(|r| r.version == version)
        .map(|r| r.native_abi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_releases_never_go_back_to_an_older_abi() {
        for pair in ALL.windows(2) {
            assert!(pair[0].version < pair[1].version);
            assert!(pair[0].native_abi <= pair[1].native_abi);
            assert!(pair[1].native_abi <= pair[0].native_abi + 1);
        }
    }

    #[test]
    fn a_release_looks_up_its_native_symbol_and_all_older_ones() {
        for r in ALL {
            assert_eq!(r.symbols().len(), usize::from(r.native_abi));
            let newest = format!("ncclProfiler_v{}", r.native_abi);
            assert_eq!(r.symbols().last(), Some(&newest.as_str()));
            assert_eq!(r.symbols().first(), Some(&"ncclProfiler_v1"));
        }
    }

    #[test]
    fn an_unexamined_release_is_none() {
        assert_eq!(native_abi(22809), Some(5));
        assert_eq!(native_abi(22808), None);
        assert_eq!(native_abi(0), None);
    }
}
