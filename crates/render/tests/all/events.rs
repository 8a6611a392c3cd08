//! Every event on a time line: its parent, its states, the operation that it is a part of, and for whom it
//! is.

use capture::block::{self, BlockKind};
use capture::callback::{record_bytes, Callback, EntryPoint};
use capture::rows::Ticks;
use nccl_abi::event;
use render::events::{Bar, Events};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tables::Capture;

fn recorded(name: &str) -> Capture {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    Capture::open(&folder.join(name)).expect("a capture")
}

#[test]
fn every_start_is_a_bar_with_its_parent_and_states() {
    for (name, bars, links, states, operations) in [
        ("ddp8_two_hosts", 5720, 5176, 12_352, 34),
        ("ddp4", 3684, 3332, 3156, 44),
        ("events_228", 767, 660, 398, 93),
        ("phases_232", 2060, 1940, 1880, 15),
    ] {
        let capture = recorded(name);
        let events = Events::new(&capture, None);
        assert_eq!(events.bars.len(), bars, "{name}");
        assert_eq!(events.links().count(), links, "{name}");
        assert_eq!(events.states(), states, "{name}");
        assert_eq!((events.operations, events.loose), (operations, 0), "{name}");
        let parts = events.bars.iter().filter(|bar| bar.operation.is_some());
        let ranks = capture.processes.len() as u64;
        assert_eq!(parts.count() as u64, operations * ranks, "{name}");
        assert!(
            events.bars.iter().all(|bar| bar.stopped.is_some()),
            "{name}"
        );
    }
}

#[test]
fn communicators_that_share_proxies_keep_their_operations_apart() {
    let capture = recorded("shared_two_hosts_228");
    let events = Events::new(&capture, None);
    let of = |kind: u64| events.bars.iter().filter(move |bar| bar.kind == kind);
    assert_eq!(of(event::PROXY_CTRL).count(), 1080);
    assert_eq!(
        (of(event::COLL).count(), of(event::PROXY_OP).count()),
        (75, 224)
    );
    // A split and a shrunk communicator have no proxy of their own. Each of their operations is still a part
    // of its own call. On two hosts, each call has equally many, to and from the rank beside it.
    let mut parts: BTreeMap<usize, u32> = BTreeMap::new();
    for op in of(event::PROXY_OP) {
        let parent = op.parent.expect("a proxy operation has a parent");
        assert_eq!(events.bars[parent].kind, event::COLL);
        *parts.entry(parent).or_default() += 1;
    }
    assert_eq!(parts.values().sum::<u32>(), 224);
    let communicators: BTreeSet<u32> = capture
        .processes
        .iter()
        .flat_map(|process| process.shapes.iter().map(|shape| shape.uid))
        .collect();
    assert!(communicators.len() >= 3, "{communicators:?}");
}

#[test]
fn bars_of_a_lane_follow_each_other_or_lie_in_each_other() {
    for name in [
        "ddp8_two_hosts",
        "mix_two_hosts_228",
        "killed_228",
        "zero_cta_232",
        "shared_two_hosts_228",
    ] {
        let capture = recorded(name);
        let events = Events::new(&capture, None);
        let mut lanes: Vec<Vec<&Bar>> = vec![Vec::new(); events.lanes.len()];
        for bar in &events.bars {
            lanes[bar.lane].push(bar);
        }
        for (lane, mut bars) in events.lanes.iter().zip(lanes) {
            assert!(!bars.is_empty(), "{name}: {}", lane.title);
            bars.sort_by_key(|bar| (bar.span.begin, std::cmp::Reverse(bar.span.end)));
            let mut open: Vec<&Bar> = Vec::new();
            for bar in bars {
                while open
                    .pop_if(|outer| outer.span.end <= bar.span.begin)
                    .is_some()
                {}
                if let Some(outer) = open.last() {
                    assert!(bar.span.end <= outer.span.end, "{name}: {}", lane.title);
                }
                open.push(bar);
            }
        }
        let titles: BTreeSet<(&str, usize)> = events
            .lanes
            .iter()
            .map(|lane| (lane.title.as_str(), lane.further))
            .collect();
        assert_eq!(
            titles.len(),
            events.lanes.len(),
            "{name}: lanes have names of their own"
        );
    }
}

#[test]
fn kernels_lie_where_their_stamps_say() {
    let capture = recorded("ddp4");
    let events = Events::new(&capture, None);
    let kernels = events
        .bars
        .iter()
        .filter(|bar| bar.kind == event::KERNEL_CH);
    for bar in kernels {
        let stamps = [
            Some(&events.fields(bar)),
            bar.states.first().map(|state| &state.fields),
        ]
        .map(|fields| fields.and_then(|f| f["p_timer"].as_i64()).expect("a stamp"));
        assert_eq!(bar.span.end - bar.span.begin, stamps[1] - stamps[0]);
        // NCCL tells of the end when it is over.
        assert!(bar.stopped.expect("stopped") >= bar.span.end);
        assert!(
            events.lanes[bar.lane].title.contains(", GPU "),
            "{}",
            events.lanes[bar.lane].title
        );
    }
}

/// The callbacks of one process.
#[derive(Default)]
struct Recording {
    payload: Vec<u8>,
    ticks: u64,
}

impl Recording {
    fn add(&mut self, what: EntryPoint, thread: u32, subject: u64, result: u64, payload: &[u8]) {
        self.ticks += 10;
        let record = Callback {
            what,
            abi: 5,
            thread,
            ticks: Ticks(self.ticks),
            subject,
            result,
            payload,
        };
        let start = self.payload.len();
        self.payload.extend(record.header());
        self.payload.extend(payload);
        self.payload.resize(start + record_bytes(payload.len()), 0);
    }

    /// A start by thread 1; `fill` gets the descriptor.
    fn start(&mut self, kind: u64, handle: u64, parent: u64, fill: impl FnOnce(&mut [u8; 112])) {
        let mut descriptor = [0; 112];
        descriptor[..8].copy_from_slice(&kind.to_le_bytes());
        descriptor[8..16].copy_from_slice(&parent.to_le_bytes());
        fill(&mut descriptor);
        self.add(EntryPoint::Start, 1, 0xc0, handle, &descriptor);
    }

    fn write(self, folder: &Path, pid: u32, rank: u32) {
        let facts = format!("host=h\npid={pid}\nrank={rank}\nmode=callbacks\nclock=monotonic\n");
        let anchor: Vec<u8> = [1u64, 1, 1_000_001]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        let mut out = block::file_header(pid.into()).to_vec();
        let blocks = [
            (BlockKind::Process, facts.into_bytes()),
            (BlockKind::Anchor, anchor),
            (BlockKind::Callbacks, self.payload),
        ];
        for (number, (kind, payload)) in (0..).zip(blocks) {
            let at = block::begin(&mut out);
            out.extend(payload);
            block::finish(&mut out, at, kind, number);
        }
        std::fs::write(folder.join(format!("r{rank}.trace")), out).expect("written");
    }
}

#[test]
fn work_for_another_process_is_that_one_s() {
    let folder = tempfile::tempdir().expect("a folder");
    let op_for = |pid: i32| {
        move |d: &mut [u8; 112]| {
            d[24..28].copy_from_slice(&pid.to_le_bytes());
            d[32..36].copy_from_slice(&7i32.to_le_bytes());
            d[44] = 1;
        }
    };
    // Both processes have an event with the handle 0xee. Rank 1's proxy sends for rank 0.
    let mut zero = Recording::default();
    zero.add(EntryPoint::Thread, 1, 100, 0, b"python3");
    zero.start(event::COLL, 0xee, 0, |_| ());
    zero.add(EntryPoint::Stop, 1, 0xee, 0, &[]);
    zero.write(folder.path(), 70, 0);
    let mut one = Recording::default();
    one.add(EntryPoint::Thread, 1, 101, 0, b"NCCL Progress 0");
    one.start(event::P2P, 0xee, 0, |_| ());
    one.ticks += 100;
    one.start(event::PROXY_OP, 0xf0, 0xee, op_for(70));
    one.start(event::PROXY_STEP, 0xf1, 0xf0, |_| ());
    one.start(event::PROXY_OP, 0xf2, 0xee, op_for(71));
    one.start(event::PROXY_OP, 0xf3, 0xee, op_for(99));
    one.write(folder.path(), 71, 1);

    let capture = Capture::open(folder.path()).expect("a capture");
    let events = Events::new(&capture, None);
    let own: Vec<&Bar> = events.bars.iter().filter(|bar| bar.process == 1).collect();
    let parent = |bar: &Bar| {
        bar.parent
            .map(|p| (events.bars[p].process, events.bars[p].number))
    };
    let parents: Vec<_> = own.iter().map(|bar| parent(bar)).collect();
    // The step's parent is the operation. A process that the capture lacks has no event here.
    assert_eq!(
        parents,
        [None, Some((0, 1)), Some((1, 2)), Some((1, 1)), None]
    );
    let origins: Vec<_> = own.iter().map(|bar| bar.origin).collect();
    assert_eq!(origins, [None, Some(0), Some(0), None, None]);
    assert_eq!(events.for_others(), 2);
    let lane = |bar: &Bar| events.lanes[bar.lane].title.as_str();
    assert_eq!(
        lane(own[1]),
        "h, rank 1, no communicator, proxy thread 101 for rank 0"
    );
    assert_eq!(lane(own[3]), "h, rank 1, no communicator, proxy thread 101");
    let arguments = events.arguments(own[1]);
    let of = |name: &str| arguments.get(name).and_then(Value::as_u64);
    assert_eq!(
        (of("parent_pid"), of("for_global_rank"), of("pid")),
        (Some(70), Some(0), Some(71))
    );
    assert!(own[4].stopped.is_none() && events.arguments(own[4])["never_stopped"] == true);

    let mut out = Vec::new();
    render::jsonl::write(&capture, &mut out).expect("written");
    let lines = out.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    let ops: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "ProxyOp")
        .collect();
    assert_eq!(
        (&ops[0]["parent_event"], &ops[0]["parent_pid"]),
        (&1.into(), &70.into())
    );
    assert_eq!(
        (&ops[1]["parent_event"], ops[1].get("parent_pid")),
        (&1.into(), None)
    );
    assert_eq!(
        (&ops[2]["parent_event"], ops[2].get("parent_pid")),
        (&Value::Null, Some(&Value::Null))
    );
    assert_eq!(ops[0]["fields"]["origin_pid"], 70);
}
