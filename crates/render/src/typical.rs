//! One typical step: a rank that waits above the one that it waits for, on one axis. Of a rank that stalls
//! now and then, it is the longest stall.
//!
//! [`Typical::of`] looks for the steps that both ranks' kernel windows show from end to end, or without
//! windows on both for those whose calls have GPU times. A step ends with the last kernel of NCCL in it. Of
//! these steps, the typical one is nearest to the median in its length and in what both ranks do in it.
//!
//! Two kernels are one operation by the numbers of their calls; in CUDA graphs, which have none, by their
//! common end. A rank waits in its kernel for as long as that is longer than the other's: no clocks are
//! compared.
//!
//! Rule: everything in a step was recorded. A step that is shown in part is not drawn, and [`Absent`] says
//! why there is none.

use crate::timeline::{PlacedKernel, Span, Timeline};
use analyze::findings::{Evidence, Finding, Kind, RankId};
use analyze::rank_time::{Part, RankTimes};
use analyze::subject::ProcessId;
use analyze::Report;
use std::collections::{BTreeMap, HashMap};
use tables::Process;

/// Ends of one operation on two GPUs differ by less, ns: 3 µs in graphs and 30 µs elsewhere on H200.
pub(crate) const COMMON_END_NS: i64 = 30_000;
/// Ranks that are tried as the one that waits.
const MOST_TRIED: usize = 8;
/// Steps that are compared with each other.
const MOST_STEPS: usize = 400;

/// A step of two ranks.
#[derive(Clone, Debug)]
pub struct Typical {
    /// From when to when.
    pub span: Span,
    /// The rank that waits, then the one that it waits for.
    pub lanes: [Lane; 2],
    /// The kernel that the second runs longer, if it explains most of the waiting.
    pub named: Option<Named>,
    /// Kernels were recorded; else calls of NCCL only.
    pub has_kernels: bool,
    /// How many steps it is, if steps may be parts of the program's own.
    pub steps: u64,
    /// From how many such steps it was taken.
    pub of: usize,
    /// It is the longest stall of these, and not the most typical of them.
    pub is_stall: bool,
}

/// Why there is no typical step. Of several reasons, the last is the one that says most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absent {
    /// No calls are at hand.
    NoCalls,
    /// Fewer than two processes have a GPU time.
    Alone,
    /// It is not known how the clocks of two hosts stand to each other.
    Clocks,
    /// Calls show no steps.
    NoSteps,
    /// In no step, all calls of both ranks have a GPU time, and only one of them has kernel windows.
    OneSided(RankId),
    /// Neither windows nor GPU times show a step of both ranks from end to end.
    InPart,
    /// The two ranks are in no operation together.
    Apart,
}

/// What a rank did in it.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Index of its process.
    pub process: usize,
    /// Which rank.
    pub id: RankId,
    /// Its GPU computed.
    pub computes: Vec<Span>,
    /// Of that: the named kernel.
    pub named: Vec<Span>,
    /// Its GPU had nothing to do.
    pub empty: Vec<Span>,
    /// In kernels of NCCL; what ran beside computing is [`Part::Beside`].
    pub communicates: Vec<(Part, Span)>,
}

/// A kernel that one rank runs longer than the other.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// How often it runs in the step, on both ranks.
    pub runs: [usize; 2],
    /// How much longer it runs on the second, ns.
    pub longer_ns: i64,
}

impl Lane {
    /// How long a part of communication takes, ns.
    pub fn sum(&self, part: Part) -> i64 {
        let spans = self.communicates.iter().filter(|(of, _)| *of == part);
        spans.map(|(_, span)| length(span)).sum()
    }

    /// The longest stretch of a part of communication.
    pub fn longest(&self, part: Part) -> Option<Span> {
        let spans = self.communicates.iter().filter(|(of, _)| *of == part);
        spans.map(|(_, span)| *span).max_by_key(length)
    }
}

fn length(span: &Span) -> i64 {
    span.end - span.begin
}

/// One kernel or call of a rank.
struct Ran<'a> {
    span: Span,
    name: &'a str,
    communicates: bool,
    /// Operation, if its call is known.
    operation: Option<u64>,
    /// When its call was made, if that is known.
    api_ns: Option<i64>,
    /// From the last rank's arrival on, ns, by the GPU times of all ranks.
    transfer: Option<i64>,
}

/// All of a rank that may be drawn.
struct Rank<'a> {
    process: usize,
    /// Kernels or calls, by begin.
    ran: Vec<Ran<'a>>,
    /// What windows show from end to end; nothing without windows.
    shown: Vec<Span>,
}

/// Both views of a rank.
struct Seen<'a> {
    id: RankId,
    /// By its kernel windows; `None` without any.
    by_windows: Option<Rank<'a>>,
    by_calls: Rank<'a>,
}

impl Typical {
    /// A typical step of a report.
    ///
    /// # Errors
    /// If no step of two ranks was recorded.
    pub fn of(
        report: &Report,
        timeline: &Timeline<'_>,
        times: Option<&RankTimes>,
    ) -> Result<Typical, Absent> {
        let processes = &timeline.capture().processes;
        let place = |id: &RankId| processes.iter().position(|p| is(p, id));
        let blamed = report.findings.iter().find_map(to_blame);
        let mut waits: Vec<(usize, f64)> = times
            .iter()
            .flat_map(|times| &times.ranks)
            .filter_map(|rank| Some((place(&rank.id)?, rank.share(Part::Waiting))))
            .collect();
        if waits.len() < 2 {
            return Err(Absent::Alone);
        }
        // The first of equals stands first.
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        let late = blamed.and_then(place);
        let late = late.or_else(|| Some(waits.last()?.0));
        let late = late.ok_or(Absent::Alone)?;
        let known = |process: usize| timeline.host_error_ns(process).is_some();
        let others = waits.iter().map(|(process, _)| *process);
        let mut others = others.filter(|process| *process != late).peekable();
        let mut why = match others.peek() {
            None => Absent::Alone,
            Some(_) => Absent::Clocks,
        };
        if !known(late) {
            return Err(why);
        }
        let others = others.filter(|process| known(*process));
        let late = seen(timeline, late);
        for other in others.take(MOST_TRIED) {
            match of_both(report, timeline, &seen(timeline, other), &late) {
                Ok(found) => return Ok(found),
                Err(absent) => why = why.max(absent),
            }
        }
        Err(why)
    }
}

/// The rank that a finding blames for steps.
fn to_blame(of: &Finding) -> Option<&RankId> {
    let is_of_steps = matches!(of.kind(), Kind::LateRank | Kind::SlowNetwork | Kind::Stall);
    of.subject
        .rank()
        .filter(|_| is_of_steps && of.loss.is_some())
}

/// How long a stall is on average, ns, if the first finding about ranks in steps is about stalls.
fn usual_stall(report: &Report) -> Option<f64> {
    let first = report.findings.iter().find(|of| to_blame(of).is_some())?;
    match &first.evidence {
        Evidence::Stalls(stalls) if stalls.times > 0 => {
            Some(1e3 * stalls.held_up_us / stalls.times as f64)
        }
        _ => None,
    }
}

fn is(process: &Process, id: &RankId) -> bool {
    (process.pid, &process.host) == (id.process.pid, &id.process.host)
}

fn seen<'a>(timeline: &Timeline<'a>, process: usize) -> Seen<'a> {
    let mut operations = HashMap::new();
    let mut calls = Vec::new();
    for placed in timeline
        .calls()
        .filter(|placed| placed.row.index == process)
    {
        let call = placed.row.call;
        let known = placed.part.map(|part| part.operation);
        let transfer = placed.waited.map(|waited| waited.transfer);
        let api = Some(call.api_ns).filter(|ns| *ns != 0);
        operations.insert(call.ticket, (known, transfer, api));
        if let Some((slice, _)) = placed.gpu {
            calls.push(Ran {
                span: slice.span,
                name: "",
                communicates: true,
                operation: known,
                api_ns: api,
                transfer,
            });
        }
    }
    let kernels = timeline.kernels(process);
    let mut shown: Vec<Span> = Vec::new();
    let ran = |kernel: PlacedKernel<'a>| {
        let row = &kernel.row;
        let (operation, transfer, api_ns) = row
            .ticket()
            .and_then(|ticket| operations.get(&ticket).copied())
            .unwrap_or_default();
        Ran {
            span: kernel.slice.span,
            name: row.name,
            communicates: row.communicates(),
            operation,
            api_ns,
            transfer,
        }
    };
    for kernel in &kernels {
        let Some((from, to)) = kernel.row.counted() else {
            continue;
        };
        let span = Span {
            begin: timeline.on_one_clock(process, from),
            end: timeline.on_one_clock(process, to),
        };
        if shown.last() != Some(&span) {
            shown.push(span);
        }
    }
    shown.sort_unstable_by_key(|span| (span.begin, span.end));
    shown.dedup();
    let of = |mut ran: Vec<Ran<'a>>, shown: Vec<Span>| {
        ran.sort_by_key(|ran| (ran.span.begin, ran.span.end));
        Rank {
            process,
            ran,
            shown,
        }
    };
    Seen {
        id: id(timeline, process),
        by_calls: of(calls, Vec::new()),
        by_windows: (!shown.is_empty()).then(|| of(kernels.into_iter().map(ran).collect(), shown)),
    }
}

/// A typical step by the windows of both ranks; if these show none, by the GPU times of their calls.
fn of_both(
    report: &Report,
    timeline: &Timeline<'_>,
    other: &Seen<'_>,
    late: &Seen<'_>,
) -> Result<Typical, Absent> {
    let windows = other.by_windows.as_ref().zip(late.by_windows.as_ref());
    let by_windows = windows.map(|(other, late)| of_pair(report, timeline, other, late));
    if let Some(Ok(found)) = by_windows {
        return Ok(found);
    }
    let found = of_pair(report, timeline, &other.by_calls, &late.by_calls);
    found.map_err(|absent| {
        let one_sided = match (&other.by_windows, &late.by_windows) {
            (Some(_), None) => Some(&other.id),
            (None, Some(_)) => Some(&late.id),
            _ => None,
        };
        match (one_sided, by_windows) {
            (Some(id), _) if absent == Absent::InPart => Absent::OneSided(id.clone()),
            (_, Some(Err(of_windows))) => absent.max(of_windows),
            _ => absent,
        }
    })
}

/// A typical step of two ranks, both by windows or both by calls.
fn of_pair(
    report: &Report,
    timeline: &Timeline<'_>,
    other: &Rank<'_>,
    late: &Rank<'_>,
) -> Result<Typical, Absent> {
    let steps = report.steps.as_ref().ok_or(Absent::NoSteps)?;
    // The calls of one of the two may show no steps.
    let of = [other, late].into_iter().find_map(|rank| {
        let process = &timeline.capture().processes[rank.process];
        let row = steps.row_of(&process.host, process.pid)?;
        Some((rank, row))
    });
    let (stepping, row) = of.ok_or(Absent::NoSteps)?;
    let usual = row.step_us.as_ref().and_then(|step| step.p50);
    let usual = usual.map(|us| us * 1e3).filter(|usual| *usual > 0.0);
    let usual = usual.ok_or(Absent::NoSteps)?;
    let has_kernels = !other.shown.is_empty();
    let starts: Vec<i64> = row.each.iter().filter_map(|step| step.start_ns).collect();
    let mut spans = steps_of(stepping, &starts);
    if has_kernels {
        let shown = in_both(&other.shown, &late.shown);
        let covers = |span: &Span| {
            let within = |of: &Span| of.begin <= span.begin && span.end <= of.end;
            shown.iter().any(within)
        };
        spans.retain(covers);
        if spans.is_empty() {
            spans = stretches(stepping, &shown, usual);
        }
    } else {
        let calls = |span: &Span, of: &Rank| {
            of.ran
                .iter()
                .filter(|ran| span.begin < ran.span.end && ran.span.end <= span.end)
                .count() as u64
        };
        spans.retain(|span| calls(span, other) == row.calls && calls(span, late) == row.calls);
    }
    if spans.is_empty() {
        return Err(Absent::InPart);
    }
    // If calls repeat within steps, as with micro-batches, so many are what repeats as a whole.
    let together = in_a_row(&spans, row.times_repeat as usize);
    let steps = if together.is_empty() {
        1
    } else {
        row.times_repeat
    };
    if steps > 1 {
        spans = together;
    }
    let stall = usual_stall(report);
    if stall.is_some() {
        // A step with a stall is longer than others.
        spans.sort_by_key(|span| std::cmp::Reverse(length(span)));
        spans.truncate(MOST_STEPS);
    } else if spans.len() > MOST_STEPS {
        let every = spans.len().div_ceil(MOST_STEPS);
        spans = spans.into_iter().step_by(every).collect();
    }
    let drawn: Vec<(Span, [Lane; 2])> = spans
        .into_iter()
        .filter_map(|span| Some((span, lanes(timeline, span, other, late)?)))
        .collect();
    let figures: Vec<[f64; 4]> = drawn.iter().map(figures).collect();
    let medians: [f64; 4] = std::array::from_fn(|figure| {
        let mut all: Vec<f64> = figures.iter().map(|of| of[figure]).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    });
    let far = |of: &[f64; 4]| {
        let each = of.iter().zip(&medians).map(|(a, b)| (a - b).abs());
        each.sum::<f64>()
    };
    // The first of equals.
    let best = (0..drawn.len()).min_by(|a, b| far(&figures[*a]).total_cmp(&far(&figures[*b])));
    let of = drawn.len();
    let waits = |at: &usize| drawn[*at].1[0].sum(Part::Waiting);
    // Half of a usual stall is one, and steps that were recorded whole may have none.
    let stalled = (0..of)
        .max_by_key(waits)
        .filter(|at| stall.is_some_and(|usual| 2.0 * waits(at) as f64 >= usual));
    let is_stall = stalled.is_some();
    let found = stalled.or(best);
    let found = found.and_then(|at| drawn.into_iter().nth(at));
    let (span, mut lanes) = found.ok_or(Absent::Apart)?;
    let named = named(accused(report), span, &mut lanes, other, late).filter(|_| has_kernels);
    Ok(Typical {
        span,
        lanes,
        named,
        has_kernels,
        steps,
        of,
        is_stall,
    })
}

/// Each `count` spans of which one begins where the other ends, as one.
fn in_a_row(spans: &[Span], count: usize) -> Vec<Span> {
    let follow = |of: &&[Span]| of.windows(2).all(|pair| pair[0].end == pair[1].begin);
    let rows = spans.windows(count.max(1)).filter(follow);
    let whole = |of: &[Span]| Span {
        begin: of[0].begin,
        end: of[of.len() - 1].end,
    };
    rows.map(whole).collect()
}

/// Steps of a rank on its GPU: each from the last end of NCCL's kernels in a step to that in the next. Calls
/// say which step they are in.
fn steps_of(rank: &Rank<'_>, starts: &[i64]) -> Vec<Span> {
    let mut ends: BTreeMap<usize, i64> = BTreeMap::new();
    for ran in rank.ran.iter().filter(|ran| ran.communicates) {
        let Some(api) = ran.api_ns else { continue };
        let step = starts.partition_point(|start| *start <= api);
        let end = ends.entry(step).or_insert(ran.span.end);
        *end = ran.span.end.max(*end);
    }
    let known: Vec<(usize, i64)> = ends.into_iter().collect();
    let follow = |pair: &&[(usize, i64)]| pair[0].0 + 1 == pair[1].0 && pair[0].1 < pair[1].1;
    let steps = known.windows(2).filter(follow).map(|pair| Span {
        begin: pair[0].1,
        end: pair[1].1,
    });
    steps.collect()
}

/// What takes as long as a step, in what windows show of both ranks: from an end of a kernel of NCCL to the
/// end that is nearest to a usual step later.
///
/// Kernels of graphs have no calls that say which step they are in. And windows may be too short for a step
/// from its own end to the next one's, and hold one that begins elsewhere.
fn stretches(rank: &Rank<'_>, shown: &[Span], usual: f64) -> Vec<Span> {
    let mut steps = Vec::new();
    for shown in shown {
        let ends = rank.ran.iter().filter(|ran| ran.communicates);
        let mut ends: Vec<i64> = ends
            .map(|ran| ran.span.end)
            .filter(|end| (shown.begin..=shown.end).contains(end))
            .collect();
        ends.sort_unstable();
        let Some(mut begin) = ends.first().copied() else {
            continue;
        };
        loop {
            let due = begin + usual as i64;
            let next = ends.iter().filter(|end| **end > begin);
            let next = next.min_by_key(|end| (*end - due).abs());
            let Some(end) = next.copied().filter(|_| due <= shown.end) else {
                break;
            };
            steps.push(Span { begin, end });
            begin = end;
        }
    }
    steps
}

/// What is in a span of each list, by begin. Spans of one list are by begin, and do not overlap.
fn in_both(some: &[Span], others: &[Span]) -> Vec<Span> {
    let parts = some.iter().flat_map(|span| split(*span, others).0);
    parts.collect()
}

/// What both do in a step; `None` if not one operation of it is of both.
fn lanes(
    timeline: &Timeline<'_>,
    span: Span,
    other: &Rank<'_>,
    late: &Rank<'_>,
) -> Option<[Lane; 2]> {
    let met = |a: &Rank, b: &Rank| waits(a, b, span);
    let (of_other, of_late) = (met(other, late), met(late, other));
    if of_other.iter().all(|(_, transfer)| transfer.is_none()) {
        return None;
    }
    let lane = |rank: &Rank, waits: &[(usize, Option<i64>)]| {
        let mut lane = Lane {
            process: rank.process,
            id: id(timeline, rank.process),
            ..Lane::default()
        };
        let computes = rank.ran.iter().filter(|ran| !ran.communicates);
        lane.computes = joined(computes.filter_map(|ran| cut(ran.span, span)));
        for (index, transfer) in waits {
            let ran = &rank.ran[*index];
            let arrived = transfer.map(|transfer| (ran.span.end - transfer).max(ran.span.begin));
            let parts = match arrived {
                Some(at) => vec![
                    (
                        Part::Waiting,
                        Span {
                            begin: ran.span.begin,
                            end: at,
                        },
                    ),
                    (
                        Part::Transfer,
                        Span {
                            begin: at,
                            end: ran.span.end,
                        },
                    ),
                ],
                None => vec![(Part::Unknown, ran.span)],
            };
            for (part, whole) in parts {
                let Some(whole) = cut(whole, span) else {
                    continue;
                };
                let (beside, alone) = split(whole, &lane.computes);
                lane.communicates
                    .extend(alone.into_iter().map(|span| (part, span)));
                lane.communicates
                    .extend(beside.into_iter().map(|span| (Part::Beside, span)));
            }
        }
        lane.communicates.sort_by_key(|(_, span)| span.begin);
        if !rank.shown.is_empty() {
            let busy = lane.communicates.iter().map(|(_, span)| *span);
            let mut busy: Vec<Span> = busy.chain(lane.computes.iter().copied()).collect();
            busy.sort_by_key(|span| span.begin);
            lane.empty = split(span, &joined(busy.into_iter())).1;
        }
        lane
    };
    Some([lane(other, &of_other), lane(late, &of_late)])
}

fn id(timeline: &Timeline<'_>, index: usize) -> RankId {
    let process = &timeline.capture().processes[index];
    RankId {
        process: ProcessId::of(process),
        device: rank_device(timeline, index),
        gpu: None,
    }
}

fn rank_device(timeline: &Timeline<'_>, process: usize) -> Option<u32> {
    let locals = &timeline.capture().processes[process].communicators;
    let mut devices = locals.iter().filter_map(|local| local.device);
    let first = devices.next()?;
    devices.all(|device| device == first).then_some(first)
}

/// NCCL's kernels of a rank in a step, and of each the time after the last of both ranks had arrived; `None`
/// if the other rank is not in that operation.
fn waits(rank: &Rank<'_>, other: &Rank<'_>, span: Span) -> Vec<(usize, Option<i64>)> {
    let near =
        |ran: &&Ran| ran.communicates && ran.span.end > span.begin && ran.span.begin < span.end;
    let others: Vec<&Ran> = other.ran.iter().filter(near).collect();
    let by_operation: HashMap<u64, &Ran> = others
        .iter()
        .filter_map(|ran| Some((ran.operation?, *ran)))
        .collect();
    let mine = rank.ran.iter().enumerate().filter(|(_, ran)| near(ran));
    mine.map(|(index, ran)| {
        let same = ran.operation.and_then(|of| by_operation.get(&of).copied());
        let same = same.or_else(|| {
            let ends = others.iter().filter(|other| {
                (other.span.end - ran.span.end).abs() < COMMON_END_NS
                    && (other.operation.is_none() || ran.operation.is_none())
            });
            let near = ends.min_by_key(|other| (other.span.end - ran.span.end).abs());
            near.copied()
        });
        let own = length(&ran.span);
        let transfer = same.map(|other| own.min(length(&other.span)));
        let by_all = ran.transfer.map(|transfer| transfer.min(own));
        // Of the two, another rank may have been the last.
        let least = match (transfer, by_all) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        (index, least)
    })
    .collect()
}

/// Length, waiting and computing on both: as shares of the length.
fn figures((span, lanes): &(Span, [Lane; 2])) -> [f64; 4] {
    let all = length(span).max(1) as f64;
    let computes = |lane: &Lane| lane.computes.iter().map(length).sum::<i64>() as f64 / all;
    let [other, late] = lanes;
    [
        all.ln(),
        other.sum(Part::Waiting) as f64 / all,
        computes(other),
        computes(late),
    ]
}

/// The kernel that the first finding names, if it names one.
fn accused(report: &Report) -> Option<&str> {
    let kernel = report.findings.first()?.busy_gpu()?.kernel.as_ref()?;
    Some(&kernel.name)
}

/// The kernel that is accused, or else the one that the late rank runs longer than the other, if that is most
/// of the waiting.
fn named(
    accused: Option<&str>,
    span: Span,
    lanes: &mut [Lane; 2],
    other: &Rank<'_>,
    late: &Rank<'_>,
) -> Option<Named> {
    let mut by_name: BTreeMap<&str, ([usize; 2], i64)> = BTreeMap::new();
    for (side, rank) in [other, late].into_iter().enumerate() {
        for ran in rank
            .ran
            .iter()
            .filter(|ran| !ran.communicates && !ran.name.is_empty())
        {
            let Some(part) = cut(ran.span, span) else {
                continue;
            };
            let of = by_name.entry(ran.name).or_default();
            of.0[side] += 1;
            of.1 += if side == 0 {
                -length(&part)
            } else {
                length(&part)
            };
        }
    }
    let named = accused.and_then(|name| by_name.get_key_value(name));
    let named = named.map(|(name, of)| (*name, *of));
    let (name, (runs, longer_ns)) = match named.filter(|(_, (runs, _))| runs[1] > 0) {
        Some(named) => named,
        None => {
            let longest = by_name.into_iter().max_by_key(|(_, (_, ns))| *ns)?;
            let waits = lanes[0].sum(Part::Waiting);
            // Most of it, or it does not explain why the other waits.
            Some(longest).filter(|(_, (_, ns))| waits > 0 && 2 * ns >= waits)?
        }
    };
    let spans = late
        .ran
        .iter()
        .filter(|ran| !ran.communicates && ran.name == name);
    lanes[1].named = joined(spans.filter_map(|ran| cut(ran.span, span)));
    Some(Named {
        name: name.to_owned(),
        runs,
        longer_ns,
    })
}

/// The part of a span that is in another.
fn cut(of: Span, within: Span) -> Option<Span> {
    let (begin, end) = (of.begin.max(within.begin), of.end.min(within.end));
    (begin < end).then_some(Span { begin, end })
}

/// Spans by begin, those that touch as one.
fn joined(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(last) if span.begin <= last.end => last.end = last.end.max(span.end),
            _ => all.push(span),
        }
    }
    all
}

/// What of a span is in one of these, which are joined, and what is not.
fn split(of: Span, these: &[Span]) -> (Vec<Span>, Vec<Span>) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    let mut at = of.begin;
    for span in these.iter().filter_map(|span| cut(*span, of)) {
        if at < span.begin {
            outside.push(Span {
                begin: at,
                end: span.begin,
            });
        }
        inside.push(span);
        at = span.end;
    }
    if at < of.end {
        outside.push(Span {
            begin: at,
            end: of.end,
        });
    }
    (inside, outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: i64, end: i64) -> Span {
        Span { begin, end }
    }

    fn ran(begin: i64, end: i64, name: &'static str, operation: Option<u64>) -> Ran<'static> {
        Ran {
            span: span(begin, end),
            name,
            communicates: name == "nccl",
            operation,
            api_ns: operation.map(|of| of as i64 * 100),
            transfer: None,
        }
    }

    fn rank(process: usize, ran: Vec<Ran<'static>>) -> Rank<'static> {
        Rank {
            process,
            ran,
            shown: vec![span(0, 10_000)],
        }
    }

    #[test]
    fn spans_split_at_what_covers_them() {
        let (inside, outside) = split(span(0, 100), &[span(-10, 5), span(20, 30), span(90, 200)]);
        assert_eq!(inside, [span(0, 5), span(20, 30), span(90, 100)]);
        assert_eq!(outside, [span(5, 20), span(30, 90)]);
        assert_eq!(
            joined([span(0, 5), span(5, 9), span(10, 11)].into_iter()).len(),
            2
        );
    }

    #[test]
    fn who_comes_early_waits_by_the_length_of_the_kernels() {
        // Rank 0 waits from 10 to 80; both end at 100. The clocks differ by 3.
        let early = rank(0, vec![ran(10, 100, "nccl", Some(7))]);
        let late = rank(
            1,
            vec![ran(0, 80, "gemm", None), ran(83, 103, "nccl", Some(7))],
        );
        assert_eq!(waits(&early, &late, span(0, 110)), [(0, Some(20))]);
        assert_eq!(waits(&late, &early, span(0, 110)), [(1, Some(20))]);
        // Another operation, which ends elsewhere.
        let alone = rank(1, vec![ran(200, 90_000, "nccl", Some(8))]);
        assert_eq!(waits(&early, &alone, span(0, 110_000)), [(0, None)]);
        // In graphs, the common end tells.
        let graph = |begin| rank(0, vec![ran(begin, 1_000_000, "nccl", None)]);
        assert_eq!(
            waits(&graph(0), &graph(999_000), span(0, 2_000_000)),
            [(0, Some(1_000))]
        );
    }

    #[test]
    fn a_step_ends_with_its_last_kernel() {
        let rank = rank(
            0,
            vec![
                ran(0, 40, "nccl", Some(1)),
                ran(50, 90, "nccl", Some(2)),
                ran(100, 140, "nccl", Some(3)),
                ran(150, 190, "nccl", Some(4)),
            ],
        );
        // Steps of two calls each.
        let steps = steps_of(&rank, &[100, 300, 500]);
        assert_eq!(steps, [span(90, 190)]);
    }

    #[test]
    fn steps_that_are_one_follow_each_other() {
        let spans = [span(0, 40), span(40, 130), span(140, 180), span(180, 270)];
        assert_eq!(in_a_row(&spans, 2), [span(0, 130), span(140, 270)]);
        assert_eq!(in_a_row(&spans, 1), spans);
        assert!(in_a_row(&spans, 3).is_empty());
    }

    #[test]
    fn a_stretch_as_long_as_a_step_is_within_the_windows_of_both() {
        // Without calls; two kernels make a step.
        let kernels = (0..20).map(|n| ran(50 * n, 50 * n + 40, "nccl", None));
        let graph = rank(0, kernels.collect());
        let windows = [span(60, 320), span(500, 560), span(700, 1000)];
        let shown = in_both(&windows, &[span(0, 310), span(540, 800)]);
        assert_eq!(shown, [span(60, 310), span(540, 560), span(700, 800)]);
        let found = stretches(&graph, &shown, 100.0);
        assert_eq!(found, [span(90, 190), span(190, 290)]);
    }

    #[test]
    fn the_kernel_that_explains_the_wait_is_named() {
        let other = rank(
            0,
            vec![ran(0, 10, "gemm", None), ran(10, 100, "nccl", Some(7))],
        );
        let late = rank(
            1,
            vec![
                ran(0, 10, "gemm", None),
                ran(10, 50, "spin", None),
                ran(50, 80, "spin", None),
                ran(80, 100, "nccl", Some(7)),
            ],
        );
        let whole = span(0, 100);
        let lane = |waiting| Lane {
            communicates: vec![(Part::Waiting, waiting)],
            ..Lane::default()
        };
        let mut lanes = [lane(span(10, 80)), lane(span(80, 80))];
        let found = named(None, whole, &mut lanes, &other, &late).expect("a name");
        assert_eq!((found.name.as_str(), found.runs), ("spin", [0, 2]));
        assert_eq!(
            (found.longer_ns, &lanes[1].named[..]),
            (70, &[span(10, 80)][..])
        );
        // It does not explain a wait that is three times as long.
        let mut lanes = [lane(span(0, 210)), lane(span(80, 80))];
        assert!(named(None, whole, &mut lanes, &other, &late).is_none());
        // A finding may accuse it all the same, by all of its windows. What does not run there is not named.
        let found = named(Some("spin"), whole, &mut lanes, &other, &late).expect("a name");
        assert_eq!(found.runs, [0, 2]);
        assert!(named(Some("gone"), whole, &mut lanes, &other, &late).is_none());
    }
}
