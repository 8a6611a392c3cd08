//! Figures as SVG that no script draws: bars, violins, and ratios with their intervals.
//!
//! Rule: a figure shows what a table beside it says in numbers, and says in its label what it shows. Colours
//! come from `figures.css` by class, so they follow the light or dark scheme. What differs by colour also
//! differs by form or text.

use crate::escape::escaped;
use analyze::spelling::{three, time};
use std::fmt::Write as _;

/// Colours there are.
const COLOURS: usize = 8;
const LINE: f64 = 20.0;
/// How wide a text is, more or less: capitals are wider.
fn width(text: &str) -> f64 {
    let of = |letter: char| {
        if letter.is_ascii_uppercase() {
            9.0
        } else {
            7.0
        }
    };
    text.chars().map(of).sum()
}

/// A bar of a figure.
pub struct Bar {
    /// The group, which is written once.
    pub group: String,
    /// What the bar is of.
    pub name: String,
    /// Which colour.
    pub colour: usize,
    /// Whether it is drawn lightly, as something to compare with.
    pub light: bool,
    /// Its length; `None` if there is no value.
    pub value: Option<f64>,
    /// What is written at its end.
    pub label: String,
}

/// A shape of times.
pub struct Violin {
    /// What it is of, on two lines.
    pub name: [String; 2],
    /// Which colour.
    pub colour: usize,
    /// Whether it is drawn lightly, as something to compare with.
    pub light: bool,
    /// Smallest and largest value, above 0.
    pub range: [f64; 2],
    /// Shares in steps of equal ratio.
    pub shares: Vec<f64>,
    /// The mean.
    pub mean: f64,
}

/// The shares of times in so many steps of equal ratio, from the shortest to the longest; `times` are sorted,
/// above 0, and at least one.
pub fn shares(times: &[f64], steps: usize) -> Vec<f64> {
    let (low, high) = (times[0], times[times.len() - 1]);
    let width = (high / low).ln() / steps as f64;
    let mut shares = vec![0.0; steps];
    for time in times {
        let step = if width > 0.0 {
            ((time / low).ln() / width) as usize
        } else {
            steps / 2
        };
        shares[step.min(steps - 1)] += 1.0 / times.len() as f64;
    }
    shares
}

/// A ratio with its interval.
pub struct Ratio {
    /// What it is of.
    pub name: String,
    /// Which colour.
    pub colour: usize,
    /// The ratio.
    pub ratio: f64,
    /// Ends of its interval.
    pub interval: Option<(f64, f64)>,
}

/// Horizontal bars from 0 to `most`, under each other.
pub fn bars(label: &str, bars: &[Bar], most: f64) -> String {
    let longest = |of: &dyn Fn(&Bar) -> f64| bars.iter().map(of).fold(0.0, f64::max);
    let groups = longest(&|bar| width(&bar.group)) + 8.0;
    let left = groups + longest(&|bar| width(&bar.name)) + 10.0;
    let (wide, right) = (360.0, longest(&|bar| width(&bar.label)) + 12.0);
    let mut y = 4.0;
    let mut inside = String::new();
    let mut last = "";
    for bar in bars {
        if bar.group != last {
            y += if last.is_empty() { 0.0 } else { 8.0 };
            text(&mut inside, 0.0, y + 14.0, "start", "", &bar.group);
            last = &bar.group;
        }
        text(&mut inside, left - 8.0, y + 14.0, "end", "soft", &bar.name);
        let length = bar
            .value
            .map_or(0.0, |value| (value / most).clamp(0.0, 1.0) * wide);
        let _ = write!(
            inside,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"14\" class=\"{}\"/>",
            y + 3.0,
            class(bar.colour, bar.light)
        );
        text(
            &mut inside,
            left + length + 6.0,
            y + 14.0,
            "start",
            "",
            &bar.label,
        );
        y += LINE;
    }
    let _ = write!(
        inside,
        "<line x1=\"{left:.1}\" x2=\"{left:.1}\" y1=\"2\" y2=\"{y:.1}\" class=\"grid\"/>"
    );
    svg(label, left + wide + right, y + 6.0, &inside)
}

/// Violins of times in µs beside each other, with a line at each mean. The axis has equal ratios.
pub fn violins(label: &str, violins: &[Violin]) -> String {
    let low = violins
        .iter()
        .map(|v| v.range[0])
        .fold(f64::INFINITY, f64::min);
    let high = violins.iter().map(|v| v.range[1]).fold(0.0, f64::max);
    if !(low > 0.0 && high >= low && high.is_finite()) {
        return String::new();
    }
    // Some room at both ends, also where all times are equal.
    let (low, high) = (low / 1.03, high * 1.03);
    let (left, top, tall) = (64.0, 10.0, 220.0);
    let names = violins.iter().flat_map(|v| &v.name);
    let longest = names.map(|name| width(name)).fold(0.0, f64::max);
    let step = (longest + 12.0).max(70.0);
    let at = |value: f64| top + tall * (1.0 - (value / low).ln() / (high / low).ln());
    let mut inside = String::new();
    let right = left + step * violins.len() as f64;
    for tick in ticks(low, high) {
        let y = at(tick);
        let _ = write!(
            inside,
            "<line x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"grid\"/>"
        );
        text(&mut inside, left - 6.0, y + 4.0, "end", "soft", &time(tick));
    }
    for (number, violin) in violins.iter().enumerate() {
        let middle = left + step * (number as f64 + 0.5);
        let most = smooth(&violin.shares).iter().copied().fold(0.0, f64::max);
        let half = step * 0.42;
        let class = class(violin.colour, violin.light);
        let [from, to] = violin.range;
        if to > from && most > 0.0 {
            let shares = smooth(&violin.shares);
            let points: Vec<(f64, f64)> = shares
                .iter()
                .enumerate()
                .map(|(step, share)| {
                    let part = (step as f64 + 0.5) / shares.len() as f64;
                    (at(from * (to / from).powf(part)), half * share / most)
                })
                .collect();
            let mut path = format!("M{middle:.1} {:.1}", at(from));
            for (y, wide) in &points {
                let _ = write!(path, "L{:.1} {y:.1}", middle + wide);
            }
            let _ = write!(path, "L{middle:.1} {:.1}", at(to));
            for (y, wide) in points.iter().rev() {
                let _ = write!(path, "L{:.1} {y:.1}", middle - wide);
            }
            let _ = write!(inside, "<path d=\"{path}Z\" class=\"{class}\"/>");
        }
        let y = at(violin.mean);
        let _ = write!(
            inside,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"mean\"/>",
            middle - half,
            middle + half
        );
        for (line, name) in violin.name.iter().enumerate() {
            let css = if line == 0 { "" } else { "soft" };
            let y = top + tall + 18.0 + 15.0 * line as f64;
            text(&mut inside, middle, y, "middle", css, name);
        }
    }
    svg(label, right + 8.0, top + tall + 42.0, &inside)
}

/// Ratios with their intervals, under each other, and a line at `limit`.
pub fn ratios(label: &str, ratios: &[Ratio], limit: f64) -> String {
    let ends = |of: &Ratio| of.interval.unwrap_or((of.ratio, of.ratio));
    let low = ratios
        .iter()
        .map(|r| ends(r).0)
        .fold(limit.min(1.0), f64::min)
        .max(0.01);
    let high = ratios
        .iter()
        .map(|r| ends(r).1)
        .fold(limit.max(1.0), f64::max)
        .min(100.0);
    let (low, high) = (low / 1.02, high * 1.02);
    let longest = ratios.iter().map(|r| width(&r.name)).fold(0.0, f64::max);
    let (left, wide) = (longest + 14.0, 420.0);
    let at = |value: f64| {
        let part = (value / low).ln() / (high / low).ln();
        left + wide * part.clamp(0.0, 1.0)
    };
    let bottom = 8.0 + LINE * ratios.len() as f64;
    let mut inside = String::new();
    let mut marks = vec![(1.0, "grid", "1")];
    let limited = three(limit);
    // Two labels in one place can't be read.
    let beside = if (at(limit) - at(1.0)).abs() < 30.0 {
        ""
    } else {
        &limited
    };
    marks.push((limit, "limit", beside));
    for (value, css, name) in marks {
        let x = at(value);
        let _ = write!(
            inside,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"4\" y2=\"{bottom:.1}\" class=\"{css}\"/>"
        );
        text(&mut inside, x, bottom + 14.0, "middle", "soft", name);
    }
    for (number, ratio) in ratios.iter().enumerate() {
        let y = 4.0 + LINE * (number as f64 + 0.5);
        text(&mut inside, left - 10.0, y + 4.0, "end", "", &ratio.name);
        let (from, to) = ends(ratio);
        let class = class(ratio.colour, false);
        let _ = write!(
            inside,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"whisker {class}\"/>\
             <circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" class=\"{class}\"/>",
            at(from),
            at(to),
            at(ratio.ratio)
        );
        text(
            &mut inside,
            left + wide + 12.0,
            y + 4.0,
            "start",
            "soft",
            &format!("{:.3}", ratio.ratio),
        );
    }
    svg(label, left + wide + 70.0, bottom + 22.0, &inside)
}

/// A figure with what it shows in words above it.
pub fn captioned(caption: &str, figure: &str) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>{figure}</figure>\n",
        escaped(caption)
    )
}

fn svg(label: &str, wide: f64, tall: f64, inside: &str) -> String {
    format!(
        "<svg class=\"figure\" role=\"img\" aria-label=\"{}\" width=\"{wide:.0}\" height=\"{tall:.0}\" \
         viewBox=\"0 0 {wide:.0} {tall:.0}\">{inside}</svg>",
        escaped(label)
    )
}

fn text(to: &mut String, x: f64, y: f64, anchor: &str, css: &str, what: &str) {
    let _ = write!(
        to,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{css}\">{}</text>",
        escaped(what)
    );
}

fn class(colour: usize, light: bool) -> String {
    format!("f{}{}", colour % COLOURS, if light { " light" } else { "" })
}

/// Each step with a part of its neighbours: a histogram's steps are an accident of its range.
fn smooth(shares: &[f64]) -> Vec<f64> {
    let at = |step: isize| {
        let step = usize::try_from(step).ok();
        step.and_then(|step| shares.get(step))
            .copied()
            .unwrap_or(0.0)
    };
    (0..shares.len() as isize)
        .map(|step| {
            let weights = [(0, 0.4), (-1, 0.24), (1, 0.24), (-2, 0.06), (2, 0.06)];
            weights
                .iter()
                .map(|(by, weight)| weight * at(step + by))
                .sum()
        })
        .collect()
}

/// Round values between two, a handful of them.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let mut found = Vec::new();
    // Steps of the scale from wide to narrow, until there are enough.
    for steps in [
        &[1.0][..],
        &[1.0, 2.0, 5.0],
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
    ] {
        found.clear();
        let mut power = 10f64.powf(low.log10().floor());
        while power <= high {
            let values = steps.iter().map(|step| step * power);
            found.extend(values.filter(|value| (low..=high).contains(value)));
            power *= 10.0;
        }
        if found.len() >= 3 {
            return found;
        }
    }
    if found.len() < 2 {
        // A narrow range has its own ends.
        found = vec![low, (low * high).sqrt(), high];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_a_handful_inside_the_range() {
        assert_eq!(ticks(0.9, 1100.0), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(9.0, 60.0), [10.0, 20.0, 50.0]);
        for (low, high) in [(10.0, 10.6), (123.0, 130.0), (1.0, 1e6)] {
            let ticks = ticks(low, high);
            assert!((2..=8).contains(&ticks.len()), "{ticks:?}");
            assert!(
                ticks.iter().all(|t| (low..=high * 1.000_001).contains(t)),
                "{ticks:?}"
            );
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_share_and_names_are_escaped() {
        let bar = |name: &str, value| Bar {
            group: "AllReduce".to_owned(),
            name: name.to_owned(),
            colour: 1,
            light: false,
            value,
            label: "x".to_owned(),
        };
        let drawn = bars("shares", &[bar("<a>", Some(25.0)), bar("b", None)], 100.0);
        assert!(
            drawn.contains("width=\"90.0\" height=\"14\" class=\"f1\""),
            "{drawn}"
        );
        assert!(drawn.contains("width=\"0.0\" height=\"14\""), "{drawn}");
        assert!(
            drawn.contains("&lt;a&gt;") && !drawn.contains("<a>"),
            "{drawn}"
        );
        assert_eq!(drawn.matches("AllReduce").count(), 1);
    }

    #[test]
    fn violins_are_widest_where_most_times_are() {
        let mut shares = vec![0.0; 48];
        shares[12] = 1.0;
        let violin = |range| Violin {
            name: ["a".to_owned(), "b".to_owned()],
            colour: 0,
            light: true,
            range,
            shares: shares.clone(),
            mean: 20.0,
        };
        let drawn = violins("times", &[violin([10.0, 100.0])]);
        assert!(
            drawn.contains("class=\"f0 light\"") && drawn.contains("class=\"mean\""),
            "{drawn}"
        );
        // 35 is half of the place: the step with all times, smoothed, is the widest.
        assert!(
            drawn.contains(&format!("L{:.1} ", 64.0 + 35.0 + 70.0 * 0.42)),
            "{drawn}"
        );
        // All times equal: a line and no shape.
        let flat = violins("times", &[violin([20.0, 20.0])]);
        assert!(
            !flat.contains("<path") && flat.contains("class=\"mean\""),
            "{flat}"
        );
        assert_eq!(violins("none", &[]), "");
        // A number of seven digits has no room at the axis.
        let long = violins("times", &[violin([2e5, 6e6])]);
        assert!(
            long.contains(">500 ms<") && long.contains(">5.00 s<"),
            "{long}"
        );
    }

    #[test]
    fn a_ratio_has_its_interval_and_the_limit_its_line() {
        let ratio = Ratio {
            name: "inspector".to_owned(),
            colour: 2,
            ratio: 1.1,
            interval: Some((1.05, 1.15)),
        };
        let drawn = ratios("overhead", &[ratio], 1.02);
        assert!(
            drawn.contains("class=\"limit\"") && drawn.contains("1.100"),
            "{drawn}"
        );
        assert!(drawn.contains("class=\"whisker f2\""), "{drawn}");
    }
}
