//! Two hosts on one time line: the clocks' part of the report, and exports that are moved onto one clock.

use analyze::clocks::Given;
use render::timeline::Timeline;
use render::{html, report_json, text};
use std::path::Path;
use tables::{Capture, GpuTimes};

/// A recorded job whose ranks were two simulated hosts, with the second one's clock set by `offset`, ns.
fn two_hosts(offset: i64) -> Capture {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/mix_two_hosts_228");
    let mut capture = Capture::open(&data).expect("the recorded job opens");
    for process in &mut capture.processes {
        let id = process.fact("env.NCCL_HOSTID").expect("a simulated host");
        process.host = id.to_owned();
        if !process.host.ends_with('1') {
            continue;
        }
        for call in &mut process.calls {
            let times = [
                &mut call.api_ns,
                &mut call.launch_start_ns,
                &mut call.launch_end_ns,
                &mut call.enqueue_ns,
                &mut call.return_ns,
                &mut call.gpu_seen_ns,
            ];
            times
                .into_iter()
                .filter(|t| **t != 0)
                .for_each(|t| *t += offset);
            if let GpuTimes::OnHost { start, stop, .. } = &mut call.gpu {
                *start += offset;
                *stop += offset;
            }
        }
    }
    capture
}

#[test]
fn the_report_has_a_part_on_clocks() {
    let report = analyze::report(&two_hosts(70_000_000));
    let mut printed = Vec::new();
    let all = text::Options {
        all: true,
        explain: false,
        kernels: false,
        ..Default::default()
    };
    text::write(&report, all, &mut printed).expect("printed");
    let printed = String::from_utf8(printed).expect("text");
    let part: Vec<&str> = printed
        .lines()
        .skip_while(|line| !line.starts_with("Clocks of the hosts"))
        .take(3)
        .collect();
    assert_eq!(
        part[0],
        "Clocks of the hosts (µs against simulated-host-0; bounds hold within 1 s, if clocks run apart by 50 \
        ppm at most)"
    );
    let row: Vec<&str> = part[2].split_whitespace().collect();
    assert_eq!(
        (row[0], row[4], row[5]),
        ("simulated-host-1", "common", "ends")
    );
    let us = |text: &str| text.parse::<f64>().expect("a number");
    assert!((us(row[1]) - 70_000.0).abs() < 20.0, "{row:?}");
    assert!(us(row[2]) < 70_000.0 && 70_000.0 < us(row[3]), "{row:?}");
    let mut page = Vec::new();
    html::write(&report, &mut page).expect("written");
    let page = String::from_utf8(page).expect("text");
    assert!(page.contains(" id=\"clocks\""));
    let mut printed = Vec::new();
    report_json::write(&report, &mut printed).expect("printed");
    let printed: serde_json::Value = serde_json::from_slice(&printed).expect("JSON");
    let schema = serde_json::from_str(report_json::SCHEMA).expect("a schema");
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .expect("a schema")
        .iter_errors(&printed)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors, [""; 0]);
    assert_eq!(printed["clocks"]["hosts"][0]["source"], "common ends");
}

#[test]
fn a_time_line_is_moved_onto_one_clock() {
    let begins = |capture: &Capture, given: Option<Given>| -> (Vec<i64>, serde_json::Value) {
        let clocks = analyze::clocks_of(capture, given);
        let timeline = Timeline::new(capture, clocks.as_ref());
        let host = timeline.calls().filter_map(|placed| placed.host);
        let begins = host.map(|slice| slice.span.begin).collect();
        let mut out = Vec::new();
        render::chrome::write(&timeline, None, &mut out).expect("written");
        let chrome: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        (begins, chrome["otherData"]["host_clocks"].clone())
    };
    let (as_it_was, off) = (two_hosts(0), two_hosts(70_000_000));
    let raw: Vec<i64> = Timeline::new(&as_it_was, None)
        .calls()
        .filter_map(|placed| placed.host)
        .map(|slice| slice.span.begin)
        .collect();
    let far = |(begins, _): &(Vec<i64>, serde_json::Value)| {
        let pairs = begins.iter().zip(&raw);
        pairs.map(|(a, b)| (a - b).abs()).max().expect("calls")
    };
    let estimated = begins(&off, None);
    assert!(far(&estimated) < 50_000, "{}", far(&estimated));
    assert_eq!(estimated.1["hosts"][0]["source"], "common ends");
    let file = "simulated-host-0,0,100\nsimulated-host-1,70000000,200";
    let given = begins(&off, Some(Given::parse(file).expect("offsets")));
    assert_eq!(far(&given), 0);
    let said = serde_json::json!({
        "reference": "simulated-host-0",
        "hosts": [{
            "host": "simulated-host-1",
            "offset_us": 70_000.0,
            "error_us": 0.3,
            "source": "given",
            "contradicted": false,
        }],
    });
    assert_eq!(given.1, said);
    // Each process of a Perfetto trace says what was done to its times.
    let clocks = analyze::clocks_of(&off, None);
    let timeline = Timeline::new(&off, clocks.as_ref());
    let said: Vec<Option<String>> = (0..4).map(|process| timeline.clock(process)).collect();
    assert!(said[0].is_none() && said[1].is_none());
    let moved = said[2].as_deref().expect("of the second host");
    assert!(
        moved.starts_with(
            "times are moved from the clock of simulated-host-1 onto that of simulated-host-0, \
            which is "
        ),
        "{moved}"
    );
    let one_host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/ddp4");
    let one_host = Capture::open(&one_host).expect("the recorded job opens");
    assert!(analyze::clocks_of(&one_host, None).is_none());
}
