//! Where texts, handles and other fields lie in the descriptors of each ABI version.

use core::mem::offset_of;
use nccl_abi::{event, v1, v2, v3, v4, v5, v6, v7};

/// Offsets of the texts, and of the handles beside `parent_obj`, in an event's descriptor.
pub(crate) fn pointers(abi: u8, bit: u64) -> (&'static [usize], &'static [usize]) {
    macro_rules! at {
        ($v:ident: $($member:ident . $field:ident),*) => {
            const { &[$(offset_of!($v::Descr, u.$member.$field)),*] }
        };
    }
    match (abi, bit) {
        (1, event::COLL) => (at!(v1: coll.name), &[]),
        (1, event::P2P) => (at!(v1: p2p.name), &[]),
        (2, event::COLL) => (
            at!(v2: coll.name, coll.func, coll.datatype, coll.algo, coll.proto),
            &[],
        ),
        (2, event::P2P) => (at!(v2: p2p.name, p2p.func, p2p.datatype), &[]),
        (3, event::COLL) => (
            at!(v3: coll.name, coll.func, coll.datatype, coll.algo, coll.proto),
            &[],
        ),
        (3, event::P2P) => (at!(v3: p2p.name, p2p.func, p2p.datatype), &[]),
        (4, event::COLL) => (
            at!(v4: coll.func, coll.datatype, coll.algo, coll.proto),
            &[],
        ),
        (4, event::P2P) => (at!(v4: p2p.func, p2p.datatype), &[]),
        (5 | 6, event::COLL) => (
            at!(v5: coll.func, coll.datatype, coll.algo, coll.proto),
            at!(v5: coll.parent_group),
        ),
        (5 | 6, event::P2P) => (at!(v5: p2p.func, p2p.datatype), at!(v5: p2p.parent_group)),
        (7, event::COLL) => (
            at!(v7: coll.func, coll.datatype, coll.algo, coll.proto, coll.kernel_variant),
            at!(v7: coll.parent_group),
        ),
        (7, event::P2P) => (at!(v7: p2p.func, p2p.datatype), at!(v7: p2p.parent_group)),
        (5.., event::COLL_API) => (at!(v5: coll_api.func, coll_api.datatype), &[]),
        (5.., event::P2P_API) => (at!(v5: p2p_api.func, p2p_api.datatype), &[]),
        (6.., event::CE_COLL) => (
            at!(v6: ce_coll.func, ce_coll.datatype, ce_coll.sync_strategy),
            &[],
        ),
        (7, event::KERNEL_PHASE) => (at!(v7: kernel_phase.phase_name), &[]),
        _ => (&[], &[]),
    }
}

pub(crate) fn captured(abi: u8, bit: u64, payload: &[u8]) -> bool {
    let at = match bit {
        event::COLL_API if abi >= 5 => offset_of!(v5::Descr, u.coll_api.graph_captured),
        event::P2P_API if abi >= 5 => offset_of!(v5::Descr, u.p2p_api.graph_captured),
        _ => return false,
    };
    payload.get(at).is_some_and(|c| *c != 0)
}

pub(crate) fn count_of(abi: u8, bit: u64, payload: &[u8]) -> Option<u64> {
    let at = match (abi, bit) {
        (1..=3, event::COLL) => offset_of!(v3::Descr, u.coll.count),
        (1..=3, event::P2P) => offset_of!(v3::Descr, u.p2p.count),
        (4.., event::COLL) => offset_of!(v5::Descr, u.coll.count),
        (4.., event::P2P) => offset_of!(v5::Descr, u.p2p.count),
        (_, event::COLL_API) => offset_of!(v5::Descr, u.coll_api.count),
        (_, event::P2P_API) => offset_of!(v5::Descr, u.p2p_api.count),
        _ => return None,
    };
    word(payload, at)
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::samples::samples;
    use crate::event::{Descr, Handle};

    #[test]
    fn texts_of_each_version_are_where_the_encoder_puts_them() {
        use crate::event::Seat;
        let marker = c"marker";
        for abi in 2..=7 {
            for event in samples(abi, marker) {
                let seat = Seat {
                    abi,
                    native: abi,
                    version: 0,
                };
                let mut descr = Descr::default();
                descr.encode(seat, &event, Handle::NULL, 0);
                let address = marker.as_ptr() as u64;
                let (texts, _) = pointers(abi, event.bit());
                let found: Vec<usize> = (0..17)
                    .map(|i| i * 8)
                    .filter(|at| word(&descr.0, *at) == Some(address))
                    .collect();
                let listed: Vec<usize> = texts
                    .iter()
                    .copied()
                    .filter(|at| word(&descr.0, *at) == Some(address))
                    .collect();
                assert_eq!(
                    found,
                    {
                        let mut l = listed;
                        l.sort_unstable();
                        l
                    },
                    "v{abi} {event:?}"
                );
            }
        }
    }
}
