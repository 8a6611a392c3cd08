//! Which way NCCL goes between ranks, as text: the answer, why it is not the best way, and all ways.

use crate::layout::{plural, Look, Page, Style, Table};
use analyze::spelling::ranges;
use setup::paths::{Network, Paths, Reason, Route, Transport};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Result, Write};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/paths-1.json");

/// Rows of a table without `--all`.
const ROWS: usize = 12;
/// Cards that a cell names.
const CARDS: usize = 4;

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(paths: &Paths, out: &mut impl Write) -> Result<()> {
    crate::json::pretty(paths, out)
}

/// Writes it as a page of text.
///
/// # Errors
/// Those of `out`.
pub fn text(paths: &Paths, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, all);
    let routes = || paths.communicators.iter().flat_map(|one| &one.routes);
    let style = match (
        routes().any(|route| route.is_best == Some(false)),
        paths.reasons.is_empty(),
    ) {
        (true, _) => Style::Bad,
        (false, false) => Style::Open,
        (false, true) => Style::Good,
    };
    page.styled(style, &sentence(paths));
    if !paths.reasons.is_empty() {
        page.title("Why, and what changes it");
        for reason in &paths.reasons {
            why(reason, &mut page);
        }
    }
    if routes().next().is_none() {
        return page.finish(out);
    }
    page.title("Ways (most pairs first)");
    let mut table = Table::new(
        [
            "way", "where", "routes", "channels", "cards", "gdr", "best", "why",
        ],
        "<<>>><<<",
    );
    for row in summary(paths) {
        table.row(row);
    }
    page.table(&table, ROWS, "ways");
    if all {
        for one in &paths.communicators {
            let id = one.id.as_deref().unwrap_or("of unknown id");
            let of = one.nranks.map_or(String::new(), |nranks| {
                format!("{}; ", plural(nranks.into(), "rank", "ranks"))
            });
            page.title(&format!("Pairs of communicator {id} ({of}by rank)"));
            let mut table = Table::new(
                [
                    "from",
                    "to",
                    "way",
                    "channels",
                    "from card",
                    "to card",
                    "gdr",
                    "best",
                    "why",
                ],
                "<<<<<<<<<",
            );
            for route in &one.routes {
                table.row(pair(route));
            }
            page.table(&table, usize::MAX, "pairs");
        }
    } else {
        page.line("`--all` has every pair of ranks, `--json` has every channel.");
    }
    page.finish(out)
}

/// Words as a sentence begins with them. A name of a library stays as it is.
fn beginning(words: &str) -> String {
    let is_name = words
        .split(' ')
        .next()
        .is_some_and(|word| word.contains('.'));
    match words.chars().next().filter(char::is_ascii_lowercase) {
        Some(first) if !is_name => format!("{}{}", first.to_ascii_uppercase(), &words[1..]),
        _ => words.to_owned(),
    }
}

/// One reason, what changes it, and NCCL's line.
fn why(reason: &Reason, page: &mut Page) {
    let begins = beginning(&reason.because);
    let on = match reason.hosts.as_slice() {
        [] => String::new(),
        [one] => format!(" (on {one})"),
        [first, .., last] => format!(" (on {} hosts, {first} to {last})", reason.hosts.len()),
    };
    page.line(&format!("{begins}{on}. {}", reason.change));
    if let Some(line) = &reason.evidence {
        page.line(&format!("  NCCL said: {line}"));
    }
}

/// Where a route goes, in the order of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Between,
    Within,
    Unknown,
}

impl Scope {
    fn of(route: &Route) -> Scope {
        match route.is_within_host() {
            Some(true) => Scope::Within,
            Some(false) => Scope::Between,
            None => Scope::Unknown,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Scope::Between => "between hosts",
            Scope::Within => "within hosts",
            Scope::Unknown => "between hosts or within one",
        }
    }
}

/// Pairs of ranks of a communicator.
type Pairs = BTreeSet<(usize, u32, u32)>;

/// The answer: what NCCL uses between hosts and within them, and why nothing faster.
pub fn sentence(paths: &Paths) -> String {
    // By place, way and reason: pairs and cards.
    type Class<'a> = (Scope, Transport, &'a str, Option<bool>, &'a [&'static str]);
    let mut classes: BTreeMap<Class, (Pairs, BTreeSet<&str>)> = BTreeMap::new();
    let mut all: BTreeMap<Scope, Pairs> = BTreeMap::new();
    for (number, one) in paths.communicators.iter().enumerate() {
        for route in &one.routes {
            let scope = Scope::of(route);
            let name = match route.transport {
                Transport::Net | Transport::CollNet => route.through.as_str(),
                _ if route.is_indirect() => INDIRECT,
                _ => "",
            };
            let why = route.reasons.as_slice();
            let class = (scope, route.transport, name, route.gdr, why);
            let (pairs, cards) = classes.entry(class).or_default();
            let pair = (number, route.from, route.to);
            pairs.insert(pair);
            all.entry(scope).or_default().insert(pair);
            let ends = [&route.from_card, &route.to_card].into_iter().flatten();
            cards.extend(ends.map(String::as_str));
        }
    }
    let mut said = Vec::new();
    for (scope, pairs) in &all {
        let mut here: Vec<_> = classes.iter().filter(|((of, ..), _)| of == scope).collect();
        // Routes with a reason first, then the way of most pairs.
        here.sort_by_key(|((.., why), (pairs, _))| (why.is_empty(), usize::MAX - pairs.len()));
        let Some(((_, transport, name, gdr, why), (some, cards))) = here.first() else {
            continue;
        };
        let part = if some.len() == pairs.len() {
            String::new()
        } else {
            format!(" for {} of {} pairs", some.len(), pairs.len())
        };
        let place = beginning(scope.words());
        let (mut known, mut open) = (Vec::new(), Vec::new());
        for reason in paths.reasons.iter().filter(|of| why.contains(&of.kind)) {
            let list = if reason.is_known() {
                &mut known
            } else {
                &mut open
            };
            list.push(reason.because.as_str());
        }
        let because = why_in_words(&known, &open);
        let way = in_words(*transport, name, *gdr, cards);
        said.push(format!("{place}, NCCL uses {way}{part}{because}."));
    }
    said.extend(in_switches(paths));
    if said.is_empty() {
        return unconnected(paths);
    }
    let alone = paths.reasons.iter().filter(|reason| {
        let used = |class: &Class| class.4.contains(&reason.kind);
        !classes.keys().any(used)
    });
    said.extend(alone.map(|reason| format!("{}.", beginning(&reason.because))));
    if paths.reasons.is_empty() {
        said.push("NCCL names no faster way on these hosts.".to_owned());
    }
    said.join(" ")
}

/// That switches reduce, if ranks are connected to such.
fn in_switches(paths: &Paths) -> Vec<String> {
    let mut said = Vec::new();
    let mut all = paths.communicators.iter();
    if all.clone().any(|one| one.nvls_ranks > 0) {
        let of = all.clone().filter(|one| one.nvls_ranks > 0).count();
        let part = match (of, paths.communicators.len()) {
            (of, all) if of < all => format!(" in {of} of {all} communicators"),
            _ => String::new(),
        };
        said.push(format!(
            "The NVLink switch can reduce and send to all GPUs (NVLS){part}."
        ));
    }
    if let Some(network) = all.find_map(|one| one.collnet.as_ref()) {
        said.push(format!("The network can reduce on its way ({network})."));
    }
    said
}

/// What is known if no line is about a connection.
fn unconnected(paths: &Paths) -> String {
    let one = |network: &Network| {
        let cards: BTreeSet<&str> = network.cards.iter().map(String::as_str).collect();
        let (mut known, mut open) = (Vec::new(), Vec::new());
        for reason in &paths.reasons {
            if network.reasons.contains(&reason.kind) {
                let list = if reason.is_known() {
                    &mut known
                } else {
                    &mut open
                };
                list.push(reason.because.as_str());
            }
        }
        let name = match network.name.as_str() {
            "Socket" => "TCP sockets",
            name => name,
        };
        let cards = match some_cards(&cards) {
            cards if cards.is_empty() => cards,
            cards => format!(" ({cards})"),
        };
        let on = match network.hosts.as_slice() {
            _ if paths.networks.len() == 1 => String::new(),
            [host] => format!(" on {host}"),
            hosts => format!(" on {} hosts", hosts.len()),
        };
        format!("{name}{cards}{on}{}", why_in_words(&known, &open))
    };
    let networks: Vec<String> = paths.networks.iter().map(one).collect();
    let alone = match paths.alone {
        0 => String::new(),
        n => format!(
            "{}, which has nothing to be connected to. ",
            plural(
                n.into(),
                "communicator has one rank",
                "communicators have one rank each"
            )
        ),
    };
    let between = if networks.is_empty() {
        String::new()
    } else {
        format!("Between hosts, NCCL chose {}. ", networks.join(", and "))
    };
    format!("{between}{alone}No line of this output is about a connection between ranks.")
}

/// Why, behind a way.
fn why_in_words(known: &[&str], open: &[&str]) -> String {
    let mut because = String::new();
    for (before, list) in [(", because ", known), ("; ", open)] {
        if !list.is_empty() {
            because += &format!("{before}{}", list.join(", and "));
        }
    }
    because
}

/// The name of P2P through a third GPU.
const INDIRECT: &str = "indirect";

/// A way in the words of a sentence.
fn in_words(transport: Transport, name: &str, gdr: Option<bool>, cards: &BTreeSet<&str>) -> String {
    let cards = if cards.is_empty() {
        String::new()
    } else {
        format!(" ({})", some_cards(cards))
    };
    match (transport, gdr) {
        (Transport::P2p, _) if name == INDIRECT => {
            "the memory of a third GPU (P2P indirect)".to_owned()
        }
        (Transport::P2p, _) => "the GPUs' own links (P2P)".to_owned(),
        (Transport::Shm, _) => "the host's memory (SHM)".to_owned(),
        (_, _) if name == "Socket" => format!("TCP sockets{cards}, without GPU Direct RDMA"),
        (_, Some(false)) => format!("{name}{cards} without GPU Direct RDMA"),
        (_, _) => format!("{name}{cards} with GPU Direct RDMA"),
    }
}

fn some_cards(cards: &BTreeSet<&str>) -> String {
    let shown: Vec<&str> = cards.iter().copied().take(CARDS).collect();
    if cards.len() > CARDS {
        format!("{} and {} more", shown.join(", "), cards.len() - CARDS)
    } else {
        shown.join(", ")
    }
}

/// NCCL's name for a way.
fn way(route: &Route) -> String {
    let transport = match route.transport {
        Transport::P2p => "P2P",
        Transport::Shm => "SHM",
        Transport::Net => "NET",
        Transport::CollNet => "COLLNET",
    };
    if route.through.is_empty() {
        transport.to_owned()
    } else {
        format!("{transport}/{}", route.through)
    }
}

fn yes(known: Option<bool>) -> String {
    known
        .map_or("-", |is| if is { "yes" } else { "no" })
        .to_owned()
}

/// Rows of ways that are alike.
fn summary(paths: &Paths) -> Vec<[String; 8]> {
    #[derive(Default)]
    struct Row<'a> {
        pairs: Pairs,
        channels: BTreeSet<u32>,
        cards: BTreeSet<&'a str>,
    }
    let mut rows: BTreeMap<_, Row> = BTreeMap::new();
    for (number, one) in paths.communicators.iter().enumerate() {
        for route in &one.routes {
            let why = route.reasons.join(" ");
            let key = (way(route), Scope::of(route), route.gdr, route.is_best, why);
            let row = rows.entry(key).or_default();
            row.pairs.insert((number, route.from, route.to));
            row.channels.extend(&route.channels);
            let ends = [&route.from_card, &route.to_card].into_iter().flatten();
            row.cards.extend(ends.map(String::as_str));
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, row)| usize::MAX - row.pairs.len());
    let mut cells = Vec::new();
    for ((way, scope, gdr, best, why), row) in rows {
        let cards = if row.cards.is_empty() {
            "-".to_owned()
        } else {
            some_cards(&row.cards)
        };
        let why = if why.is_empty() { "-".to_owned() } else { why };
        cells.push([
            way,
            scope.words().to_owned(),
            row.pairs.len().to_string(),
            ranges(row.channels.iter().copied()),
            cards,
            yes(gdr),
            yes(best),
            why,
        ]);
    }
    cells
}

fn pair(route: &Route) -> [String; 9] {
    let end = |rank: u32, host: &Option<String>| match host {
        Some(host) => format!("{rank} ({host})"),
        None => rank.to_string(),
    };
    let card = |card: &Option<String>| card.clone().unwrap_or_else(|| "-".to_owned());
    let why = if route.reasons.is_empty() {
        "-".to_owned()
    } else {
        route.reasons.join(" ")
    };
    [
        end(route.from, &route.from_host),
        end(route.to, &route.to_host),
        way(route),
        ranges(route.channels.iter().copied()),
        card(&route.from_card),
        card(&route.to_card),
        yes(route.gdr),
        yes(route.is_best),
        why,
    ]
}

/// The line of a report, if a way costs: one that is worse than necessary.
pub(crate) fn section(paths: &Paths, page: &mut Page) {
    let mut routes = paths.communicators.iter().flat_map(|one| &one.routes);
    let is_worse = routes.any(|route| route.is_best == Some(false));
    if !(is_worse || page.all && !paths.communicators.is_empty()) {
        return;
    }
    page.title("Paths between ranks");
    page.line(&format!(
        "{} `ncclscope paths` has each pair, and what changes it.",
        sentence(paths)
    ));
}
