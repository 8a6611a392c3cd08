//! Lines 11 to 17: what is read of a descriptor, and what is not.

use crate::comm::{one_of_each, Comm, ABIS, REDUCE, SEND};
use crate::playing::{at, checked, played};
use crate::reading::{announced, calls, complete, odd, process};
use capture::live::Odd;
use fake_nccl::event::{Coll, Descr, Event, Handle, P2p, POISON};
use fake_nccl::plugin::MISDEEDS;
use nccl_abi::{event, state};
use std::sync::atomic::Ordering::*;

#[test]
#[ignore = "played by lines 11 to 13"]
fn job_line_11() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        let send = P2p {
            func: c"Send",
            ..SEND
        };
        comm.coll(Coll { seq: 41, ..REDUCE });
        comm.p2p(send);
        comm.finalize();
    }
}

#[test]
fn line_11_every_field_arrives_at_every_version() {
    // The offsets themselves are asserted when nccl-abi is compiled; this is what became of the bytes behind
    // them.
    let mut job = job!(job_line_11).env("NCCLSCOPE_MODE", "full");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 14);
    let text = |name| capture.names.get(name).unwrap_or("-");
    let p = process(&capture);
    for (abi, ((call, coll), (_, p2p))) in ABIS.zip(
        calls(&capture, "Reduce")
            .into_iter()
            .zip(calls(&capture, "Send")),
    ) {
        assert_eq!(
            [coll.datatype, coll.algorithm, coll.protocol, p2p.datatype].map(text),
            ["ncclFloat16", "TREE", "LL128", "ncclInt64"],
            "v{abi}"
        );
        assert_eq!(
            (coll.count, coll.root, call.seq, coll.nwarps),
            (1000, Some(3), 42, 7),
            "v{abi}"
        );
        assert_eq!((p2p.count, p2p.peer), (77, Some(9)), "v{abi}");
        let channels = if abi < 4 { 0 } else { 4 };
        assert_eq!(coll.nchannels, channels, "v{abi}");
        let comm = p
            .communicators
            .iter()
            .find(|c| c.uid == coll.uid)
            .expect("there");
        assert_eq!(
            (comm.abi, comm.hash, comm.rank),
            (abi.into(), abi.into(), Some(5)),
            "v{abi}"
        );
        let extra = &p.extras[call.extra as usize - 1];
        assert_eq!(
            (extra.send_buffer, extra.recv_buffer),
            (0x5e5e, 0xdede),
            "v{abi}"
        );
        let stream = if abi < 5 { 0 } else { 0x57 };
        assert_eq!((coll.stream, p2p.stream), (stream, stream), "v{abi}");
    }
    assert_eq!(calls(&capture, "Reduce").len(), 7);
}

#[test]
#[ignore = "played by line 12"]
fn job_line_12() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 0);
        let announcing = if abi < 5 {
            Event::Coll(Coll {
                comm_hash: u64::from(abi),
                ..REDUCE
            })
        } else {
            Event::CollApi {
                func: c"Reduce",
                count: 1,
                datatype: c"ncclInt8",
                root: 0,
                stream: 0,
                captured: false,
                tag: 0,
            }
        };
        let mut descr = Descr::default();
        descr.encode(comm.table.seat, &announcing, Handle::NULL, 0);
        if abi < 5 {
            assert_eq!(
                descr.0[1..8],
                [POISON; 7],
                "v{abi}: the rest of the word is garbage"
            );
        } else {
            assert_eq!(descr.0[..8], event::COLL_API.to_le_bytes(), "v{abi}");
        }
        let mut handle = Handle::GARBAGE;
        comm.table.start_raw(comm.context, &mut handle, &mut descr);
        if abi >= 5 {
            // Read as eight bytes, this is a type that no ABI has.
            descr.0[7] = 1;
            comm.table.start_raw(comm.context, &mut handle, &mut descr);
        }
        comm.finalize();
    }
}

#[test]
fn line_12_type_is_one_byte_up_to_v4_and_eight_from_v5_on() {
    let mut job = job!(job_line_12);
    assert!(job.run().success());
    let capture = job.capture();
    assert_eq!(announced(process(&capture)), 7);
    assert_eq!(odd(process(&capture), Odd::UnknownType), 3);
}

#[test]
#[ignore = "played by line 13"]
fn job_line_13() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        let coll = Coll {
            comm_hash: u64::from(abi),
            ..REDUCE
        };
        for garbage in [POISON, 0, 0xff] {
            let send = |event: Event, parent: Handle| {
                let mut descr = Descr([garbage; 136]);
                descr.encode(comm.table.seat, &event, parent, 5);
                let mut handle = Handle::GARBAGE;
                comm.table.start_raw(comm.context, &mut handle, &mut descr);
                comm.table.stop(handle);
                handle
            };
            let group = if abi < 5 {
                Handle::NULL
            } else {
                send(
                    Event::GroupApi {
                        captured: false,
                        depth: 1,
                    },
                    Handle::NULL,
                )
            };
            let api = if abi < 5 {
                Handle::NULL
            } else {
                let (func, datatype, count, root) =
                    (coll.func, coll.datatype, coll.count, coll.root);
                send(
                    Event::CollApi {
                        func,
                        count,
                        datatype,
                        root,
                        stream: 1,
                        captured: false,
                        tag: 0,
                    },
                    group,
                )
            };
            let task = send(Event::Coll(coll), api);
            send(
                Event::ProxyOp {
                    pid: std::process::id() as i32,
                    channel: 0,
                    peer: 1,
                    steps: 1,
                    chunk: 1,
                    send: true,
                },
                task,
            );
        }
        comm.finalize();
    }
}

#[test]
fn line_13_bytes_that_the_type_does_not_define_are_not_read() {
    let mut job = job!(job_line_13);
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 21);
    let p = process(&capture);
    for comm in &p.communicators {
        let of_comm = p
            .calls
            .iter()
            .filter(|c| p.shapes[c.shape as usize].uid == comm.uid);
        // Three descriptors that differ in their garbage only make calls of one shape.
        let shapes: Vec<u32> = of_comm.clone().map(|c| c.shape).collect();
        assert_eq!(shapes.len(), 3);
        assert!(
            shapes.iter().all(|s| *s == shapes[0]),
            "v{}: {:#?}",
            comm.abi,
            p.shapes
        );
        assert!(of_comm
            .map(|c| c.extra)
            .all(|e| p.extras[e as usize - 1].ops_started == 1));
    }
    checked("every_byte");
}

#[test]
#[ignore = "played by lines 14 and 15"]
fn job_line_14() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        let (api, coll) = comm.coll(REDUCE);
        let bits: &[u64] = if abi < 5 {
            &[0, 0x80, 0xff]
        } else {
            &[0, 1 << 16, 1 << 40, u64::MAX]
        };
        for bit in bits {
            let handle = comm.start(&Event::Unknown(*bit), coll);
            comm.table.stop(handle);
        }
        if abi >= 3 {
            for id in [0, -1, i64::MAX, 0x7fff_0001] {
                let handle = comm.start(&Event::NetPlugin { id, data: 8 }, coll);
                comm.table.state_raw(handle, state::NET_PLUGIN_UPDATE, None);
                comm.table.stop(handle);
            }
        }
        let mut handles = vec![api, coll, Handle::NULL];
        handles.extend(
            one_of_each(abi)
                .iter()
                .filter(|e| e.bit() & (event::COLL | event::P2P) == 0)
                .map(|e| comm.start(e, coll)),
        );
        for handle in handles {
            for number in (0..64).chain([255, 256, 0x8000_0000, u32::MAX]) {
                comm.table.state_raw(handle, number, None);
            }
        }
        comm.finalize();
    }
    assert_eq!(
        (
            MISDEEDS.errors.load(Relaxed),
            MISDEEDS.unwritten.load(Relaxed)
        ),
        (0, 0)
    );
}

#[test]
fn lines_14_and_15_unknown_types_states_and_null_arguments_are_ignored() {
    let mut job = job!(job_line_14)
        .env("NCCLSCOPE_MODE", "full")
        .env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 7);
    // 0x80 is NetPlugin from v3 on.
    assert_eq!(odd(p, Odd::UnknownType), 2 * 3 + 2 * 2 + 3 * 4);
    assert!(odd(p, Odd::UnknownState) > 7 * 32);
    // A state without arguments tells no stamp and moves no byte.
    assert!(p.calls.iter().all(|c| c.gpu.stop().is_none()));
    for call in &p.calls {
        let moved = p
            .extras
            .get((call.extra as usize).wrapping_sub(1))
            .map(|e| (e.bytes_sent, e.bytes_received));
        assert!(matches!(moved, None | Some((0, 0))), "{moved:?}");
    }
    for item in ["unknown_type", "unknown_state", "null_args", "net_plugin"] {
        checked(item);
    }
}

#[test]
#[ignore = "played by line 16"]
fn job_line_16() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        for text in [c"", c"Unknown", c"Invalid"] {
            comm.coll(Coll {
                func: text,
                datatype: text,
                algo: text,
                proto: text,
                ..REDUCE
            });
            comm.p2p(P2p {
                func: text,
                datatype: text,
                ..SEND
            });
        }
        comm.finalize();
    }
}

#[test]
fn line_16_null_and_empty_texts_are_taken() {
    let mut job = job!(job_line_16);
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 7 * 6);
    // v1 has numbers for names; from v2 on there are no names behind the empty texts, and each other text is
    // kept.
    let p = process(&capture);
    let named = |text: Option<&str>| {
        p.calls
            .iter()
            .filter(|c| capture.names.get(p.shapes[c.shape as usize].datatype) == text)
            .count()
    };
    assert_eq!((named(Some("Unknown")), named(Some("Invalid"))), (12, 12));
    checked("null_strings");
    checked("odd_strings");
}

#[test]
fn line_17_the_garbage_channels_of_the_v4_shim_are_not_believed() {
    let script = "ranks 2\nrepeat 20 { group { send 1MiB to=+1 ; recv 1MiB from=-1 } }";
    let options = fake_nccl::Options {
        highest_abi: 4,
        ..at(5)
    };
    let (outcome, capture) = played(script, &[("NCCLSCOPE_TIMING", "stamps")], options);
    assert_eq!(outcome.abi, Ok(4));
    complete(&capture, 80);
    for (call, shape) in calls(&capture, "Send")
        .into_iter()
        .chain(calls(&capture, "Recv"))
    {
        assert_eq!(shape.nchannels, 0);
        // Sealed in order, not given up on: the stamps that came are all there are.
        assert!(
            call.sealed
                && call.channels_stopped > 0
                && call.channels_stopped == call.channels_started
        );
    }
}
