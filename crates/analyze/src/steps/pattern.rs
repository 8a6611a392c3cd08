//! The pattern of calls that repeats: after how many calls, with which pauses, and whether that is chance.

use super::{Item, LEAST_COVERED, LEAST_SINGLE};
use crate::statistics::median;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Periods are looked for in so many calls, from the middle.
const WINDOW: usize = 1 << 16;
/// How many calls make two places look alike.
const CONTEXTS: [usize; 3] = [1, 8, 64];
/// As many of the most frequent distances are tried, for each context.
const CANDIDATES: usize = 8;
/// A period explains a share of the calls that is less than the best one's by no more than this.
const NEARLY: f64 = 0.25;
/// Steps of few different calls are so much of all calls.
const MOSTLY: f64 = 0.9;
/// Of steps, this share is followed by the next at once.
const AT_ONCE: f64 = 0.6;
/// A pattern of calls at random follows itself so often with a probability of less than 1 in 10 000. This is
/// the natural logarithm. There are some 20 candidates.
const BEYOND_CHANCE: f64 = 9.21;
/// So many calls that differ make a pattern that is not a layer's.
const DIFFERENT: usize = 3;
/// The pauses of so many repetitions are looked at.
const PAUSES: usize = 256;
/// A pause before a pattern is so many times as long as any other in it, if the pattern is a step and no
/// layer.
const DISTINCT_PAUSE: i64 = 10;
/// Or it is as long as this part of the longest pause in longer patterns.
const SIMILAR_PAUSE: i64 = 2;
/// Repetitions are layers if they take so many times as long at some places of a longer pattern as at others:
/// a layer takes about twice as long back as forward. A step takes as long whatever comes some steps later.
const BY_PLACE: f64 = 1.2;
/// Fewer times don't show that they repeat,
pub(crate) const LEAST_TIMES: usize = 48;
/// nor do those whose places explain less of how they differ: jobs whose steps do not repeat have up to 0.18,
const LEAST_EXPLAINED: f64 = 0.25;
/// nor those whose places differ by chance: so many standard deviations. Of the [`MOST_TIMES`] distances, one
/// in 500 jobs is further out.
const PLACES_BEYOND_CHANCE: f64 = 4.5;
/// nor those whose places differ by less than this, in logarithms: a GPU's clock moves the steps of some jobs
/// by 2 to 3 % with a period of one second.
const LEAST_UNLIKE: f64 = 0.03;
/// The standard deviation of normal values, by their median distance from the median.
const NORMAL_BY_MEDIAN: f64 = 1.4826;
/// The standard error of the median of normal values, by that of the mean.
const MEDIAN_BY_MEAN: f64 = 1.2533;
/// A slow swing explains the distances beside its own by more than this part. What repeats after a number of
/// steps does not.
const BESIDE: f64 = 0.5;
/// A multiple of a distance counts if it explains this part of the whole variance more: a rank that is late
/// in every tenth step makes no step of ten.
const LEAST_MORE: f64 = 0.1;
/// One in so many of the longest and of the shortest times counts as the next one does: a pause after every
/// tenth step makes no step of ten.
const RARE: usize = 40;
/// More times are not needed.
pub(crate) const ENOUGH_TIMES: usize = 8192;
/// No longer distances are looked at.
pub(crate) const MOST_TIMES: usize = 512;
/// A normal deviate is larger with a probability of 1 in 10 000.
const NORMAL_BEYOND_CHANCE: f64 = 3.72;

/// Whether `pattern`, which begins at these places, follows itself at once more often than by chance. Chance
/// is that of calls in any order, each as frequent as it is.
pub(super) fn follow_each_other(symbols: &[u32], pattern: &[u32], begins: &[usize]) -> bool {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for symbol in symbols {
        *counts.entry(*symbol).or_default() += 1;
    }
    let share = |symbol: &u32| {
        counts
            .get(symbol)
            .map_or(0.0, |n| *n as f64 / symbols.len() as f64)
    };
    let chance = pattern.iter().map(|symbol| share(symbol).ln()).sum::<f64>();
    let pairs = begins.len().saturating_sub(1) as f64;
    let at_once = begins
        .windows(2)
        .filter(|pair| pair[1] - pair[0] == pattern.len());
    let found = at_once.count() as f64 / pairs.max(1.0);
    if found < AT_ONCE || found.ln() <= chance {
        return false;
    }
    // Chernoff's bound of the binomial distribution's tail.
    let rest = match 1.0 - found {
        0.0 => 0.0,
        rest => rest * (rest.ln() - (-chance.exp()).ln_1p()),
    };
    pairs * (found * (found.ln() - chance) + rest) >= BEYOND_CHANCE
}

/// The bursts of calls with pauses of at least `pause` ns between them: where they begin, and how many calls
/// each has. `None` if they are not of one length, or if the pauses do not stand out.
pub(super) fn bursts(items: &[Item], pause: i64) -> Option<(Vec<usize>, usize)> {
    let before = |at: usize| items[at].time - items[at - 1].time;
    let edges: Vec<usize> = (1..items.len()).filter(|at| before(*at) >= pause).collect();
    // What comes before the first pause and after the last one may be cut.
    let all: Vec<(usize, usize)> = edges
        .windows(2)
        .map(|pair| (pair[0], pair[1] - pair[0]))
        .collect();
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (_, calls) in &all {
        *lengths.entry(*calls).or_default() += 1;
    }
    let (calls, n) = lengths.into_iter().max_by_key(|(calls, n)| (*n, *calls))?;
    // What is parted after each single call is no burst.
    if calls < 2 || n < LEAST_SINGLE || (n as f64) < MOSTLY * all.len() as f64 {
        return None;
    }
    let of_length = || all.iter().filter(|(_, length)| *length == calls);
    let kinds = |begin: usize| items[begin..begin + calls].iter().map(|item| item.kind);
    let (first, _) = of_length().nth(n / 2)?;
    let mut begins: Vec<usize> = of_length().map(|(begin, _)| *begin).collect();
    begins.retain(|begin| kinds(*begin).eq(kinds(*first)));
    // The last one is whole, if it is as long.
    let last = edges.last().copied().filter(|at| items.len() - at == calls);
    begins.extend(last.filter(|begin| kinds(*begin).eq(kinds(*first))));
    let median = |mut pauses: Vec<i64>| {
        pauses.sort_unstable();
        pauses.get(pauses.len() / 2).copied().unwrap_or(0)
    };
    let between = median(begins.iter().map(|at| before(*at)).collect());
    let within =
        (1..calls).map(|place| median(begins.iter().map(|at| before(at + place)).collect()));
    let within = within.max().unwrap_or(0).max(0);
    let is_mostly = begins.len() as f64 >= MOSTLY * all.len() as f64;
    (is_mostly && between >= within.saturating_mul(DISTINCT_PAUSE)).then_some((begins, calls))
}

/// After how many calls the same calls come again: the best first, then longer ones. Layers are left out.
pub(crate) fn periods(symbols: &[u32]) -> Vec<usize> {
    candidates(symbols).1
}

/// Where the calls of the set-up end: at the first stretch that repeats itself and is at least half as long
/// as the longest. 0 if nothing repeats.
pub(crate) fn first_repeated(symbols: &[u32]) -> usize {
    let Some(period) = periods(symbols).first().copied() else {
        return 0;
    };
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    let mut begin = period;
    for at in period..=symbols.len() {
        if symbols.get(at) != Some(&symbols[at - period]) {
            stretches.push((begin - period, at - begin));
            begin = at + 1;
        }
    }
    let longest = stretches.iter().map(|(_, length)| *length).max();
    let longest = longest.filter(|length| *length >= period).unwrap_or(0);
    let first = stretches.iter().find(|(_, length)| 2 * length >= longest);
    first.map_or(0, |(begin, _)| *begin)
}

/// The periods, also of patterns of few calls if the host pauses before them.
pub(super) fn paused_periods(items: &[Item], symbols: &[u32]) -> Vec<usize> {
    let (mut layered, others) = candidates(symbols);
    let of = |period: &usize| Period::new(items, symbols, *period);
    let longest = others.iter().filter_map(|period| Some(of(period)?.pause));
    let longest = longest.max().unwrap_or(0);
    let longer = others.first().copied();
    let is_step = |p: Period| {
        let are_layers = longer.is_some_and(|longer| {
            differ_by_place(&times_by_place(items, symbols, &p.pattern, longer))
        });
        p.is_paused_for(longest) && !are_layers
    };
    layered.retain(|period| of(period).is_some_and(is_step));
    let mut all = [layered, others].concat();
    all.sort_unstable();
    all
}

/// How long the repetitions of `pattern` take that follow each other at once, by where they are in a longer
/// pattern of so many calls.
fn times_by_place(
    items: &[Item],
    symbols: &[u32],
    pattern: &[u32],
    longer: usize,
) -> Vec<(usize, i64)> {
    let Some(run) = longest_run(symbols, longer) else {
        return Vec::new();
    };
    let run = run.start..run.end.min(run.start + PAUSES * longer);
    let begins = occurrences(&symbols[run.clone()], pattern);
    let at_once = begins
        .windows(2)
        .filter(|pair| pair[1] - pair[0] == pattern.len());
    let timed = at_once.map(|pair| {
        let [from, to] = [pair[0], pair[1]].map(|at| items[run.start + at].time);
        (pair[0] % longer, from, to)
    });
    let timed = timed.filter(|(_, from, to)| *from != 0 && *to != 0);
    timed.map(|(place, from, to)| (place, to - from)).collect()
}

/// Whether these times differ by their places: those of the slower half of places are longer by
/// [`BY_PLACE`], and not by chance (Kruskal and Wallis, "Use of ranks in one-criterion variance analysis",
/// 1952).
fn differ_by_place(times: &[(usize, i64)]) -> bool {
    let mut ranked = times.to_vec();
    ranked.sort_by_key(|(_, time)| *time);
    let n = ranked.len() as f64;
    let mut places: HashMap<usize, (f64, Vec<i64>)> = HashMap::new();
    for (at, (place, time)) in ranked.iter().enumerate() {
        let (sum, times) = places.entry(*place).or_default();
        // From the middle of all ranks.
        *sum += at as f64 - (n - 1.0) / 2.0;
        times.push(*time);
    }
    let between: f64 = places
        .values()
        .map(|(s, times)| s * s / times.len() as f64)
        .sum();
    let free = places.len() as f64 - 1.0;
    // By chance it has the distribution of chi squared, which is nearly normal for many places.
    let h = 12.0 * between / (n * (n + 1.0));
    let mut medians: Vec<i64> = places
        .values()
        .map(|(_, times)| times[times.len() / 2])
        .collect();
    medians.sort_unstable();
    let quarter = |quarters: usize| medians.get(medians.len() * quarters / 4).copied();
    let (Some(fast), Some(slow)) = (quarter(1), quarter(3)) else {
        return false;
    };
    h - free > NORMAL_BEYOND_CHANCE * (2.0 * free).sqrt() && slow as f64 > BY_PLACE * fast as f64
}

/// After how many calls the same calls come again, by length: patterns in which few calls differ, as in those
/// of layers, and others.
pub(super) fn candidates(symbols: &[u32]) -> (Vec<usize>, Vec<usize>) {
    let window = {
        let skipped = symbols.len().saturating_sub(WINDOW) / 2;
        &symbols[skipped..(skipped + WINDOW).min(symbols.len())]
    };
    let mut tried: Vec<usize> = Vec::new();
    for context in CONTEXTS {
        let mut last: HashMap<u64, usize> = HashMap::new();
        let mut distances: HashMap<usize, usize> = HashMap::new();
        for (at, hash) in hashes(window, context) {
            if let Some(before) = last.insert(hash, at) {
                *distances.entry(at - before).or_default() += 1;
            }
        }
        let mut distances: Vec<(usize, usize)> = distances.into_iter().collect();
        distances.sort_unstable_by_key(|(distance, n)| (std::cmp::Reverse(*n), *distance));
        tried.extend(distances.iter().take(CANDIDATES).map(|(d, _)| *d));
    }
    tried.sort_unstable();
    tried.dedup();
    let judged: Vec<(usize, f64, usize)> = tried
        .into_iter()
        .map(|period| {
            let (covered, longest) = covered(symbols, period);
            let word = &symbols[longest.saturating_sub(period - 1)..=longest];
            let different = word.iter().collect::<HashSet<_>>().len();
            (period, covered as f64 / symbols.len() as f64, different)
        })
        .filter(|(_, covered, _)| *covered >= LEAST_COVERED)
        .collect();
    let best = judged.iter().map(|(_, c, _)| *c).fold(0.0, f64::max);
    let most = judged.iter().map(|(.., d)| *d).max().unwrap_or(0);
    let is_layered = |different: usize| different < most.min(DIFFERENT);
    // Layers, and parts of a pipeline, repeat in some of a step; steps with few calls fill the whole time.
    let fills = |covered: f64, different: usize| !is_layered(different) || covered >= MOSTLY;
    let good = judged
        .iter()
        .filter(|(_, c, different)| *c >= best - NEARLY && fills(*c, *different));
    let (layered, others): (Vec<_>, Vec<_>) = good.partition(|(.., d)| is_layered(*d));
    let periods = |judged: Vec<&(usize, f64, usize)>| -> Vec<usize> {
        judged.into_iter().map(|(period, ..)| *period).collect()
    };
    (periods(layered), periods(others))
}

/// The hash of each stretch of so many symbols, by its last place.
pub(super) fn hashes(symbols: &[u32], length: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
    let out = (0..length).fold(1u64, |power, _| power.wrapping_mul(BASE));
    let mut hash = 0u64;
    let value = |symbol: u32| (u64::from(symbol) + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let step = move |(at, symbol): (usize, &u32)| {
        hash = hash.wrapping_mul(BASE).wrapping_add(value(*symbol));
        if let Some(left) = at.checked_sub(length) {
            hash = hash.wrapping_sub(value(symbols[left]).wrapping_mul(out));
        }
        (at + 1 >= length).then_some((at, hash))
    };
    symbols.iter().enumerate().filter_map({
        let mut step = step;
        move |item| step(item)
    })
}

/// How many calls are in stretches that repeat themselves whole after `period`, and where the longest of them
/// ends.
pub(super) fn covered(symbols: &[u32], period: usize) -> (usize, usize) {
    let (mut all, mut run, mut longest) = (0, 0, (0, 0));
    for at in period..=symbols.len() {
        if symbols.get(at) == Some(&symbols[at - period]) {
            run += 1;
            continue;
        }
        if run >= period {
            all += run + period;
            longest = longest.max((run, at - 1));
        }
        run = 0;
    }
    // Two stretches side by side share calls.
    (all.min(symbols.len()), longest.1)
}

/// The longest stretch of calls that repeats itself after `period`; from the first of these repetitions on.
fn longest_run(symbols: &[u32], period: usize) -> Option<Range<usize>> {
    let (_, end) = covered(symbols, period);
    let mut begin = end;
    while begin >= period && symbols[begin] == symbols[begin - period] {
        begin -= 1;
    }
    Some((begin + 1).checked_sub(period)?..end + 1)
}

/// What repeats after so many calls.
pub(super) struct Period {
    /// Its calls, from the first after the longest pause.
    pub(super) pattern: Vec<u32>,
    /// The longest pause, and the longest of the others, ns: medians over repetitions.
    pub(super) pause: i64,
    pub(super) other_pause: i64,
}

impl Period {
    pub(super) fn new(items: &[Item], symbols: &[u32], period: usize) -> Option<Period> {
        let run = longest_run(symbols, period)?;
        let begin = run.start;
        let mut pauses: Vec<Vec<i64>> = vec![Vec::new(); period];
        for at in (begin + 1..run.end).take(PAUSES * period) {
            let (before, now) = (items[at - 1].time, items[at].time);
            if before != 0 && now != 0 {
                pauses[(at - begin) % period].push(now.saturating_sub(before));
            }
        }
        let median = |pauses: &mut Vec<i64>| {
            pauses.sort_unstable();
            pauses.get(pauses.len() / 2).copied().unwrap_or(0)
        };
        let pauses: Vec<i64> = pauses.iter_mut().map(median).collect();
        let longest = pauses.iter().copied().enumerate();
        let (phase, pause) = longest.max_by_key(|(phase, ns)| (*ns, std::cmp::Reverse(*phase)))?;
        let others = pauses.iter().enumerate().filter(|(at, _)| *at != phase);
        let pattern = symbols.get(begin + phase..begin + phase + period)?;
        Some(Period {
            pattern: pattern.to_vec(),
            pause,
            other_pause: others.map(|(_, ns)| *ns).max().unwrap_or(i64::MAX),
        })
    }

    /// Whether the host pauses before it as before a step. Layers follow each other as their calls do, and
    /// the pause comes after all of them. `longest` is the longest pause in longer patterns.
    pub(super) fn is_paused_for(&self, longest: i64) -> bool {
        let distinct = self.other_pause.saturating_mul(DISTINCT_PAUSE);
        self.pause >= distinct || self.pause >= longest / SIMILAR_PAUSE
    }
}

/// How many times the same calls make this word; 1 if it is no repetition.
pub(crate) fn equal_parts(word: &[u32]) -> usize {
    let part = word.len() - borders(word).last().copied().unwrap_or(0);
    match word.len() % part.max(1) {
        0 => word.len() / part.max(1),
        _ => 1,
    }
}

/// After how many of them times come again, as those of micro-batches do; 1 if they don't.
///
/// For each distance, the logarithms are parted into blocks of so many, each less its mean, and the places
/// are compared over all blocks (analysis of variance). So what changes slowly does not matter. The shortest
/// distance that explains enough counts, unless a multiple of it explains as much of what it leaves.
pub(crate) fn repeat_after(times: &[f64]) -> usize {
    let times = &times[times.len() / 5..];
    let times = &times[times.len().saturating_sub(ENOUGH_TIMES)..];
    if times.len() < LEAST_TIMES {
        return 1;
    }
    let mut logs = clamped_logs(times, RARE);
    let most = (logs.len() / 6).min(MOST_TIMES);
    let all = variance(&logs);
    let mut repeat = 1;
    let next = |logs: &[f64], repeat: usize| {
        let mut multiples = (2 * repeat..=most).step_by(repeat);
        multiples.find(|k| {
            let least = if repeat > 1 { LEAST_MORE * all } else { 0.0 };
            do_repeat(logs, *k, least)
        })
    };
    while let Some(k) = next(&logs, repeat) {
        let places: Vec<f64> = (0..k)
            .map(|place| median_of_place(&logs, k, place))
            .collect();
        let places = places.iter().cycle();
        logs.iter_mut()
            .zip(places)
            .for_each(|(log, usual)| *log -= usual);
        repeat = k;
    }
    repeat
}

/// The logarithms of times in ns, the longest and the shortest of each `rare` as far out as the next.
pub(crate) fn clamped_logs(times: &[f64], rare: usize) -> Vec<f64> {
    let mut logs: Vec<f64> = times.iter().map(|ns| ns.max(1e3).ln()).collect();
    let mut sorted = logs.clone();
    sorted.sort_by(f64::total_cmp);
    let furthest = sorted.len() / rare;
    let (low, high) = (sorted[furthest], sorted[sorted.len() - 1 - furthest]);
    logs.iter_mut().for_each(|log| *log = log.clamp(low, high));
    logs
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / values.len() as f64
}

/// Whether logarithms of times come again after `k` of them, which explains at least so much variance.
fn do_repeat(logs: &[f64], k: usize, least: f64) -> bool {
    let folded = fold(logs, k);
    let explained = |k: usize| if k > 1 { fold(logs, k).explained } else { 0.0 };
    let beside = || explained(k - 1).max(explained(k + 1));
    folded.explained >= LEAST_EXPLAINED
        && folded.variance >= least
        && folded.beyond_chance >= PLACES_BEYOND_CHANCE
        && beside() < BESIDE * folded.explained
        && places_differ(logs, k)
}

/// Whether the medians at `k` places differ by enough, and by more than medians do by chance. A few long
/// times that lie `k` apart by chance make none of them longer.
pub(crate) fn places_differ(logs: &[f64], k: usize) -> bool {
    let places: Vec<f64> = (0..k)
        .map(|place| median_of_place(logs, k, place))
        .collect();
    let (low, high) = places.iter().fold((f64::MAX, f64::MIN), |(low, high), of| {
        (of.min(low), of.max(high))
    });
    let mut far: Vec<f64> = logs
        .iter()
        .zip(places.iter().cycle())
        .map(|(log, usual)| (log - usual).abs())
        .collect();
    far.sort_by(f64::total_cmp);
    let of_one = NORMAL_BY_MEDIAN * median(&far).unwrap_or(0.0);
    let of_median = MEDIAN_BY_MEAN * of_one / (logs.len() as f64 / k as f64).sqrt();
    // Both ends of the range may be out by chance.
    high - low >= LEAST_UNLIKE.max(2.0 * PLACES_BEYOND_CHANCE * of_median)
}

/// The median at one of `k` places.
fn median_of_place(values: &[f64], k: usize, place: usize) -> f64 {
    let mut of: Vec<f64> = values.iter().skip(place).step_by(k).copied().collect();
    of.sort_by(f64::total_cmp);
    median(&of).unwrap_or(0.0)
}

/// What places in blocks say of how values differ.
struct Folded {
    /// The part of the variance within blocks that they explain, less what it is by chance.
    explained: f64,
    /// The variance that this is.
    variance: f64,
    /// By how many standard deviations that is more than chance.
    beyond_chance: f64,
}

/// Compares the places of blocks of `k` values, of which there are two or more.
fn fold(values: &[f64], k: usize) -> Folded {
    let blocks = values.chunks_exact(k);
    let n = blocks.len() as f64;
    let mut sums = vec![0.0; k];
    let mut all = 0.0;
    for block in blocks {
        let mean = block.iter().sum::<f64>() / k as f64;
        for (sum, value) in sums.iter_mut().zip(block) {
            *sum += value - mean;
            all += (value - mean).powi(2);
        }
    }
    let of_places = sums.iter().map(|sum| sum * sum).sum::<f64>() / n;
    let part = if all > 0.0 { of_places / all } else { 0.0 };
    // n (k - 1) times that part is distributed nearly as chi squared of k - 1 degrees of freedom, and its
    // cube root as a normal variable (Wilson and Hilferty).
    let wide = 2.0 / (9.0 * (k as f64 - 1.0));
    let explained = (part - 1.0 / n) / (1.0 - 1.0 / n);
    Folded {
        explained,
        variance: explained * all / (n * k as f64),
        beyond_chance: ((n * part).cbrt() - (1.0 - wide)) / wide.sqrt(),
    }
}

/// Of each beginning of a word, how long its longest border is: what it both begins and ends with.
fn borders(word: &[u32]) -> Vec<usize> {
    let mut border = vec![0usize; word.len()];
    let mut matched = 0;
    for at in 1..word.len() {
        while matched > 0 && word[at] != word[matched] {
            matched = border[matched - 1];
        }
        matched += usize::from(word[at] == word[matched]);
        border[at] = matched;
    }
    border
}

/// Where `word` begins in `text`, without overlap (Knuth, Morris and Pratt's search).
pub(super) fn occurrences(text: &[u32], word: &[u32]) -> Vec<usize> {
    let border = borders(word);
    let (mut found, mut matched) = (Vec::new(), 0);
    for (at, symbol) in text.iter().enumerate() {
        while matched > 0 && *symbol != word[matched] {
            matched = border[matched - 1];
        }
        matched += usize::from(*symbol == word[matched]);
        if matched == word.len() {
            found.push(at + 1 - matched);
            matched = 0;
        }
    }
    found
}
