//! Ids of names: of those that NCCL passes as texts, and of those that ABI v1 passes as numbers.

use super::Recorder;
use crate::events::Name;
use capture::stamps;
use nccl_abi::names;

/// Ids of the strings that v1 passes as numbers.
pub(super) struct Known {
    pub(super) funcs: Vec<u8>,
    pub(super) datatypes: Vec<u8>,
    pub(super) algos: Vec<u8>,
    pub(super) protos: Vec<u8>,
}

impl Recorder {
    #[inline(always)]
    pub(super) fn name(&self, name: Name) -> u8 {
        match name {
            Name::Text(pointer) => self.interner.pointer(&self.live, pointer),
            Name::Known(id) => id,
        }
    }

    /// The id of Broadcast's name.
    pub fn broadcast(&self) -> u8 {
        self.known.funcs[BROADCAST]
    }

    /// Ids of the algorithms whose stamps of the end come too early.
    pub fn early_algorithms(&self) -> Vec<u8> {
        let named = names::ALGOS.iter().zip(&self.known.algos);
        named
            .filter(|(name, _)| stamps::stops_early(name))
            .map(|(_, id)| *id)
            .collect()
    }

    /// The id of a v1 number's name; 0 when it has none.
    pub fn known_func(&self, value: u8) -> Name {
        Name::Known(
            self.known
                .funcs
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_datatype(&self, value: u8) -> Name {
        Name::Known(
            self.known
                .datatypes
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_algo(&self, value: u8) -> Name {
        Name::Known(
            self.known
                .algos
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_proto(&self, value: u8) -> Name {
        Name::Known(
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
