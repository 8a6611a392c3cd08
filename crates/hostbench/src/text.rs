//! The figures of a host, and a comparison of two, as text.

use crate::compare::Comparison;
use crate::item::Unit;
use crate::results::Results;
use analyze::spelling::{percent, three};
use render::layout::{plural, Look, Page, Style, Table};
use std::io::{Result, Write};

/// Writes a host's figures.
///
/// # Errors
/// Those of `out`.
pub fn results(results: &Results, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, true);
    let measured = results.items.iter().filter(|i| i.median.is_some()).count();
    let mut first = format!(
        "{}: {} of {}, medians of {}",
        results.host,
        measured,
        plural(results.items.len() as u64, "item", "items"),
        plural(results.starts as u64, "start", "starts"),
    );
    first += if results.items.iter().any(|item| item.interval.is_some()) {
        " with 95 % intervals over starts."
    } else {
        ". Six starts give intervals."
    };
    page.wrap("", "", &first);
    if let Some(busy) = busy(&results.host, results.busy_share) {
        page.wrap("", "", &busy);
    }
    for fact in &results.facts {
        page.wrap("  ", "    ", &format!("{}: {}", fact.name, fact.value));
    }
    let mut groups: Vec<&str> = results.items.iter().map(|i| &*i.group).collect();
    groups.dedup();
    for group in groups {
        let of_group = || results.items.iter().filter(|item| item.group == group);
        page.title(group);
        let mut table = Table::new(["item", "median", "from", "to", "unit", "what"], "<>>><<");
        for item in of_group().filter(|item| item.median.is_some()) {
            let cell = |value: Option<f64>| value.map_or("-".to_owned(), three);
            table.row([
                item.name.clone(),
                cell(item.median),
                cell(item.interval.map(|i| i[0])),
                cell(item.interval.map(|i| i[1])),
                item.unit.spelled().to_owned(),
                item.what.clone(),
            ]);
        }
        if of_group().any(|item| item.median.is_some()) {
            table.write(&mut page, usize::MAX, "items")?;
        }
        let mut absent: Vec<(&str, Vec<&str>)> = Vec::new();
        for item in of_group() {
            let Some(why) = item.not_applicable.as_deref() else {
                continue;
            };
            match absent.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, names)) => names.push(&item.name),
                None => absent.push((why, vec![&item.name])),
            }
        }
        for (why, names) in absent {
            let text = format!("Not applicable ({why}): {}.", names.join(", "));
            page.wrap("  ", "    ", &text);
        }
    }
    page.finish(out)
}

/// From this share of the CPUs on, others' work is said: with less, most of the 15 batches of a start are
/// alone.
const BUSY: f64 = 0.1;

/// That figures have others' work in them.
fn busy(name: &str, share: Option<f64>) -> Option<String> {
    let share = share.filter(|share| *share >= BUSY)?;
    Some(format!(
        "Other work took {} of the CPUs of {name} meanwhile, so these figures show that, too. Measure while \
         nothing else runs.",
        percent(share)
    ))
}

/// Writes in what two hosts differ.
///
/// # Errors
/// Those of `out`.
pub fn comparison(
    found: &Comparison,
    names: [&str; 2],
    look: Look,
    out: &mut impl Write,
) -> Result<()> {
    let mut page = Page::new(look, true);
    let (style, verdict) = verdict(found, names);
    page.styled(style, &verdict);
    for text in others_work(found, names) {
        page.wrap("", "", &text);
    }
    if !found.differs.is_empty() {
        page.title("Items that differ (largest difference first; medians over starts)");
        let names = ["item", "a", "b", "unit", "b/a", "better", "what"];
        let mut table = Table::new(names, "<>><><<");
        for one in &found.differs {
            table.row([
                one.name.clone(),
                three(one.median_a),
                three(one.median_b),
                Unit::spelled(one.unit).to_owned(),
                three(one.ratio),
                one.better_on.to_uppercase(),
                one.what.clone(),
            ]);
        }
        table.write(&mut page, usize::MAX, "items")?;
    }
    for (title, lines) in [
        (
            "Items of one host only",
            on_one_host(found).collect::<Vec<_>>(),
        ),
        ("What else differs", facts(found).collect()),
    ] {
        if lines.is_empty() {
            continue;
        }
        page.title(title);
        for line in lines {
            page.wrap("  ", "    ", &line);
        }
    }
    page.finish(out)
}

/// Whether the hosts differ, as a sentence.
pub(crate) fn verdict(found: &Comparison, [a, b]: [&str; 2]) -> (Style, String) {
    let limit = ((found.limit_ratio - 1.0) * 1000.0).round() / 10.0;
    let of = plural(found.compared as u64, "item", "items");
    let number = found.differs.len();
    match (number, found.can_tell) {
        (0, false) => (
            Style::Open,
            format!(
                "{a} (A) and {b} (B) have too few starts: no difference in {of} could be told from \
                 chance. Measure with --starts 10."
            ),
        ),
        (0, true) => (
            Style::Good,
            format!("None of {of} differs by more than {limit} % between {a} (A) and {b} (B)."),
        ),
        _ => (
            Style::Bad,
            format!(
                "{number} of {of} {} by more than {limit} % between {a} (A) and {b} (B). At most 5 of \
                 100 comparisons of equal hosts name any item.",
                if number == 1 { "differs" } else { "differ" },
            ),
        ),
    }
}

/// That figures of a host have others' work in them.
pub(crate) fn others_work(found: &Comparison, [a, b]: [&str; 2]) -> impl Iterator<Item = String> {
    let of = [busy(a, found.busy_share_a), busy(b, found.busy_share_b)];
    of.into_iter().flatten()
}

/// Items that only one host has, and why.
pub(crate) fn on_one_host(found: &Comparison) -> impl Iterator<Item = String> + '_ {
    found.on_one_host.iter().map(|one| {
        let (on, other) = match one.on {
            "a" => ("A", "B"),
            _ => ("B", "A"),
        };
        format!(
            "{}: on {on}; not applicable on {other}: {}",
            one.name, one.why
        )
    })
}

/// Facts that differ.
pub(crate) fn facts(found: &Comparison) -> impl Iterator<Item = String> + '_ {
    found.facts.iter().map(|fact| {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        format!("{}: {} -> {}", fact.name, value(&fact.a), value(&fact.b))
    })
}
