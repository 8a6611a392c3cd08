//! The fields of callbacks: what a descriptor, the arguments of a state, or an init says.
//!
//! Fields keep their names of `nccl-abi`, but for the process of a ProxyOp, which is `origin_pid`. Pointers
//! and masks are hex strings, because JSON numbers lose bits; strings are the text that the pointer led to.
//!
//! Rule: only fields that the event and the ABI version define are there, at the offsets that `nccl-abi`
//! asserts. A field that a record is too short for is null.

use capture::callback::{Callback, EntryPoint};
use nccl_abi::{event, names, state, v1, v2, v3, v4, v5, v6, v7};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::mem::offset_of;
use tables::events;

/// Texts by the pointers that led to them.
pub(crate) type Texts = HashMap<u64, String>;

/// The fields of a callback: of an init what it told, of a start its descriptor, of a state its arguments.
pub(crate) fn of(callback: &Callback<'_>, texts: &Texts) -> Map<String, Value> {
    let mut fields = Fields {
        object: Map::new(),
        bytes: callback.payload,
        texts,
    };
    match callback.what {
        EntryPoint::Init => fields.init(),
        EntryPoint::Start => fields.start(callback),
        EntryPoint::State => fields.state(callback),
        _ => {}
    }
    fields.object
}

/// A word as hex; nothing for 0.
pub(crate) fn hex(value: u64) -> Value {
    if value == 0 {
        Value::Null
    } else {
        Value::String(format!("{value:#x}"))
    }
}

/// An object being filled from a payload.
struct Fields<'a> {
    object: Map<String, Value>,
    bytes: &'a [u8],
    texts: &'a Texts,
}

/// Appends fields of a union member of a version's descriptor: `name kind`.
macro_rules! member {
    ($fields:ident, $v:ident, $member:ident: $($field:ident $kind:ident),* $(,)?) => {
        { $($fields.$kind(stringify!($field), offset_of!($v::Descr, u.$member.$field));)* }
    };
}

/// The same for several versions, by the ABI number.
macro_rules! versions {
    ($fields:ident, $abi:expr;
     $($v:ident $number:pat => $member:ident: $($field:ident $kind:ident),* ;)*) => {
        match $abi {
            $($number => member!($fields, $v, $member: $($field $kind),*),)*
            _ => {}
        }
    };
}

impl Fields<'_> {
    fn put(&mut self, name: &str, value: Value) {
        self.object.insert(name.to_owned(), value);
    }

    fn at<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.bytes.get(offset..offset + N)?.try_into().ok()
    }

    fn word(&self, offset: usize) -> Option<u64> {
        self.at(offset).map(u64::from_le_bytes)
    }

    fn uint64(&mut self, name: &str, offset: usize) {
        self.put(name, self.word(offset).into());
    }

    fn int64(&mut self, name: &str, offset: usize) {
        self.put(name, self.at(offset).map(i64::from_le_bytes).into());
    }

    fn uint32(&mut self, name: &str, offset: usize) {
        self.put(name, self.at(offset).map(u32::from_le_bytes).into());
    }

    fn int32(&mut self, name: &str, offset: usize) {
        self.put(name, self.at(offset).map(i32::from_le_bytes).into());
    }

    fn uint8(&mut self, name: &str, offset: usize) {
        self.put(name, self.at::<1>(offset).map(|b| b[0]).into());
    }

    fn flag(&mut self, name: &str, offset: usize) {
        self.put(name, self.at::<1>(offset).map(|b| b[0] != 0).into());
    }

    fn pointer(&mut self, name: &str, offset: usize) {
        self.put(name, self.word(offset).map_or(Value::Null, hex));
    }

    fn hash(&mut self, name: &str, offset: usize) {
        self.put(
            name,
            self.word(offset)
                .map_or(Value::Null, |h| format!("{h:016x}").into()),
        );
    }

    /// The text behind a pointer; the pointer itself when its text was not recorded.
    fn text(&mut self, name: &str, offset: usize) {
        let value =
            self.word(offset)
                .map_or(Value::Null, |pointer| match self.texts.get(&pointer) {
                    Some(text) => text.as_str().into(),
                    None => hex(pointer),
                });
        self.put(name, value);
    }

    /// ABI v1 has numbers where later ones have strings; the number stays where it has no name.
    fn number(&mut self, name: &str, offset: usize, to_name: fn(u8) -> Option<&'static str>) {
        let value = self
            .at::<1>(offset)
            .map_or(Value::Null, |[n]| to_name(n).map_or(n.into(), Value::from));
        self.put(name, value);
    }

    fn func(&mut self, name: &str, offset: usize) {
        self.number(name, offset, names::func);
    }

    fn datatype(&mut self, name: &str, offset: usize) {
        self.number(name, offset, names::datatype);
    }

    fn algo(&mut self, name: &str, offset: usize) {
        self.number(name, offset, names::algo);
    }

    fn proto(&mut self, name: &str, offset: usize) {
        self.number(name, offset, names::proto);
    }

    fn init(&mut self) {
        self.hash("comm_id", 0);
        self.int32("n_nodes", 8);
        self.int32("n_ranks", 12);
        self.int32("rank", 16);
        self.put(
            "mask",
            self.at(20)
                .map(i32::from_le_bytes)
                .map_or(Value::Null, |m| format!("{m:#x}").into()),
        );
        let name = self.bytes.get(24..).unwrap_or(&[]);
        let name = String::from_utf8_lossy(name)
            .trim_end_matches('\0')
            .to_owned();
        self.put(
            "name",
            if name.is_empty() {
                Value::Null
            } else {
                name.into()
            },
        );
    }

    fn state(&mut self, callback: &Callback<'_>) {
        if callback.payload.is_empty() {
            return;
        }
        let number = u32::try_from(callback.result).ok();
        match (callback.abi, number) {
            (_, Some(state::PROXY_CTRL_APPEND_END)) => {
                self.int32(
                    "appended_proxy_ops",
                    offset_of!(v1::StateArgs, proxy_ctrl.appended_proxy_ops),
                );
            }
            (1..=3, Some(state::PROXY_OP_SEND_POSTED..=state::PROXY_OP_RECV_DONE)) => {
                self.uint64("trans_size", offset_of!(v1::StateArgs, proxy_op.trans_size));
                self.int32("steps", offset_of!(v1::StateArgs, proxy_op.steps));
            }
            (
                4..,
                Some(
                    state::PROXY_STEP_SEND_GPU_WAIT..=state::PROXY_STEP_RECV_GPU_WAIT
                    | state::PROXY_STEP_SEND_PEER_WAIT,
                ),
            ) => {
                self.uint64(
                    "trans_size",
                    offset_of!(v4::StateArgs, proxy_step.trans_size),
                );
            }
            (4.., Some(state::NET_PLUGIN_UPDATE)) => {
                self.pointer("data", offset_of!(v4::StateArgs, net_plugin.data))
            }
            (4.., Some(state::KERNEL_CH_STOP | state::KERNEL_PHASE_STOP)) => {
                self.uint64("p_timer", offset_of!(v4::StateArgs, kernel_ch.p_timer));
            }
            _ => {}
        }
    }

    fn start(&mut self, callback: &Callback<'_>) {
        let abi = callback.abi;
        let kind = events::kind(callback);
        // The same place in every version.
        self.int32("rank", offset_of!(v7::Descr, rank));
        let f = self;
        match kind {
            event::COLL => versions! { f, abi;
                v1 1 => coll: name text, comm_hash hash, seq_number uint64, func func, send_buff pointer,
                    recv_buff pointer, count uint64, root int32, datatype datatype, op uint32,
                    traffic_bytes uint64, n_max_channels uint8, n_warps uint8, algo algo, proto proto,
                    is_collnet int32, is_nvls int32;
                v2 2 => coll: name text, comm_hash hash, seq_number uint64, func text, send_buff pointer,
                    recv_buff pointer, count uint64, root int32, datatype text, traffic_bytes uint64,
                    n_max_channels uint8, n_warps uint8, algo text, proto text;
                v3 3 => coll: name text, comm_hash hash, seq_number uint64, func text, send_buff pointer,
                    recv_buff pointer, count uint64, root int32, datatype text, n_max_channels uint8,
                    n_warps uint8, algo text, proto text;
                v4 4 => coll: seq_number uint64, func text, send_buff pointer, recv_buff pointer,
                    count uint64, root int32, datatype text, n_channels uint8, n_warps uint8, algo text,
                    proto text;
                v5 5 | 6 => coll: seq_number uint64, func text, send_buff pointer, recv_buff pointer,
                    count uint64, root int32, datatype text, n_channels uint8, n_warps uint8, algo text,
                    proto text, parent_group pointer;
                v7 7 => coll: seq_number uint64, func text, send_buff pointer, recv_buff pointer,
                    count uint64, root int32, datatype text, n_channels uint8, n_warps uint8, algo text,
                    proto text, parent_group pointer, kernel_variant text, is_sym_coll flag, user_tag uint64;
            },
            event::P2P => versions! { f, abi;
                v1 1 => p2p: name text, comm_hash hash, func func, buff pointer, datatype datatype,
                    count uint64, peer int32;
                v2 2 | 3 => p2p: name text, comm_hash hash, func text, buff pointer, datatype text,
                    count uint64, peer int32;
                v4 4 => p2p: func text, buff pointer, datatype text, count uint64, peer int32,
                    n_channels uint8;
                v5 5 | 6 => p2p: func text, buff pointer, datatype text, count uint64, peer int32,
                    n_channels uint8, parent_group pointer;
                v7 7 => p2p: func text, buff pointer, datatype text, count uint64, peer int32,
                    n_channels uint8, parent_group pointer, user_tag uint64;
            },
            event::PROXY_OP => {
                // The line has a pid of its own: that of the process that called.
                f.int32("origin_pid", offset_of!(v1::Descr, u.proxy_op.pid));
                member!(f, v1, proxy_op: channel_id uint8, peer int32, n_steps int32, chunk_size int32,
                is_send int32)
            }
            event::PROXY_STEP => member!(f, v1, proxy_step: step int32),
            event::KERNEL_CH => versions! { f, abi;
                v3 3 => kernel_ch: channel_id uint8;
                v4 4.. => kernel_ch: channel_id uint8, p_timer uint64;
            },
            event::NET_PLUGIN => member!(f, v3, net_plugin: id int64, data pointer),
            event::GROUP_API => member!(f, v5, group_api: graph_captured flag, group_depth int32),
            event::COLL_API => versions! { f, abi;
                v5 5 | 6 => coll_api: func text, count uint64, datatype text, root int32, stream pointer,
                    graph_captured flag;
                v7 7 => coll_api: func text, count uint64, datatype text, root int32, stream pointer,
                    graph_captured flag, user_tag uint64;
            },
            event::P2P_API => versions! { f, abi;
                v5 5 | 6 => p2p_api: func text, count uint64, datatype text, stream pointer,
                    graph_captured flag;
                v7 7 => p2p_api: func text, count uint64, datatype text, stream pointer, graph_captured flag,
                    user_tag uint64;
            },
            event::KERNEL_LAUNCH => member!(f, v5, kernel_launch: stream pointer),
            event::CE_COLL => versions! { f, abi;
                v6 6 => ce_coll: seq_number uint64, func text, send_buff pointer, recv_buff pointer,
                    count uint64, root int32, datatype text, sync_strategy text, intra_batch_sync flag,
                    batch_size uint32, num_batches uint32, ce_seq_num uint32, stream pointer;
                v7 7 => ce_coll: seq_number uint64, func text, send_buff pointer, recv_buff pointer,
                    count uint64, root int32, datatype text, sync_strategy text, intra_batch_sync flag,
                    batch_size uint32, num_batches uint32, ce_seq_num uint32, stream pointer, user_tag uint64;
            },
            event::CE_SYNC => member!(f, v6, ce_coll_sync: is_complete flag, n_ranks int32),
            event::CE_BATCH => {
                member!(f, v6, ce_coll_batch: num_ops int32, total_bytes uint64, use_intra_sync flag)
            }
            event::KERNEL_PHASE => {
                member!(f, v7, kernel_phase: channel_id uint8, phase_id uint8, phase_name text,
                p_timer uint64)
            }
            _ => {}
        }
    }
}
