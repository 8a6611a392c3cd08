//! The report as HTML: that nothing in it comes from elsewhere, that names stay text, and how large it gets.
//! What a browser makes of it is tested in `python/tests/test_html.py`.

use analyze::Report;
use base64::prelude::{Engine, BASE64_STANDARD};
use sha2::{Digest, Sha256};
use std::path::Path;
use tables::Capture;

fn report(job: &str) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    analyze::report(&Capture::open(&folder.join(job)).expect("a recorded job"))
}

fn page(report: &Report) -> String {
    let mut out = Vec::new();
    render::html::write(report, &mut out).expect("written");
    String::from_utf8(out).expect("UTF-8")
}

/// What stands between each `begin` and the next `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    text.split(begin)
        .skip(1)
        .map(|rest| rest.split(end).next().unwrap_or_default())
        .collect()
}

#[test]
fn it_needs_nothing_else() {
    let page = page(&report("mix_230"));
    for attribute in ["src=\"", "href=\"", "action=\"", "srcset=\""] {
        for target in between(&page, attribute, "\"") {
            assert!(
                target.starts_with('#') || target == "data:,",
                "{attribute}{target}"
            );
        }
    }
    // A hatch is of the page's own.
    let page = page.replace("url(#", "");
    for word in ["@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(word), "{word}");
    }
    // The one address is the name of a drawing's elements, which nobody opens.
    let mut addresses = between(&page, "://", "\"");
    addresses.dedup();
    assert_eq!(addresses, ["www.w3.org/2000/svg"]);
}

#[test]
fn no_line_of_its_head_ends_between_a_figure_and_its_unit() {
    let page = page(&report("slow_host"));
    let head = between(&page, "<h1", "</h1>")[0];
    assert!(
        head.contains("3.01\u{a0}s of 11.2\u{a0}s: its host"),
        "{head}"
    );
}

#[test]
fn only_its_own_scripts_and_style_may_run() {
    let page = page(&report("mix_230"));
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\"")[0];
    assert!(
        policy.starts_with("default-src 'none'; script-src "),
        "{policy}"
    );
    let scripts = between(&page, "<script type=\"module\">", "</script>");
    let styles = between(&page, "<style>", "</style>");
    assert_eq!((scripts.len(), styles.len()), (1, 2));
    // A script that imported another could not, from a file.
    let is_module = |line: &str| line.starts_with("import ") || line.starts_with("export ");
    assert!(!scripts[0].lines().any(is_module));
    for text in scripts.iter().chain(&styles) {
        let hash = format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
        assert!(policy.contains(&hash), "{hash}: {policy}");
    }
    assert!(!page.contains(" style=\"") && !policy.contains("unsafe"));
}

#[test]
fn names_stay_text_wherever_they_stand() {
    let evil = "</script><img src=x onerror=\"document.title='owned'\">'&<!--\u{2028}\u{0}`code";
    let mut report = report("mix_230");
    let clean = page(&report);
    let text = || evil.to_owned();
    report.job.capture = text();
    report.job.command = Some(text());
    report.job.hosts = vec![text()];
    report.job.nccl = vec![text()];
    report.job.environment.insert(text(), vec![Some(text())]);
    report.ranks.rows[0].process.host = text();
    report.communicators[0].name = Some(text());
    report.communicators[0].parent_evidence = Some(text());
    report.functions[0].function = Some(text());
    report.operations[0].function = Some(text());
    report.operations[0].datatype = Some(text());
    report.operations[0].algorithm = Some(text());
    report.notes.push(analyze::notes::Note::OtherTool(text()));
    if let analyze::summary::Summary::Most(most) = &mut report.summary {
        most.function = Some(text());
    }
    let problem = tables::Problem {
        file: text().into(),
        place: text(),
        expected: text(),
        found: text(),
    };
    let problem = analyze::job::Problem::InFile(problem);
    report.problems.push(problem);
    let page = page(&report);
    let count = |page: &str, what: &str| page.matches(what).count();
    assert_eq!(count(&page, "<img"), 0);
    assert_eq!(count(&page, "onerror=\""), 0);
    for what in ["<script", "</script", "<!--"] {
        assert_eq!(count(&page, what), count(&clean, what), "{what}");
    }
    assert!(
        !page.contains('\u{2028}')
            || !between(&page, "id=\"report\">", "</script>")[0].contains('\u{2028}')
    );
    assert!(!page.contains('\u{0}'));
    assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=&quot;"));

    // What the page carries is the JSON report.
    let data = between(&page, "id=\"report\">", "</script>")[0];
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    // Both are read back, since reading may round the last digit.
    let whole =
        serde_json::to_string(&render::report_json::value(&report).expect("JSON")).expect("JSON");
    let whole: serde_json::Value = serde_json::from_str(&whole).expect("JSON");
    assert!(data == whole);
}

#[test]
fn the_tables_read_without_a_script() {
    let page = page(&report("ddp8_two_hosts"));
    let page = page.split("<script").next().expect("a page");
    for text in [
        "272 of 272 announced calls recorded, 224 timed.",
        "<h1 class=\"lead\">No rank is proved to hold this job up.",
        "<td class=\"t\">TREE/SIMPLE</td>",
        "<dt>busbw</dt>",
        "<h2>Network</h2>",
        "GB/s",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let table = between(page, "<table data-rows=\"operations\"", "</table>")[0];
    assert_eq!(between(table, "<tr data-i=", "</tr>").len(), 8);
    let missing = between(table, "<span class=\"none\" title=\"", "\"");
    assert!(missing.contains(&"none below 100 durations"), "{missing:?}");
    assert!(missing.iter().all(|why| !why.is_empty()));
}

#[test]
fn a_page_with_uncounted_graphs_does_not_say_that_nothing_is_lost() {
    let mut report = report("mix_230");
    assert!(page(&report).contains("none lost"));
    let unseen = &mut report.completeness.unseen;
    unseen.insert("graphs_not_watched".to_owned(), 2);
    let page = page(&report);
    assert!(!page.contains("none lost"));
    assert!(page.contains("<small class=\"bad\">CUDA graphs not counted</small>"));
}

#[test]
fn the_same_capture_gives_the_same_bytes() {
    assert_eq!(page(&report("mix_230")), page(&report("mix_230")));
}

/// A row for each rank makes pages of many ranks long, and few people ask for it.
#[test]
fn tables_with_a_row_for_each_rank_are_folded_and_say_their_result() {
    let text = page(&report("ddp8_late_host"));
    let open = between(&text, "<section id=\"", "\"");
    assert_eq!(open, ["picture", "findings", "timeline"]);
    let account = between(
        &text,
        "<details class=\"fold\" id=\"account\">",
        "</summary>",
    );
    assert!(account[0].contains("Parallel efficiency "), "{account:?}");
}

/// The lines of the tree, with what each is of.
fn tree(page: &str) -> Vec<String> {
    let tree = between(page, "<div class=\"tree\">", "<div class=\"leaf whole\">");
    let tree = tree.first().copied().unwrap_or_default();
    let mut depth = 0;
    let mut lines = Vec::new();
    for line in tree.lines() {
        if let Some(cells) = line.split_once("<span>").filter(|_| !line.contains("head")) {
            let cells: Vec<&str> = cells.1.split("</span><span>").collect();
            let figures = cells[1..]
                .iter()
                .map(|cell| cell.split('<').next().unwrap_or(""));
            let figures: Vec<&str> = figures.collect();
            // A part is in its own details.
            let indent = "  ".repeat(depth - usize::from(line.starts_with("<summary>")));
            let name = cells[0].replace("&#39;", "'");
            lines.push(format!("{indent}{name} {}", figures.join(" ")));
        }
        depth = (depth + line.matches("<details").count()) - line.matches("</details>").count();
    }
    assert_eq!(depth, 0, "{tree}");
    lines
}

#[test]
fn the_start_of_the_slowest_process_is_a_tree() {
    let report = report("everything_228");
    let html = page(&report);
    let lines = tree(&html);
    // The same lines as in text, but for white space.
    let mut text = Vec::new();
    render::startup::text(
        &report.startup,
        true,
        render::layout::Look::default(),
        &mut text,
    )
    .expect("written");
    let text = String::from_utf8(text).expect("UTF-8");
    let text = text.split("\nStart of ").nth(1).expect("the tree");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = text.lines().skip(2).map(|line| line[2..].to_owned());
    let expected: Vec<String> = expected
        .take_while(|line| !line.starts_with("total"))
        .collect();
    let depth = |line: &String| line.len() - line.trim_start().len();
    assert!(expected.len() > 10, "{expected:?}");
    assert_eq!(
        lines
            .iter()
            .map(|l| (depth(l), words(l)))
            .collect::<Vec<_>>(),
        expected
            .iter()
            .map(|l| (depth(l), words(l)))
            .collect::<Vec<_>>()
    );
    // What is a large part is unfolded, and the rest is not.
    assert!(
        html.contains("<details open>\n<summary><span>until NCCL&#39;s first init"),
        "{html}"
    );
    let whole = report.startup.whole.as_ref().expect("known");
    assert!(whole.parts.iter().any(|part| part.share < 0.1), "{whole:?}");
    assert!(html.contains("<details>\n<summary><span>"), "{lines:?}");
}

#[test]
fn a_capture_without_a_known_start_has_no_section_about_it() {
    let mut unknown = report("everything_228");
    unknown.startup.communicators.clear();
    assert!(page(&unknown).contains("id=\"start-up\""));
    unknown.startup.whole = None;
    assert!(!page(&unknown).contains("id=\"start-up\""));
}

#[test]
fn a_thousand_ranks_stay_small() {
    let mut large = report("ddp8_two_hosts");
    let ranks = large.ranks.rows.clone();
    large.ranks.rows = (0..1024).map(|i| ranks[i % ranks.len()].clone()).collect();
    for (rank, row) in (0..).zip(&mut large.ranks.rows) {
        (row.process.rank, row.process.pid) = (Some(rank), 1_234_567 + rank);
    }
    // One of all ranks, one for each node, and one for each GPU of a node.
    let mut communicators = Vec::new();
    for (number, size) in (0..).zip([vec![1024], vec![8; 128], vec![128; 8]].concat()) {
        let mut row = large.communicators[0].clone();
        row.communicator = format!("{:016x}", 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(number + 1));
        let member = row.members[0].clone();
        row.members = vec![member; size];
        communicators.push(row);
    }
    let ids: Vec<String> = communicators
        .iter()
        .map(|c| c.communicator.clone())
        .collect();
    large.communicators = communicators;
    let shapes = large.operations.clone();
    large.operations = (0..500).map(|i| shapes[i % shapes.len()].clone()).collect();
    for (i, operation) in large.operations.iter_mut().enumerate() {
        operation.communicator = Some(ids[i % ids.len()].clone());
        // As fine as a histogram gets.
        for histogram in [
            &mut operation.histograms.time,
            &mut operation.histograms.shortest,
            &mut operation.histograms.host,
        ] {
            *histogram = Some(analyze::statistics::Histogram {
                per_octave: 16,
                first: 200,
                counts: vec![1234; analyze::statistics::MOST_BUCKETS],
            });
        }
    }
    let page = page(&large);
    let bytes = page.len();
    assert!(bytes < 2_400_000, "{bytes} bytes");
}
