//! What a tuning experiment found, as one page of HTML: the change by setting with its interval, how times
//! are spread, and which algorithm and protocol ran.
//!
//! Rule: every figure has its numbers in a table under it.

use crate::figures::{captioned, ratios, shares, violins, Ratio, Violin};
use crate::layout::plural;
use crate::page::{finish, head, list, table};
use crate::tune::{change, of_what, reasons, verdict, Answer, Setting};
use analyze::spelling::time;
use analyze::tune::Standing;
use std::io::{Result, Write};

/// Steps of a violin. A setting has some 5 to 200 times, and fewer in a step show nothing.
const STEPS: usize = 24;

/// Fewer times have no shape.
const LEAST_TIMES: usize = 5;

/// The colour of a setting: one for faster than the default, one for slower, and grey for the rest.
const fn colour(standing: Standing) -> usize {
    match standing {
        Standing::Faster => 2,
        Standing::Slower => 1,
        Standing::Default | Standing::NotApart | Standing::NotJudged => 7,
    }
}

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn write(answer: &Answer, out: &mut impl Write) -> Result<()> {
    let mut html = String::new();
    let about = format!(
        "{} of {} settings (seed {}); times are means over {} of: {}; intervals are 95 % sure together.",
        plural(answer.rounds, "round", "rounds"),
        answer.settings.len(),
        answer.seed,
        answer.way,
        of_what(answer),
    );
    head(&mut html, &about, &answer.summary);
    list(&mut html, "Take it", answer.exports.iter().cloned());
    changes(answer, &mut html);
    spread(answer, &mut html);
    numbers(answer, &mut html);
    let used = answer.settings.iter().filter(|of| !of.used.is_empty());
    let rows: Vec<Vec<String>> = used
        .flat_map(|of| {
            // As the report writes it: the protocol is part of the algorithm.
            let row = |used: &String| {
                let (call, protocol) = used.rsplit_once(' ').unwrap_or((used, ""));
                let used = format!("{call}/{protocol}");
                let cells = std::iter::once(of.name.as_str()).chain(used.split(' '));
                cells.map(str::to_owned).collect()
            };
            of.used.iter().map(row)
        })
        .collect();
    let names = ["setting", "function", "bytes", "algorithm"];
    table(&mut html, "What NCCL ran", &names, 4, &rows);
    let told = answer.settings.iter().filter_map(|of| {
        let words = reasons(of);
        (!words.is_empty()).then(|| format!("{}: {}", of.name, words.join(" ")))
    });
    list(&mut html, "Asked but not used, or not judged", told);
    list(&mut html, "Notes", answer.notes.iter().cloned());
    finish(&html, "NCCL settings tried - ncclscope tune", out)
}

/// A name for figures, which have little room: each has this prefix.
fn short(name: &str) -> String {
    name.replace("NCCL_", "")
}

fn section(html: &mut String, title: &str, figure: &str) {
    if !figure.is_empty() {
        *html += &format!(
            "<section>\n<h2>{title}</h2>\n<div class=\"figures\">\n{figure}</div>\n</section>\n"
        );
    }
}

fn changes(answer: &Answer, html: &mut String) {
    let ratio = |of: &Setting| {
        let against = of.ranked.against?;
        Some(Ratio {
            name: short(&of.name),
            colour: colour(of.ranked.standing),
            ratio: against.ratio,
            interval: Some((against.low, against.high)),
        })
    };
    let drawn: Vec<Ratio> = answer.settings.iter().filter_map(ratio).collect();
    if drawn.is_empty() {
        return;
    }
    let label = "Time of each setting by that of the default, with its interval";
    let caption = "below 1: faster than the default";
    section(
        html,
        "Time of each setting, by that of the default",
        &captioned(caption, &ratios(label, &drawn, 1.0)),
    );
}

fn spread(answer: &Answer, html: &mut String) {
    let violin = |of: &Setting| {
        let mut times = of.times_us.clone();
        times.sort_by(f64::total_cmp);
        if times.len() < LEAST_TIMES || times[0] <= 0.0 {
            return None;
        }
        let name = short(&of.name);
        let (first, rest) = name.split_once(' ').unwrap_or((&name, ""));
        Some(Violin {
            name: [first.to_owned(), rest.to_owned()],
            colour: colour(of.ranked.standing),
            light: false,
            range: [times[0], times[times.len() - 1]],
            shares: shares(&times, STEPS),
            mean: times.iter().sum::<f64>() / times.len() as f64,
        })
    };
    let drawn: Vec<Violin> = answer.settings.iter().filter_map(violin).collect();
    if drawn.is_empty() {
        return;
    }
    let label = "How the times of each setting are spread";
    let caption = format!("{}; a line at each mean", of_what(answer));
    section(
        html,
        "How times are spread",
        &captioned(&caption, &violins(label, &drawn)),
    );
}

fn numbers(answer: &Answer, html: &mut String) {
    let has_energy = answer.settings.iter().any(|of| of.energy_j.is_some());
    let row = |of: &Setting| {
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let mut cells = vec![
            of.name.clone(),
            of.ranked.trials.to_string(),
            cell(of.ranked.mean_us.map(time)),
            cell(of.ranked.against.map(change)),
        ];
        if has_energy {
            cells.push(cell(of.energy_j.map(|joules| format!("{joules:.0}"))));
        }
        cells.push(verdict(of.ranked.standing).to_owned());
        cells
    };
    let rows: Vec<Vec<String>> = answer.settings.iter().map(row).collect();
    let energy: &[&str] = if has_energy { &["energy_j"] } else { &[] };
    let names = [
        &["setting", answer.way, "time", "change"],
        energy,
        &["verdict"],
    ]
    .concat();
    table(html, "Settings, the fastest first", &names, 1, &rows);
}
