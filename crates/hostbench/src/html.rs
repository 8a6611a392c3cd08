//! Two hosts side by side, as one page of HTML: each item with the better host.
//!
//! Rule: a host is called better only if the test tells the two apart from chance; else the row says `even`.

use crate::compare::{Comparison, Row};
use crate::text;
use analyze::spelling::three;
use render::figures::{captioned, ratios, Ratio};
use render::layout::plural;
use render::page::{finish, head, list, table};
use std::io::{Result, Write};

/// Ratios that are drawn; all are in the tables.
const MOST_DRAWN: usize = 24;
/// Colours: one for a host that is better by more than the limit, by host.
const COLOURS: [usize; 2] = [1, 2];

/// Writes the page.
///
/// # Errors
/// Those of `out`.
pub fn comparison(found: &Comparison, names: [&str; 2], out: &mut impl Write) -> Result<()> {
    let mut html = String::new();
    let [a, b] = names;
    let better = |on: &str| {
        let rows = found.items.iter();
        rows.filter(|row| row.better_on == Some(on)).count()
    };
    let about = format!(
        "A is {a} ({}), and B is {b} ({}). A is better in {} of {}, B in {}, by however little; the other \
         rows are even, or of one host. Medians over starts, with 95 % intervals.",
        found.host_a,
        found.host_b,
        better("a"),
        plural(found.items.len() as u64, "row", "rows"),
        better("b"),
    );
    head(&mut html, &about, &text::verdict(found, names).1);
    list(&mut html, "Other work", text::others_work(found, names));
    differing(found, &mut html);
    // What only B has comes last, and its group may be an earlier one.
    let mut groups: Vec<&str> = Vec::new();
    for row in &found.items {
        if !groups.contains(&&*row.group) {
            groups.push(&row.group);
        }
    }
    for group in groups {
        let rows = found.items.iter().filter(|row| row.group == group);
        let rows: Vec<Vec<String>> = rows.map(|row| cells(found, row)).collect();
        let names = [
            "what", "item", "winner", "unit", "A", "A_from", "A_to", "B", "B_from", "B_to", "B/A",
        ];
        table(&mut html, group, &names, 4, &rows);
    }
    list(
        &mut html,
        "Items of one host only",
        text::on_one_host(found),
    );
    list(&mut html, "What else differs", text::facts(found));
    finish(&html, "Two hosts - ncclscope hostbench diff", out)
}

/// The largest differences, as ratios.
fn differing(found: &Comparison, html: &mut String) {
    let drawn = found.differs.iter().take(MOST_DRAWN);
    let drawn: Vec<Ratio> = drawn
        .map(|one| Ratio {
            name: one.name.clone(),
            colour: COLOURS[usize::from(one.better_on == "b")],
            ratio: one.ratio,
            interval: None,
        })
        .collect();
    if drawn.is_empty() {
        return;
    }
    let label = "B by A, for items that differ";
    let figure = captioned(
        "medians; largest difference first",
        &ratios(label, &drawn, 1.0),
    );
    *html += &format!(
        "<section>\n<h2>{label}</h2>\n<div class=\"figures\">\n{figure}</div>\n</section>\n"
    );
}

fn cells(found: &Comparison, row: &Row) -> Vec<String> {
    let figure = |value: Option<f64>| value.map_or("-".to_owned(), three);
    let [low_a, high_a] = ends(row.interval_a);
    let [low_b, high_b] = ends(row.interval_b);
    let [a, b] = [row.median_a, row.median_b].map(figure);
    let winner = winner(found, row);
    vec![
        row.what.clone(),
        row.name.clone(),
        winner,
        row.unit.spelled().to_owned(),
        a,
        low_a,
        high_a,
        b,
        low_b,
        high_b,
        figure(row.ratio),
    ]
}

/// The better host of a row.
fn winner(found: &Comparison, row: &Row) -> String {
    let of_one = || {
        let mut rows = found.on_one_host.iter();
        let one = rows.find(|one| one.name == row.name)?;
        Some(format!("only {}", one.on.to_uppercase()))
    };
    match row.better_on {
        Some(host) => host.to_uppercase(),
        None if row.ratio.is_none() => of_one().unwrap_or_default(),
        None if found.can_tell => "even".to_owned(),
        None => "too few starts".to_owned(),
    }
}

fn ends(interval: Option<[f64; 2]>) -> [String; 2] {
    interval.map_or_else(|| ["-".to_owned(), "-".to_owned()], |ends| ends.map(three))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;
    use crate::item::{Items, Unit};
    use crate::results::{gather, Results, SCHEMA};

    /// A host with one item for each factor: ten starts around the factor, or none for 0.
    fn host(name: &str, factors: &[f64]) -> Results {
        let start = |start: usize| {
            let mut items = Items::default();
            items.group("Clocks & co");
            for (item, factor) in factors.iter().enumerate() {
                let value = factor * (100.0 + start as f64);
                let value = (value > 0.0).then_some(value).ok_or("no GPU".to_owned());
                items.add(&format!("item_{item}"), Unit::Nanos, "an item", value);
            }
            items.all
        };
        Results {
            schema: SCHEMA.to_owned(),
            version: String::new(),
            host: name.to_owned(),
            starts: 10,
            busy_share: None,
            facts: Vec::new(),
            items: gather(&(0..10).map(start).collect::<Vec<_>>()),
        }
    }

    #[test]
    fn each_row_has_a_winner_or_says_why_not() {
        let found = compare(
            &host("n17", &[1.0, 1.0, 1.0, 1.0]),
            &host("n<18", &[3.0, 0.5, 1.0, 0.0]),
            1.25,
        );
        let winners: Vec<String> = found.items.iter().map(|row| winner(&found, row)).collect();
        assert_eq!(winners, ["A", "B", "even", "only A"]);
        let mut page = Vec::new();
        comparison(&found, ["a.json", "b.json"], &mut page).expect("written");
        // A figure and its unit stay on one line.
        let page = String::from_utf8(page)
            .expect("UTF-8")
            .replace('\u{a0}', " ");
        for part in [
            "<h2>Clocks &amp; co</h2>",
            "b.json (n&lt;18)",
            "2 of 3 items differ by more than 25 %",
            "item_3: on A; not applicable on B: no GPU",
            "A is better in 1 of 4 rows, B in 1",
        ] {
            assert!(page.contains(part), "`{part}` is not in\n{page}");
        }
    }

    #[test]
    fn few_starts_make_no_winner() {
        let few = |factor: f64| {
            let mut host = host("n", &[factor]);
            host.items[0].values.truncate(2);
            host
        };
        let found = compare(&few(1.0), &few(9.0), 1.25);
        assert_eq!(winner(&found, &found.items[0]), "too few starts");
    }
}
