//! A hand-made `callbacks` capture is replayed: same calls, mapped handles, own texts.

use crate::common::{log_plugin, program, Log};
use capture::block::{self, BlockKind};
use capture::callback::{record_bytes, Callback, EntryPoint};
use capture::rows::Ticks;
use fake_nccl::event::{Descr, Event, Handle, Seat};
use fake_nccl::{replay::replay, Options};
use std::path::Path;

struct Recording {
    bytes: Vec<u8>,
    abi: u8,
}

impl Recording {
    fn add(&mut self, what: EntryPoint, thread: u32, subject: u64, result: u64, payload: &[u8]) {
        let ticks = Ticks(self.bytes.len() as u64);
        let record = Callback {
            what,
            abi: self.abi,
            thread,
            ticks,
            subject,
            result,
            payload,
        };
        let start = self.bytes.len();
        self.bytes.extend(record.header());
        self.bytes.extend(payload);
        self.bytes.resize(start + record_bytes(payload.len()), 0);
    }

    fn init(&mut self, context: u64, rank: i32) {
        let mut payload = 0xfeed_u64.to_le_bytes().to_vec();
        for value in [1, 2, rank, 0xfff] {
            payload.extend(i32::to_le_bytes(value));
        }
        payload.extend(b"dp");
        self.add(EntryPoint::Init, 0, 0, context, &payload);
    }

    fn start(&mut self, thread: u32, context: u64, handle: u64, parent: u64, event: &Event) {
        let mut descr = Descr::default();
        let seat = Seat {
            abi: self.abi,
            native: self.abi,
            version: 22809,
        };
        descr.encode(seat, event, Handle(parent as usize), 0);
        let used = if matches!(event, Event::KernelCh { .. }) {
            40
        } else {
            112
        };
        self.add(EntryPoint::Start, thread, context, handle, &descr.0[..used]);
    }

    fn write(&self, path: &Path, rank: u32) {
        let mut out = block::file_header(1).to_vec();
        let at = block::begin(&mut out);
        out.extend(
            format!("rank={rank}\nworld_size=2\nlocal_rank={rank}\npid=4242\nnccl=2.28.9\n")
                .bytes(),
        );
        block::finish(&mut out, at, BlockKind::Process, 0);
        let at = block::begin(&mut out);
        out.extend(&self.bytes);
        block::finish(&mut out, at, BlockKind::Callbacks, 1);
        if path.extension().is_some_and(|e| e == "zst") {
            out = zstd::encode_all(&out[..], 3).unwrap();
        }
        std::fs::write(path, out).unwrap();
    }
}

/// One captured AllReduce with a replay, and an eager one; texts are at addresses that mean nothing here.
fn recording(rank: i32) -> Recording {
    let mut r = Recording {
        bytes: Vec::new(),
        abi: 5,
    };
    let (func, datatype) = (c"AllReduce", c"ncclFloat32");
    let api = |captured| Event::CollApi {
        func,
        count: 256,
        datatype,
        root: 0,
        stream: 7,
        captured,
        tag: 0,
    };
    for text in [func, datatype] {
        r.add(
            EntryPoint::Text,
            0,
            text.as_ptr() as u64,
            0,
            text.to_bytes(),
        );
    }
    r.init(0x7000, rank);
    for (handle, captured) in [(0x7001, false), (0x7002, true)] {
        r.start(0, 0x7000, handle, 0, &api(captured));
        r.add(EntryPoint::Stop, 0, handle, 0, &[]);
    }
    for (thread, handle, parent) in [
        (0, 0x7003, 0x7001),
        (1, 0x7004, 0x7002),
        (1, 0x7005, 0x7002),
    ] {
        r.start(
            thread,
            0x7000,
            handle,
            parent,
            &Event::KernelLaunch { stream: 7 },
        );
        r.add(EntryPoint::Stop, thread, handle, 0, &[]);
        let coll = Event::Coll(fake_nccl::event::Coll {
            comm_name: std::ptr::null(),
            comm_hash: 0,
            seq: 0,
            func,
            send: 1,
            recv: 2,
            count: 256,
            root: 0,
            datatype,
            channels: 1,
            max_channels: 1,
            warps: 1,
            algo: func,
            proto: datatype,
            group: Handle(0x7003),
            variant: None,
            tag: 0,
        });
        r.start(thread, 0x7000, handle + 0x100, parent, &coll);
        r.add(EntryPoint::Stop, thread, handle + 0x100, 0, &[]);
        r.start(
            2,
            0x7000,
            handle + 0x200,
            handle + 0x100,
            &Event::KernelCh {
                channel: 3,
                stamp: 64,
            },
        );
        r.add(
            EntryPoint::State,
            2,
            handle + 0x200,
            22,
            &128u64.to_le_bytes(),
        );
        r.add(EntryPoint::Stop, 2, handle + 0x200, 0, &[]);
        r.add(EntryPoint::Stop, 2, 0xdead_beef, 0, &[]);
    }
    r.add(EntryPoint::Finalize, 0, 0x7000, 0, &[]);
    r
}

#[test]
fn recorded_job_comes_back_with_its_threads_order_and_parents() {
    let capture = tempfile::tempdir().unwrap();
    let host = capture.path().join("node1");
    std::fs::create_dir(&host).unwrap();
    recording(0).write(&host.join("r0.trace"), 0);
    recording(1).write(&host.join("r1.trace.zst"), 1);
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        plugin: Some(log_plugin()),
        program: Some(program()),
        env: vec![("LOG_PLUGIN_OUT".into(), folder.path().display().to_string())],
        ..Options::default()
    };
    let outcome = replay(capture.path(), &options, false).unwrap();
    assert!(outcome.as_expected());
    assert_eq!(outcome.abi, Ok(5));
    let announced = outcome.announced();
    assert_eq!((announced.total(), announced.replays()), (2 * 4, 4));
    let operation = announced.operations.keys().next().unwrap();
    assert_eq!(
        (
            operation.function.as_str(),
            operation.bytes,
            operation.nranks
        ),
        ("AllReduce", 1024, 2)
    );

    let logs = Log::all(folder.path());
    assert_eq!(logs.len(), 2);
    let log = &logs[1];
    let init = log.calls("init")[0];
    assert_eq!(
        (&init["rank"], &init["name"], &init["hash"]),
        (&1.into(), &"dp".into(), &0xfeed.into())
    );
    let threads: std::collections::HashSet<_> =
        log.0.iter().map(|l| l["thread"].to_string()).collect();
    assert_eq!(threads.len(), 3);
    let colls = log.starts("Coll");
    assert_eq!(colls[2]["func"], "AllReduce");
    assert_eq!(
        log.by_handle(&colls[2]["parent"]).unwrap()["graph_captured"],
        1
    );
    assert_eq!(
        log.by_handle(&colls[0]["parent_group"]).unwrap()["type"],
        "KernelLaunch"
    );
    let kernel = log.starts("KernelCh")[0];
    assert_eq!(
        (&kernel["parent"], &kernel["channel_id"]),
        (&colls[0]["handle"], &3.into())
    );
    assert_eq!(log.gpu_stop(&kernel["handle"]), Some(128));
    assert_eq!(
        log.calls("stop")
            .iter()
            .filter(|s| s["handle"] == 0xdead_beefu64)
            .count(),
        3,
        "foreign stays foreign"
    );
    assert_eq!(log.calls("finalize").len(), 1);
}

#[test]
fn a_capture_of_calls_is_played_call_by_call() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    // Collectives of two communicators; sends and receives of a pipeline in groups.
    for name in ["grid_slow_host", "slow_link", "pipe_slow_gpu"] {
        let capture = tables::Capture::open(&data.join(name)).expect("it opens");
        let mut recorded = std::collections::BTreeMap::new();
        for row in capture.rows() {
            let function = capture.names.get(row.shape.function).expect("a name");
            *recorded.entry(function.to_owned()).or_insert(0u64) += 1;
        }
        let options = Options {
            program: Some(program()),
            plugin: Some("none".into()),
            ..Options::default()
        };
        let outcome = replay(&data.join(name), &options, false).expect("it is played");
        assert!(outcome.as_expected(), "{name}: {:?}", outcome.processes);
        let mut played = std::collections::BTreeMap::new();
        for (operation, times) in outcome.announced().operations {
            *played.entry(operation.function).or_insert(0u64) += times.calls;
        }
        // What not all ranks recorded would never end.
        let left_out = |function: &String| recorded[function] - played.get(function).unwrap_or(&0);
        let left_out: u64 = recorded.keys().map(left_out).sum();
        assert!(left_out <= 8, "{name}: {played:?} of {recorded:?}");
    }
}

#[test]
fn capture_without_callbacks_says_how_to_record_them() {
    let capture = tempfile::tempdir().unwrap();
    let empty = Recording {
        bytes: Vec::new(),
        abi: 5,
    };
    empty.write(&capture.path().join("r0.trace"), 0);
    let options = Options {
        program: Some(program()),
        ..Options::default()
    };
    let error = replay(capture.path(), &options, false).unwrap_err();
    assert!(error.to_string().contains("NCCLSCOPE_MODE=callbacks"));
}
