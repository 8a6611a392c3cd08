//! What a rank, a group of ranks or a link costs is one figure, wherever it stands: in findings, the table of
//! ranks, the account, recommendations, text, pages, JSON, Arrow, `diff` and `history`.

use crate::recorded::{Recorded, JOBS};
use analyze::diff::{diff, Run};
use analyze::findings::{Finding, Kind, RankId};
use analyze::history::{history, Past};
use analyze::Report;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::Array;
use serde_json::Value;

/// The figures of a document that say what something costs: where each stands, and beside what.
fn prices<'v>(at: &str, value: &'v Value, found: &mut Vec<(String, f64, &'v Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let is_price = name.contains("loss") && name.ends_with("_us");
                if let Some(us) = field.as_f64().filter(|_| is_price) {
                    found.push((format!("{at}.{name}"), us, value));
                }
                prices(&format!("{at}.{name}"), field, found);
            }
        }
        Value::Array(all) => all.iter().for_each(|each| prices(at, each, found)),
        _ => {}
    }
}

/// Whether a figure is the price of one of these, as far as JSON keeps its digits.
fn is_one_of(us: f64, findings: &[&Finding]) -> bool {
    let told = findings.iter().filter_map(|finding| finding.wall_us());
    told.into_iter().any(|told| (us / told - 1.0).abs() < 1e-6)
}

/// Findings about the rank of a row of JSON.
fn about<'r>(row: &Value, report: &'r Report) -> Vec<&'r Finding> {
    let is = |id: &RankId| {
        let device = row.get("device").and_then(Value::as_u64);
        row["host"].as_str() == Some(&id.process.host)
            && row["pid"].as_u64() == Some(id.process.pid.into())
            && (id.device.is_none() || device.is_none() || device == id.device.map(u64::from))
    };
    let findings = report.findings.iter();
    let of_rank = findings.filter(|finding| finding.subject.ranks.len() == 1);
    let of_rank = of_rank.filter(|finding| finding.subject.ranks.iter().any(is));
    of_rank.collect()
}

/// Words of a page, without its line breaks and columns.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn agrees(job: &Recorded) {
    let name = job.path.display();
    let report = &job.report;
    let document = render::report_json::value(report).expect("JSON");
    let mut found = Vec::new();
    prices("", &document, &mut found);
    for (at, us, row) in &found {
        let told = match at.as_str() {
            ".ranks.rows.loss_us" => about(row, report),
            // What it costs less than matters is no finding.
            ".arrivals.links.loss_wall_us" | ".arrivals.links.loss_at_most_us" => {
                let of_links = about(row, report).into_iter();
                let of_links: Vec<_> = of_links.filter(|f| f.kind() == Kind::SlowNetwork).collect();
                if of_links.is_empty() {
                    continue;
                }
                if at.ends_with("at_most_us") {
                    let mut most = of_links.iter().filter_map(|f| f.loss.as_ref()?.at_most_us);
                    assert!(most.any(|most| most == *us), "{name}: {at} is {us}");
                    continue;
                }
                of_links
            }
            ".account.answers.loss_us" => {
                let account = report.account.as_ref().expect("an account");
                // What costs less than a hundredth of the run is no finding.
                let run_us = report.ranks.wall_us.map_or(0.0, |wall| wall.max);
                if !account
                    .late()
                    .filter(|of| of.sure_us >= run_us / 100.0)
                    .any(|of| (of.loss_us / us - 1.0).abs() < 1e-6)
                {
                    continue;
                }
                report.findings.iter().collect()
            }
            _ => panic!("{name}: {at} is a price of its own"),
        };
        assert!(is_one_of(*us, &told), "{name}: {at} is {us}");
    }
    for finding in &report.findings {
        let Some(us) = finding.wall_us() else {
            continue;
        };
        let of_rank = found
            .iter()
            .any(|(at, told, _)| at == ".ranks.rows.loss_us" && *told >= us * (1.0 - 1e-6));
        assert!(
            of_rank || finding.subject.ranks.len() != 1,
            "{name}: {finding:?}"
        );
        let gains = report.recommendations.iter();
        assert!(
            gains.into_iter().any(|of| of.gain.us == Some(us)),
            "{name}: {finding:?}"
        );
    }
    let told: Vec<f64> = report
        .findings
        .iter()
        .filter_map(Finding::wall_us)
        .collect();
    let rows = render::batches::findings(report).expect("a table");
    if let Some(column) = rows.column_by_name("wall_ns") {
        let column = column.as_primitive::<Int64Type>();
        let in_table = (0..column.len()).filter(|row| column.is_valid(*row));
        let in_table: Vec<i64> = in_table.map(|row| column.value(row)).collect();
        let told: Vec<i64> = told.iter().map(|us| (1e3 * us).round() as i64).collect();
        assert_eq!(in_table, told, "{name}");
    }
    let (mut text, mut page) = (Vec::new(), Vec::new());
    let options = render::text::Options {
        all: true,
        ..Default::default()
    };
    render::text::write(report, options, &mut text).expect("written");
    render::html::write(report, &mut page).expect("written");
    let (text, page) = (
        String::from_utf8_lossy(&text),
        String::from_utf8_lossy(&page),
    );
    for finding in &report.findings {
        let sentence = words(&render::findings::sentence(finding));
        assert!(words(&text).contains(&sentence), "{name}: {sentence}");
        let escaped = sentence.replace('&', "&amp;").replace('<', "&lt;");
        assert!(words(&page).contains(&escaped), "{name}: {sentence}");
    }
    if report.findings.is_empty() {
        return;
    }
    let run = Run::of(&job.capture);
    let compared = diff(&run, &run, &[]);
    assert_eq!(compared.a.findings, report.findings, "{name}");
    let most = told.iter().copied().reduce(f64::max);
    let past = history(&[Past::of(&job.capture)]);
    assert_eq!(past.runs[0].loss_us, most, "{name}");
}

#[test]
fn what_something_costs_is_the_same_in_all_places() {
    JOBS.iter().for_each(agrees);
    let priced = JOBS
        .iter()
        .filter(|job| job.report.findings.iter().any(|f| f.loss.is_some()));
    assert!(priced.count() > 15);
}
