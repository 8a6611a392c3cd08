//! In which items two hosts differ.
//!
//! An item differs if its starts on one host rank beyond those on the other. One host's values are multiplied
//! by a limit first, so a difference of more than the limit is proved. The test is the exact one of Mann and
//! Whitney (H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is stochastically
//! larger than the other", Annals of Mathematical Statistics 18(1), 1947). All items are judged
//! together, by Holm's method: with hundreds of items, a host that is compared with itself has a false alarm
//! in 5 of 100 comparisons at most.
//!
//! Rule: an item that only one host has is a difference, too, but never one of figures.

use crate::item::Unit;
use crate::results::{Figure, Results};
use analyze::interval::holm;
use schemars::JsonSchema;
use serde::Serialize;

/// The format of the JSON.
pub const SCHEMA: &str = "ncclscope.hostbench-diff/1";
/// Chance of a false alarm, over all items together.
pub const LEVEL: f64 = 0.05;

/// Two hosts, B against A.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The first host's name.
    pub host_a: String,
    /// The second host's name.
    pub host_b: String,
    /// A difference is more than this ratio.
    pub limit_ratio: f64,
    /// Items that both hosts have.
    pub compared: usize,
    /// Others' share of A's CPUs while it was measured; null if it is not known.
    pub busy_share_a: Option<f64>,
    /// The part of B's CPUs that others' work took while it was measured.
    pub busy_share_b: Option<f64>,
    /// Whether there are enough starts for any difference to be told from chance.
    pub can_tell: bool,
    /// Items that differ by more than the limit, the largest difference first.
    pub differs: Vec<Differs>,
    /// Items that one of the hosts has.
    pub on_one_host: Vec<OnOneHost>,
    /// All items that a host has, in the order of printing.
    pub items: Vec<Row>,
    /// What else differs. Null if a host does not have it.
    pub facts: Vec<FactDiffers>,
}

/// An item that differs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Differs {
    /// Its name.
    pub name: String,
    /// What was measured.
    pub what: String,
    /// What the medians are in.
    pub unit: Unit,
    /// The median on A, in `unit`.
    pub median_a: f64,
    /// The median on B, in `unit`.
    pub median_b: f64,
    /// B / A.
    pub ratio: f64,
    /// `a` or `b`.
    #[schemars(extend("enum" = ["a", "b"]))]
    pub better_on: &'static str,
}

/// An item on both hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The group that it is printed in.
    pub group: String,
    /// What was measured.
    pub what: String,
    /// What the medians are in.
    pub unit: Unit,
    /// The median on A, in `unit`; null if A does not have it.
    pub median_a: Option<f64>,
    /// Its 95 % interval, in `unit`; null below six starts.
    pub interval_a: Option<[f64; 2]>,
    /// The median on B, in `unit`; null if B does not have it.
    pub median_b: Option<f64>,
    /// In `unit`, of 95 %; null below six starts.
    pub interval_b: Option<[f64; 2]>,
    /// B / A; null if one host does not have it.
    pub ratio: Option<f64>,
    /// `a` or `b`, by however little; null if the hosts can't be told apart, or one does not have it.
    #[schemars(extend("enum" = ["a", "b", null]))]
    pub better_on: Option<&'static str>,
}

/// An item that one of the hosts has.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OnOneHost {
    /// Its name.
    pub name: String,
    /// `a` or `b`.
    #[schemars(extend("enum" = ["a", "b"]))]
    pub on: &'static str,
    /// Why the other host has no figure.
    pub why: String,
}

/// A fact that differs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FactDiffers {
    /// Its name.
    pub name: String,
    /// On A; null if A has none.
    pub a: Option<String>,
    /// On B; null if B has none.
    pub b: Option<String>,
}

impl Comparison {
    /// Whether any item differs.
    pub fn any(&self) -> bool {
        !self.differs.is_empty() || !self.on_one_host.is_empty()
    }
}

/// Compares the hosts; a difference is one of more than `limit`.
pub fn compare(a: &Results, b: &Results, limit: f64) -> Comparison {
    let of_b = |figure: &Figure| b.items.iter().find(|other| other.name == figure.name);
    let mut pairs = Vec::new();
    let mut on_one_host = Vec::new();
    for one in &a.items {
        match (one.values.is_empty(), of_b(one)) {
            (false, Some(other)) if !other.values.is_empty() => pairs.push((one, other)),
            (false, other) => on_one_host.push(OnOneHost {
                name: one.name.clone(),
                on: "a",
                why: why(other),
            }),
            (true, Some(other)) if !other.values.is_empty() => on_one_host.push(OnOneHost {
                name: one.name.clone(),
                on: "b",
                why: why(Some(one)),
            }),
            (true, _) => {}
        }
    }
    let in_a = |figure: &Figure| a.items.iter().any(|other| other.name == figure.name);
    for other in b.items.iter().filter(|f| !f.values.is_empty() && !in_a(f)) {
        on_one_host.push(OnOneHost {
            name: other.name.clone(),
            on: "b",
            why: why(None),
        });
    }
    let p: Vec<f64> = pairs
        .iter()
        .map(|(a, b)| p_beyond(&a.values, &b.values, limit))
        .collect();
    let mut differs: Vec<Differs> = pairs
        .iter()
        .zip(holm(&p, LEVEL))
        .filter(|(_, differs)| *differs)
        .filter_map(|((a, b), _)| {
            let (median_a, median_b) = (a.median?, b.median?);
            Some(Differs {
                name: a.name.clone(),
                what: a.what.clone(),
                unit: a.unit,
                median_a,
                median_b,
                ratio: median_b / median_a,
                better_on: better(a, median_a, median_b),
            })
        })
        .collect();
    let far = |one: &Differs| one.ratio.ln().abs();
    differs.sort_by(|a, b| far(b).total_cmp(&far(a)));
    // The smallest chance that so many starts can give, against what is asked of the first of all items.
    let surest = pairs
        .iter()
        .map(|(a, b)| 2.0 / binomial(a.values.len() + b.values.len(), a.values.len()))
        .fold(f64::INFINITY, f64::min);
    Comparison {
        schema: SCHEMA,
        host_a: a.host.clone(),
        host_b: b.host.clone(),
        limit_ratio: limit,
        compared: pairs.len(),
        busy_share_a: a.busy_share,
        busy_share_b: b.busy_share,
        can_tell: surest <= LEVEL / pairs.len().max(1) as f64,
        differs,
        on_one_host,
        items: rows(a, b, &pairs),
        facts: facts(a, b),
    }
}

/// The host with the better median.
fn better(of: &Figure, median_a: f64, median_b: f64) -> &'static str {
    if (median_b < median_a) == of.less_is_better {
        "b"
    } else {
        "a"
    }
}

fn find<'a>(of: &'a Results, name: &str) -> Option<&'a Figure> {
    of.items.iter().find(|item| item.name == name)
}

/// All items that a host has: first those of A, then those that only B has. An item has a winner if the test
/// without a limit tells the hosts apart, again over all items together.
fn rows(a: &Results, b: &Results, pairs: &[(&Figure, &Figure)]) -> Vec<Row> {
    let p: Vec<f64> = pairs
        .iter()
        .map(|(a, b)| p_beyond(&a.values, &b.values, 1.0))
        .collect();
    let apart = holm(&p, LEVEL);
    let of_b = b.items.iter().filter(|item| find(a, &item.name).is_none());
    let all = a.items.iter().chain(of_b);
    let all = all.map(|item| {
        let (on_a, on_b) = (find(a, &item.name), find(b, &item.name));
        let median = |on: Option<&Figure>| on.and_then(|on| on.median);
        let both = median(on_a).zip(median(on_b));
        let pair = pairs.iter().position(|(a, _)| a.name == item.name);
        let is_apart = pair.is_some_and(|pair| apart[pair]);
        Row {
            name: item.name.clone(),
            group: item.group.clone(),
            what: item.what.clone(),
            unit: item.unit,
            median_a: median(on_a),
            interval_a: on_a.and_then(|on| on.interval),
            median_b: median(on_b),
            interval_b: on_b.and_then(|on| on.interval),
            ratio: both.map(|(a, b)| b / a),
            better_on: both.filter(|_| is_apart).map(|(a, b)| better(item, a, b)),
        }
    });
    all.filter(|row| row.median_a.or(row.median_b).is_some())
        .collect()
}

/// Why a host has no figure.
fn why(figure: Option<&Figure>) -> String {
    match figure.map(|figure| figure.not_applicable.clone()) {
        Some(Some(why)) => why,
        _ => "it was not measured".to_owned(),
    }
}

fn facts(a: &Results, b: &Results) -> Vec<FactDiffers> {
    let value = |of: &Results, name: &str| {
        let fact = of.facts.iter().find(|fact| fact.name == name);
        fact.map(|fact| fact.value.clone())
    };
    let mut names: Vec<&String> = Vec::new();
    for fact in a.facts.iter().chain(&b.facts) {
        if !names.contains(&&fact.name) {
            names.push(&fact.name);
        }
    }
    let both = names.into_iter().map(|name| FactDiffers {
        name: name.clone(),
        a: value(a, name),
        b: value(b, name),
    });
    both.filter(|fact| fact.a != fact.b).collect()
}

/// How likely values as far apart as these are, in either direction, if the hosts differ by no more than
/// `limit`.
pub fn p_beyond(a: &[f64], b: &[f64], limit: f64) -> f64 {
    let wins = |larger: &[f64], smaller: &[f64]| {
        // A tie counts half, and half of one is no win.
        let halves: usize = larger
            .iter()
            .flat_map(|x| smaller.iter().map(move |y| (*x, y * limit)))
            .map(|(x, y)| match x.total_cmp(&y) {
                std::cmp::Ordering::Greater => 2,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Less => 0,
            })
            .sum();
        halves / 2
    };
    let chance = |wins| p_of_wins(a.len(), b.len(), wins);
    let smallest = chance(wins(b, a)).min(chance(wins(a, b)));
    (2.0 * smallest).min(1.0)
}

/// The chance of at least so many wins among all pairs of n and m values in random order.
fn p_of_wins(n: usize, m: usize, wins: usize) -> f64 {
    // Orders with u wins of j and k values: the last value of all is one of the k, which beats all j, or one
    // of the j.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for j in 1..=n {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for k in 1..=m {
            let mut counts = vec![0.0; j * k + 1];
            for (u, count) in next[k - 1].iter().enumerate() {
                counts[u + j] += count;
            }
            for (u, count) in rows[k].iter().enumerate() {
                counts[u] += count;
            }
            next.push(counts);
        }
        rows = next;
    }
    let counts = &rows[m];
    let all: f64 = counts.iter().sum();
    counts.iter().skip(wins).sum::<f64>() / all
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |sum, i| sum * (n - i) as f64 / (i + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{gather, Fact, SCHEMA as RESULTS};

    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }
    }

    /// A host with so many items: lognormal values, and now and then one that something disturbed.
    fn host(
        random: &mut Random,
        items: usize,
        starts: usize,
        factor: impl Fn(usize) -> f64,
    ) -> Results {
        let start = |random: &mut Random| {
            let mut found = crate::item::Items::default();
            for item in 0..items {
                let disturbed = if random.uniform() < 0.1 { 3.0 } else { 1.0 };
                let value = 100.0 * factor(item) * disturbed * (0.2 * random.normal()).exp();
                found.add(&format!("item_{item}"), Unit::Nanos, "an item", Ok(value));
            }
            found.all
        };
        let all: Vec<_> = (0..starts).map(|_| start(random)).collect();
        Results {
            schema: RESULTS.to_owned(),
            version: String::new(),
            host: "h".to_owned(),
            starts,
            busy_share: None,
            facts: vec![Fact {
                name: "CPU".to_owned(),
                value: items.to_string(),
            }],
            items: gather(&all),
        }
    }

    #[test]
    fn chances_are_those_of_the_tables() {
        // Of 3 and 3 values, 20 orders: one has 9 wins, one 8, two 7.
        assert!((p_of_wins(3, 3, 9) - 0.05).abs() < 1e-12);
        assert!((p_of_wins(3, 3, 8) - 0.10).abs() < 1e-12);
        assert!((p_of_wins(3, 3, 7) - 0.20).abs() < 1e-12);
        assert_eq!(p_of_wins(4, 7, 0), 1.0);
        // Half of the orders and the middle one: the distribution is symmetric.
        let upper = p_of_wins(5, 5, 13);
        assert!((upper - 0.5).abs() < 1e-12, "{upper}");
    }

    #[test]
    fn a_host_and_itself_have_a_false_alarm_in_5_of_100_comparisons_at_most() {
        let mut random = Random(42);
        let mut alarms = 0;
        for _ in 0..400 {
            let a = host(&mut random, 60, 10, |_| 1.0);
            let b = host(&mut random, 60, 10, |_| 1.0);
            // Even without a limit.
            let found = compare(&a, &b, 1.0);
            assert!(found.can_tell);
            alarms += usize::from(found.any());
        }
        assert!(alarms <= 26, "{alarms} of 400");
    }

    #[test]
    fn what_differs_by_more_than_the_limit_is_named() {
        let mut random = Random(7);
        let slower = |item| match item {
            5 => 3.0,
            9 => 0.3,
            // Below the limit.
            11 => 1.05,
            _ => 1.0,
        };
        let a = host(&mut random, 60, 10, |_| 1.0);
        let b = host(&mut random, 60, 10, slower);
        let found = compare(&a, &b, 1.1);
        let mut names: Vec<&str> = found.differs.iter().map(|d| &*d.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["item_5", "item_9"]);
        let five = found.differs.iter().find(|d| d.name == "item_5");
        assert_eq!(five.expect("it").better_on, "a");
        let nine = found.differs.iter().find(|d| d.name == "item_9");
        assert_eq!(nine.expect("it").better_on, "b");
        // Every item has a row, and those that differ have their winner there, too.
        assert_eq!(found.items.len(), 60);
        let winner = |item: usize| found.items[item].better_on;
        assert_eq!((winner(5), winner(9)), (Some("a"), Some("b")));
        let winners = found.items.iter().filter(|row| row.better_on.is_some());
        assert!(winners.count() <= 4);
    }

    #[test]
    fn a_row_of_one_host_has_no_winner() {
        let mut random = Random(7);
        let a = host(&mut random, 3, 10, |_| 1.0);
        let mut b = host(&mut random, 3, 10, |_| 50.0);
        b.items[1].values.clear();
        b.items[1].median = None;
        b.items.push(Figure {
            name: "of_b".to_owned(),
            ..b.items[0].clone()
        });
        let found = compare(&a, &b, 1.25);
        let winners: Vec<_> = found.items.iter().map(|row| row.better_on).collect();
        assert_eq!(winners, [Some("a"), None, Some("a"), None]);
        assert_eq!(found.items[3].name, "of_b");
        assert!(found.items[3].median_a.is_none() && found.items[3].ratio.is_none());
    }

    #[test]
    fn too_few_starts_can_not_tell() {
        let mut random = Random(7);
        let a = host(&mut random, 60, 5, |_| 1.0);
        let b = host(&mut random, 60, 5, |_| 100.0);
        let found = compare(&a, &b, 1.1);
        assert!(!found.can_tell);
        assert!(found.differs.is_empty());
    }

    #[test]
    fn what_one_host_has_is_named_with_the_reason() {
        let mut random = Random(7);
        let a = host(&mut random, 3, 10, |_| 1.0);
        let mut b = a.clone();
        b.items[1].values.clear();
        b.items[1].not_applicable = Some("no GPU".to_owned());
        b.items.remove(2);
        b.facts[0].value = "4".to_owned();
        let found = compare(&a, &b, 1.1);
        let missing: Vec<_> = found
            .on_one_host
            .iter()
            .map(|o| (&*o.name, o.on, &*o.why))
            .collect();
        let expected = [
            ("item_1", "a", "no GPU"),
            ("item_2", "a", "it was not measured"),
        ];
        assert_eq!(missing, expected);
        assert_eq!(found.facts.len(), 1);
        assert!(!compare(&a, &a, 1.1).any());
        let back = compare(&b, &a, 1.1);
        assert!(back.on_one_host.iter().all(|o| o.on == "b"), "{back:?}");
    }
}
