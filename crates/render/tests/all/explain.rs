//! `explain` knows what outputs print: every column's head, cause and kind of finding.

use crate::recorded::JOBS;
use analyze::diff::{diff, side_by_side, Run};
use render::layout::headings;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn unexplained(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let words: BTreeSet<String> = words.into_iter().collect();
    let known = |word: &String| render::explain::explain(word).is_some();
    words.into_iter().filter(|word| !known(word)).collect()
}

#[test]
fn every_head_of_a_column_is_explained() {
    let mut runs = Vec::new();
    let mut pages = String::new();
    for job in JOBS.iter() {
        let (capture, report, job) = (&job.capture, &job.report, &job.path);
        let mut options = render::text::Options {
            all: true,
            kernels: true,
            ..Default::default()
        };
        options.explain = true;
        render::text::write(report, options, &mut Vec::new()).expect("printed");
        let hang = analyze::hang::hang(capture, &analyze::hang::Conditions::default());
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
        render::html::write(report, &mut page).expect("written");
        pages += &String::from_utf8(page).expect("UTF-8");
        if job.ends_with("slow_plain") || job.ends_with("slow_host") || job.ends_with("slow_gpu") {
            runs.push(Run::of(capture));
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
    // A matrix of links has devices by name; its first column has none.
    let is_device = |head: &String| {
        let number = ["GPU", "NIC"]
            .iter()
            .find_map(|kind| head.strip_prefix(kind));
        head.is_empty() || number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let of_pages = of_pages.filter(|head| !is_device(head));
    assert_eq!(unexplained(of_pages), [""; 0]);
}

#[test]
fn every_kind_of_finding_and_every_cause_is_explained() {
    let schema: serde_json::Value =
        serde_json::from_str(render::report_json::SCHEMA).expect("JSON");
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

/// The sources of what prints tables: this crate, and crates that print their own.
fn sources() -> Vec<(PathBuf, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(crates)
        .expect("crates")
        .map(|entry| entry.expect("an entry").path().join("src"))
        .collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).expect("read");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                found.push((path, code.to_owned()));
            }
        }
    }
    found.sort();
    found
}

/// What stands in double quotes.
fn literals(code: &str) -> impl Iterator<Item = String> + '_ {
    code.split('"').skip(1).step_by(2).map(str::to_owned)
}

/// The heads of the table that is made at the end of `before`, by its arguments. They stand in the arguments,
/// or in the `names` that were bound last.
fn heads(before: &str, arguments: &str) -> Vec<String> {
    let of_names = arguments
        .split(|c: char| !c.is_alphanumeric())
        .any(|w| w == "names");
    if !of_names {
        let list = arguments
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        return list.map_or(Vec::new(), |(list, _)| literals(list).collect());
    }
    let bound = ["let names", "let mut names", "const NAMES"];
    let at = bound.iter().filter_map(|words| before.rfind(words)).max();
    let code = &before[at.expect("names are bound above")..];
    let (list, rest) = code.split_once(';').expect("a statement");
    let later = rest.split("names.push(").skip(1);
    let later = later.filter_map(|rest| literals(rest.split(')').next()?).next());
    literals(list).chain(later).collect()
}

/// The text up to the bracket that closes what was opened before it.
fn arguments(code: &str) -> &str {
    let mut depth = 1;
    let end = code.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &code[..end.unwrap_or(code.len())]
}

/// Recorded jobs fill few of the tables. So this looks at all tables that the sources make.
#[test]
fn every_head_in_the_sources_is_explained() {
    let mut tables = 0;
    for (path, code) in sources() {
        // The columns of one have their explanations beside them; the other passes on what it is given.
        let is_html = path.ends_with("render/src/html.rs") || path.ends_with("render/src/page.rs");
        let prints =
            code.contains("layout::") || code.contains("page::") || path.ends_with("layout.rs");
        if is_html || !prints {
            continue;
        }
        for made in ["Table::new(", "    table(", "page::table("] {
            for (at, _) in code.match_indices(made) {
                let arguments = arguments(&code[at + made.len()..]);
                let mut heads = heads(&code[..at], arguments);
                // Variants and hosts are called by letters; a title of an HTML table is no head.
                heads.retain(|head| head.chars().filter(|c| c.is_alphanumeric()).count() > 1);
                assert_eq!(unexplained(heads), [""; 0], "{path:?}: {arguments}");
                tables += 1;
            }
        }
    }
    assert!(tables > 60, "{tables} tables");
}

#[test]
fn every_reason_of_a_path_is_explained() {
    let kinds = setup::paths::kinds().map(|[name, ..]| name.to_owned());
    assert_eq!(unexplained(kinds), [""; 0]);
}

#[test]
fn every_phase_of_start_up_is_explained() {
    let phases = setup::log::PHASES.into_iter().chain(["total"]);
    assert_eq!(unexplained(phases.map(str::to_owned)), [""; 0]);
}
