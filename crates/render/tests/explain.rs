//! `explain` knows what outputs print: every column's head, cause and kind of finding.

use analyze::diff::{diff, side_by_side, Run};
use render::layout::headings;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tables::Capture;

fn recorded() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let entries = std::fs::read_dir(folder).expect("data");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut jobs: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    jobs.sort();
    jobs
}

fn unexplained(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let words: BTreeSet<String> = words.into_iter().collect();
    let known = |word: &String| render::explain::explain(word).is_some();
    words.into_iter().filter(|word| !known(word)).collect()
}

#[test]
fn every_head_of_a_column_is_explained() {
    let mut runs = Vec::new();
    let mut pages = String::new();
    for job in recorded() {
        let capture = Capture::open(&job).expect("a capture");
        let report = analyze::report(&capture);
        let mut options = render::text::Options {
            all: true,
            kernels: true,
            ..Default::default()
        };
        options.explain = true;
        render::text::write(&report, options, &mut Vec::new()).expect("printed");
        let hang = analyze::hang::hang(&capture, &analyze::hang::Conditions::default());
        render::hang::text(&hang, true, Default::default(), &mut Vec::new()).expect("printed");
        let measured = analyze::models::of_operations(&report.operations, &report.communicators);
        let models = analyze::models::fit(&measured);
        let twice = models
            .first()
            .and_then(|model| model.predict(1 << 24, model.of.nranks, None));
        let answer = render::model::Answer {
            schema: render::model::SCHEMA,
            sources: Vec::new(),
            predictions: twice.into_iter().cycle().take(2).collect(),
            models,
            notes: Vec::new(),
        };
        render::model::text(&answer, true, Default::default(), &mut Vec::new()).expect("printed");
        let mut page = Vec::new();
        render::html::write(&report, &mut page).expect("written");
        pages += &String::from_utf8(page).expect("UTF-8");
        if job.ends_with("slow_plain") || job.ends_with("slow_host") || job.ends_with("slow_gpu") {
            runs.push(Run::of(&capture));
        }
    }
    let compared = diff(&runs[0], &runs[1], &[]);
    render::diff_text::write(&compared, true, Default::default(), &mut Vec::new())
        .expect("printed");
    let variants = side_by_side(&runs);
    render::diff_text::write_variants(&variants, true, Default::default(), &mut Vec::new())
        .expect("printed");
    // Variants are called by letters.
    let heads = headings().into_iter().filter(|head| head.len() > 1);
    let heads: Vec<String> = heads.collect();
    assert!(heads.len() > 80, "{heads:?}");
    assert_eq!(unexplained(heads), [""; 0]);
    let of_pages = pages.split("<th scope=\"col\"").skip(1).filter_map(|head| {
        let text = head.split_once('>')?.1;
        Some(text.split('<').next()?.to_owned())
    });
    assert_eq!(unexplained(of_pages), [""; 0]);
}

#[test]
fn every_kind_of_finding_and_every_cause_is_explained() {
    let schema: serde_json::Value = serde_json::from_str(render::json::SCHEMA).expect("JSON");
    let kinds = &schema["properties"]["findings"]["items"]["properties"]["kind"]["enum"];
    let kinds = kinds.as_array().expect("kinds").iter();
    let kinds = kinds.filter_map(|kind| kind.as_str().map(str::to_owned));
    assert_eq!(unexplained(kinds), [""; 0]);
    let rules = &schema["properties"]["recommendations"]["items"]["properties"]["rule"]["enum"];
    let rules = rules.as_array().expect("rules").iter();
    let rules = rules.filter_map(|rule| rule.as_str().map(str::to_owned));
    assert_eq!(unexplained(rules), [""; 0]);
    let causes = capture::live::CAUSES.into_iter().chain(capture::live::ODDS);
    assert_eq!(unexplained(causes.map(str::to_owned)), [""; 0]);
    let waits = capture::live::WAITS.into_iter().map(str::to_owned);
    assert_eq!(unexplained(waits), [""; 0]);
}

#[test]
fn every_event_and_state_of_nccl_is_explained() {
    use nccl_abi::{event, state};
    let events = event::ALL.iter().map(|event| event.name);
    let names = events.chain(state::ALL.iter().map(|state| state.name));
    assert_eq!(unexplained(names.map(str::to_owned)), [""; 0]);
    for name in ["Group", "Coll", "KernelCh"] {
        let explained = render::explain::explain(name).expect("known");
        assert!(
            explained.paragraphs[0].starts_with(&format!("{name}: ")),
            "{explained:?}"
        );
    }
}
