//! An event's bytes in each ABI version.

use super::seat::Seat;
use super::types::{Event, Handle, Text};
use core::ffi::c_void;
use nccl_abi::{v1, v2, v3, v4, v5, v6, v7};

/// What undefined bytes are filled with.
pub const POISON: u8 = 0xA5;

/// Bytes of the descriptor of each ABI version.
pub const DESCR_BYTES: [usize; nccl_abi::NEWEST as usize] = [
    size_of::<v1::Descr>(),
    size_of::<v2::Descr>(),
    size_of::<v3::Descr>(),
    size_of::<v4::Descr>(),
    size_of::<v5::Descr>(),
    size_of::<v6::Descr>(),
    size_of::<v7::Descr>(),
];

/// Room for a descriptor of any version.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct Descr(pub [u8; 136]);

/// Writes fields through a raw pointer, so that no byte beside them changes.
macro_rules! put {
    ($at:expr; $($($field:ident).+ = $value:expr),* $(,)?) => {
        // SAFETY: `$at` points to the 136 aligned bytes of a `Descr`, which no version's descriptor exceeds
        // (asserted below), and every field takes plain integers or pointers.
        unsafe { $( (&raw mut (*$at).$($field).+).write($value as _); )* }
    };
}

const _: () = {
    let mut i = 0;
    while i < 7 {
        assert!(DESCR_BYTES[i] <= 136);
        i += 1;
    }
};

/// What v1 to v7 lay out alike.
macro_rules! put_proxy {
    ($at:expr, $event:expr) => {
        match *$event {
            Event::ProxyOp {
                pid,
                channel,
                peer,
                steps,
                chunk,
                send,
            } => {
                put!($at; u.proxy_op.pid = pid, u.proxy_op.channel_id = channel, u.proxy_op.peer = peer,
                    u.proxy_op.n_steps = steps, u.proxy_op.chunk_size = chunk, u.proxy_op.is_send = send)
            }
            Event::ProxyStep { step } => put!($at; u.proxy_step.step = step),
            _ => {}
        }
    };
}

/// What v5 to v7 lay out alike.
macro_rules! put_api {
    ($at:expr, $event:expr) => {
        match *$event {
            Event::Coll(c) => put!($at; u.coll.seq_number = c.seq, u.coll.func = c.func.as_ptr(),
                u.coll.send_buff = c.send, u.coll.recv_buff = c.recv, u.coll.count = c.count,
                u.coll.root = c.root, u.coll.datatype = c.datatype.as_ptr(), u.coll.n_channels = c.channels,
                u.coll.n_warps = c.warps, u.coll.algo = c.algo.as_ptr(), u.coll.proto = c.proto.as_ptr(),
                u.coll.parent_group = c.group.ptr()),
            Event::P2p(p) => put!($at; u.p2p.func = p.func.as_ptr(), u.p2p.buff = p.buff,
                u.p2p.datatype = p.datatype.as_ptr(), u.p2p.count = p.count, u.p2p.peer = p.peer,
                u.p2p.n_channels = p.channels, u.p2p.parent_group = p.group.ptr()),
            Event::KernelCh { channel, stamp } => {
                put!($at; u.kernel_ch.channel_id = channel, u.kernel_ch.p_timer = stamp)
            }
            Event::NetPlugin { id, data } => put!($at; u.net_plugin.id = id, u.net_plugin.data = data),
            Event::GroupApi { captured, depth } => {
                put!($at; u.group_api.graph_captured = captured, u.group_api.group_depth = depth)
            }
            Event::CollApi { func, count, datatype, root, stream, captured, .. } => {
                put!($at; u.coll_api.func = func.as_ptr(), u.coll_api.count = count,
                    u.coll_api.datatype = datatype.as_ptr(), u.coll_api.root = root,
                    u.coll_api.stream = stream, u.coll_api.graph_captured = captured)
            }
            Event::P2pApi { func, count, datatype, stream, captured, .. } => {
                put!($at; u.p2p_api.func = func.as_ptr(), u.p2p_api.count = count,
                    u.p2p_api.datatype = datatype.as_ptr(), u.p2p_api.stream = stream,
                    u.p2p_api.graph_captured = captured)
            }
            Event::KernelLaunch { stream } => put!($at; u.kernel_launch.stream = stream),
            _ => put_proxy!($at, $event),
        }
    };
}

/// What v6 and v7 lay out alike.
macro_rules! put_ce {
    ($at:expr, $event:expr) => {
        match *$event {
            Event::CeColl(c) => put!($at; u.ce_coll.seq_number = c.seq, u.ce_coll.func = c.func.as_ptr(),
                u.ce_coll.send_buff = 0x7f00_0000_0000usize, u.ce_coll.recv_buff = 0x7f10_0000_0000usize,
                u.ce_coll.count = c.count, u.ce_coll.root = c.root, u.ce_coll.datatype = c.datatype.as_ptr(),
                u.ce_coll.sync_strategy = c.strategy.as_ptr(), u.ce_coll.intra_batch_sync = 0,
                u.ce_coll.batch_size = 1, u.ce_coll.num_batches = 1, u.ce_coll.ce_seq_num = c.seq,
                u.ce_coll.stream = c.stream),
            Event::CeSync { complete, ranks } => {
                put!($at; u.ce_coll_sync.is_complete = complete, u.ce_coll_sync.n_ranks = ranks)
            }
            Event::CeBatch { ops, bytes, sync } => put!($at; u.ce_coll_batch.num_ops = ops,
                u.ce_coll_batch.total_bytes = bytes, u.ce_coll_batch.use_intra_sync = sync),
            _ => put_api!($at, $event),
        }
    };
}

/// The number that v1 has in place of a name. A name that it lacks gives the first number, as the shim's
/// table does.
fn number(of: fn(&str) -> Option<u8>, name: Text) -> u8 {
    name.to_str().ok().and_then(of).unwrap_or(0)
}

impl Default for Descr {
    fn default() -> Self {
        Descr([POISON; 136])
    }
}

impl Descr {
    /// Lays out `event` for the plugin in `seat`.
    pub fn encode(&mut self, seat: Seat, event: &Event, parent: Handle, rank: i32) {
        self.0 = [POISON; 136];
        match seat.abi {
            1 => self.v1(seat, event, parent, rank),
            2 | 3 => self.v2_and_v3(seat, event, parent, rank),
            4 => self.v4(seat, event, parent, rank),
            5 => self.v5(event, parent, rank),
            6 => self.v6(event, parent, rank),
            _ => self.v7(event, parent, rank),
        }
    }

    fn v1(&mut self, seat: Seat, event: &Event, parent: Handle, rank: i32) {
        use nccl_abi::names;
        let (name, hash) = seat.identity(event);
        let at = self.0.as_mut_ptr().cast::<v1::Descr>();
        put!(at; type_ = event.bit(), parent_obj = parent.ptr(), rank = rank);
        match *event {
            Event::Coll(c) => {
                let channels = if seat.nameless() {
                    c.channels
                } else {
                    c.max_channels
                };
                put!(at; u.coll.name = name, u.coll.comm_hash = hash, u.coll.seq_number = c.seq,
                u.coll.func = number(names::func_value, c.func), u.coll.send_buff = c.send,
                u.coll.recv_buff = c.recv, u.coll.count = c.count, u.coll.root = c.root,
                u.coll.datatype = number(names::datatype_value, c.datatype), u.coll.op = 0,
                u.coll.traffic_bytes = 0, u.coll.n_max_channels = channels,
                u.coll.n_warps = c.warps, u.coll.algo = number(names::algo_value, c.algo),
                u.coll.proto = number(names::proto_value, c.proto), u.coll.is_collnet = 0, u.coll.is_nvls = 0)
            }
            Event::P2p(p) => put!(at; u.p2p.name = name, u.p2p.comm_hash = hash,
                u.p2p.func = number(names::func_value, p.func), u.p2p.buff = p.buff,
                u.p2p.datatype = number(names::datatype_value, p.datatype), u.p2p.count = p.count,
                u.p2p.peer = p.peer),
            _ => put_proxy!(at, event),
        }
    }

    fn v2_and_v3(&mut self, seat: Seat, event: &Event, parent: Handle, rank: i32) {
        let (name, hash) = seat.identity(event);
        let at = self.0.as_mut_ptr();
        let (two, three) = (at.cast::<v2::Descr>(), at.cast::<v3::Descr>());
        put!(three; type_ = event.bit(), parent_obj = parent.ptr(), rank = rank);
        match *event {
            Event::Coll(c) => {
                let channels = if seat.nameless() {
                    c.channels
                } else {
                    c.max_channels
                };
                put!(three; u.coll.name = name, u.coll.comm_hash = hash, u.coll.seq_number = c.seq,
                    u.coll.func = c.func.as_ptr(), u.coll.send_buff = c.send, u.coll.recv_buff = c.recv,
                    u.coll.count = c.count, u.coll.root = c.root, u.coll.datatype = c.datatype.as_ptr());
                if seat.abi == 2 {
                    put!(two; u.coll.traffic_bytes = 0, u.coll.n_max_channels = channels,
                        u.coll.n_warps = c.warps, u.coll.algo = c.algo.as_ptr(),
                        u.coll.proto = c.proto.as_ptr());
                } else {
                    put!(three; u.coll.n_max_channels = channels, u.coll.n_warps = c.warps,
                        u.coll.algo = c.algo.as_ptr(), u.coll.proto = c.proto.as_ptr());
                }
            }
            Event::P2p(p) => {
                put!(three; u.p2p.name = name, u.p2p.comm_hash = hash, u.p2p.func = p.func.as_ptr(),
                u.p2p.buff = p.buff, u.p2p.datatype = p.datatype.as_ptr(), u.p2p.count = p.count,
                u.p2p.peer = p.peer)
            }
            Event::KernelCh { channel, .. } => {
                put!(three; u.kernel_ch.channel_id = channel)
            }
            Event::NetPlugin { id, data } => {
                put!(three; u.net_plugin.id = id, u.net_plugin.data = data)
            }
            _ => put_proxy!(three, event),
        }
    }

    fn v4(&mut self, seat: Seat, event: &Event, parent: Handle, rank: i32) {
        let at = self.0.as_mut_ptr().cast::<v4::Descr>();
        put!(at; type_ = event.bit(), parent_obj = parent.ptr(), rank = rank);
        match *event {
            Event::Coll(c) => {
                put!(at; u.coll.seq_number = c.seq, u.coll.func = c.func.as_ptr(),
                u.coll.send_buff = c.send, u.coll.recv_buff = c.recv, u.coll.count = c.count,
                u.coll.root = c.root, u.coll.datatype = c.datatype.as_ptr(), u.coll.n_channels = c.channels,
                u.coll.n_warps = c.warps, u.coll.algo = c.algo.as_ptr(), u.coll.proto = c.proto.as_ptr())
            }
            Event::P2p(p) => {
                put!(at; u.p2p.func = p.func.as_ptr(), u.p2p.buff = p.buff,
                    u.p2p.datatype = p.datatype.as_ptr(), u.p2p.count = p.count, u.p2p.peer = p.peer);
                // The shim does not fill in this one field.
                if !seat.shimmed() {
                    put!(at; u.p2p.n_channels = p.channels);
                }
            }
            Event::KernelCh { channel, stamp } => {
                put!(at; u.kernel_ch.channel_id = channel, u.kernel_ch.p_timer = stamp)
            }
            Event::NetPlugin { id, data } => {
                put!(at; u.net_plugin.id = id, u.net_plugin.data = data)
            }
            _ => put_proxy!(at, event),
        }
    }

    fn v5(&mut self, event: &Event, parent: Handle, rank: i32) {
        let at = self.0.as_mut_ptr().cast::<v5::Descr>();
        put!(at; type_ = event.bit(), parent_obj = parent.ptr(), rank = rank);
        put_api!(at, event);
    }

    fn v6(&mut self, event: &Event, parent: Handle, rank: i32) {
        let at = self.0.as_mut_ptr().cast::<v6::Descr>();
        put!(at; type_ = event.bit(), parent_obj = parent.ptr(), rank = rank);
        put_ce!(at, event);
    }

    fn v7(&mut self, event: &Event, parent: Handle, rank: i32) {
        let at = self.0.as_mut_ptr().cast::<v7::Descr>();
        put!(at; type_ = event.bit(), parent_obj = parent.ptr(), rank = rank);
        put_ce!(at, event);
        match *event {
            Event::Coll(c) => {
                put!(at; u.coll.kernel_variant = c.variant.map_or(std::ptr::null(), |v| v.as_ptr()),
                u.coll.is_sym_coll = c.variant.is_some(), u.coll.user_tag = c.tag)
            }
            Event::P2p(p) => put!(at; u.p2p.user_tag = p.tag),
            Event::CollApi { tag, .. } => put!(at; u.coll_api.user_tag = tag),
            Event::P2pApi { tag, .. } => put!(at; u.p2p_api.user_tag = tag),
            Event::CeColl(c) => put!(at; u.ce_coll.user_tag = c.tag),
            Event::KernelPhase {
                channel,
                phase,
                name,
                stamp,
            } => put!(at; u.kernel_phase.channel_id = channel,
                u.kernel_phase.phase_id = phase, u.kernel_phase.phase_name = name.as_ptr(),
                u.kernel_phase.p_timer = stamp),
            _ => {}
        }
    }

    /// As the plugin's `startEvent` takes it.
    pub fn ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::P2p;

    fn seat(abi: u8) -> Seat {
        Seat {
            abi,
            native: abi,
            version: 0,
        }
    }

    #[test]
    fn bytes_that_the_event_does_not_define_stay_poison() {
        let mut descr = Descr::default();
        for abi in 1..=nccl_abi::NEWEST {
            descr.encode(seat(abi), &Event::Group, Handle(1), 0);
            let width = if abi < 5 { 1 } else { 8 };
            assert!(descr.0[width..8].iter().all(|b| *b == POISON), "v{abi}");
            assert!(descr.0[20..].iter().all(|b| *b == POISON), "v{abi}");
            descr.encode(seat(abi), &Event::ProxyStep { step: 7 }, Handle(1), 0);
            assert_eq!(descr.0[24..28], [7, 0, 0, 0]);
            assert!(descr.0[28..].iter().all(|b| *b == POISON), "v{abi}");
        }
    }

    #[test]
    fn send_behind_the_v4_shim_lacks_its_channels() {
        let send = Event::P2p(P2p {
            comm_name: std::ptr::null(),
            comm_hash: 0,
            func: c"Send",
            buff: 0,
            datatype: c"ncclInt8",
            count: 8,
            peer: 1,
            channels: 2,
            group: Handle::NULL,
            tag: 0,
        });
        let mut descr = Descr::default();
        descr.encode(seat(4), &send, Handle::NULL, 0);
        assert_eq!(descr.0[60], 2);
        let behind = Seat {
            abi: 4,
            native: 5,
            version: 22809,
        };
        descr.encode(behind, &send, Handle::NULL, 0);
        assert_eq!(descr.0[60], POISON);
    }
}
