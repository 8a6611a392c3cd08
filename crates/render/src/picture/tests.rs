use super::*;

#[test]
fn ticks_are_round() {
    for (least, step) in [
        (0.9, 1.0),
        (1.2, 2.0),
        (2.0, 2.0),
        (11.3, 20.0),
        (0.03, 0.05),
        (700.0, 1000.0),
    ] {
        assert!(
            (nice(least) - step).abs() < 1e-9 * step,
            "{least}: {}",
            nice(least)
        );
    }
}

#[test]
fn a_long_headline_gets_smaller_and_is_cut_last() {
    let short = "Rank 1 (GPU 1 on vm) costs this job 3.97 s of 24.0 s.";
    assert_eq!(headline(short, 1104.0), (31.0, vec![short.to_owned()]));
    let long = short.repeat(12);
    let (size, lines) = headline(&long, 1104.0);
    assert_eq!((size, lines.len()), (20.0, 4));
    assert!(lines[3].ends_with('…'), "{lines:?}");
    assert!(lines
        .iter()
        .all(|line| width(line, 20.0, Face::Bold) <= 1104.0));
}
