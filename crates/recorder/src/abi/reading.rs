//! Descriptors read as events: what several versions share.

/// The events that are the same in all versions.
macro_rules! proxy_events {
    ($d:ident, $kind:expr) => {
        match $kind {
            event::GROUP => Event::Group,
            event::PROXY_OP => {
                let op = &raw const (*$d).u.proxy_op;
                Event::ProxyOp {
                    pid: (*op).pid,
                    channel: (*op).channel_id,
                    send: (*op).is_send != 0,
                    peer: (*op).peer,
                    steps: (*op).n_steps,
                }
            }
            event::PROXY_STEP => Event::ProxyStep {
                number: (*$d).u.proxy_step.step,
            },
            event::PROXY_CTRL => Event::Ignored,
            _ => Event::Unknown,
        }
    };
}

/// A name that NCCL passes as text.
macro_rules! text {
    ($field:expr) => {
        RawName::Text($field)
    };
}

/// Coll of v2 to v6. The caller gives what some of these versions lack.
macro_rules! coll_task {
    ($c:ident, hash: $hash:expr, rank: $rank:expr, channels: $channels:expr) => {
        Event::Task(Task {
            legacy: This::VERSION < 5,
            p2p: false,
            func: text!((*$c).func),
            datatype: text!((*$c).datatype),
            count: (*$c).count as u64,
            root: (*$c).root,
            hash: $hash,
            rank: $rank,
            sequence: Some((*$c).seq_number),
            algorithm: text!((*$c).algo),
            protocol: text!((*$c).proto),
            variant: RawName::Known(0),
            nchannels: $channels,
            nwarps: (*$c).n_warps,
            symmetric: false,
            user_tag: 0,
            peer: None,
            buffers: [(*$c).send_buff as u64, (*$c).recv_buff as u64],
        })
    };
}

/// P2p from v2 on, likewise.
macro_rules! p2p_task {
    ($p:ident, hash: $hash:expr, rank: $rank:expr, channels: $channels:expr, tag: $tag:expr) => {
        Event::Task(Task {
            legacy: This::VERSION < 5,
            p2p: true,
            func: text!((*$p).func),
            datatype: text!((*$p).datatype),
            count: (*$p).count as u64,
            root: -1,
            hash: $hash,
            rank: $rank,
            sequence: None,
            algorithm: RawName::Known(0),
            protocol: RawName::Known(0),
            variant: RawName::Known(0),
            nchannels: $channels,
            nwarps: 0,
            symmetric: false,
            user_tag: $tag,
            peer: u32::try_from((*$p).peer).ok(),
            buffers: [(*$p).buff as u64; 2],
        })
    };
}

/// The events that v5, v6 and v7 share. `$tag` is the userTag of a member, if the version has one.
macro_rules! api_events {
    ($d:ident, $kind:expr, $member:ident => $tag:expr) => {
        match $kind {
            event::GROUP_API => {
                let g = &raw const (*$d).u.group_api;
                Event::GroupApi { captured: (*g).graph_captured != 0, depth: (*g).group_depth }
            }
            event::COLL_API => {
                let $member = &raw const (*$d).u.coll_api;
                Event::Api(Api {
                    p2p: false,
                    func: text!((*$member).func),
                    datatype: text!((*$member).datatype),
                    count: (*$member).count as u64,
                    root: (*$member).root,
                    stream: (*$member).stream as u64,
                    captured: (*$member).graph_captured != 0,
                    user_tag: $tag,
                })
            }
            event::P2P_API => {
                let $member = &raw const (*$d).u.p2p_api;
                Event::Api(Api {
                    p2p: true,
                    func: text!((*$member).func),
                    datatype: text!((*$member).datatype),
                    count: (*$member).count as u64,
                    root: -1,
                    stream: (*$member).stream as u64,
                    captured: (*$member).graph_captured != 0,
                    user_tag: $tag,
                })
            }
            event::P2P => {
                let $member = &raw const (*$d).u.p2p;
                p2p_task!($member, hash: 0, rank: (*$d).rank, channels: (*$member).n_channels, tag: $tag)
            }
            event::KERNEL_LAUNCH => {
                let launch = &raw const (*$d).u.kernel_launch;
                Event::KernelLaunch { stream: (*launch).stream as u64 }
            }
            event::KERNEL_CH => {
                let k = &raw const (*$d).u.kernel_ch;
                Event::KernelCh { channel: (*k).channel_id, stamp: capture::rows::GpuTime((*k).p_timer) }
            }
            event::NET_PLUGIN => Event::Ignored,
            _ => proxy_events!($d, $kind),
        }
    };
}

/// A collective of the copy engines, from v6 on.
macro_rules! ce_event {
    ($d:ident, $c:ident => $tag:expr) => {{
        let $c = &raw const (*$d).u.ce_coll;
        Event::CeColl {
            sequence: (*$c).seq_number,
            batches: (*$c).num_batches,
            buffers: [(*$c).send_buff as u64, (*$c).recv_buff as u64],
            user_tag: $tag,
        }
    }};
}
