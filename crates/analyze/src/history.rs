//! Many runs: which rank, host, GPU or link is to blame again and again.
//!
//! A [`Past`] is what one run leaves: who was in it, and its findings. [`history`] makes a [`Suspect`] of
//! each rank, host, GPU and link that a finding blames, and counts its runs. A run whose report knows only
//! what a rank costs at most has no finding; it is counted apart, as [`Suspect::at_most`].
//!
//! Rule: a suspect is only called the culprit if chance does not explain how often it was to blame. Chance
//! means that in each run with a fault, as many ranks as were to blame are drawn at random.

use crate::findings::{Finding, Kind, RankId};
use crate::subject::ProcessId;
use crate::Report;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::Capture;

/// The format of [`History`] as JSON.
pub const SCHEMA: &str = "ncclscope.history/1";

/// A suspect is the culprit if chance alone makes any suspect of its part so frequent in fewer than this part
/// of all histories.
const LEVEL: f64 = 0.05;

/// What a suspect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A rank of the launcher.
    Rank,
    /// A host.
    Host,
    /// A GPU, by its UUID.
    Gpu,
    /// The network from one host to another.
    Link,
}

/// Who a suspect is, in all runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Who {
    Rank(u32),
    Host(String),
    Gpu(String),
    Link(String, String),
}

impl Who {
    fn part(&self) -> Part {
        match self {
            Who::Rank(_) => Part::Rank,
            Who::Host(_) => Part::Host,
            Who::Gpu(_) => Part::Gpu,
            Who::Link(..) => Part::Link,
        }
    }

    /// Those that a rank is.
    fn of(rank: &RankId) -> Vec<Who> {
        let host = Some(&rank.process.host).filter(|host| !host.is_empty());
        let who = [
            rank.process.rank.map(Who::Rank),
            host.cloned().map(Who::Host),
            rank.gpu.clone().map(Who::Gpu),
        ];
        who.into_iter().flatten().collect()
    }
}

/// What one run leaves.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// Where the capture is.
    pub capture: String,
    /// Start, RFC 3339, in the recording's time zone.
    pub started: Option<String>,
    /// How long it took, µs.
    pub wall_us: Option<f64>,
    /// All that were in it, by host and device.
    pub ranks: Vec<RankId>,
    /// What its report found.
    pub findings: Vec<Finding>,
    /// The rank that its report names without a finding, and what that costs at most, µs of the wall.
    pub at_most: Option<(RankId, f64)>,
    /// Its report could not name a late rank if there was one.
    pub is_unknown: bool,
    /// The names of its files, which a copy has too.
    recorded_as: BTreeSet<String>,
}

impl Past {
    /// What a history needs of a capture.
    pub fn of(capture: &Capture) -> Past {
        let report = crate::report(capture);
        let files = capture.processes.iter();
        Past {
            ranks: members(capture),
            recorded_as: files.filter_map(crate::diff::recorded_as).collect(),
            ..Past::of_report(report)
        }
    }

    fn of_report(report: Report) -> Past {
        Past {
            at_most: crate::summary::at_most(&report),
            is_unknown: !crate::summary::tells_who(&report),
            capture: report.job.capture,
            started: report.job.started,
            wall_us: report.job.wall_us.or(report.ranks.wall_us.map(|w| w.max)),
            findings: report.findings,
            ..Past::default()
        }
    }

    /// Whether both are one recording, or copies of it.
    pub fn is_same_recording(&self, other: &Past) -> bool {
        !self.recorded_as.is_empty() && self.recorded_as == other.recorded_as
    }
}

/// The ranks of a capture, with their GPUs. A process without a communicator has none.
fn members(capture: &Capture) -> Vec<RankId> {
    let mut all = BTreeSet::new();
    for process in &capture.processes {
        let mut devices: BTreeMap<Option<u32>, Option<String>> = BTreeMap::new();
        for local in &process.communicators {
            let gpu = devices.entry(local.device).or_default();
            *gpu = gpu.take().or_else(|| local.gpu.clone());
        }
        for (device, gpu) in devices {
            all.insert(RankId {
                process: ProcessId::of(process),
                device,
                gpu,
            });
        }
    }
    all.into_iter().collect()
}

/// One of the runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryRun {
    /// Where the capture is.
    pub capture: String,
    /// When the run began, RFC 3339, in the recording's time zone.
    pub started: Option<String>,
    /// The wall time of the run, µs.
    pub wall_us: Option<f64>,
    /// Ranks that were in it.
    pub nranks: usize,
    /// Its hosts by name.
    pub hosts: Vec<String>,
    /// The launcher's ranks that a finding of the run blames, ascending.
    pub blamed: Vec<u32>,
    /// The largest loss of its findings, µs of the wall; null if no finding has one.
    pub loss_us: Option<f64>,
    /// The launcher's ranks that a report names with an upper limit of their cost only.
    pub named: Vec<u32>,
    /// That limit, µs of the wall; null if there is none.
    pub at_most_us: Option<f64>,
    /// Whether its report could name a late rank if there was one.
    pub is_judged: bool,
}

/// A folder that is no run of the history.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Skipped {
    /// As it was named.
    pub capture: String,
    /// Why.
    pub because: String,
}

/// A rank, host, GPU or link that a finding of some run blames.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Suspect {
    /// What it is.
    pub part: Part,
    /// The launcher's rank, of a rank.
    pub rank: Option<u32>,
    /// The host, of a host; where a GPU or link was last.
    pub host: Option<String>,
    /// The GPU's UUID, 32 hex digits.
    pub gpu: Option<String>,
    /// The host at the other end of a link.
    pub peer_host: Option<String>,
    /// Runs in which a finding blames the suspect.
    pub blamed: usize,
    /// Other runs, in which a report names the suspect with an upper limit of its cost only.
    pub at_most: usize,
    /// Runs that the suspect was in.
    pub present: usize,
    /// What the fault cost, µs of the wall: the largest finding of each run, summed over the runs that blame
    /// the suspect.
    pub loss_us: Option<f64>,
    /// `loss_us` as a part of the time of all runs that the suspect was in.
    pub share: Option<f64>,
    /// The upper limits of the runs in `at_most`, µs of the wall, summed; null without one.
    pub at_most_us: Option<f64>,
    /// How likely a draw at random blames or names any suspect of this part so often, 0 to 1. Below 0.05, the
    /// suspect is called the culprit.
    pub chance_p: f64,
    /// Chance does not explain it.
    pub is_beyond_chance: bool,
    /// The launcher's ranks that were to blame with it.
    pub ranks: Vec<u32>,
    /// The hosts on which it was to blame.
    pub hosts: Vec<String>,
    /// The kinds of findings that blame the suspect; `ncclscope explain` knows them.
    pub kinds: Vec<Kind>,
    /// Captures of the runs in which it was to blame or named, oldest first.
    pub captures: Vec<String>,
}

impl Suspect {
    /// Runs in which it was to blame, or named with an upper limit.
    pub fn named(&self) -> usize {
        self.blamed + self.at_most
    }

    /// It was to blame in several places: a rank on several hosts, or a host or GPU with several ranks. So it
    /// is known that the fault is with this part.
    pub fn moved(&self) -> bool {
        match self.part {
            Part::Rank => self.hosts.len() > 1,
            Part::Host | Part::Gpu => self.ranks.len() > 1,
            Part::Link => true,
        }
    }
}

/// Many runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct History {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The runs, oldest first.
    pub runs: Vec<HistoryRun>,
    /// Whom a finding of some run blames, most runs first. A part that all runs have only one of is left out.
    pub suspects: Vec<Suspect>,
    /// Which of `suspects` is the culprit; null if chance may explain all of them.
    pub culprit: Option<usize>,
    /// Folders that could not be read, or are copies of a run.
    pub skipped: Vec<Skipped>,
}

/// What a finding must have to blame somebody: a loss, or a job that broke.
fn blames(finding: &Finding) -> bool {
    let broken = finding.kind().is_broken() || finding.kind() == Kind::MissingNvlink;
    finding.loss.is_some() || broken
}

/// Everybody whom a finding blames.
fn blamed(finding: &Finding) -> BTreeSet<Who> {
    let subject = &finding.subject;
    let mut all: BTreeSet<Who> = subject.ranks.iter().flat_map(Who::of).collect();
    if subject.ranks.is_empty() {
        all.extend(subject.hosts.iter().cloned().map(Who::Host));
    }
    let peer = subject.peer.as_ref().filter(|peer| !peer.host.is_empty());
    if let Some((rank, peer)) = subject.rank().zip(peer) {
        if rank.process.host != peer.host {
            all.insert(Who::Link(rank.process.host.clone(), peer.host.clone()));
        }
    }
    all
}

/// A run, and what is counted in it.
struct Counted<'a> {
    past: &'a Past,
    /// How many ranks are behind each; ways between hosts behind each link.
    present: BTreeMap<Who, usize>,
    /// The findings that blame each.
    blamed: BTreeMap<Who, Vec<&'a Finding>>,
    /// What those cost at most that no finding blames, µs.
    at_most: BTreeMap<Who, f64>,
}

impl<'a> Counted<'a> {
    fn new(past: &'a Past) -> Counted<'a> {
        let mut present = BTreeMap::new();
        for who in past.ranks.iter().flat_map(Who::of) {
            *present.entry(who).or_insert(0) += 1;
        }
        let hosts: BTreeSet<&String> = past.ranks.iter().map(|rank| &rank.process.host).collect();
        for a in &hosts {
            let others = hosts.iter().filter(|b| *b != a);
            present.extend(others.map(|b| (Who::Link((*a).clone(), (*b).clone()), 1)));
        }
        let mut of: BTreeMap<Who, Vec<&Finding>> = BTreeMap::new();
        for finding in past.findings.iter().filter(|finding| blames(finding)) {
            for who in blamed(finding) {
                of.entry(who).or_default().push(finding);
            }
        }
        let named = past.at_most.iter();
        let named = named.flat_map(|(rank, us)| Who::of(rank).into_iter().map(|who| (who, *us)));
        let at_most = named.filter(|(who, _)| !of.contains_key(who)).collect();
        Counted {
            past,
            present,
            blamed: of,
            at_most,
        }
    }

    fn is_in(&self, who: &Who) -> bool {
        self.present.contains_key(who) || self.accused().any(|of| of == who)
    }

    /// Those that are to blame, and those that may be.
    fn accused(&self) -> impl Iterator<Item = &Who> {
        self.blamed.keys().chain(self.at_most.keys())
    }

    /// How likely it is to be among those to blame in this run if they are drawn at random.
    fn chance(&self, who: &Who) -> f64 {
        let of_part = |part: Part| self.accused().filter(|who| who.part() == part).count();
        let (all, drawn) = match who.part() {
            Part::Link => {
                let links = self.present.keys().filter(|who| who.part() == Part::Link);
                (links.count(), of_part(Part::Link))
            }
            // Ranks are drawn. If the launcher does not number them, GPUs are.
            part => {
                let ranks = of_part(Part::Rank).max(of_part(Part::Gpu));
                (self.past.ranks.len(), ranks.max(of_part(part)))
            }
        };
        let own = self.present.get(who).copied().unwrap_or(1);
        let missed = 1.0 - own as f64 / all.max(own) as f64;
        1.0 - missed.powi(drawn.try_into().unwrap_or(i32::MAX))
    }
}

/// How likely `least` or more of independent things happen, of which each has a probability in `each`.
fn at_least(least: usize, each: &[f64]) -> f64 {
    // By number of those that happened.
    let mut of = vec![0.0; each.len() + 1];
    of[0] = 1.0;
    for (known, p) in each.iter().enumerate() {
        for n in (0..=known).rev() {
            of[n + 1] += of[n] * p;
            of[n] *= 1.0 - p;
        }
    }
    of.iter().skip(least).sum()
}

/// The history of these runs.
pub fn history(pasts: &[Past]) -> History {
    let mut pasts: Vec<&Past> = pasts.iter().collect();
    pasts.sort_by(|a, b| (&a.started, &a.capture).cmp(&(&b.started, &b.capture)));
    let runs: Vec<Counted<'_>> = pasts.into_iter().map(Counted::new).collect();
    let everybody: BTreeSet<&Who> = runs.iter().flat_map(|run| run.present.keys()).collect();
    let others = |part: Part| everybody.iter().filter(|who| who.part() == part).count();
    let accused: BTreeSet<&Who> = runs.iter().flat_map(Counted::accused).collect();
    let mut suspects: Vec<Suspect> = accused
        .into_iter()
        .filter(|who| others(who.part()) > 1)
        .map(|who| suspect(who, &runs, others(who.part())))
        .collect();
    suspects.sort_by(|a, b| {
        let cost = |of: &Suspect| of.loss_us.unwrap_or(0.0) + of.at_most_us.unwrap_or(0.0);
        let order = b.named().cmp(&a.named()).then(b.blamed.cmp(&a.blamed));
        let order = order.then(cost(b).total_cmp(&cost(a)));
        order.then(b.part.cmp(&a.part))
    });
    History {
        schema: SCHEMA,
        culprit: culprit(&suspects),
        runs: runs.iter().map(row).collect(),
        suspects,
        skipped: Vec::new(),
    }
}

fn row(run: &Counted<'_>) -> HistoryRun {
    let hosts: BTreeSet<&String> = run
        .past
        .ranks
        .iter()
        .map(|rank| &rank.process.host)
        .collect();
    let number = |who: &Who| match who {
        Who::Rank(rank) => Some(*rank),
        _ => None,
    };
    let losses = run.past.findings.iter().filter_map(Finding::wall_us);
    HistoryRun {
        capture: run.past.capture.clone(),
        started: run.past.started.clone(),
        wall_us: run.past.wall_us,
        nranks: run.past.ranks.len(),
        hosts: hosts.into_iter().cloned().collect(),
        blamed: run.blamed.keys().filter_map(number).collect(),
        loss_us: losses.max_by(f64::total_cmp),
        named: run.at_most.keys().filter_map(number).collect(),
        at_most_us: run.at_most.values().copied().max_by(f64::total_cmp),
        is_judged: !run.past.is_unknown,
    }
}

fn suspect(who: &Who, runs: &[Counted<'_>], others: usize) -> Suspect {
    let present: Vec<&Counted<'_>> = runs.iter().filter(|run| run.is_in(who)).collect();
    // A healthy run draws nobody.
    let faulty = present.iter().filter(|run| run.accused().next().is_some());
    let chances: Vec<f64> = faulty.map(|run| run.chance(who)).collect();
    let mut found = Suspect {
        part: who.part(),
        rank: None,
        host: None,
        gpu: None,
        peer_host: None,
        blamed: 0,
        at_most: 0,
        present: present.len(),
        loss_us: None,
        share: None,
        at_most_us: None,
        chance_p: 1.0,
        is_beyond_chance: false,
        ranks: Vec::new(),
        hosts: Vec::new(),
        kinds: Vec::new(),
        captures: Vec::new(),
    };
    let (mut ranks, mut hosts, mut kinds) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for run in &present {
        if let (Some(most), Some((rank, _))) = (run.at_most.get(who), &run.past.at_most) {
            found.at_most += 1;
            found.captures.push(run.past.capture.clone());
            found.at_most_us = Some(found.at_most_us.unwrap_or(0.0) + most);
            ranks.extend(rank.process.rank);
            hosts.insert(rank.process.host.clone());
            found.host = Some(rank.process.host.clone());
        }
        let Some(findings) = run.blamed.get(who) else {
            continue;
        };
        found.blamed += 1;
        found.captures.push(run.past.capture.clone());
        let most = findings.iter().filter_map(|of| of.wall_us());
        if let Some(most) = most.max_by(f64::total_cmp) {
            found.loss_us = Some(found.loss_us.unwrap_or(0.0) + most);
        }
        for finding in findings {
            kinds.insert(finding.kind());
            let of_it = finding.subject.ranks.iter();
            for rank in of_it.filter(|rank| who.part() == Part::Link || Who::of(rank).contains(who))
            {
                ranks.extend(rank.process.rank);
                hosts.insert(rank.process.host.clone());
                found.host = Some(rank.process.host.clone());
            }
        }
    }
    match who {
        Who::Rank(rank) => (found.rank, found.host) = (Some(*rank), None),
        Who::Host(host) => found.host = Some(host.clone()),
        Who::Gpu(gpu) => found.gpu = Some(gpu.clone()),
        Who::Link(from, to) => {
            found.host = Some(from.clone());
            found.peer_host = Some(to.clone());
        }
    }
    let wall: Option<f64> = present.iter().map(|run| run.past.wall_us).sum();
    found.share = found.loss_us.zip(wall).map(|(loss, wall)| loss / wall);
    found.chance_p = (others as f64 * at_least(found.named(), &chances)).min(1.0);
    found.is_beyond_chance = found.named() > 1 && found.chance_p < LEVEL;
    found.ranks = ranks.into_iter().collect();
    found.hosts = hosts.into_iter().collect();
    found.kinds = kinds.into_iter().collect();
    found
}

/// The most frequent one beyond chance. Of those that were to blame equally often, the one that was to blame
/// in several places: whoever was with it, or where, is not the reason then.
fn culprit(suspects: &[Suspect]) -> Option<usize> {
    let proved = suspects.iter().enumerate();
    let proved = proved.filter(|(_, suspect)| suspect.is_beyond_chance);
    let most = proved.max_by_key(|(index, suspect)| {
        (
            suspect.named(),
            suspect.moved(),
            suspect.part,
            std::cmp::Reverse(*index),
        )
    });
    most.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Advice, Evidence, Late, Loss, Method, Subject};

    fn member(rank: u32, host: &str) -> RankId {
        RankId {
            process: ProcessId {
                rank: Some(rank),
                host: host.to_owned(),
                pid: 100 + rank,
            },
            device: Some(rank % 2),
            gpu: Some(format!("{host}-{}", rank % 2)),
        }
    }

    /// A run of two ranks on each host; `late` cost it 1 s of 10.
    fn run(started: &str, hosts: [&str; 4], late: Option<u32>) -> Past {
        let of = |rank: u32| member(rank, hosts[rank as usize / 2]);
        let finding = |rank: u32| Finding {
            subject: Subject::of(of(rank)),
            loss: Some(Loss {
                wall_us: 1e6,
                interval_us: None,
                at_most_us: None,
                method: Method::WhatIf,
                coverage: None,
                untimed_in_graphs: None,
                run_us: Some(1e7),
            }),
            when_us: None,
            cause: None,
            evidence: Evidence::Late(Late::default()),
            advice: Advice::ProfileHost,
        };
        Past {
            capture: started.to_owned(),
            started: Some(started.to_owned()),
            wall_us: Some(1e7),
            ranks: (0..8).map(of).collect(),
            findings: late.map(finding).into_iter().collect(),
            ..Past::default()
        }
    }

    #[test]
    fn a_bad_node_is_told_from_a_bad_rank() {
        let node = [
            run("1", ["a", "b", "c", "d"], Some(2)),
            run("2", ["b", "c", "d", "e"], Some(1)),
            run("3", ["c", "d", "b", "e"], Some(4)),
            run("4", ["c", "d", "a", "e"], None),
            run("5", ["a", "c", "d", "b"], Some(7)),
        ];
        let found = history(&node);
        let culprit = &found.suspects[found.culprit.expect("one")];
        assert_eq!(
            (culprit.part, culprit.host.as_deref()),
            (Part::Host, Some("b"))
        );
        assert_eq!((culprit.blamed, culprit.present), (4, 4));
        assert_eq!((culprit.loss_us, culprit.share), (Some(4e6), Some(0.1)));
        assert!(culprit.moved());
        let rank = [
            run("1", ["a", "b", "c", "d"], Some(2)),
            run("2", ["b", "c", "d", "e"], Some(2)),
            run("3", ["c", "d", "b", "e"], Some(2)),
        ];
        let found = history(&rank);
        let culprit = &found.suspects[found.culprit.expect("one")];
        assert_eq!((culprit.part, culprit.rank), (Part::Rank, Some(2)));
        assert!(culprit.moved() && culprit.chance_p < 0.02);
    }

    #[test]
    fn chance_is_not_a_culprit() {
        let hosts = ["a", "b", "c", "d"];
        let once = history(&[run("1", hosts, Some(2)), run("2", hosts, None)]);
        assert_eq!((once.suspects[0].blamed, once.culprit), (1, None));
        // Twice the same of eight happens to one pair of runs in eight.
        let twice = history(&[run("1", hosts, Some(2)), run("2", hosts, Some(2))]);
        assert_eq!((twice.suspects[0].blamed, twice.culprit), (2, None));
        assert!((twice.suspects[0].chance_p - 0.125).abs() < 1e-9);
        let clean = history(&[run("1", hosts, None)]);
        assert!(clean.suspects.is_empty() && clean.culprit.is_none());
    }

    #[test]
    fn a_rank_that_is_only_named_at_most_is_counted_as_that() {
        let hosts = ["a", "b", "c", "d"];
        let named = |at: &str, late: Option<u32>| Past {
            at_most: Some((member(2, "b"), 5e5)),
            ..run(at, hosts, late)
        };
        let found = history(&[named("1", None), named("2", None), named("3", None)]);
        assert!(found.culprit.is_some());
        let of_rank = |of: &&Suspect| of.rank == Some(2);
        let first = found.suspects.iter().find(of_rank).expect("a suspect");
        assert!(first.is_beyond_chance);
        assert_eq!((first.blamed, first.at_most), (0, 3));
        assert_eq!((first.loss_us, first.at_most_us), (None, Some(1.5e6)));
        assert_eq!(first.captures, ["1", "2", "3"]);
        assert_eq!(
            (&found.runs[0].named[..], &found.runs[0].blamed[..]),
            (&[2][..], &[][..])
        );
        // A finding says more, and is counted once.
        let found = history(&[named("1", Some(2)), named("2", None)]);
        let rank = found.suspects.iter().find(of_rank).expect("a suspect");
        assert_eq!((rank.blamed, rank.at_most, rank.named()), (1, 1, 2));
    }

    #[test]
    fn runs_stand_in_the_order_of_their_start() {
        let hosts = ["a", "b", "c", "d"];
        let found = history(&[run("2", hosts, Some(3)), run("1", hosts, None)]);
        let order: Vec<&str> = found.runs.iter().map(|run| &*run.capture).collect();
        assert_eq!(order, ["1", "2"]);
        assert_eq!(found.runs[1].blamed, [3]);
    }

    #[test]
    fn sums_of_probabilities_are_exact() {
        assert_eq!(at_least(0, &[0.5, 0.25]), 1.0);
        assert!((at_least(1, &[0.5, 0.25]) - 0.625).abs() < 1e-12);
        assert!((at_least(2, &[0.5, 0.25]) - 0.125).abs() < 1e-12);
    }
}
