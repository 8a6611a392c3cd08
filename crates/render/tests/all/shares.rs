//! No share is over 1 or under 0, and no part larger than its whole, in any recorded job.

use crate::recorded::JOBS;
use serde_json::Value;

/// Every share of a report, with its place in the JSON.
fn shares(at: &str, value: &Value, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Object(fields) => {
            // What the recording cost is a difference of two measurements, and may come out below 0. So are
            // how many more kernels a rank runs than others, and how much longer the same ones take there.
            let differences = ["cost", "more_kernels_share", "longer_kernels_share"];
            let fields = fields.iter();
            for (name, value) in fields.filter(|(name, _)| !differences.contains(&name.as_str())) {
                let at = format!("{at}.{name}");
                let is_share =
                    name == "share" || name.ends_with("_share") || name.starts_with("share_of");
                match value.as_f64().filter(|_| is_share) {
                    Some(share) => found.push((at, share)),
                    None => shares(&at, value, found),
                }
            }
        }
        Value::Array(all) => {
            for (n, value) in all.iter().enumerate() {
                shares(&format!("{at}[{n}]"), value, found);
            }
        }
        _ => {}
    }
}

/// Every share with an interval, with its place in the JSON.
fn intervals(at: &str, value: &Value, found: &mut Vec<(String, [f64; 3])>) {
    match value {
        Value::Object(fields) => {
            let number = |of: &Value| of.as_f64();
            let share = fields.get("share").and_then(number);
            let ends = fields.get("interval").and_then(Value::as_array);
            if let (Some(share), Some([low, high])) = (share, ends.map(Vec::as_slice)) {
                if let Some((low, high)) = number(low).zip(number(high)) {
                    found.push((at.to_owned(), [low, share, high]));
                }
            }
            // Costs are differences of measurements, paces are ratios of two GPUs' times, and by how much a
            // host could be faster is an estimate.
            let other = ["cost", "pace", "host_waited"];
            let shares = fields.iter();
            let shares = shares.filter(|(name, _)| !other.contains(&name.as_str()));
            for (name, value) in shares {
                intervals(&format!("{at}.{name}"), value, found);
            }
        }
        Value::Array(all) => {
            for (n, value) in all.iter().enumerate() {
                intervals(&format!("{at}[{n}]"), value, found);
            }
        }
        _ => {}
    }
}

#[test]
fn no_interval_of_a_share_goes_beyond_0_and_1() {
    let (mut wrong, mut looked_at) = (Vec::new(), 0);
    for job in JOBS.iter() {
        let report = render::report_json::value(&job.report).expect("JSON");
        let mut found = Vec::new();
        intervals("", &report, &mut found);
        looked_at += found.len();
        let is_wrong = |(_, [low, share, high]): &(String, [f64; 3])| {
            *low < 0.0 || low > share || share > high || *high > 1.0 + 1e-9
        };
        wrong.extend(found.into_iter().filter(is_wrong).map(|of| (&job.path, of)));
    }
    assert!(looked_at > 200, "{looked_at}");
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}

#[test]
fn no_part_of_a_recorded_job_is_larger_than_its_whole() {
    let mut looked_at = 0;
    for job in JOBS.iter() {
        let path = &job.path;
        for row in &job.report.ranks.rows {
            let (wall, nccl) = (row.wall_us.unwrap_or(f64::MAX), row.nccl_us);
            let waited = row.waited_us.unwrap_or(0.0);
            assert!(
                nccl.is_none_or(|nccl| waited <= nccl && nccl <= wall),
                "{path:?}: {row:?}"
            );
            looked_at += 1;
        }
        for row in job.report.streams.iter().flat_map(|streams| &streams.ranks) {
            let waiting = row.exposed_waiting.map_or(0.0, |of| of.share);
            let exposed = row.exposed.share;
            assert!(waiting <= exposed, "{path:?}: {waiting} of {exposed}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 150, "{looked_at}");
}

#[test]
fn no_share_of_a_recorded_job_is_over_1_or_under_0() {
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for job in JOBS.iter() {
        let report = render::report_json::value(&job.report).expect("JSON");
        let mut found = Vec::new();
        shares("", &report, &mut found);
        looked_at += found.len();
        let is_wrong = |(_, share): &(String, f64)| !(0.0..=1.0 + 1e-9).contains(share);
        wrong.extend(
            found
                .into_iter()
                .filter(is_wrong)
                .map(|found| (&job.path, found)),
        );
    }
    assert!(looked_at > 1000, "{looked_at}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
