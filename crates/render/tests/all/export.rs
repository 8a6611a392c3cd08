//! Recorded jobs in the formats of other tools, opened with their readers.

use analyze::operation_ids::OperationIds;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use prost::Message;
use render::dataset::{self, Key};
use render::perfetto::{DebugAnnotation, TracePacket};
use render::table::{self, Rows, Table};
use render::timeline::Timeline;
use render::{chrome, perfetto};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::path::Path;
use tables::calls::{Value, COLUMNS};
use tables::Capture;

fn job(name: &str) -> Capture {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    Capture::open(&path.join(name)).expect("a recorded job")
}

fn trace(timeline: &Timeline<'_>, only: Option<usize>) -> Json {
    let mut packed = Vec::new();
    chrome::write_gzip(timeline, only, &mut packed).expect("in memory");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .expect("gzip of text");
    serde_json::from_str(&text).expect("JSON")
}

fn events(trace: &Json) -> &[Json] {
    trace["traceEvents"].as_array().expect("events")
}

/// µs with three decimals as ns. Doubles keep that many digits of any job shorter than a year.
fn ns(time: &Json) -> i64 {
    (time.as_f64().expect("µs") * 1000.0).round() as i64
}

#[test]
fn chrome_has_every_call_and_every_digit() {
    let capture = job("ddp4");
    let timeline = Timeline::new(&capture, None);
    let trace = trace(&timeline, None);
    let base = trace["baseTimeNanoseconds"].as_i64().expect("a base");
    let slices: HashMap<(u64, u64, &str), &Json> = events(&trace)
        .iter()
        .filter(|e| e["ph"] == "X")
        .map(|e| {
            let number = |v: &Json| v.as_u64().expect("a number");
            let category = e["cat"].as_str().expect("a category");
            (
                (number(&e["pid"]), number(&e["args"]["ticket"]), category),
                e,
            )
        })
        .collect();
    assert_eq!(capture.rows().count(), 176);
    assert_eq!(slices.len(), 2 * 176);
    for row in capture.rows() {
        let rank = u64::from(row.process.rank.expect("torchrun's rank"));
        let host = slices[&(rank, row.call.ticket, "cpu_op")];
        assert_eq!(base + ns(&host["ts"]), row.call.api_ns);
        assert_eq!(
            base + ns(&host["ts"]) + ns(&host["dur"]),
            row.call.return_ns
        );
        for column in COLUMNS.iter().filter(|c| c.name != "stream") {
            let found = &host["args"][column.name];
            match (column.value)(&row) {
                Value::Null => assert!(found.is_null(), "{}", column.name),
                Value::Bool(value) => assert_eq!(found, value),
                Value::Text(value) => assert_eq!(found, value),
                Value::Unsigned(value) => assert_eq!(digits(found), value.to_string()),
                Value::Signed(value) => assert_eq!(digits(found), value.to_string()),
            }
        }
        let gpu = slices[&(rank, row.call.ticket, "kernel")];
        let (start, stop) = row.call.gpu.on_either_clock().expect("it is timed");
        assert_eq!(ns(&gpu["dur"]), (stop - start) as i64);
        let offset = gpu["args"]["gpu_clock_offset_ns"]
            .as_i64()
            .expect("an offset");
        let end = stop as i64 + offset;
        assert_eq!(base + ns(&gpu["ts"]) + ns(&gpu["dur"]), end);
        assert!(end <= row.call.gpu_seen_ns);
    }
}

fn digits(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn chrome_names_what_kineto_names() {
    let capture = job("ddp4");
    let trace = trace(&Timeline::new(&capture, None), None);
    let args = |name: &str| {
        let is_it = |e: &&Json| e["name"] == format!("ncclKernel_{name}");
        &events(&trace).iter().find(is_it).expect("a slice")["args"]
    };
    let gather = args("AllGather");
    assert_eq!(gather["Collective name"], "_allgather_base");
    assert_eq!(
        (&gather["In msg nelems"], &gather["Out msg nelems"]),
        (&1.into(), &4.into())
    );
    assert_eq!(
        (&gather["Group size"], &gather["dtype"]),
        (&4.into(), &"Long".into())
    );
    assert_eq!(gather["Process Group Name"], "8fe72aa48f953264");
    assert_eq!(args("AllReduce")["dtype"], "Float");
    let names: Vec<&Json> = events(&trace)
        .iter()
        .filter(|e| e["name"] == "process_name")
        .map(|e| &e["args"]["name"])
        .collect();
    assert_eq!(names.len(), 4);
    assert!(names[3].as_str().is_some_and(|n| n.starts_with("rank 3")));
}

#[test]
fn chrome_flows_go_over_the_ranks_of_an_operation_by_time() {
    let capture = job("ddp4");
    let timeline = Timeline::new(&capture, None);
    let all = trace(&timeline, None);
    let mut flows: BTreeMap<u64, Vec<(i64, &str, u64)>> = BTreeMap::new();
    for event in events(&all).iter().filter(|e| e["cat"] == "operation") {
        let flow = flows
            .entry(event["id"].as_u64().expect("an id"))
            .or_default();
        let phase = event["ph"].as_str().expect("a phase");
        flow.push((
            ns(&event["ts"]),
            phase,
            event["pid"].as_u64().expect("a rank"),
        ));
    }
    assert_eq!(flows.len(), 176 / 4);
    for flow in flows.values_mut() {
        flow.sort_unstable();
        let phases: Vec<&str> = flow.iter().map(|(_, phase, _)| *phase).collect();
        assert_eq!(phases, ["s", "t", "t", "f"]);
        let ranks: HashSet<u64> = flow.iter().map(|(_, _, rank)| *rank).collect();
        assert_eq!(ranks.len(), 4);
    }
    // A file of one rank has no other end of a flow.
    let one = trace(&timeline, Some(2));
    assert_eq!(
        (
            &one["distributedInfo"]["rank"],
            &one["distributedInfo"]["world_size"]
        ),
        (&2.into(), &4.into())
    );
    assert!(events(&one)
        .iter()
        .all(|e| e["pid"] == 2 && e["cat"] != "operation"));
}

#[test]
fn calls_that_cross_on_the_gpu_are_on_tracks_of_their_own() {
    for name in ["mix_228", "threads_228", "zero_cta_232"] {
        let capture = job(name);
        let timeline = Timeline::new(&capture, None);
        let mut tracks: HashMap<(usize, usize), Vec<(i64, i64)>> = HashMap::new();
        for placed in timeline.calls() {
            let gpu = placed.gpu.map(|(slice, _)| slice);
            for (slice, is_gpu) in [(placed.host, false), (gpu, true)] {
                let Some(slice) = slice else { continue };
                let track = &timeline.tracks(placed.row.index)[slice.track];
                assert_eq!(track.is_gpu, is_gpu);
                let slices = tracks.entry((placed.row.index, slice.track)).or_default();
                slices.push((slice.span.begin, -slice.span.end));
            }
        }
        for ((process, track), mut slices) in tracks {
            slices.sort_unstable();
            let mut open: Vec<i64> = Vec::new();
            for (begin, end) in slices.into_iter().map(|(begin, end)| (begin, -end)) {
                while open.pop_if(|end| *end <= begin).is_some() {}
                let is_gpu = timeline.tracks(process)[track].is_gpu;
                assert!(
                    open.last().is_none_or(|outer| !is_gpu && end <= *outer),
                    "{name}"
                );
                open.push(end);
            }
        }
    }
}

/// A row as it is read back: names and values.
type Fields = Vec<(String, Field)>;

#[test]
fn parquet_reads_back_as_the_table_of_calls() {
    let capture = job("mix_228");
    let folder = tempfile::tempdir().expect("a folder");
    let keys = [Key::Communicator];
    let written = dataset::write(&Rows::new(&capture), Table::Calls, &keys, folder.path());
    let written = written.expect("written");
    assert_eq!(written, 1843);
    let mut found: HashMap<(u64, u64), (String, Fields)> = HashMap::new();
    for entry in std::fs::read_dir(folder.path()).expect("the folder") {
        let part = entry.expect("an entry").path();
        let name = part
            .file_name()
            .and_then(|n| n.to_str())
            .expect("a name")
            .to_owned();
        let file = std::fs::File::open(part.join("part-0.parquet")).expect("a part");
        let reader = SerializedFileReader::new(file).expect("Parquet");
        for row in reader.get_row_iter(None).expect("rows") {
            let columns: Fields = row.expect("a row").into_columns();
            let number = |name: &str| match columns.iter().find(|(n, _)| n == name) {
                Some((_, Field::Long(value))) => *value as u64,
                other => panic!("{other:?}"),
            };
            found.insert(
                (number("process"), number("ticket")),
                (name.clone(), columns),
            );
        }
    }
    assert_eq!(found.len(), 1843);
    let ids = OperationIds::of(&capture);
    let mut of_process = vec![0; capture.processes.len()];
    for mut row in capture.rows() {
        row.operation = ids.get(row.index, of_process[row.index]);
        of_process[row.index] += 1;
        let (folder, columns) = &found[&(row.index as u64, row.call.ticket)];
        let wanted: Fields = COLUMNS
            .iter()
            .filter(|c| c.name != "communicator")
            .map(|c| (c.name.to_owned(), field(c.kind, (c.value)(&row))))
            .collect();
        assert_eq!(columns, &wanted);
        let communicator = &capture.communicators[row.shape.communicator.expect("known") as usize];
        let id = folder.strip_prefix("communicator=").expect("Hive's form");
        assert_eq!(id.replace("%23", "#"), communicator.id);
    }
}

fn field(kind: &str, value: Value<'_>) -> Field {
    match value {
        Value::Null => Field::Null,
        Value::Bool(value) => Field::Bool(value),
        Value::Unsigned(value) if kind == "uint" => Field::ULong(value),
        Value::Unsigned(value) => Field::Long(value as i64),
        Value::Signed(value) => Field::Long(value),
        Value::Text(value) => Field::Str(value.to_owned()),
    }
}

/// A whole trace, of which the export only declares the packet.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[test]
fn perfetto_decodes_to_the_same_calls() {
    let capture = job("ddp4");
    let timeline = Timeline::new(&capture, None);
    let mut bytes = Vec::new();
    let slices = perfetto::write(&timeline, None, &mut bytes).expect("in memory");
    assert_eq!(slices, 2 * 176);
    let trace = Trace::decode(&bytes[..]).expect("protobuf");
    let (mut names, mut columns, mut texts) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut tracks = HashMap::new();
    let mut open: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut flows: HashMap<u64, u64> = HashMap::new();
    let mut placed = timeline
        .calls()
        .flat_map(|p| {
            let name = p.name();
            [
                (p.row, p.host, name.clone()),
                (p.row, p.gpu.map(|(slice, _)| slice), name),
            ]
        })
        .filter_map(|(row, slice, name)| Some((row, slice?, name)));
    let (mut waiting, mut transfers) = (0, 0);
    for packet in &trace.packet {
        if let Some(track) = &packet.track_descriptor {
            tracks.insert(track.uuid.expect("a number"), track);
        }
        // As a reader does, names first.
        let interned = packet.interned_data.clone().unwrap_or_default();
        let pairs = |list: Vec<perfetto::Interned>| list.into_iter().map(|i| (i.iid, i.name));
        names.extend(pairs(interned.event_names));
        columns.extend(pairs(interned.debug_annotation_names));
        texts.extend(pairs(interned.debug_annotation_string_values));
        let Some(event) = &packet.track_event else {
            continue;
        };
        let (time, track) = (
            packet.timestamp.expect("a time"),
            event.track_uuid.expect("a track"),
        );
        if event.r#type == Some(2) {
            assert!(open.get_mut(&track).and_then(Vec::pop).expect("a begin") <= time);
            continue;
        }
        open.entry(track).or_default().push(time);
        let lane = tracks[&track].name.as_deref().expect("a name");
        if open[&track].len() > 1 && lane.contains(", GPU") {
            // What lies in a call on the GPU.
            match names[&event.name_iid].as_deref() {
                Some("transfer") => transfers += 1,
                Some(name) if name.starts_with("waiting for rank ") => waiting += 1,
                other => panic!("{other:?}"),
            }
            continue;
        }
        let (row, slice, name) = placed.next().expect("as many slices as were placed");
        // Perfetto's own time begins with the run.
        assert_eq!(time as i64, slice.span.begin - timeline.base_ns);
        let rank = row.process.rank.expect("torchrun's rank");
        assert!(
            lane.starts_with(&format!("rank {rank}: ranks 0-3, ")),
            "{lane}"
        );
        // The host's are under the GPU's.
        let parent = tracks[&track].parent_uuid.map(|parent| tracks[&parent]);
        assert_eq!(parent.is_some(), lane.ends_with(", host"), "{lane}");
        assert!(parent.is_none_or(|parent| parent.parent_uuid.is_none()));
        let text = |iid: &Option<u64>, of: &HashMap<Option<u64>, Option<String>>| of[iid].clone();
        assert_eq!(text(&event.name_iid, &names), Some(name));
        let found: HashMap<String, &DebugAnnotation> = event
            .debug_annotations
            .iter()
            .map(|a| (text(&a.name_iid, &columns).expect("a name"), a))
            .collect();
        for column in COLUMNS {
            let annotation = found.get(column.name);
            match (column.value)(&row) {
                Value::Null => assert!(annotation.is_none(), "{}", column.name),
                Value::Bool(value) => {
                    assert_eq!(annotation.and_then(|a| a.bool_value), Some(value))
                }
                Value::Unsigned(value) => {
                    assert_eq!(annotation.and_then(|a| a.uint_value), Some(value))
                }
                Value::Signed(value) => {
                    assert_eq!(annotation.and_then(|a| a.int_value), Some(value))
                }
                Value::Text(value) => {
                    let iid = annotation.expect("a text").string_value_iid;
                    assert_eq!(text(&iid, &texts).as_deref(), Some(value));
                }
            }
        }
        for flow in event.flow_ids.iter().chain(&event.terminating_flow_ids) {
            *flows.entry(*flow).or_default() += 1;
        }
    }
    assert!(placed.next().is_none());
    assert!(open.values().all(Vec::is_empty));
    // AllReduce and AllGather: all but the last rank of each wait.
    let all = capture.rows().filter(|row| {
        let function = capture.names.get(row.shape.function);
        matches!(function, Some("AllReduce" | "AllGather"))
    });
    let all = all.count();
    assert_eq!((transfers, waiting), (all, all - all / 4));
    assert_eq!(flows.len(), 176 / 4);
    assert!(flows.values().all(|calls| *calls == 4));
}

/// What a row is, in each of the formats that hold a table.
#[test]
fn every_table_has_the_same_rows_as_parquet_csv_and_json_lines() {
    for name in ["ddp_slow_host", "decode_plain", "events_228", "killed_228"] {
        let capture = job(name);
        let rows = Rows::new(&capture);
        for of in Table::ALL {
            let (mut csv, mut jsonl) = (Vec::new(), Vec::new());
            let packed = tempfile::tempfile().expect("a file");
            let counted = [
                table::csv(&rows, of, &mut csv).expect("in memory"),
                table::jsonl(&rows, of, &mut jsonl).expect("in memory"),
                table::parquet(&rows, of, &packed).expect("written"),
            ];
            assert_eq!(counted, [counted[0]; 3], "{name} {of:?}");
            assert_eq!(
                jsonl.iter().filter(|b| **b == b'\n').count() as u64,
                counted[0]
            );
            let reader = SerializedFileReader::new(packed).expect("Parquet");
            let head: Vec<String> = {
                let schema = reader.metadata().file_metadata().schema();
                let fields = schema.get_fields().iter();
                fields.map(|field| field.name().to_owned()).collect()
            };
            let csv = String::from_utf8(csv).expect("text");
            let mut lines = records(&csv).into_iter();
            assert_eq!(lines.next().expect("a head"), head, "{name} {of:?}");
            let jsonl = String::from_utf8(jsonl).expect("text");
            for (cells, line) in lines.zip(jsonl.lines()) {
                let line: Json = serde_json::from_str(line).expect("JSON");
                for (cell, column) in cells.iter().zip(&head) {
                    let wanted = match &line[column] {
                        Json::Null => String::new(),
                        Json::String(text) => text.clone(),
                        value => value.to_string(),
                    };
                    let value = &line[column];
                    // Read alike: serde_json's last digit is its own.
                    let read = || serde_json::from_str::<Json>(cell).ok();
                    if value.is_f64() {
                        assert_eq!(read().and_then(|of| of.as_f64()), value.as_f64());
                    } else if value.is_object() {
                        assert_eq!(read().as_ref(), Some(value), "{name} {of:?} {column}");
                    } else {
                        assert_eq!(*cell, wanted, "{name} {of:?} {column}");
                    }
                }
                assert_eq!(cells.len(), head.len());
            }
            let has_rows = counted[0] > 0;
            assert!(
                !has_rows || of.why_empty(&capture).is_none(),
                "{name} {of:?}"
            );
        }
    }
}

/// The rows of a file, as text, with the values that are in its path; columns by name.
fn rows_of(file: &Path, in_path: &[(String, Field)]) -> Vec<String> {
    let reader = SerializedFileReader::new(std::fs::File::open(file).expect("a file"));
    let reader = reader.expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| {
        let mut columns: BTreeMap<String, Field> =
            row.expect("a row").into_columns().into_iter().collect();
        for (name, value) in in_path {
            assert!(
                columns.insert(name.clone(), value.clone()).is_none(),
                "{name} is in the file, too"
            );
        }
        format!("{columns:?}")
    });
    rows.collect()
}

/// The rows of a data set, in the form of [`rows_of`].
fn rows_below(folder: &Path, in_path: &[(String, Field)], found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("listed").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_str().expect("text");
        if !path.is_dir() {
            found.extend(rows_of(&path, in_path));
            continue;
        }
        let (key, value) = name.split_once('=').expect("Hive's form");
        let value = value.replace("%23", "#");
        let value = match value.as_str() {
            "__HIVE_DEFAULT_PARTITION__" => Field::Null,
            _ => Field::Str(value),
        };
        rows_below(
            &path,
            &[in_path, &[(key.to_owned(), value)]].concat(),
            found,
        );
    }
}

/// A data set by everything that it can be divided by has the rows and columns of the one file.
#[test]
fn every_table_has_the_same_rows_as_a_data_set() {
    for name in ["mix_two_hosts_228", "events_228", "short_fsdp2_gpu"] {
        let capture = job(name);
        let rows = Rows::new(&capture);
        for of in Table::ALL {
            let home = tempfile::tempdir().expect("a folder");
            let (one, all) = (home.path().join("one.parquet"), home.path().join("all"));
            let file = std::fs::File::create(&one).expect("made");
            let counted = table::parquet(&rows, of, file).expect("written");
            let keys: Vec<Key> = Key::ALL.into_iter().filter(|key| key.is_of(of)).collect();
            assert_eq!(
                dataset::write(&rows, of, &keys, &all).expect("written"),
                counted
            );
            let mut found = Vec::new();
            rows_below(&all, &[], &mut found);
            // Days and hours are in the path only, and are those of the time.
            let time = dataset::time_of(of);
            let found = found.into_iter().map(|row| match time {
                Some(time) if counted > 0 => without_times(row, time),
                _ => row,
            });
            let (mut found, mut wanted): (Vec<_>, Vec<_>) = (found.collect(), rows_of(&one, &[]));
            // Null and "" are one path.
            for row in found.iter_mut().chain(&mut wanted) {
                *row = row.replace("\"host\": Str(\"\")", "\"host\": Null");
            }
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{name} {of:?}");
        }
    }
}

/// Takes `day` and `hour` out of a row, and checks them against the column `time`.
fn without_times(row: String, time: &str) -> String {
    let value = |name: &str| {
        let at = row.find(&format!("\"{name}\": ")).expect(name) + name.len() + 4;
        row[at..]
            .split([',', '}'])
            .next()
            .expect("a value")
            .to_owned()
    };
    let (day, hour) = (value("day"), value("hour"));
    let ns = value(time);
    match ns.strip_prefix("Long(").and_then(|ns| ns.strip_suffix(')')) {
        Some(ns) => {
            let ns: i64 = ns.parse().expect("a number");
            let hour_of_day = ns / 3_600_000_000_000 % 24;
            let said = hour
                .strip_prefix("Str(\"")
                .and_then(|h| h.strip_suffix("\")"));
            let (date, of_day) = said.and_then(|h| h.split_once('T')).expect("an hour");
            assert_eq!(of_day.parse::<i64>().ok(), Some(hour_of_day), "{row}");
            assert_eq!(day, format!("Str(\"{date}\")"), "{row}");
        }
        None => assert_eq!(
            (ns.as_str(), day.as_str(), hour.as_str()),
            ("Null", "Null", "Null")
        ),
    }
    let row = row.replace(&format!("\"day\": {day}, "), "");
    row.replace(&format!("\"hour\": {hour}, "), "")
}

/// The records of a CSV file, by the rules of RFC 4180.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            letter => cell.push(letter),
        }
    }
    records
}

/// A job whose calls run in CUDA graphs: the export of calls has few rows, and says so.
#[test]
fn calls_in_graphs_are_said_to_be_left_out() {
    let said = |name| render::left_out::calls(&analyze::report(&job(name)));
    let decode = said("decode_plain");
    assert!(
        decode[0].contains("launches of CUDA graphs executed"),
        "{decode:?}"
    );
    assert_eq!(said("ddp4"), Vec::<String>::new());
}

/// Host times only, a killed rank, and calls of a graph that show no time of their own.
#[test]
fn jobs_with_holes_are_written() {
    for name in [
        "killed_228",
        "graph_host_228",
        "symmetric_230",
        "ddp8_two_hosts",
    ] {
        let capture = job(name);
        let timeline = Timeline::new(&capture, None);
        let slices = events(&trace(&timeline, None))
            .iter()
            .filter(|e| e["ph"] == "X")
            .count();
        let placed = capture.rows().count() as u64 - timeline.unplaced;
        assert!(slices as u64 >= placed && placed > 0, "{name}");
        let mut bytes = Vec::new();
        assert_eq!(
            perfetto::write(&timeline, None, &mut bytes).expect("in memory"),
            slices as u64
        );
    }
}
