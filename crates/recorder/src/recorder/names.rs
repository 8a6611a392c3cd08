//! Ids of names.
//!
//! From ABI v2 on, NCCL passes names as texts, and the interner knows the id of each. ABI v1 passes numbers:
//! [`Known`] has the ids of the names that these numbers stand for, which were entered when the recorder was
//! made.

use super::Recorder;
use crate::events::RawName;
use capture::stamps;
use nccl_abi::names;

/// Ids of the names that v1 passes as numbers, by number.
pub(super) struct Known {
    pub(super) funcs: Vec<u8>,
    pub(super) datatypes: Vec<u8>,
    pub(super) algos: Vec<u8>,
    pub(super) protos: Vec<u8>,
}

impl Recorder {
    #[inline(always)]
    pub(super) fn name(&self, name: RawName) -> u8 {
        match name {
            RawName::Text(pointer) => self.interner.pointer(&self.live, pointer),
            RawName::Known(id) => id,
        }
    }

    /// The id of Broadcast's name.
    pub fn broadcast(&self) -> u8 {
        self.known.funcs[BROADCAST]
    }

    /// Ids of the algorithms for which NCCL stamps the end too early.
    pub fn early_algorithms(&self) -> Vec<u8> {
        let named = names::ALGOS.iter().zip(&self.known.algos);
        named
            .filter(|(name, _)| stamps::stops_early(name))
            .map(|(_, id)| *id)
            .collect()
    }

    /// The name of a function that v1 passes as a number. Its id is 0 if the number has no name.
    pub fn known_func(&self, value: u8) -> RawName {
        RawName::Known(
            self.known
                .funcs
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_datatype(&self, value: u8) -> RawName {
        RawName::Known(
            self.known
                .datatypes
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_algo(&self, value: u8) -> RawName {
        RawName::Known(
            self.known
                .algos
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_proto(&self, value: u8) -> RawName {
        RawName::Known(
            self.known
                .protos
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }
}

/// Index of Broadcast in `names::FUNCS`.
const BROADCAST: usize = 0;
