//! No share is over 1 or under 0, and no part larger than its whole, in any recorded job.

use crate::recorded::JOBS;
use serde_json::Value;

/// Every share of a report, with its place in the JSON.
fn shares(at: &str, value: &Value, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Object(fields) => {
            // What the recording cost is a difference of two measurements, and may come out below 0.
            for (name, value) in fields.iter().filter(|(name, _)| *name != "cost") {
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

#[test]
fn no_share_of_a_recorded_job_is_over_1_or_under_0() {
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for job in JOBS.iter() {
        let report = serde_json::to_value(&job.report).expect("JSON");
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
