//! A small job from capture to report: what is printed, that JSON keeps to its schema, and that damage does not panic.

use capture::block::{self, Kind};
use capture::callback::{record_bytes, Callback, What};
use capture::live::{self, flag, part, verdict, Image, Layout, View};
use capture::rows::{Encoder, Record, Shape};
use nccl_abi::event;
use render::text::{self, Options};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use tables::Capture;

const STRINGS: [&str; 8] = [
    "AllReduce",
    "ncclFloat32",
    "RING",
    "LL",
    "Send",
    "Recv",
    "Broadcast",
    "ncclInt8",
];

fn string(text: &str) -> u8 {
    STRINGS
        .iter()
        .position(|s| *s == text)
        .map_or(0, |i| i as u8 + 1)
}

fn live_part(rank: u32, trace_id: u64, announced: u64) -> Vec<u8> {
    let layout = Layout {
        strings: 16,
        comms: 4,
        groups: 4,
        totals: 4,
        pages: 4,
        rows: 16,
        staging: 4096,
    };
    let image = Image::zeroed(layout.bytes());
    // SAFETY: the image is zeroed, long enough and outlives the view.
    let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
    let header = view.header();
    header.trace_id.store(trace_id, Relaxed);
    for (text, stored) in STRINGS.iter().zip(view.strings()) {
        text.bytes()
            .zip(&stored.bytes)
            .for_each(|(byte, stored)| stored.store(byte, Relaxed));
        stored.len.store(text.len() as u32 + 2, Relaxed);
    }
    let comm = &view.comms()[0];
    comm.hash.store(0xabcd_ef01_2345_6789, Relaxed);
    comm.nranks.store(2, Relaxed);
    comm.rank.store(rank, Relaxed);
    comm.t_init.store(1_000, Relaxed);
    comm.uid.store(1, Relaxed);
    header.first.ticks.store(1_000, Relaxed);
    header.first.realtime.store(1_000_000, Relaxed);
    header.born.store(announced, Relaxed);
    header.magic.store(live::MAGIC, Relaxed);
    let bytes: Vec<u8> = image
        .words()
        .iter()
        .flat_map(|w| w.load(Relaxed).to_le_bytes())
        .collect();
    bytes[..layout.bytes()].to_vec()
}

/// 120 AllReduces, an AlltoAll of four pieces in one batch, two fused AllReduces, a Broadcast that NCCL keeps silent
/// about, and a captured call.
fn calls(rank: u32) -> Vec<Record> {
    let mut calls = Vec::new();
    let mut push = |shape: Shape, group: u64, gpu: Option<(u64, u64)>, verdict: u16| {
        let ticket = calls.len() as u64;
        let (k_start, k_stop) = gpu.unwrap_or((0, 0));
        let channels = u16::from(gpu.is_some());
        let t_api = 2_000 + ticket * 160;
        calls.push(Record {
            ticket,
            shape,
            t_api,
            t_end: t_api + 80,
            group,
            k_start,
            k_stop,
            k_started: channels,
            k_stopped: channels,
            verdict,
            ..Record::default()
        });
    };
    let base = Shape {
        comm: 1,
        datatype: string("ncclFloat32"),
        count: 256,
        root: -1,
        ..Shape::default()
    };
    let all_reduce = Shape {
        func: string("AllReduce"),
        algorithm: string("RING"),
        protocol: string("LL"),
        nchannels: 1,
        parts: part::ENQUEUED,
        ..base
    };
    for i in 0..120 {
        push(
            all_reduce,
            i + 1,
            Some((10_000 * (i + 1), 10_000 * (i + 1) + 1_000 * (i % 100 + 1))),
            0,
        );
    }
    for peer in 0..2u32 {
        for func in ["Send", "Recv"] {
            // The pair with oneself is in place and has no P2p event.
            let peer = if peer == rank { 0 } else { peer + 1 };
            let shape = Shape {
                func: string(func),
                flags: flag::P2P,
                parts: part::ENQUEUED,
                peer,
                ..base
            };
            let gpu = (peer != 0).then_some((9_000_000, 9_050_000));
            push(shape, 500, gpu, if peer != 0 { verdict::FUSED } else { 0 });
        }
    }
    for _ in 0..2 {
        push(
            all_reduce,
            501,
            Some((9_100_000, 9_200_000)),
            verdict::FUSED,
        );
    }
    push(
        Shape {
            func: string("Broadcast"),
            root: 0,
            ..base
        },
        502,
        None,
        0,
    );
    push(
        Shape {
            flags: flag::CAPTURED,
            ..all_reduce
        },
        503,
        None,
        0,
    );
    calls
}

fn trace_file(trace_id: u64, facts: &str, blocks: &[(Kind, Vec<u8>)]) -> Vec<u8> {
    let mut out = block::file_header(trace_id).to_vec();
    let all = [(Kind::Process, facts.as_bytes().to_vec())]
        .into_iter()
        .chain(blocks.iter().cloned());
    for (number, (kind, payload)) in all.enumerate() {
        let start = block::begin(&mut out);
        out.extend(payload);
        block::finish(&mut out, start, kind, number as u32);
    }
    out
}

fn job(folder: &Path) {
    std::fs::create_dir_all(folder.join("node-1")).expect("a folder");
    let start = r#"{"schema":"ncclscope.capture/1","id":"00ff","command":["python","train.py"],"started":"2026-01-01T00:00:00Z""#;
    let json = format!("{start},\"ended\":\"2026-01-01T00:01:00Z\",\"exit_status\":0}}");
    std::fs::write(folder.join("capture.json"), json).expect("written");
    for rank in 0..2 {
        let records = calls(rank);
        let mut payload = Vec::new();
        Encoder::new().encode(&mut payload, &records);
        let facts = format!("host=node-1\npid={}\nrank={rank}\nworld_size=2\nmode=trace\ntiming=stamps\nmask=0x746\nnccl=2.30.7\n", 70 + rank);
        let id = 100 + u64::from(rank);
        let name = folder.join(format!("node-1/r{rank}-p{}-aa", 70 + rank));
        std::fs::write(
            name.with_extension("trace"),
            trace_file(id, &facts, &[(Kind::Rows, payload)]),
        )
        .expect("written");
        std::fs::write(
            name.with_extension("live"),
            live_part(rank, id, records.len() as u64),
        )
        .expect("written");
    }
}

fn printed(capture: &Capture, options: Options) -> String {
    let mut out = Vec::new();
    text::write(&analyze::report(capture), options, &mut out).expect("printed");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn a_small_job_is_accounted_for() {
    let folder = tempfile::tempdir().expect("a folder");
    job(folder.path());
    let capture = Capture::open(folder.path()).expect("a capture");
    let report =
        printed(&capture, Options::default()).replace(&folder.path().display().to_string(), "DIR");
    let expected = "\
Capture DIR
  command  python train.py
  job      2 processes of 2 ranks on node-1
  NCCL     2.30.7; mode trace, timing stamps
  run      2026-01-01T00:00:00Z to 2026-01-01T00:01:00Z, exit status 0

Completeness
  256 of 256 announced calls recorded, 248 timed.
  not timed: 2 captured, 4 fused, 2 no_stamp

Communicators (by first use; `here` counts the ranks that this capture holds)
  communicator     nranks nodes here name parent
  abcdef0123456789      2     -    2 -    -

Operations (largest total time first)
  function   bytes datatype communicator algorithm calls timed time sum_ms p50_us p95_us p99_us max_us
  AllReduce  1 KiB Float32  abcdef01     RING/LL  244+2c   240 gpu  10.520   40.0   94.0   99.0  100.0
  AlltoAll   2 KiB Float32  abcdef01     -             2     2 gpu   0.100   50.0   50.0      -   50.0
  Broadcast  1 KiB Float32  abcdef01     -             2     0 host  0.000    0.1    0.1      -    0.1
";
    let top: String = report
        .lines()
        .take(expected.lines().count())
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(
        top.split_whitespace().collect::<Vec<_>>(),
        expected.split_whitespace().collect::<Vec<_>>(),
        "{report}"
    );
    assert!(
        report.contains("NCCL 2.30.7 does not announce kernels for Broadcast: 2 calls"),
        "{report}"
    );
    assert!(report.contains("replays not visible"), "{report}");
    assert!(
        report.contains("AllReduce of 1 KiB took 99 % of the GPU time"),
        "{report}"
    );
    assert!(
        report
            .trim_end()
            .lines()
            .last()
            .is_some_and(|l| l.starts_with("Next: ncclscope report")),
        "{report}"
    );
    assert!(report.lines().all(|l| l.chars().count() <= 120), "{report}");
    assert!(report.lines().count() <= 60);
    assert!(printed(
        &capture,
        Options {
            explain: true,
            all: true
        }
    )
    .contains("nearest rank"));
}

#[test]
fn json_keeps_to_its_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    job(folder.path());
    let mut out = Vec::new();
    render::json::write(
        &analyze::report(&Capture::open(folder.path()).expect("a capture")),
        &mut out,
    )
    .expect("printed");
    let report: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let schema = serde_json::from_str(render::json::SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(&report)
        .map(|e| format!("{}: {e}", e.instance_path))
        .collect();
    assert_eq!(errors, [""; 0]);
    assert_eq!(report["completeness"]["announced"], 256);
    let time = &report["operations"][0]["time_us"];
    assert_eq!(
        (time["p50"].as_f64(), time["max"].as_f64()),
        (Some(41.0), Some(100.0))
    );
    assert!(report["operations"][2]["time_us"].is_null());
}

#[test]
fn callbacks_become_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut payload = Vec::new();
    let mut push = |what, subject, result, content: &[u8]| {
        let record = Callback {
            what,
            abi: 5,
            thread: 2,
            ticks: 50,
            subject,
            result,
            payload: content,
        };
        let start = payload.len();
        payload.extend(record.header());
        payload.extend(content);
        payload.resize(start + record_bytes(content.len()), 0);
    };
    let mut descriptor = [0u8; 112];
    descriptor[..8].copy_from_slice(&event::COLL_API.to_le_bytes());
    descriptor[24..32].copy_from_slice(&0x1000u64.to_le_bytes());
    push(What::Text, 0x1000, 0, b"AllReduce");
    push(What::Start, 0xc0, 0xee, &descriptor);
    push(What::Stop, 0xee, 0, &[]);
    let facts = "host=h\npid=5\nmode=callbacks\nclock=monotonic\n";
    let anchor: Vec<u8> = [40u64, 40, 1_000_040]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let trace = trace_file(
        9,
        facts,
        &[(Kind::Anchor, anchor), (Kind::Callbacks, payload)],
    );
    std::fs::write(folder.path().join("a.trace"), trace).expect("written");
    let capture = Capture::open(folder.path()).expect("a capture");
    let mut out = Vec::new();
    assert_eq!(
        render::jsonl::write(&capture, &mut out).expect("printed"),
        2
    );
    let lines: Vec<serde_json::Value> = out
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["func"], "AllReduce");
    assert_eq!(
        (&lines[0]["type"], &lines[0]["handle"], &lines[0]["t_ns"]),
        (&"CollApi".into(), &"0xee".into(), &1_000_050.into())
    );
    assert_eq!(
        (&lines[1]["callback"], &lines[1]["handle"]),
        (&"stopEvent".into(), &"0xee".into())
    );
}

#[test]
fn a_damaged_job_is_still_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    job(folder.path());
    let trace = folder.path().join("node-1/r0-p70-aa.trace");
    let live = folder.path().join("node-1/r1-p71-aa.live");
    let whole = (
        std::fs::read(&trace).expect("there"),
        std::fs::read(&live).expect("there"),
    );
    let mut seed = 1u64;
    for round in 0..60 {
        let (mut a, mut b) = whole.clone();
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize;
            // Counters of the live part's header have no checksum: anything may be in them.
            b[8 + at % 1500] = (seed >> 20) as u8;
            let n = a.len();
            a[at % n] ^= u8::from(round % 2 == 0) << (seed % 8);
        }
        std::fs::write(&trace, &a).expect("written");
        std::fs::write(&live, &b).expect("written");
        let capture = Capture::open(folder.path()).expect("one rank is sound");
        assert!(!printed(
            &capture,
            Options {
                all: true,
                explain: false
            }
        )
        .is_empty());
    }
}

#[test]
fn the_pages_of_operations_and_network_match_the_schema() {
    for table in ["operations", "network"] {
        the_page_matches_the_schema(table);
    }
}

fn the_page_matches_the_schema(table: &str) {
    let page = include_str!("../../../docs/tables.md");
    let section = page
        .split("\n## ")
        .find(|s| s.starts_with(&format!("{table}\n")))
        .expect("a section");
    let documented: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let schema: serde_json::Value = serde_json::from_str(render::json::SCHEMA).expect("JSON");
    let operation = &schema["properties"][table]["items"]["properties"];
    let names: Vec<&str> = operation
        .as_object()
        .expect("properties")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(documented, names);
}
