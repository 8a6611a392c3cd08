//! Handles and contexts: names that NCCL carries for us and that are looked up, never followed.
//!
//! ```text
//! bits 63..60 kind │ 59..52 channel (or communicator slot) │ 51..34 slot │ 33..16 generation │ 15..0 salt
//! ```
//!
//! All ranks of a job run the same allocator, so another process's handle would else name a row of ours (PXN passes
//! such handles): the salt, drawn at init, tells them apart.

/// What a handle names. No kind is 0, so no handle is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A communicator's context.
    Context = 1,
    /// A row, from CollApi or P2pApi.
    Api = 2,
    /// A row, from Coll, P2p or CeColl.
    Task = 3,
    /// A row and a channel of it.
    KernelCh = 4,
    /// An entry of the ProxyOp table.
    ProxyOp = 5,
    /// An entry of the ProxyStep table.
    ProxyStep = 6,
    /// A group; the channel bits are its communicator.
    GroupApi = 7,
    /// A captured call.
    Template = 8,
    /// A kernel launch of a group; the channel bits are its communicator.
    Launch = 9,
    /// A plan (Group event); the channel bits are its communicator.
    Plan = 10,
    /// A call that is only counted, and its children.
    Rowless = 11,
    /// Nothing: an event that is not recorded.
    Ignored = 12,
    /// A row and a phase of its kernel.
    Phase = 13,
}

/// A decoded handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub kind: Kind,
    pub channel: u8,
    pub slot: u32,
    pub generation: u32,
}

/// Bits of a slot.
pub const SLOT_BITS: u32 = 18;
const GENERATION: u32 = (1 << 18) - 1;

/// The handle as NCCL carries it.
#[inline]
pub fn encode(kind: Kind, channel: u8, slot: u32, generation: u32, salt: u16) -> u64 {
    (kind as u64) << 60
        | u64::from(channel) << 52
        | u64::from(slot & ((1 << SLOT_BITS) - 1)) << 34
        | u64::from(generation & GENERATION) << 16
        | u64::from(salt)
}

/// What NCCL handed back; `None` when this process did not give it out.
#[inline]
pub fn decode(handle: u64, salt: u16) -> Option<Handle> {
    if handle as u16 != salt {
        return None;
    }
    let kind = match handle >> 60 {
        1 => Kind::Context,
        2 => Kind::Api,
        3 => Kind::Task,
        4 => Kind::KernelCh,
        5 => Kind::ProxyOp,
        6 => Kind::ProxyStep,
        7 => Kind::GroupApi,
        8 => Kind::Template,
        9 => Kind::Launch,
        10 => Kind::Plan,
        11 => Kind::Rowless,
        12 => Kind::Ignored,
        13 => Kind::Phase,
        _ => return None,
    };
    Some(Handle {
        kind,
        channel: (handle >> 52) as u8,
        slot: (handle >> 34) as u32 & ((1 << SLOT_BITS) - 1),
        generation: (handle >> 16) as u32 & GENERATION,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips_and_is_never_null() {
        for kind in 1..=13u64 {
            let handle = decode(kind << 60 | 7 << 52 | 9 << 34 | 5 << 16 | 0xbeef, 0xbeef)
                .expect("known kind");
            let again = encode(
                handle.kind,
                handle.channel,
                handle.slot,
                handle.generation,
                0xbeef,
            );
            assert_eq!(decode(again, 0xbeef), Some(handle));
            assert_eq!(
                (
                    handle.kind as u64,
                    handle.channel,
                    handle.slot,
                    handle.generation
                ),
                (kind, 7, 9, 5)
            );
            assert_ne!(encode(handle.kind, 0, 0, 0, 0), 0);
        }
    }

    #[test]
    fn another_processes_handle_is_refused() {
        assert_eq!(decode(encode(Kind::Api, 1, 2, 3, 0x1234), 0x1235), None);
        assert_eq!(decode(0, 0), None);
        assert_eq!(decode(u64::MAX, 0xffff), None);
    }
}
