//! Event types: the bits of `Descr::type_` and of the activation mask.
//!
//! A descriptor carries exactly one bit; the mask given to `init` holds any number. [`ALL`] is the table,
//! [`name`] and [`bit`] read it in the two directions, and [`known`] says what an ABI version can carry.
//!
//! Rule: a bit that isn't in [`ALL`] is an event to ignore, not an error. NCCL may start events that the
//! plugin did not ask for: ancestors of the wanted ones, or those of a job-wide override by an operator.
//!
//! The mask is a C `int` shared by all communicators of the process: `bits as c_int`, stored atomically. The
//! bits are `u64` here because `type_` is from v5 on; [`NET_PLUGIN`] is the largest that the `u8` of v1 to v4
//! holds.

/// Work launched together, on the launching thread. No union member.
pub const GROUP: u64 = 0x1;
/// One collective, a bracket of host work around its enqueue. Member `coll`.
pub const COLL: u64 = 0x2;
/// One send or receive, a bracket of host work around its enqueue. Member `p2p`.
pub const P2P: u64 = 0x4;
/// One channel of an operation, on the network proxy thread. Member `proxy_op`.
pub const PROXY_OP: u64 = 0x8;
/// One chunk of a proxy operation. Member `proxy_step`.
pub const PROXY_STEP: u64 = 0x10;
/// The proxy thread's own activity. No union member.
pub const PROXY_CTRL: u64 = 0x20;
/// One channel of a kernel, stamped by the GPU (v3 on; the stamp from v4 on). Member `kernel_ch`.
pub const KERNEL_CH: u64 = 0x40;
/// An event of the network plugin (v3 on). Member `net_plugin`.
pub const NET_PLUGIN: u64 = 0x80;
/// The user's group call (v5 on). Member `group_api`.
pub const GROUP_API: u64 = 0x100;
/// The user's collective call (v5 on). Member `coll_api`.
pub const COLL_API: u64 = 0x200;
/// The user's send or receive call (v5 on). Member `p2p_api`.
pub const P2P_API: u64 = 0x400;
/// The kernel launch (v5 on). Member `kernel_launch`.
pub const KERNEL_LAUNCH: u64 = 0x800;
/// A collective done by copy engines (v6 on). Member `ce_coll`.
pub const CE_COLL: u64 = 0x1000;
/// A synchronisation inside a copy-engine collective (v6 on). Member `ce_coll_sync`.
pub const CE_SYNC: u64 = 0x2000;
/// A batch of copies inside a copy-engine collective (v6 on). Member `ce_coll_batch`.
pub const CE_BATCH: u64 = 0x4000;
/// A phase of a kernel's channel (v7). Member `kernel_phase`.
pub const KERNEL_PHASE: u64 = 0x8000;

/// One event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// The bit. Exactly one is set.
    pub bit: u64,
    /// NCCL's word for it. Unique in [`ALL`].
    pub name: &'static str,
    /// First ABI version that carries it.
    pub since: u8,
}

const fn row(bit: u64, name: &'static str, since: u8) -> EventType {
    EventType { bit, name, since }
}

/// Every event type: the entry at `i` has bit `1 << i`.
pub const ALL: [EventType; 16] = [
    row(GROUP, "Group", 1),
    row(COLL, "Coll", 1),
    row(P2P, "P2p", 1),
    row(PROXY_OP, "ProxyOp", 1),
    row(PROXY_STEP, "ProxyStep", 1),
    row(PROXY_CTRL, "ProxyCtrl", 1),
    row(KERNEL_CH, "KernelCh", 3),
    row(NET_PLUGIN, "NetPlugin", 3),
    row(GROUP_API, "GroupApi", 5),
    row(COLL_API, "CollApi", 5),
    row(P2P_API, "P2pApi", 5),
    row(KERNEL_LAUNCH, "KernelLaunch", 5),
    row(CE_COLL, "CeColl", 6),
    row(CE_SYNC, "CeSync", 6),
    row(CE_BATCH, "CeBatch", 6),
    row(KERNEL_PHASE, "KernelPhase", 7),
];

/// All event bits of each ABI version: the entry for ABI `n` is at `n - 1`.
pub const KNOWN: [u64; crate::NEWEST as usize] = [0x3f, 0x3f, 0xff, 0xff, 0xfff, 0x7fff, 0xffff];

/// All event bits of ABI version `abi`; `None` if there is no such version here.
pub const fn known(abi: u8) -> Option<u64> {
    match abi {
        1..=crate::NEWEST => Some(KNOWN[abi as usize - 1]),
        _ => None,
    }
}

/// The name of an event bit; `None` for zero, several bits, or a bit of a later NCCL.
pub const fn name(bit: u64) -> Option<&'static str> {
    let i = bit.trailing_zeros() as usize;
    if bit.is_power_of_two() && i < ALL.len() {
        Some(ALL[i].name)
    } else {
        None
    }
}

/// The bit of an event name, spelled as [`name`] gives it.
pub fn bit(name: &str) -> Option<u64> {
    ALL.iter().find(|e| e.name == name).map(|e| e.bit)
}

/// Which bits of the activation mask bring an event. Bits of children bring their parents too.
#[allow(missing_docs)]
pub mod because {
    use super::*;

    pub const FOR_COLL: u64 = COLL | PROXY_OP | PROXY_STEP | KERNEL_CH | NET_PLUGIN;
    pub const FOR_P2P: u64 = P2P | PROXY_OP | PROXY_STEP | KERNEL_CH | NET_PLUGIN;
    /// Up to ABI v2, the bit of P2p brings nothing, and that of Coll brings sends and receives, too.
    pub const FOR_P2P_AT_FIRST: u64 = COLL | PROXY_OP | PROXY_STEP;
    pub const FOR_CE: u64 = CE_COLL | CE_SYNC | CE_BATCH;
    pub const FOR_COLL_API: u64 = COLL_API | FOR_COLL | FOR_CE;
    pub const FOR_P2P_API: u64 = P2P_API | FOR_P2P;
    pub const FOR_GROUP: u64 = GROUP | FOR_COLL | FOR_P2P;
    pub const FOR_GROUP_API: u64 = 0x7fdf;
    pub const FOR_PROXY_OP: u64 = PROXY_OP | PROXY_STEP | NET_PLUGIN;
    pub const FOR_PROXY_STEP: u64 = PROXY_STEP | NET_PLUGIN;
}

/// All events that a mask brings in ABI version `abi`: those in it, and those that could be their parents.
pub const fn announced_with(abi: u8, mask: u64) -> u64 {
    use because::*;
    let known = match known(abi) {
        Some(known) => known,
        None => 0,
    };
    // From v7 on, phases of kernels bring their kernels.
    let mask = if mask & known & KERNEL_PHASE != 0 {
        mask & known | KERNEL_CH
    } else {
        mask & known
    };
    let (p2p, mask) = match abi {
        1 | 2 => (FOR_P2P_AT_FIRST, mask & !P2P),
        _ => (FOR_P2P, mask),
    };
    let parents: [(u64, u64); 9] = [
        (GROUP, FOR_GROUP),
        (COLL, FOR_COLL),
        (P2P, p2p),
        (PROXY_OP, FOR_PROXY_OP),
        (PROXY_STEP, FOR_PROXY_STEP),
        (GROUP_API, FOR_GROUP_API),
        (COLL_API, FOR_COLL_API),
        (P2P_API, FOR_P2P_API),
        (CE_COLL, FOR_CE),
    ];
    let (mut all, mut i) = (mask, 0);
    while i < parents.len() {
        if mask & parents[i].1 != 0 {
            all |= parents[i].0 & known;
        }
        i += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_brings_the_parents_of_what_it_asks_for() {
        let with = |mask| announced_with(7, mask);
        assert_eq!((with(0), with(PROXY_CTRL)), (0, PROXY_CTRL));
        assert_eq!(with(KERNEL_LAUNCH), KERNEL_LAUNCH | GROUP_API);
        let calls = GROUP_API | COLL_API | P2P_API | GROUP | COLL | P2P;
        assert_eq!(with(KERNEL_CH), KERNEL_CH | calls);
        assert_eq!(with(KERNEL_PHASE), KERNEL_PHASE | KERNEL_CH | calls);
        let network = PROXY_OP | PROXY_STEP | NET_PLUGIN;
        assert_eq!(with(NET_PLUGIN), network | calls);
        assert_eq!(with(CE_BATCH), CE_BATCH | CE_COLL | COLL_API | GROUP_API);
        // Asking for a parent brings no child.
        assert_eq!(with(GROUP_API), GROUP_API);
        // An older ABI has fewer events.
        assert_eq!(announced_with(4, KERNEL_CH), KERNEL_CH | GROUP | COLL | P2P);
        assert_eq!(announced_with(1, COLL | KERNEL_CH), COLL | P2P | GROUP);
        assert_eq!(announced_with(2, P2P), 0);
        assert_eq!(announced_with(crate::NEWEST + 1, COLL), 0);
    }

    #[test]
    fn names_round_trip() {
        for (i, e) in ALL.iter().enumerate() {
            assert_eq!(e.bit, 1 << i);
            assert_eq!(name(e.bit), Some(e.name));
            assert_eq!(bit(e.name), Some(e.bit));
        }
    }

    #[test]
    fn an_unknown_bit_or_a_mask_has_no_name() {
        for bits in [0, 0x10000, GROUP | COLL, u64::MAX, 1 << 63] {
            assert_eq!(name(bits), None, "{bits:#x}");
        }
        assert_eq!(bit("coll"), None);
    }

    #[test]
    fn known_sets_follow_the_first_version_of_each_event() {
        for abi in 1..=crate::NEWEST {
            let bits = ALL.iter().filter(|e| e.since <= abi).map(|e| e.bit);
            assert_eq!(known(abi), Some(bits.sum()), "v{abi}");
        }
        assert_eq!((known(0), known(crate::NEWEST + 1)), (None, None));
    }

    #[test]
    fn events_of_the_one_byte_versions_fit_a_byte() {
        assert!(KNOWN[..4].iter().all(|&bits| bits <= u64::from(u8::MAX)));
    }
}
