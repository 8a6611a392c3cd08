//! The first picture on recorded jobs: whom it blames, what it names, and that nothing is drawn outside.

use analyze::how_far::Does;
use analyze::Report;
use render::picture::{Picture, Theme};
use render::timeline::Timeline;
use std::path::Path;
use tables::Capture;

/// The picture of a recorded job, light or dark.
fn picture(job: &str, theme: Theme) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let capture = Capture::open(&folder.join(job)).expect("a recorded job");
    let report = analyze::report(&capture);
    let timeline = Timeline::trimmed(&capture, report.clocks.as_ref());
    Picture::of(&report, Some(&timeline)).svg(theme)
}

/// What stands between each `begin` and the next `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    let parts = text.split(begin).skip(1);
    parts
        .map(|rest| rest.split(end).next().unwrap_or_default())
        .collect()
}

/// A number of an element's attribute.
fn number(element: &str, name: &str) -> Option<f64> {
    between(element, &format!(" {name}=\""), "\"")
        .first()?
        .parse()
        .ok()
}

#[test]
fn a_busy_gpu_is_the_culprit_and_its_kernel_is_named() {
    for job in ["fsdp2_slow_gpu", "decode_slow_gpu", "pipe_slow_gpu"] {
        let svg = picture(job, Theme::Light);
        let texts = between(&svg, "<text ", "</text>");
        let texts: Vec<&str> = texts
            .iter()
            .filter_map(|text| text.split('>').nth(1))
            .collect();
        assert!(texts.contains(&"culprit"), "{job}: {texts:?}");
        let named = texts
            .iter()
            .any(|text| text.contains(" in the step (rank 0: ×"));
        assert!(named, "{job}: {texts:?}");
        let waits = texts
            .iter()
            .any(|text| text.starts_with("waiting for rank 1: "));
        assert!(waits, "{job}: {texts:?}");
        assert!(!svg.contains("waiting for rank 0: "), "{job}");
    }
}

#[test]
fn steps_that_may_be_micro_batches_are_drawn_together() {
    // Of each two, one waits for 75 ms, and the other for nobody.
    let svg = picture("megatron_late_gpu", Theme::Light);
    let texts = texts(&svg);
    let has = |text: &str| texts.iter().any(|of| of.starts_with(text));
    assert!(
        has("Calls of NCCL in 2 typical steps (1") && has("waiting for rank 1: 7"),
        "{texts:?}"
    );
    assert!(texts
        .iter()
        .any(|of| of.contains("Steps, 2 in a row: the most typical of")));
}

#[test]
fn without_kernel_windows_the_rest_is_hatched() {
    let svg = picture("slow_link", Theme::Light);
    assert!(svg.contains("kernels were not recorded</text>"));
    assert!(!svg.contains(">culprit</text>"));
    assert!(svg.contains(">NCCL</text>") && !svg.contains(">kernels</text>"));
}

#[test]
fn bars_are_equally_long_and_nothing_is_outside() {
    for job in [
        "fsdp2_slow_gpu",
        "slow_plain",
        "ddp8_two_hosts",
        "killed_228",
        "mix_232",
    ] {
        let svg = picture(job, Theme::Dark);
        assert!(
            svg.ends_with("</svg>\n") && svg.len() < 60_000,
            "{job}: {}",
            svg.len()
        );
        for rect in between(&svg, "<rect ", ">") {
            let rect = format!(" {rect}");
            let (x, width) = (number(&rect, "x"), number(&rect, "width"));
            let end = x.unwrap_or(0.0) + width.expect("a width");
            assert!((-0.1..=1200.1).contains(&end), "{job}: {rect}");
            let low = number(&rect, "y").unwrap_or(0.0) + number(&rect, "height").unwrap_or(0.0);
            assert!(low <= 630.1, "{job}: {rect}");
        }
        for text in between(&svg, "<text ", "</text>") {
            let y = number(&format!(" {text}"), "y").expect("a place");
            assert!((10.0..=620.0).contains(&y), "{job}: {text}");
        }
        // The last part of each bar ends where the others end.
        let mut ends: Vec<(String, f64)> = Vec::new();
        for part in between(&svg, "<rect x=", "</rect>")
            .iter()
            .filter(|part| part.contains("<title>"))
        {
            let part = format!(" x={part}");
            let y = between(&part, " y=\"", "\"")[0].to_owned();
            let end = number(&part, "x").expect("x") + number(&part, "width").expect("width");
            match ends.iter_mut().find(|(of, _)| *of == y) {
                Some((_, last)) => *last = last.max(end),
                None => ends.push((y, end)),
            }
        }
        assert!(
            ends.iter().all(|(_, end)| (1149.0..=1152.6).contains(end)),
            "{job}: {ends:?}"
        );
    }
}

#[test]
fn both_themes_show_the_same() {
    let plain = |svg: &str| between(svg, "<title>", "</title>").join("\n");
    let (light, dark) = (
        picture("fsdp2_slow_gpu", Theme::Light),
        picture("fsdp2_slow_gpu", Theme::Dark),
    );
    assert_eq!(plain(&light), plain(&dark));
    assert!(light.contains("#ffffff") && dark.contains("#14181d") && light != dark);
    // The same bytes each time.
    assert_eq!(light, picture("fsdp2_slow_gpu", Theme::Light));
}

/// Bars and words of a picture, in order: what its blocks say, and its texts.
fn texts(svg: &str) -> Vec<&str> {
    let texts = between(svg, "<text ", "</text>");
    texts
        .iter()
        .filter_map(|text| text.split('>').nth(1))
        .collect()
}

#[test]
fn of_a_job_with_a_dead_rank_it_is_how_far_each_rank_came() {
    let svg = picture("killed_228", Theme::Light);
    let shown = texts(&svg);
    for text in [
        "How far each rank came",
        "calls 1 to 1000",
        "died: no call 1001",
    ] {
        assert!(shown.contains(&text), "{text}: {shown:?}");
    }
    let waits = shown.iter().filter(|text| **text == "waits in call 1001");
    assert_eq!(waits.count(), 3);
    assert!(shown.contains(&"Ranks waited in call 1001 for 3.01 s, until the recording ended."));
    // Bars are as long as calls are many: those of the others go half as far beyond it as it came.
    let bar = |says: &str, fill: &str| {
        let rects = between(&svg, "<rect ", "</rect>");
        let mut rects = rects
            .iter()
            .filter(|rect| rect.contains(says) && rect.contains(fill));
        number(&format!(" {}", rects.next().expect("a bar")), "width").expect("a width")
    };
    let (died, waited) = (
        bar("rank 1: died", "#2f6fb7"),
        bar("rank 0: waits", "#cc4309"),
    );
    assert!((died / waited - 2.0).abs() < 0.02, "{died} {waited}");
}

/// Ranks of a communicator that came so far, of which one died in front of call 11.
fn how_far(ranks: &[(Option<u64>, Does)]) -> Report {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let capture = Capture::open(&folder.join("killed_228")).expect("a recorded job");
    let mut report = analyze::report(&capture);
    let of = report.how_far.as_mut().expect("a rank died");
    let one = of.ranks[0].clone();
    let ranks = (0..).zip(ranks).map(|(rank, (calls, does))| {
        let mut reached = one.clone();
        reached.id.process.rank = Some(rank);
        (reached.calls, reached.does) = (*calls, *does);
        reached
    });
    (of.ranks, of.call) = (ranks.collect(), 11);
    report
}

#[test]
fn of_many_ranks_those_that_did_the_same_share_a_bar() {
    let mut ranks = vec![(Some(2_000_000), Does::Waits); 500];
    ranks[7] = (Some(10), Does::Died);
    ranks[300] = (Some(9), Does::LacksToo);
    ranks[301] = (None, Does::Unknown);
    let svg = Picture::of(&how_far(&ranks), None).svg(Theme::Dark);
    let shown = texts(&svg);
    let place = |text: &str| shown.iter().position(|shown| *shown == text);
    let order = ["rank 7", "rank 300", "497 ranks", "rank 301"].map(place);
    assert!(
        order.iter().all(Option::is_some) && order.is_sorted(),
        "{shown:?}"
    );
    assert!(shown.contains(&"calls are missing: not known"));
    assert!(!svg.contains("The axis is broken here"));
    assert!(svg.len() < 10_000, "{}", svg.len());
}

#[test]
fn a_single_call_after_a_million_is_seen_and_the_axis_says_that_it_is_broken() {
    let mut report = how_far(&[
        (Some(1_000_001), Does::Waits),
        (Some(1_000_000), Does::Lacks),
    ]);
    report.how_far.as_mut().expect("as above").call = 1_000_001;
    let svg = Picture::of(&report, None).svg(Theme::Light);
    assert_eq!(svg.matches("The axis is broken here").count(), 2);
    let shown = texts(&svg);
    assert!(shown.contains(&"waits in call 1000001"), "{shown:?}");
    assert!(
        shown.contains(&"has not made call 1000001 for 3.01 s"),
        "{shown:?}"
    );
    // A phone has room for fewer words, and none is cut.
    let page = Picture::of(&report, None).section("");
    let narrow = page
        .split("class=\"narrow\"")
        .nth(1)
        .expect("a narrow picture");
    assert!(
        texts(narrow).contains(&"missing") && !narrow.contains('…'),
        "{narrow}"
    );
}
