//! Reads JSON that profilers write: NCCL Inspector's lines, and events in Chrome's trace format.
//!
//! Inspector writes an object for each call, with `header` (communicator, rank, ranks), `metadata`, and
//! `coll_perf` or `p2p_perf`. From its format 4.3 on, an object with header and metadata stands once before
//! the calls that it is for. Chrome's format is a list of events, or an object with `traceEvents`.
//!
//! CoMMA's events have the category `COLL` or `P2P`, lower-case names, and `rank`, `comm_hash` and `seq_num`
//! beside Chrome's own fields. Their time is `child_dur`, from the first network operation of a call to the
//! last. `dur` begins with the enqueueing. A call without network operations has none, and no `child_dur`.
//!
//! torch.profiler writes Chrome's format with `distributedInfo` beside the events. Its calls of NCCL are the
//! kernels: one for each call, or for each group of calls. A kernel's name has the function, and the rank is
//! that of the file. What else the name has is not to be believed, and sizes are in no kernel.
//!
//! Inspector and CoMMA give the bytes of one rank for AllGather and ReduceScatter. Inspector cuts a
//! communicator's hash after 14 digits: it identifies a communicator within one output, but matches no hash
//! outside.
//!
//! Rule: an event with a name that is no NCCL function is passed over. A line that is no JSON counts as
//! unreadable.

use crate::records::{Record, Records};
use serde_json::Value;
use std::path::Path;

/// Adds the calls in a file; false when it is in no format known here.
pub fn read(file: &Path, nranks: Option<u32>, records: &mut Records) -> bool {
    let Ok(bytes) = std::fs::read(file) else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes);
    if let Ok(whole) = serde_json::from_str::<Value>(&text) {
        if let Some(rank) = whole["distributedInfo"]["rank"].as_u64() {
            let events = whole["traceEvents"].as_array();
            let kernels = events.into_iter().flatten();
            records.format = "torch.profiler".into();
            records
                .rows
                .extend(kernels.filter_map(|event| kernel(event, rank as u32)));
            return true;
        }
        if let Some(events) = events(&whole) {
            records.format = "Chrome trace".into();
            let rows = events.iter().filter_map(|e| event(e, nranks));
            records.rows.extend(rows);
            return true;
        }
    }
    lines(&text, nranks, records)
}

fn events(whole: &Value) -> Option<&Vec<Value>> {
    let events = whole
        .as_array()
        .or_else(|| whole["traceEvents"].as_array())?;
    let known = |e: &Value| e.get("name").is_some() && e.get("ph").is_some();
    events.iter().any(known).then_some(events)
}

/// Reads a stream of JSON values, each on one line or on several. A damaged value ends with its line.
fn lines(text: &str, nranks: Option<u32>, records: &mut Records) -> bool {
    let mut known = false;
    let mut header = Value::Null;
    let mut metadata = Value::Null;
    let mut unreadable = 0;
    let mut rest = text.trim_start_matches([' ', '\n', '\r', '\t', '[', ',']);
    while !rest.is_empty() {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let step = match stream.next() {
            Some(Ok(value)) => {
                if value.get("header").is_some() {
                    header = value["header"].clone();
                    metadata = value["metadata"].clone();
                }
                let row = inspector(&value, &header, &metadata);
                if row.is_some() || value.get("dump_stats").is_some() {
                    known = true;
                    records.format = "Inspector JSON".into();
                } else if value.get("ph").is_some() {
                    known = true;
                    records.format = if is_of_comma(&value) {
                        "CoMMA JSON".into()
                    } else {
                        "Chrome trace".into()
                    };
                }
                for what in ["coll", "p2p"] {
                    let dropped = format!("{what}_dropped_since_last_dump");
                    if let Some(dropped) = value["dump_stats"][dropped].as_u64() {
                        *records.admitted.get_or_insert(0) += dropped;
                    }
                }
                records.rows.extend(row.or_else(|| event(&value, nranks)));
                stream.byte_offset()
            }
            None => rest.len(),
            Some(Err(_)) => {
                unreadable += 1;
                rest.find('\n').map_or(rest.len(), |at| at + 1)
            }
        };
        rest = rest[step..].trim_start_matches([' ', '\n', '\r', '\t', ',', ']']);
    }
    if known {
        records.unreadable += unreadable;
    }
    known
}

fn inspector(value: &Value, header: &Value, metadata: &Value) -> Option<Record> {
    let (perf, name) = match (value.get("coll_perf"), value.get("p2p_perf")) {
        (Some(perf), _) => (perf, "coll"),
        (None, Some(perf)) => (perf, "p2p"),
        (None, None) => return None,
    };
    let field = |of: &str| &perf[format!("{name}_{of}")];
    let function = perf[name].as_str().unwrap_or_default().to_owned();
    let nranks = header["n_ranks"].as_u64().map(|n| n as u32);
    Some(Record {
        pid: metadata["pid"].as_u64().map(|pid| pid as u32),
        rank: header["rank"].as_u64().map(|rank| rank as u32),
        bytes: total(&function, field("msg_size_bytes").as_u64(), nranks),
        function,
        number: 1,
        communicator: header["id"].as_str().and_then(hex),
        // `p2p_sn` counts sends and receives together, so it is no sequence number of either.
        seq: field("sn").as_u64().filter(|_| name == "coll"),
        // Whole µs in older formats.
        time_ns: field("exec_time_us")
            .as_f64()
            .filter(|us| *us >= 0.0)
            .map(|us| (us * 1e3) as u64),
        ..Record::default()
    })
}

/// A kernel of NCCL's in a trace of torch.profiler.
fn kernel(event: &Value, rank: u32) -> Option<Record> {
    if event["cat"].as_str() != Some("kernel") {
        return None;
    }
    // Such as ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>).
    let name = event["name"].as_str()?.strip_prefix("nccl")?;
    let (_, name) = name.split_once("Kernel_")?;
    let named = name.split(['_', '(']).next()?;
    Some(Record {
        rank: Some(rank),
        function: function(named).map_or(named, |known| known).to_owned(),
        number: 1,
        time_ns: event["dur"].as_f64().map(|us| (us * 1e3) as u64),
        ..Record::default()
    })
}

fn event(event: &Value, nranks: Option<u32>) -> Option<Record> {
    let function = function(event["name"].as_str()?)?.to_owned();
    // Complete events only: the begin and end of one by itself would count twice.
    if event["ph"].as_str() != Some("X") {
        return None;
    }
    let args = &event["args"];
    let number = |names: &[&str]| {
        let found = names.iter().map(|n| &args[*n]);
        let found = found.chain(names.iter().map(|n| &event[*n]));
        found.filter_map(Value::as_u64).next()
    };
    let us = if is_of_comma(event) {
        event["child_dur"].as_f64()
    } else {
        event["dur"].as_f64()
    };
    Some(Record {
        pid: event["pid"].as_u64().map(|pid| pid as u32),
        rank: number(&["rank"]).map(|rank| rank as u32),
        bytes: total(
            &function,
            number(&["size", "bytes", "msg_size_bytes"]),
            nranks,
        ),
        function,
        number: 1,
        communicator: event["comm_hash"]
            .as_str()
            .or(args["comm_hash"].as_str())
            .and_then(hex),
        seq: number(&["seq_num", "seq"]),
        time_ns: us.filter(|us| *us >= 0.0).map(|us| (us * 1e3) as u64),
        ..Record::default()
    })
}

/// Whether CoMMA wrote an event of a call.
fn is_of_comma(event: &Value) -> bool {
    let category = event["cat"].as_str().unwrap_or_default();
    matches!(category, "COLL" | "P2P") && event.get("comm_hash").is_some()
}

/// Bytes by nccl-tests' convention from those of one rank.
fn total(function: &str, bytes: Option<u64>, nranks: Option<u32>) -> Option<u64> {
    tables::calls::bytes(function, "ncclInt8", bytes?, nranks)
}

/// NCCL's spelling of a function, from `AllReduce`, `all_reduce`, `ncclAllReduce` and the like.
pub(crate) fn function(name: &str) -> Option<&'static str> {
    let plain = |text: &str| {
        let lower = text.to_lowercase().replace('_', "");
        lower.trim_start_matches("nccl").to_owned()
    };
    let name = plain(name);
    nccl_abi::names::FUNCS
        .into_iter()
        .find(|known| plain(known) == name)
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (bool, Records) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("out.log");
        std::fs::write(&file, text).expect("written");
        let mut records = Records::default();
        let known = read(&file, Some(8), &mut records);
        (known, records)
    }

    // What Inspector wrote of a job of fake-nccl's with 2 ranks, told to keep calls without times of the
    // kernel.
    const INSPECTOR: &str = include_str!("../../tests/data/inspector-4.0.log");

    #[test]
    fn inspectors_own_output_is_read() {
        let (known, records) = read_text(INSPECTOR);
        assert!(known);
        assert_eq!((records.unreadable, records.admitted), (0, None));
        let rows: Vec<_> = records
            .rows
            .iter()
            .map(|r| (&*r.function, r.bytes, r.seq, r.time_ns))
            .collect();
        let expected = [
            ("AllReduce", Some(1 << 20), Some(0), Some(13_000)),
            ("AllGather", Some(4096), Some(0), Some(10_000)),
            ("ReduceScatter", Some(65_536), Some(0), Some(10_000)),
            ("Broadcast", Some(16_384), Some(0), Some(10_000)),
            ("Reduce", Some(16_384), Some(0), Some(10_000)),
            ("Send", Some(1 << 20), None, Some(5000)),
            ("Recv", Some(1 << 20), None, Some(0)),
            ("AllReduce", Some(8), Some(1), Some(10_000)),
        ];
        assert_eq!(rows, expected);
        assert!(records.rows.iter().all(|r| r.rank == Some(0)));
    }

    // What CoMMA wrote of rank 0 of a job of fake-nccl's; tests/data/README.md has the job.
    const COMMA: [&str; 2] = [
        include_str!("../../tests/data/comma-net.json"),
        include_str!("../../tests/data/comma-local.json"),
    ];

    #[test]
    fn commas_own_output_is_read() {
        for (text, over_network) in COMMA.into_iter().zip([true, false]) {
            let (known, records) = read_text(text);
            assert!(known);
            assert_eq!((&*records.format, records.unreadable), ("CoMMA JSON", 0));
            let rows: Vec<_> = records
                .rows
                .iter()
                .map(|r| (&*r.function, r.bytes, r.seq))
                .collect();
            // Read for eight ranks: the job had two, and CoMMA writes the bytes of one.
            let expected = [
                ("AllReduce", Some(65_536), Some(0)),
                ("AllGather", Some(8 * 32_768), Some(0)),
                ("ReduceScatter", Some(8 * 32_768), Some(0)),
                ("Broadcast", Some(65_536), Some(0)),
                ("Reduce", Some(65_536), Some(0)),
                ("Send", Some(1 << 20), None),
                ("Recv", Some(1 << 20), None),
                ("AllReduce", Some(1024), Some(1)),
            ];
            assert_eq!(rows, expected);
            assert!(records.rows.iter().all(|r| r.rank == Some(0)));
            let times = records.rows.iter().filter_map(|r| r.time_ns);
            let times: Vec<u64> = times.collect();
            if over_network {
                assert_eq!(times, [49, 3, 3, 3, 3, 1, 1, 2].map(|us| us * 1000))
            } else {
                assert_eq!(times.len(), 0)
            }
        }
    }

    // What torch.profiler wrote on rank 1 of an FSDP2 job, of which it recorded twelve steps.
    const TORCH: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../python/tests/torch_profiler/fsdp2_traced.1.json.gz"
    );

    #[test]
    fn torch_profilers_own_output_is_read() {
        let unpacked = std::process::Command::new("gzip")
            .args(["-dc", TORCH])
            .output()
            .expect("gzip");
        assert!(unpacked.status.success());
        let (known, records) = read_text(&String::from_utf8(unpacked.stdout).expect("text"));
        assert!(known);
        assert_eq!(records.format, "torch.profiler");
        let of = |function: &str| {
            let rows = records.rows.iter().filter(|row| row.function == function);
            (
                rows.clone().count(),
                rows.filter_map(|row| row.time_ns).sum::<u64>(),
            )
        };
        // 24 gathers and 12 reductions a step.
        let (gathers, reductions) = (of("AllGather"), of("ReduceScatter"));
        assert_eq!((gathers.0, reductions.0), (12 * 24, 12 * 12));
        assert_eq!(records.rows.len(), 36 * 12);
        assert!(
            gathers.1 > 1_000_000 && reductions.1 > 1_000_000,
            "{gathers:?} {reductions:?}"
        );
        assert!(records
            .rows
            .iter()
            .all(|row| row.rank == Some(1) && row.bytes.is_none()));
    }

    // The fields are those of NVIDIA's README; the values are ours.
    const CALL: &str = r#"{"header":{"id":"0x1f","rank":2,"n_ranks":8,"nnodes":1},"metadata":{"pid":77},
        "coll_perf":{"coll":"ReduceScatter","coll_sn":5,"coll_msg_size_bytes":1000,
        "coll_exec_time_us":41,"coll_busbw_gbs":1.5}}"#;

    #[test]
    fn inspector_lines_are_read_with_sizes_of_all_ranks_and_a_torn_one_is_counted() {
        let (known, records) = read_text(&format!("{CALL}\n{CALL}\n{{\"header\":{{\"id\":\n"));
        assert!(known);
        assert_eq!((records.rows.len(), records.unreadable), (2, 1));
        let expected = Record {
            pid: Some(77),
            rank: Some(2),
            function: "ReduceScatter".into(),
            bytes: Some(8000),
            number: 1,
            communicator: Some(0x1f),
            seq: Some(5),
            time_ns: Some(41_000),
            ..Record::default()
        };
        assert_eq!(records.rows[0], expected);
    }

    #[test]
    fn a_header_leads_the_objects_that_follow_it_and_says_what_was_dropped() {
        let stats = r#"{"header":{"id":"0xa","rank":1,"n_ranks":2},"metadata":{"pid":9},
            "dump_stats":{"coll_records":1,"coll_dropped_since_last_dump":3,
            "p2p_dropped_since_last_dump":2}}"#;
        let (_, records) = read_text(&format!(
            "{stats}\n{{\"coll_perf\":{{\"coll\":\"AllReduce\",\"coll_sn\":0,\"coll_msg_size_bytes\":64}}}}\n\
             {{\"p2p_perf\":{{\"p2p\":\"Send\",\"p2p_sn\":1,\
             \"p2p_msg_size_bytes\":32,\"p2p_exec_time_us\":1.5}}}}\n"
        ));
        assert_eq!((records.rows.len(), records.admitted), (2, Some(5)));
        assert_eq!(records.rows[0].rank, Some(1));
        assert_eq!(records.rows[0].time_ns, None);
        assert_eq!(
            (records.rows[1].bytes, records.rows[1].time_ns),
            (Some(32), Some(1500))
        );
        assert_eq!((records.rows[0].seq, records.rows[1].seq), (Some(0), None));
    }

    #[test]
    fn chrome_events_are_read_whole_or_line_by_line_and_the_enqueueing_is_no_time() {
        let event = r#"{"args":{"size":2048},"cat":"COLL","child_dur":14,"comm_hash":"0x58ae","dur":110,
            "name":"all_gather",
            "ph":"X","rank":0,"seq_num":57,"ts":961}"#;
        let other = r#"{"name":"ProxyOp","ph":"X","dur":3,"ts":5}"#;
        for text in [
            format!("[{event},{other}]"),
            format!("{{\"traceEvents\":[{other},{event}]}}"),
            format!("{event}\n{other}\n"),
            format!("[\n{event},\n{other},\n"),
        ] {
            let (known, records) = read_text(&text);
            assert!(known, "{text}");
            assert_eq!(records.rows.len(), 1, "{text}");
            let row = &records.rows[0];
            assert_eq!(
                (row.function.as_str(), row.bytes),
                ("AllGather", Some(8 * 2048))
            );
            assert_eq!(
                (row.time_ns, row.seq, row.rank),
                (Some(14_000), Some(57), Some(0))
            );
        }
        let (_, records) = read_text(&format!("[{}]", event.replace("\"child_dur\":14,", "")));
        assert_eq!(records.rows[0].time_ns, None);
    }

    #[test]
    fn other_files_are_none_of_ours() {
        for text in ["", "hello\n", "{\"a\": 1}\n", "[1, 2]", "\u{0}\u{1}\n\n{"] {
            assert!(!read_text(text).0, "{text:?}");
        }
    }
}
