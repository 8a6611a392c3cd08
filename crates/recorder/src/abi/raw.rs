//! The bytes of a descriptor that its event's type defines, and its texts: what several versions share.

/// Bytes of a descriptor up to the end of a union member.
macro_rules! upto {
    ($d:ident, $member:ident) => {{
        let end = (&raw const (*$d).u.$member).add(1) as usize;
        std::ptr::slice_from_raw_parts($d.cast::<u8>(), end - $d as usize)
    }};
}

/// The bytes before the union: all that an unknown type defines.
macro_rules! header_only {
    ($d:ident) => {
        std::ptr::slice_from_raw_parts($d.cast::<u8>(), 24)
    };
}

/// The texts and bytes of a Coll.
macro_rules! text_coll {
    ($d:ident, $text:ident) => {{
        let c = &raw const (*$d).u.coll;
        [(*c).func, (*c).datatype, (*c).algo, (*c).proto]
            .into_iter()
            .for_each(&mut *$text);
        upto!($d, coll)
    }};
}

/// The texts and bytes of a P2p.
macro_rules! text_p2p {
    ($d:ident, $text:ident) => {{
        let p = &raw const (*$d).u.p2p;
        [(*p).func, (*p).datatype].into_iter().for_each(&mut *$text);
        upto!($d, p2p)
    }};
}

/// The texts and bytes of what v5, v6 and v7 share.
macro_rules! text_api {
    ($d:ident, $text:ident, $kind:expr) => {
        match $kind {
            event::COLL => text_coll!($d, $text),
            event::P2P => text_p2p!($d, $text),
            event::COLL_API => {
                let c = &raw const (*$d).u.coll_api;
                [(*c).func, (*c).datatype].into_iter().for_each(&mut *$text);
                upto!($d, coll_api)
            }
            event::P2P_API => {
                let p = &raw const (*$d).u.p2p_api;
                [(*p).func, (*p).datatype].into_iter().for_each(&mut *$text);
                upto!($d, p2p_api)
            }
            event::GROUP_API => upto!($d, group_api),
            event::KERNEL_LAUNCH => upto!($d, kernel_launch),
            event::PROXY_OP => upto!($d, proxy_op),
            event::PROXY_STEP => upto!($d, proxy_step),
            event::KERNEL_CH => upto!($d, kernel_ch),
            event::NET_PLUGIN => upto!($d, net_plugin),
            _ => header_only!($d),
        }
    };
}

/// The texts and bytes of a collective of the copy engines.
macro_rules! text_ce {
    ($d:ident, $text:ident) => {{
        let c = &raw const (*$d).u.ce_coll;
        [(*c).func, (*c).datatype, (*c).sync_strategy]
            .into_iter()
            .for_each(&mut *$text);
        upto!($d, ce_coll)
    }};
}
