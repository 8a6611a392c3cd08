//! Plays `ncclscope hang --watch` beside jobs whose truth is known, in virtual time.

use analyze::hang::{hang, Conditions, Hang, News, Watch, PATIENCE};
use render::hang::Answer;
use simulate::hanging::{Story, Trial, HANGS, PAUSES};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

const SECOND: i64 = 1_000_000_000;
/// A stand-still is to be told within this time, ns.
const SOON: i64 = 10 * SECOND;
/// A hang that was not told until then is not found, ns.
const LONGEST: i64 = 3600 * SECOND;

/// What the watch told of one job.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What happened.
    pub story: Story,
    /// When a hang was told, since the job stood still, ns.
    pub hung: Option<i64>,
    /// When the stand-still was told that it is, ns.
    pub still: Option<i64>,
    /// Whether the ranks that were named then are culprits.
    pub right: bool,
    /// The same of those that were named soon after the job stood still.
    pub right_still: bool,
    /// When the last verdict was made that told of a hang or a stand-still, or the last one at all, ns of
    /// virtual time; under which conditions, and what it was.
    pub judged: (i64, Conditions, Judged),
    /// The job, and what was told of it.
    pub lines: String,
}

/// What matters of a verdict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// Whether the job hangs.
    pub hang: Option<bool>,
    /// What kind of verdict it is.
    pub kind: &'static str,
    /// Whether nothing that is missing could name another rank or call.
    pub certain: bool,
    /// The launcher's ranks that it names.
    pub ranks: Vec<usize>,
    /// The function, bytes and number of the call that is lacking or does not end.
    pub call: Option<(Option<String>, Option<u64>, Option<u64>)>,
    /// For how long others have waited, ms.
    pub waited_ms: Option<u64>,
    /// What network operations of the call wait for: stage, rank and steps done.
    pub net_ops: Vec<(Option<&'static str>, Option<u32>, u32)>,
}

impl Judged {
    /// Of this verdict.
    pub fn new(hang: &Hang) -> Judged {
        let answer = Answer::new(hang);
        let net_ops = answer.net_ops.iter();
        let mut net_ops: Vec<_> = net_ops
            .map(|op| (op.state, op.rank, op.steps_done))
            .collect();
        net_ops.sort_unstable();
        Judged {
            hang: answer.hang,
            kind: answer.verdict,
            certain: answer.certain,
            ranks: named(hang),
            call: answer.call.map(|of| (of.function, of.bytes, of.number)),
            waited_ms: answer.waited_s.map(|s| (1e3 * s) as u64),
            net_ops,
        }
    }
}

impl Seen {
    /// Whether nothing is wrong with it.
    pub fn is_right(&self) -> bool {
        match self.story {
            Story::Hangs(_) => self.right && self.still.is_some_and(|ns| ns <= SOON),
            Story::Pauses(_) => self.hung.is_none(),
        }
    }
}

/// The launcher's ranks that a verdict names.
fn named(hang: &Hang) -> Vec<usize> {
    let rank = |of: analyze::hang::Member| {
        hang.communicators[of.communicator].ranks[of.member].global_rank
    };
    let ranks = hang.verdict.blamed().into_iter().filter_map(rank);
    ranks.map(|rank| rank as usize).collect()
}

/// Watches a trial until a hang is told, or it is over.
pub fn watch(trial: &Trial) -> Seen {
    let stage = trial.play();
    let hangs = matches!(trial.story, Story::Hangs(_));
    let until = stage.stands_ns + if hangs { LONGEST } else { 0 };
    let mut watch = Watch::new(PATIENCE);
    let mut lines = vec![format!("{trial}")];
    let mut seen = Seen {
        story: trial.story,
        hung: None,
        still: None,
        right: false,
        right_still: false,
        judged: Default::default(),
        lines: String::new(),
    };
    let mut at = SECOND;
    let mut is_still = false;
    while at <= until {
        let capture = trial.as_of(&stage, at);
        let conditions = watch.conditions();
        let hang = hang(&capture, &conditions);
        let since = at - stage.stands_ns;
        let news = watch.look(&hang);
        let stands = matches!(news, Some(News::StandsStill | News::Hangs(_)));
        if stands || !is_still {
            is_still |= stands;
            seen.judged = (at, conditions, Judged::new(&hang));
        }
        if let Some(news) = news {
            let named = named(&hang);
            lines.push(format!(
                "  {:8.1} s {news:?} {:?} names {named:?}, truth {:?}",
                since as f64 / 1e9,
                hang.verdict.kind(),
                stage.culprits,
            ));
            let culprits = &stage.culprits;
            let right = !named.is_empty() && named.iter().all(|rank| culprits.contains(rank));
            match news {
                News::GoesOn(_) | News::StartedAgain(_) => {
                    (seen.still, seen.right_still) = (None, false)
                }
                News::StandsStill | News::Hangs(_) => {
                    seen.still.get_or_insert(since.max(0));
                    if since <= SOON {
                        seen.right_still = right;
                    }
                }
            }
            if let News::Hangs(_) = news {
                seen.hung = Some(since);
                seen.right = right;
                lines.push(format!("  {:?}", hang.verdict));
                break;
            }
        }
        at = stage.next_look(at);
    }
    seen.lines = lines.join("\n") + "\n";
    seen
}

/// The job of this seed that hangs, or the healthy one.
pub fn trial(seed: u64, hangs: bool) -> Trial {
    let way = |n: usize| (seed % n as u64) as usize;
    if hangs {
        Trial::hangs(seed, HANGS[way(HANGS.len())])
    } else {
        Trial::pauses(seed, PAUSES[way(PAUSES.len())])
    }
}

/// So many jobs that hang, and as many that do not.
pub fn trials(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    let of = |seed: u64| [trial(seed, true), trial(seed, false)];
    seeds.flat_map(of).collect()
}

/// Watches all trials, on the cores there are.
pub fn watch_all(trials: &[Trial]) -> Vec<Seen> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(BTreeMap::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(trial) = trials.get(index) else {
                    return;
                };
                let seen = watch(trial);
                all.lock().expect("no panic").insert(index, seen);
            });
        }
    });
    all.into_inner().expect("no panic").into_values().collect()
}

/// What was told of many jobs, by what happened to them.
#[derive(Default)]
pub struct Matrix(BTreeMap<Story, Vec<Seen>>);

impl Matrix {
    /// Of these.
    pub fn new(all: &[Seen]) -> Matrix {
        let mut matrix = Matrix::default();
        for seen in all {
            matrix.0.entry(seen.story).or_default().push(seen.clone());
        }
        matrix
    }

    fn count(&self, hangs: bool, is: impl Fn(&Seen) -> bool) -> usize {
        let rows = self.0.iter();
        let rows = rows.filter(|(story, _)| matches!(story, Story::Hangs(_)) == hangs);
        rows.flat_map(|(_, seen)| seen).filter(|s| is(s)).count()
    }

    /// Hangs that were found.
    pub fn found(&self) -> usize {
        self.count(true, |seen| seen.hung.is_some())
    }

    /// Hangs whose culprit was named.
    pub fn right(&self) -> usize {
        self.count(true, |seen| seen.right)
    }

    /// Hangs whose stand-still was told soon.
    pub fn soon(&self) -> usize {
        self.count(true, |seen| seen.still.is_some_and(|ns| ns <= SOON))
    }

    /// Healthy jobs that were said to hang.
    pub fn false_hangs(&self) -> usize {
        self.count(false, |seen| seen.hung.is_some())
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let count = |of: &[Seen], is: &dyn Fn(&Seen) -> bool| of.iter().filter(|s| is(s)).count();
        let soon = |seen: &Seen| seen.still.is_some_and(|ns| ns <= SOON);
        let row = |f: &mut fmt::Formatter, name: &str, of: &[Seen]| {
            let mut times: Vec<i64> = of.iter().filter_map(|seen| seen.hung).collect();
            times.sort_unstable();
            let median = times.get(times.len() / 2);
            writeln!(
                f,
                "| {name} | {} | {} | {} | {} | {} | {} |",
                of.len(),
                count(of, &|seen| seen.hung.is_some()),
                count(of, &|seen| seen.right),
                count(of, &soon),
                count(of, &|seen| soon(seen) && seen.right_still),
                median.map_or("-".to_owned(), |ns| format!("{:.0}", *ns as f64 / 1e9)),
            )
        };
        writeln!(
            f,
            "| hang | jobs | found | right rank | stand-still within 10 s | right rank then | hang told \
             after, s |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        let hangs = |story: &Story| matches!(story, Story::Hangs(_));
        for (story, of) in self.0.iter().filter(|(story, _)| hangs(story)) {
            row(f, story.name(), of)?;
        }
        let all = self.0.iter().filter(|(story, _)| hangs(story));
        let all: Vec<Seen> = all.flat_map(|(_, of)| of).cloned().collect();
        row(f, "all", &all)?;
        writeln!(f, "\n| pause | jobs | said to hang | said to stand still |")?;
        writeln!(f, "|---|---|---|---|")?;
        let told = |lines: &str| lines.contains("StandsStill") || lines.contains("GoesOn");
        let row = |f: &mut fmt::Formatter, name: &str, of: &[Seen]| {
            writeln!(
                f,
                "| {name} | {} | {} | {} |",
                of.len(),
                count(of, &|seen| seen.hung.is_some()),
                count(of, &|seen| told(&seen.lines)),
            )
        };
        for (story, of) in self.0.iter().filter(|(story, _)| !hangs(story)) {
            row(f, story.name(), of)?;
        }
        let all = self.0.iter().filter(|(story, _)| !hangs(story));
        let all: Vec<Seen> = all.flat_map(|(_, of)| of).cloned().collect();
        row(f, "all", &all)
    }
}
