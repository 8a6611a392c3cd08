//! The first picture on recorded jobs: whom it blames, what it names, and that nothing is drawn outside.

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
    for job in ["fsdp2_slow_gpu", "decode_slow_gpu"] {
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
