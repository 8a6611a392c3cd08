//! Kernels of windows in the exports and as an Arrow table, of recorded jobs.

use analyze::streams::kernels::{of_process, COLUMNS};
use capture::windows::ActivityKind;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use prost::Message;
use render::perfetto::TracePacket;
use render::table::{self, Rows, Table};
use render::timeline::Timeline;
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use tables::Capture;

fn job(name: &str) -> Capture {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    Capture::open(&path.join(name)).expect("a recorded job")
}

fn ran(capture: &Capture) -> usize {
    let windows = capture.processes.iter().flat_map(|p| &p.windows.list);
    windows.map(|window| window.ran.len()).sum()
}

fn lines(capture: &Capture) -> Vec<Json> {
    let mut text = Vec::new();
    let written = table::jsonl(&Rows::new(capture), Table::Kernels, &mut text).expect("in memory");
    let text = String::from_utf8(text).expect("text");
    let lines: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len() as u64, written);
    lines
}

#[test]
fn every_kernel_is_a_row_and_nccls_have_their_calls() {
    let capture = job("ddp_slow_host");
    let lines = lines(&capture);
    assert_eq!(lines.len(), ran(&capture));
    let nccl: Vec<&Json> = lines.iter().filter(|l| l["library"] == "NCCL").collect();
    let joined = nccl.iter().filter(|l| l["ticket"].is_u64());
    let (joined, all) = (joined.clone(), (joined.count(), nccl.len()));
    // A window's first kernels may be of calls before it, and not every window is whole.
    assert!(all.1 > 400 && 10 * all.0 > 9 * all.1, "{all:?}");
    let mut seen: HashSet<(u64, u64)> = HashSet::new();
    for line in joined {
        let number = |name: &str| line[name].as_u64().expect("a number");
        let process = &capture.processes[number("process") as usize];
        let call = process.calls.iter().find(|c| c.ticket == number("ticket"));
        let call = call.expect("is there");
        let shape = &process.shapes[call.shape as usize];
        let function = capture.names.get(shape.function);
        assert_eq!(line["function"].as_str(), function);
        let name = line["name"].as_str().expect("a name");
        assert!(name.contains(function.expect("known")), "{name}");
        // It ran after its launch.
        let start = line["start_ns"].as_i64().expect("a time");
        assert!(start >= call.launch_start_ns);
        let times = call.gpu.on_host().filter(|_| call.gpu_ns(shape).is_ok());
        if let Some((begun, _)) = times {
            let apart = start - begun;
            assert!((-100_000..100_000).contains(&apart), "{apart}");
        }
        assert!(seen.insert((number("process"), number("ticket"))));
    }
    assert!(lines
        .iter()
        .any(|l| l["kind"] == "copy" && l["bytes"].is_u64()));
    assert!(lines
        .iter()
        .any(|l| l["does"] == "computing" && l["blocks"].is_u64()));
}

#[test]
fn kernels_in_graphs_have_the_call_that_was_captured() {
    let capture = job("decode_plain");
    let lines = lines(&capture);
    let in_graphs = lines
        .iter()
        .filter(|l| l["graph"].is_u64() && l["library"] == "NCCL");
    let in_graphs: Vec<&Json> = in_graphs.collect();
    let joined = in_graphs.iter().filter(|l| l["function"] == "AllReduce");
    let (joined, all) = (joined.count(), in_graphs.len());
    assert!(all > 1000 && 10 * joined > 9 * all, "{joined} of {all}");
    // Such a call has no ticket of its own.
    assert!(in_graphs
        .iter()
        .all(|l| l["ticket"].is_null() && l["node"].is_u64()));
}

#[test]
fn parquet_and_arrow_read_back_as_the_table() {
    let capture = job("ddp_slow_host");
    let file = tempfile::tempfile().expect("a file");
    let rows = Rows::new(&capture);
    let written = table::parquet(&rows, Table::Kernels, &file).expect("written");
    assert_eq!(written as usize, ran(&capture));
    let mut lines = lines(&capture).into_iter();
    let reader = SerializedFileReader::new(file).expect("Parquet");
    for row in reader.get_row_iter(None).expect("rows") {
        let line = lines.next().expect("as many");
        for ((name, field), column) in row.expect("a row").into_columns().iter().zip(COLUMNS) {
            assert_eq!(name, column.name);
            let wanted = match field {
                Field::Null => Json::Null,
                Field::Bool(value) => (*value).into(),
                Field::ULong(value) => (*value).into(),
                Field::Long(value) => (*value).into(),
                Field::Str(value) => value.as_str().into(),
                other => panic!("{other:?}"),
            };
            assert_eq!(line[name], wanted, "{name}");
        }
    }
    assert!(lines.next().is_none());
    let batch = render::batches::kernels(&capture).expect("a batch");
    assert_eq!(batch.num_rows(), ran(&capture));
    assert_eq!(batch.num_columns(), COLUMNS.len());
}

#[test]
fn a_capture_without_windows_has_an_empty_table_and_a_reason() {
    let capture = job("ddp4");
    let why = Table::Kernels.why_empty(&capture).expect("there are none");
    assert!(why.contains("kernel window"), "{why}");
    assert_eq!(
        render::batches::kernels(&capture)
            .expect("a batch")
            .num_rows(),
        0
    );
    assert!(lines(&capture).is_empty());
    // With its columns, so that a query on it fails in no other way.
    let mut text = Vec::new();
    let rows = Rows::new(&capture);
    let written = table::csv(&rows, Table::Kernels, &mut text).expect("in memory");
    assert_eq!(written, 0);
    assert!(text.starts_with(b"process,launcher_rank,host,"));
    let file = tempfile::tempfile().expect("a file");
    assert_eq!(
        table::parquet(&rows, Table::Kernels, &file).expect("written"),
        0
    );
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let columns = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .num_columns();
    assert_eq!(columns, COLUMNS.len());
    assert_eq!(Table::Kernels.why_empty(&job("decode_plain")), None);
}

/// A whole trace, of which the export only declares the packet.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[test]
fn time_lines_have_a_lane_for_each_stream_and_all_that_ran_on_it() {
    let capture = job("ddp_slow_host");
    let timeline = Timeline::new(&capture, None);
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for process in 0..capture.processes.len() {
        let rows = of_process(&capture, process);
        let placed = timeline.kernels(process);
        assert_eq!(rows.len(), placed.len());
        for (row, placed) in rows.iter().zip(&placed) {
            let track = &timeline.tracks(process)[placed.slice.track];
            let lane = format!("GPU {} stream {}, kernels", row.ran.device, row.ran.stream);
            assert!(
                track.is_kernels && track.title.starts_with(&lane),
                "{}",
                track.title
            );
            assert_eq!(placed.slice.span.begin, row.ran.start);
            *wanted.entry(placed.name().to_owned()).or_default() += 1;
        }
        assert!(rows.iter().any(|row| row.ran.kind == ActivityKind::Kernel));
    }
    let calls = timeline.calls();
    let calls: usize = calls
        .map(|c| usize::from(c.host.is_some()) + usize::from(c.gpu.is_some()))
        .sum();

    let mut text = Vec::new();
    let slices = render::chrome::write(&timeline, None, &mut text).expect("in memory");
    assert_eq!(slices as usize, calls + ran(&capture));
    let trace: Json = serde_json::from_slice(&text).expect("JSON");
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let events = trace["traceEvents"].as_array().expect("events");
    for event in events.iter().filter(|e| e["args"]["table"] == "kernels") {
        let name = event["name"].as_str().expect("a name").to_owned();
        assert!(event["ts"].as_f64().expect("a time") >= 0.0);
        *found.entry(name).or_default() += 1;
    }
    assert_eq!(found, wanted);
    // HolisticTraceAnalysis's files are of calls alone.
    let mut text = Vec::new();
    render::chrome::write(&timeline, Some(0), &mut text).expect("in memory");
    let text = String::from_utf8(text).expect("text");
    assert!(!text.contains("kernels in windows") && !text.contains("\"table\""));

    let mut bytes = Vec::new();
    let slices = render::perfetto::write(&timeline, None, &mut bytes).expect("in memory");
    assert_eq!(slices as usize, calls + ran(&capture));
    let trace = Trace::decode(&bytes[..]).expect("protobuf");
    let mut lanes: HashMap<u64, String> = HashMap::new();
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for packet in &trace.packet {
        if let Some(track) = &packet.track_descriptor {
            lanes.extend(track.uuid.zip(track.name.clone()));
        }
        for name in packet
            .interned_data
            .iter()
            .flat_map(|data| &data.event_names)
        {
            names.extend(name.iid.zip(name.name.clone()));
        }
        let Some(event) = packet.track_event.as_ref().filter(|e| e.r#type == Some(1)) else {
            continue;
        };
        let lane = &lanes[&event.track_uuid.expect("a track")];
        if lane.contains("kernels in windows") {
            let name = &names[&event.name_iid.expect("a name")];
            *found.entry(name.clone()).or_default() += 1;
        }
    }
    assert_eq!(found, wanted);
}

#[test]
fn the_documented_columns_are_those_of_the_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tables.md");
    let page = std::fs::read_to_string(page).expect("docs/reference/tables.md");
    let section = page.split("\n## kernels\n").nth(1).expect("a section");
    let section = section.split("\n## ").next().expect("its end");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let found: Vec<Vec<&str>> = rows
        .map(|row| row.split('|').skip(1).take(3).map(str::trim).collect())
        .collect();
    let wanted: Vec<Vec<String>> = COLUMNS
        .iter()
        .map(|c| {
            vec![
                format!("`{}`", c.name),
                c.kind.to_owned(),
                c.unit.to_owned(),
            ]
        })
        .collect();
    assert_eq!(found, wanted);
}
