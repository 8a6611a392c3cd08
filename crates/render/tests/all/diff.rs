//! Recorded jobs set side by side: the JSON keeps to its schema, and a run does not differ from itself.

use analyze::diff::{diff, Criterion, Diff, DiffFinding, Run, Status};
use render::findings::changed;
use std::path::Path;
use tables::Capture;

fn run(name: &str) -> Run {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(name);
    Run::of(&Capture::open(&path).expect("a capture"))
}

const ALL: [Criterion; 5] = [
    Criterion::Slower(0.05),
    Criterion::Missing,
    Criterion::Environment,
    Criterion::Algorithm,
    Criterion::Incomplete,
];

/// Holds JSON to a schema.
fn check(schema: &str, json: &serde_json::Value) {
    let schema = serde_json::from_str(schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(json)
        .map(|e| format!("{}: {e}", e.instance_path))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

fn check_schema(diff: &Diff) {
    let mut text = Vec::new();
    render::diff_json::write(diff, &mut text).expect("written");
    let json = serde_json::from_slice(&text).expect("JSON");
    check(render::diff_json::SCHEMA, &json);
    let mut text = Vec::new();
    render::diff_text::write(diff, false, Default::default(), &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains(analyze::diff::DEFINITION));
    let mut markdown = Vec::new();
    render::diff_html::write_markdown(diff, &mut markdown).expect("written");
    let markdown = String::from_utf8(markdown).expect("text");
    assert!(
        markdown.starts_with("**")
            && markdown.contains("\n### The run\n\n| figure | A | B | change |")
    );
    let pictures = ["<svg>A</svg>".to_owned(), String::new()];
    let mut page = Vec::new();
    render::diff_html::write(diff, &pictures, &mut page).expect("written");
    let page = String::from_utf8(page).expect("text");
    // Each says of which run it is, and a run without a picture has no heading.
    let (a, b) = page.split_once("<svg>A</svg>").expect("a picture");
    let head = a.rsplit("<h2>").next().expect("a heading");
    let named = format!("A: {}</h2>\n", diff.a.capture);
    assert!(head == named && !b.contains("<h2>B"), "{head}");
    // Long text has several lines in place of dots.
    let long = page.split("<td").skip(1);
    let long = long.filter_map(|cell| cell.split('<').next()?.split_once('>'));
    for (class, text) in long.filter(|(class, _)| class.contains("\"t\"")) {
        assert!(text.chars().count() <= 60, "{class}: {text}");
    }
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let job = run("ddp4");
    let diff = diff(&job, &job, &ALL);
    check_schema(&diff);
    let changed: Vec<_> = diff
        .operations
        .iter()
        .filter(|r| {
            !matches!(r.finding, DiffFinding::NoneFound | DiffFinding::Unknown) || r.how_changed
        })
        .collect();
    assert!(changed.is_empty(), "{changed:#?}");
    assert!(diff.environment.is_empty());
    assert!(diff
        .communicators
        .iter()
        .all(|c| c.paired_by == Some("name, ranks, nodes, members")));
    // That a recording is like itself is no answer.
    let mut criteria = diff.verdict.criteria.iter();
    assert!(criteria.all(|c| c.status == Status::Undecided));
    assert_eq!(diff.verdict.exit_status, 2);
}

#[test]
fn another_nccl_and_other_hosts_show() {
    let diff_of = |a: &str, b: &str| {
        let diff = diff(&run(a), &run(b), &ALL);
        check_schema(&diff);
        diff
    };
    let releases = diff_of("mix_228", "mix_232");
    let nccl = releases
        .environment
        .iter()
        .find(|c| c.key == "nccl")
        .expect("NCCL changed");
    assert_eq!(
        (nccl.a.as_deref(), nccl.b.as_deref()),
        (Some("2.28.9"), Some("2.32.3"))
    );
    assert!(
        releases.communicators.iter().all(|c| c.paired_by.is_some()),
        "{:#?}",
        releases.communicators
    );
    assert!(
        releases
            .operations
            .iter()
            .all(|r| r.finding != DiffFinding::Vanished),
        "{:#?}",
        releases.operations
    );
    let hosts = diff_of("mix_228", "mix_two_hosts_228");
    assert!(hosts
        .communicators
        .iter()
        .any(|c| c.paired_by == Some("name, ranks, members") && c.nnodes == [Some(1), Some(2)]));
    let nodes = hosts
        .environment
        .iter()
        .find(|c| c.key.starts_with("nodes of"))
        .expect("nodes changed");
    assert_eq!(
        (nodes.a.as_deref(), nodes.b.as_deref()),
        (Some("1"), Some("2"))
    );
    // Half of the ranks of another job: nothing has a partner.
    let other = diff_of("ddp4", "ddp8_two_hosts");
    assert!(other.communicators.iter().all(|c| c.paired_by.is_none()));
    assert!(other.totals.is_empty());
    assert_eq!(other.verdict.exit_status, 1);
}

#[test]
fn the_last_sentence_says_what_changed_and_why() {
    let [plain, host, gpu] = ["slow_plain", "slow_host", "slow_gpu"].map(run);
    let compared = diff(&plain, &host, &[]);
    check_schema(&compared);
    assert_eq!(
        changed(&compared.changed),
        "The step went from 170 ms to 247 ms (+45.8 %) because rank 0 (GPU 0 on vm) is late: its host \
         launches every collective late."
    );
    let back = changed(&diff(&host, &plain, &[]).changed);
    assert!(back.starts_with("The step went from 247 ms to 170 ms (-31.4 %). Gone is: rank 0 "));
    let other = diff(&host, &gpu, &[]);
    assert_eq!(
        (other.new_findings.len(), other.gone_findings.len()),
        (1, 1)
    );
    let same = diff(&plain, &plain, &[]);
    assert!(same.new_findings.is_empty() && same.gone_findings.is_empty());
    assert_eq!(
        changed(&same.changed),
        "A and B are the same recording: there is nothing to compare."
    );
}

#[test]
fn repeats_of_a_variant_are_one_column_and_the_best_needs_an_interval() {
    use analyze::diff::side_by_side;
    let [plain, host] = ["slow_plain", "slow_host"].map(run);
    let runs = [&plain, &host, &plain, &host, &plain].map(Run::clone);
    let found = side_by_side(&runs);
    let sizes: Vec<usize> = found.variants.iter().map(|v| v.captures.len()).collect();
    assert_eq!(sizes, [3, 2]);
    let best = |figure: &str| found.best.iter().find(|(name, _)| *name == figure);
    assert_eq!(best("step_us"), Some(&("step_us", Some(0))));
    assert_eq!(best("busbw_gb_per_s"), Some(&("busbw_gb_per_s", Some(0))));
    let said = render::variants::summary(&found);
    assert!(
        said.contains("has the shorter step: 170 ms against 247 ms"),
        "{said}"
    );
    // A name says more than what two runs have in common.
    let named =
        ["old", "new", "old", "new"].map(|name| plain.clone().of_variant(Some(name.into())));
    let named = side_by_side(&named);
    let names: Vec<_> = named
        .variants
        .iter()
        .map(|v| (&*v.name, v.captures.len()))
        .collect();
    assert_eq!(names, [("old", 2), ("new", 2)]);
    let once = side_by_side(&[plain, host]);
    assert!(once.best.iter().all(|(_, best)| best.is_none()));
    for variants in [&found, &once] {
        let mut text = Vec::new();
        render::diff_text::write_variants(variants, false, Default::default(), &mut text)
            .expect("written");
        let text = String::from_utf8(text).expect("text");
        assert_eq!(
            text.contains("*170 ms"),
            variants.variants[0].captures.len() > 1
        );
        let mut json = Vec::new();
        render::diff_json::write_variants(variants, &mut json).expect("written");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        check(render::diff_json::VARIANTS_SCHEMA, &json);
        assert_eq!(
            json["best"]["step_us"].is_null(),
            variants.best[0].1.is_none()
        );
        let mut page = Vec::new();
        render::diff_html::write_variants(variants, &mut page).expect("written");
        assert!(String::from_utf8(page).expect("text").contains("170 ms"));
    }
}
