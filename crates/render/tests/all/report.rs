//! A small job from capture to report: what is printed, that JSON keeps to its schema, and that damage does
//! not panic.

use crate::recorded::JOBS;
use capture::block::{self, BlockKind};
use capture::callback::{record_bytes, Callback, EntryPoint};
use capture::live::{self, flag, part, verdict, Image, Layout, View};
use capture::rows::{Encoder, GpuTime, Record, Shape, Ticks};
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
        graphs: 0,
        launches: 0,
        strings: 16,
        comms: 4,
        groups: 4,
        totals: 4,
        pages: 4,
        rows: 16,
        staging: 4096,
        net_ops: 16,
        most_comms: 0,
        most_rows: 0,
        most_graphs: 0,
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
    comm.t_init.store(Ticks(1_000), Relaxed);
    comm.uid.store(1, Relaxed);
    header.first.ticks.store(Ticks(1_000), Relaxed);
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

/// 120 AllReduces, an AlltoAll of four pieces in one batch, two fused AllReduces, a Broadcast that NCCL keeps
/// silent about, and a captured call.
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
            t_api: Ticks(t_api),
            t_end: Ticks(t_api + 80),
            group,
            stamp_start: GpuTime(k_start),
            stamp_stop: GpuTime(k_stop),
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

fn trace_file(trace_id: u64, facts: &str, blocks: &[(BlockKind, Vec<u8>)]) -> Vec<u8> {
    let mut out = block::file_header(trace_id).to_vec();
    let all = [(BlockKind::Process, facts.as_bytes().to_vec())]
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
    let start = r#"{"schema":"ncclscope.capture/1","id":"00ff","command":["python","train.py"],
        "started":"2026-01-01T00:00:00Z""#;
    let json = format!("{start},\"ended\":\"2026-01-01T00:01:00Z\",\"exit_status\":0}}");
    std::fs::write(folder.join("capture.json"), json).expect("written");
    for rank in 0..2 {
        let records = calls(rank);
        let mut payload = Vec::new();
        Encoder::new().encode(&mut payload, &records);
        let facts = format!(
            "host=node-1\npid={}\nrank={rank}\nworld_size=2\nmode=trace\ntiming=stamps\nmask=0x746\n\
             nccl=2.30.7\n",
            70 + rank
        );
        let id = 100 + u64::from(rank);
        let name = folder.join(format!("node-1/r{rank}-p{}-aa", 70 + rank));
        std::fs::write(
            name.with_extension("trace"),
            trace_file(id, &facts, &[(BlockKind::Rows, payload)]),
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
No rank is proved to hold this job up. How long communication stops computing is not known: compute kernels \
were not
recorded. Kernel windows on all ranks tell.
in NCCL 13.8 % of the time (median rank) · waiting 0.0 % of the time in NCCL · \
AllReduce of 1 KiB at 0.0250 GB/s (busbw)

Job DIR
  command  python train.py
  ranks    2 processes of 2 ranks on node-1
  software NCCL 2.30.7
  recorded mode trace, timing stamps
  time     9.19 ms from the first communicator to the last call: all % are of that; \
60.0 s from launch to exit, begun
           2026-01-01 00:00:00 UTC, exit status 0

Completeness
  256 of 256 announced calls recorded, 240 timed.
  16 calls have no GPU time: 8 early_stop, 4 fused, 2 captured, 2 no_stamp (ncclscope explain early_stop).

Ranks (times in ms, nccl_% of the run; nccl: in its kernels; last: to arrive in 119 operations)
  rank host   gpu calls nccl nccl_% waited last
     0 node-1   0   124 1.26   13.8      0    0
     1 node-1   0   124 1.26   13.8      0    0

Operations by GPU time (largest sum over ranks first, sum in ms, mean to max in µs, bandwidths in GB/s)
  function   size type    algorithm      calls  sum mean  p50  p95 max  busbw call_bw
  AllReduce 1 KiB float32 RING/LL   240/244+2c 10.5 44.2 41.0 95.0 100 0.0250  0.0250
  2 operations have no GPU time (host times: --all).
";
    let shown: Vec<&str> = report.lines().take(expected.lines().count()).collect();
    assert_eq!(shown.join("\n"), expected.trim_end(), "{report}");
    assert!(
        report.contains("NCCL 2.30.7 does not announce kernels for Broadcast: 2 calls"),
        "{report}"
    );
    assert!(
        report
            .trim_end()
            .lines()
            .last()
            .is_some_and(|l| l.starts_with("Next: ncclscope view")),
        "{report}"
    );
    assert!(report.lines().all(|l| l.chars().count() <= 120), "{report}");
    assert!(report.lines().count() <= 64);
    assert!(printed(
        &capture,
        Options {
            explain: true,
            all: true,
            ..Options::default()
        }
    )
    .contains("nearest rank"));
}

#[test]
fn json_keeps_to_its_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    job(folder.path());
    let mut out = Vec::new();
    render::report_json::write(
        &analyze::report(&Capture::open(folder.path()).expect("a capture")),
        &mut out,
    )
    .expect("printed");
    let report: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let schema = serde_json::from_str(render::report_json::SCHEMA).expect("JSON");
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
            ticks: Ticks(50),
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
    push(EntryPoint::Text, 0x1000, 0, b"AllReduce");
    push(EntryPoint::Start, 0xc0, 0xee, &descriptor);
    push(EntryPoint::Stop, 0xee, 0, &[]);
    let facts = "host=h\npid=5\nmode=callbacks\nclock=monotonic\n";
    let anchor: Vec<u8> = [40u64, 40, 1_000_040]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let trace = trace_file(
        9,
        facts,
        &[(BlockKind::Anchor, anchor), (BlockKind::Callbacks, payload)],
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
    assert_eq!(lines[0]["fields"]["func"], "AllReduce");
    assert_eq!(
        (&lines[0]["event"], &lines[1]["event"]),
        (&1.into(), &1.into())
    );
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
                ..Options::default()
            }
        )
        .is_empty());
        let found = analyze::hang::hang(&capture, &analyze::hang::Conditions::default());
        let mut text = Vec::new();
        render::hang::text(&found, true, Default::default(), &mut text).expect("printed");
        let sentence = render::hang::Answer::new(&found).sentence;
        assert!(!sentence.is_empty() && !text.is_empty());
    }
}

#[test]
fn the_pages_of_operations_account_and_network_match_the_schema() {
    // Operations are an Arrow table, too, with the names of that.
    the_page_matches_the_schema("operations", render::batches::column_of);
    the_page_matches_the_schema("account", render::batches::column_of);
    the_page_matches_the_schema("network", str::to_owned);
}

fn the_page_matches_the_schema(table: &str, name: fn(&str) -> String) {
    let page = include_str!("../../../../docs/reference/tables.md");
    let section = page
        .split("\n## ")
        .find(|s| s.starts_with(&format!("{table}\n")))
        .expect("a section");
    let documented: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let schema: serde_json::Value =
        serde_json::from_str(render::report_json::SCHEMA).expect("JSON");
    let table = match table {
        "account" => &schema["properties"][table]["properties"]["ranks"],
        table => &schema["properties"][table],
    };
    let operation = &table["items"]["properties"];
    let names: Vec<String> = operation
        .as_object()
        .expect("properties")
        .keys()
        .map(|key| name(key))
        .collect();
    assert_eq!(documented, names);
}

/// A job of 128 hosts with 8 ranks each: all ranks, tensor parallel within hosts, data parallel across. Rank
/// 517 is late at every call.
fn large_job() -> Capture {
    use tables::communicators::{Communicator, Local, Member};
    use tables::{Call, GpuTimes, Process};
    let mut capture = Capture {
        path: "large".into(),
        ..Capture::default()
    };
    let names = ["AllReduce", "AllGather", "ReduceScatter"].map(|f| capture.names.intern(f));
    let [datatype, algorithm, protocol] =
        ["ncclBfloat16", "RING", "SIMPLE"].map(|n| capture.names.intern(n));
    let ranks_of = |which: usize| -> Vec<usize> {
        match which {
            0 => (0..1024).collect(),
            1..=128 => (0..8).map(|i| (which - 1) * 8 + i).collect(),
            _ => (0..128).map(|i| i * 8 + which - 129).collect(),
        }
    };
    for which in 0..137 {
        let members = ranks_of(which);
        capture.communicators.push(Communicator {
            id: format!(
                "{:016x}",
                (which as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ),
            hash: which as u64 + 1,
            nranks: Some(members.len() as u32),
            nnodes: None,
            name: None,
            members: members
                .iter()
                .enumerate()
                .map(|(rank, process)| Member {
                    process: *process,
                    uid: which as u32,
                    rank: Some(rank as u32),
                })
                .collect(),
            created_ns: None,
            parent: None,
        });
    }
    for rank in 0..1024usize {
        let comms = [0, 1 + rank / 8, 129 + rank % 8];
        let shapes: Vec<tables::Shape> = comms
            .into_iter()
            .zip(names)
            .map(|(comm, function)| tables::Shape {
                uid: comm as u32,
                communicator: Some(comm as u32),
                nranks: capture.communicators[comm].nranks,
                function,
                datatype,
                algorithm,
                protocol,
                count: 1 << 20,
                ..tables::Shape::default()
            })
            .collect();
        let late = u64::from(rank != 517) * 400_000;
        let call = |ticket: u64| {
            let start = 1_000_000 * (ticket + 1);
            Call {
                ticket,
                shape: (ticket % 3) as u32,
                seq: ticket / 3 + 1,
                api_ns: start as i64,
                return_ns: start as i64 + 5_000,
                gpu: GpuTimes::stamps(start, start + 100_000 + late + rank as u64),
                channels_started: 1,
                channels_stopped: 1,
                sealed: true,
                ..Call::default()
            }
        };
        let mut process = Process {
            host: format!("node-{:03}", rank / 8),
            pid: rank as u32 + 1,
            rank: Some(rank as u32),
            live: tables::LiveSource::Adopted,
            counters: Some(tables::process::Counters {
                // Every host lost something.
                announced: 30 + u64::from(rank % 8 == 0),
                lost: vec![0, 0, u64::from(rank % 8 == 0), 0, 0],
                ..Default::default()
            }),
            communicators: comms
                .into_iter()
                .map(|comm| Local {
                    uid: comm as u32,
                    device: Some(rank as u32 % 8),
                    ..Local::default()
                })
                .collect(),
            shapes,
            calls: (0..30).map(call).collect(),
            totals: vec![tables::Total {
                folded: u64::from(rank % 8 == 0),
                ..Default::default()
            }],
            ..Process::default()
        };
        for (key, value) in [
            ("world_size", "1024"),
            ("nccl", "2.28.9"),
            ("env.NCCL_ALGO", "Tree"),
        ] {
            process.facts.insert(key.into(), value.into());
        }
        capture.processes.push(process);
    }
    capture
}

#[test]
fn a_job_of_1024_ranks_fits_on_a_page() {
    let capture = large_job();
    let report = printed(&capture, Options::default());
    assert!(report.lines().count() <= 77, "{report}");
    assert!(report.lines().all(|l| l.chars().count() <= 120), "{report}");
    for expected in [
        "1024 processes of 1024 ranks on 128 hosts, node-000 to node-127",
        "30720 of 30848 announced calls recorded, 30720 timed.",
        "more ranks (--all), not recorded on each: min 1, median 1, max 1",
        "rank 517 on node-064: 2.71 ms in NCCL, the median rank 13.5 ms: it waits less",
        " 1024 1024 0-1023",
        "more communicators (--all)",
        "more operations (--all)",
        "0 of 10240 AllGather calls used it, 10240 used RING (AllGather has RING,",
    ] {
        assert!(report.contains(expected), "{expected} in\n{report}");
    }
    // The shortest rank of every operation over all ranks is the late one.
    let all = analyze::report(&capture);
    let whole = all.operations.iter().find(|o| o.nranks == Some(1024));
    let shortest = whole.and_then(|o| o.shortest_us).expect("matched");
    assert_eq!((shortest.n, shortest.max), (9, Some(100.517)));
    let named: Vec<_> = all
        .ranks
        .outliers
        .iter()
        .map(|o| (o.rank, o.figure))
        .collect();
    assert_eq!(named, [(Some(517), "nccl_us")]);
}

#[test]
fn pages_are_no_wider_than_the_terminal() {
    for job in JOBS.iter() {
        for (width, all) in [(60, false), (60, true), (80, false), (97, true)] {
            let mut options = Options {
                all,
                ..Options::default()
            };
            options.look.width = width;
            let mut out = Vec::new();
            text::write(&job.report, options, &mut out).expect("printed");
            let page = String::from_utf8(out).expect("UTF-8");
            let wide = |line: &&str| line.chars().count() > width;
            // Paths can't be broken, and commands must not be.
            let broken = |line: &&str| {
                !line.starts_with("Next: ") && line.split_whitespace().all(|w| w.len() < 30)
            };
            let wide: Vec<&str> = page.lines().filter(wide).filter(broken).collect();
            assert_eq!(wide, [""; 0], "{} at {width}", job.path.display());
        }
    }
}

#[test]
fn the_verdict_is_the_first_line_and_the_next_command_the_last() {
    for job in JOBS.iter() {
        let mut options = Options::default();
        options.look.width = 1000;
        let mut out = Vec::new();
        text::write(&job.report, options, &mut out).expect("printed");
        let page = String::from_utf8(out).expect("UTF-8");
        assert_eq!(
            page.lines().next(),
            Some(render::verdict::sentence(&job.report).as_str())
        );
        let last = format!("Next: {}", render::verdict::next(&job.report));
        assert_eq!(page.lines().last(), Some(last.as_str()));
        let shown = page.lines().count();
        // Eight of them are the account's. A job with stacks, MPI and stream waits has three tables more.
        assert!(shown <= 80, "{}: {shown} lines", job.path.display());
        // What is wrong, what proves it and what to do come before anything else.
        let section = |title: &str| page.find(&format!("\n{title}"));
        if job.report.verdict.is_finding(0) {
            assert!(section("Evidence") < section("What to do"));
            assert!(section("What to do") < section("Job "));
        }
        let busiest = job
            .report
            .operations
            .iter()
            .find(|o| o.calls_past_warmup() > 0);
        assert!(busiest.is_none() || section("Operations").is_some());
    }
}

#[test]
fn colours_are_on_their_own_and_change_no_text() {
    let report = &JOBS[0].report;
    let page = |colour: bool| {
        let mut options = Options::default();
        options.look.colour = colour;
        let mut out = Vec::new();
        text::write(report, options, &mut out).expect("printed");
        String::from_utf8(out).expect("UTF-8")
    };
    let (plain, coloured) = (page(false), page(true));
    assert!(!plain.contains('\u{1b}'));
    let bare: String = coloured
        .split('\u{1b}')
        .enumerate()
        .map(|(at, part)| match (at, part.split_once('m')) {
            (0, _) | (_, None) => part,
            (_, Some((_, rest))) => rest,
        })
        .collect();
    assert!(coloured.len() > plain.len());
    assert_eq!(bare, plain);
}

#[test]
fn the_page_on_reports_has_every_word() {
    use render::words;
    let page = include_str!("../../../../docs/reference/report.md");
    let words = [
        words::DEFINITIONS,
        words::LOST,
        words::UNTIMED,
        words::UNSEEN,
    ];
    for word in words.concat() {
        let row = format!("| `{}` | {} |", word.name, word.text);
        assert!(page.lines().any(|line| line == row), "missing: {row}");
    }
    let schema: serde_json::Value =
        serde_json::from_str(render::report_json::SCHEMA).expect("JSON");
    let fields = schema["properties"].as_object().expect("properties");
    for field in fields.keys().filter(|f| *f != "schema") {
        assert!(page.contains(&format!("`{field}`")), "missing: {field}");
    }
}
