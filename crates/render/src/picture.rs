//! The first picture of a report: where the time of each rank went, and one typical step. Of a job that died
//! or hung, it is how far each rank came.
//!
//! [`Picture::svg`] is a whole picture with the answer above it, for files, notebooks and pages of others.
//! [`Picture::png`] is the same as pixels.
//! [`Picture::inline`] is the same without the answer, for pages that begin with it.
//!
//! Rule: all bars are equally long, because all ranks live through the same time. A figure stands in a bar if
//! it fits, and in its tooltip always. What was not seen is hatched.

use crate::escape::escaped;
use crate::layout::plural;
use crate::timeline::{Span, Timeline};
use crate::typical::{Absent, Lane, Typical};
use analyze::findings::{Cause, Finding, Kind, RankId};
use analyze::how_far::HowFar;
use analyze::rank_time::{self, Basis, Part, RankTime, RankTimes};
use analyze::spelling::{self, three, time};
use analyze::Report;
use letters::{cut, width, wrap, Face};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use theme::Colours;

pub(crate) mod how_far;
mod letters;
mod png;
mod theme;

pub use theme::Theme;

/// Ranks with a bar of their own on a page. Of more, those that say most are shown.
const MOST_BARS: usize = 16;
/// A bar is no lower than this with its gap, px: its text would not fit.
const LEAST_PITCH: f64 = 22.0;
/// The names of ranks before bars take so much at most, px.
const MOST_LABEL: f64 = 290.0;
/// The usual distance of two bars.
const PITCH: f64 = 44.0;
/// How high the title above bars is.
const BARS_HEAD: f64 = 45.0;
/// Blocks of one kernel that are closer than this are named together, px.
const TOGETHER: f64 = 3.0;
/// Steps that are this part of the run are nearly all of it.
const MOSTLY_STEPS: f64 = 0.95;
/// Blocks that are closer than this are drawn as one, px.
const CLOSE: f64 = 0.6;

/// Where the text and the bars of a picture are.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    right: f64,
    /// Where bars begin. On a narrow page they begin at the left, below their names.
    bars: f64,
}

impl Frame {
    const WHOLE: Frame = Frame {
        left: 48.0,
        right: 1152.0,
        bars: 190.0,
    };

    fn of(width: Width) -> Frame {
        match width {
            Width::Wide => Frame {
                left: 0.0,
                right: 1104.0,
                bars: 142.0,
            },
            Width::Narrow => Frame {
                left: 0.0,
                right: 320.0,
                bars: 0.0,
            },
        }
    }

    fn is_narrow(self) -> bool {
        self.bars <= self.left
    }

    fn long(self) -> f64 {
        self.right - self.bars
    }
}

/// A row of blocks on the axis of a step.
#[derive(Clone, Copy)]
struct Row {
    f: Frame,
    y: f64,
    high: f64,
    /// From when to when it is.
    span: Span,
}

impl Row {
    fn scale(self) -> f64 {
        self.f.long() / (self.span.end - self.span.begin).max(1) as f64
    }

    /// Where a moment is.
    fn at(self, ns: i64) -> f64 {
        self.f.bars + (ns - self.span.begin) as f64 * self.scale()
    }
}

/// How wide the page is for which a picture is made.
#[derive(Clone, Copy)]
enum Width {
    /// A screen.
    Wide,
    /// A phone.
    Narrow,
}

/// The first picture of a report.
pub struct Picture<'a> {
    report: &'a Report,
    /// The job died or hung.
    how_far: Option<&'a HowFar>,
    times: Option<RankTimes>,
    /// A typical step, or why there is none.
    step: Result<Typical, Absent>,
}

/// A rank that has a bar, and why.
struct Shown<'a> {
    time: &'a RankTime,
    why: &'static str,
}

impl<'a> Picture<'a> {
    /// Of a report. `timeline` has its calls and kernels; without it there is no typical step.
    pub fn of(report: &'a Report, timeline: Option<&Timeline<'_>>) -> Picture<'a> {
        let times = rank_time::of(report);
        let step = timeline.ok_or(Absent::NoCalls);
        let step = step.and_then(|timeline| Typical::of(report, timeline, times.as_ref()));
        Picture {
            report,
            how_far: how_far::of(report),
            times,
            step,
        }
    }

    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        self.how_far.is_none() && self.times.is_none() && self.step.is_err()
    }

    /// Its typical step.
    pub(crate) fn typical_step(&self) -> Option<&Typical> {
        self.step.as_ref().ok()
    }

    /// A whole picture, 1200 wide and 630 high.
    pub fn svg(&self, theme: Theme) -> String {
        if self.how_far.is_some() && (self.times.is_some() || self.step.is_ok()) {
            // There is room for one answer.
            let alone = Picture {
                times: None,
                step: Err(Absent::NoCalls),
                ..*self
            };
            return alone.svg(theme);
        }
        // Two pictures in one page must not share names.
        let verdict = crate::verdict::sentence(self.report);
        let digest = Sha256::digest(format!("{}{verdict}", self.report.job.capture));
        let id = digest
            .iter()
            .take(4)
            .fold(String::new(), |id, byte| format!("{id}{byte:02x}"));
        let mut to = Canvas::new(theme, &id);
        let frame = self.labelled(Frame::WHOLE);
        let long = frame.right - frame.left;
        let kicker = cut(&kicker(self.report), 16.0, Face::Plain, long);
        to.text(frame.left, 46.0, 16.0, &kicker, Face::Plain, to.c.soft);
        let (size, lines) = headline(&verdict, long);
        let mut y = 50.0;
        let lost = gpu_hours(self.report);
        let tip = lost.map_or(String::new(), |hours| {
            format!("<title>{} GPU-hours lost</title>", three(hours))
        });
        let _ = write!(to.svg, "<g>{tip}");
        for line in lines {
            y += 1.26 * size;
            to.text(frame.left, y, size, &line, Face::Bold, to.c.text);
        }
        to.svg += "</g>\n";
        if let Some(line) = figures(self.report) {
            y += 34.0;
            let line = cut(&line, 17.0, Face::Plain, long);
            to.text(frame.left, y, 17.0, &line, Face::Plain, to.c.soft);
        }
        y += 18.0;
        let foot = 602.0;
        // A legend of two lines begins higher.
        let above = self.legend(&mut Canvas::new(theme, &id), frame, 0.0);
        match self.how_far {
            Some(of) => self.standing(&mut to, frame, of, y, foot - 62.0 - above),
            None => self.going(&mut to, frame, y, foot - 62.0 - above),
        }
        self.legend(&mut to, frame, foot - 36.0 - above);
        let name = "ncclscope";
        let by = width(name, 13.0, Face::Bold);
        to.text(frame.right - by, foot, 13.0, name, Face::Bold, to.c.soft);
        let source = cut(&self.source(), 13.0, Face::Plain, long - by - 24.0);
        to.text(frame.left, foot, 13.0, &source, Face::Plain, to.c.soft);
        let ground = format!(
            "<rect width=\"1200\" height=\"630\" fill=\"{}\"/>\n",
            to.c.ground
        );
        to.whole(1200.0, 630.0, &verdict, &self.said(), &ground)
    }

    /// The same as PNG; `None` if it can't be drawn. [`Theme::Page`] has no colours of its own.
    pub fn png(&self, theme: Theme) -> Option<Vec<u8>> {
        png::png(&self.svg(theme))
    }

    /// Draws how far each rank came and what to do, between these two heights.
    fn standing(&self, to: &mut Canvas, f: Frame, of: &HowFar, y: f64, until: f64) {
        let advice = self.report.findings.first().map(crate::findings::advice);
        let advice = advice.map_or_else(Vec::new, |advice| {
            wrap(&advice, 15.0, Face::Plain, f.right - f.left)
        });
        let below = 12.0 + 22.0 * advice.len() as f64;
        let room = until - y - how_far::AROUND - below;
        let most = ((room / LEAST_PITCH).floor().max(1.0) as usize).min(MOST_BARS);
        let pitch = how_far::pitch(room, how_far::count(of, most));
        let mut y = self.how_far(to, f, of, y, (most, pitch)) + 12.0;
        for line in advice {
            y += 22.0;
            to.text(f.left, y, 15.0, &line, Face::Plain, to.c.text);
        }
    }

    /// Draws where the time went and a typical step, between these two heights.
    fn going(&self, to: &mut Canvas, f: Frame, mut y: f64, until: f64) {
        let step = self.step.as_ref().map_or(ABSENT_HIGH, step_height);
        let room = until - step - (y + BARS_HEAD);
        let most = ((room / LEAST_PITCH).floor().max(1.0) as usize).min(MOST_BARS);
        let bars = self.shown(most).len();
        let pitch = (room / bars.max(1) as f64).clamp(LEAST_PITCH, PITCH);
        // What is left is between the parts.
        let apart = ((room - pitch * bars as f64) / 3.0).clamp(0.0, 24.0);
        y = self.bars(to, f, y + apart, most, pitch);
        y = self.one_step(to, f, y + apart);
        if self.is_empty() {
            let why = "No rank has a GPU time, so where the time went is not known.";
            to.text(f.left, y + 40.0, 16.0, why, Face::Plain, to.c.soft);
        }
    }

    /// The picture for both widths of a page, which shows the one that fits; nothing if there is nothing to
    /// draw. `of` tells the pictures of a page apart.
    pub fn section(&self, of: &str) -> String {
        let part = |width, class: &str| {
            let picture = self.inline(width, &format!("{class}{of}"));
            format!("<div class=\"{class}\">\n{picture}</div>\n")
        };
        if self.is_empty() {
            String::new()
        } else {
            format!(
                "<div class=\"first-picture\">\n{}{}</div>\n",
                part(Width::Wide, "wide"),
                part(Width::Narrow, "narrow")
            )
        }
    }

    /// The picture without its answer, as a part of a page that has `palette.css`; nothing if there is
    /// nothing to draw. No other picture of the page may have this id.
    fn inline(&self, of: Width, id: &str) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut to = Canvas::new(Theme::Page, id);
        let frame = self.labelled(Frame::of(of));
        let pitch = if self.shown(MOST_BARS).len() > 6 {
            30.0
        } else {
            PITCH
        };
        let mut y = -14.0;
        if let Some(of) = self.how_far {
            let lines = how_far::count(of, MOST_BARS);
            let pitch = if lines > 6 { 30.0 } else { PITCH };
            y = self.how_far(&mut to, frame, of, y, (MOST_BARS, pitch));
        }
        y = self.bars(&mut to, frame, y, MOST_BARS, pitch);
        y = self.one_step(&mut to, frame, y);
        y = self.legend(&mut to, frame, y + 36.0) + 6.0;
        for line in wrap(&self.source(), 13.0, Face::Plain, frame.right.min(640.0)) {
            y += 20.0;
            to.text(frame.left, y, 13.0, &line, Face::Plain, to.c.soft);
        }
        to.whole(
            frame.right,
            y + 8.0,
            match self.how_far {
                Some(_) => "How far each rank came",
                None => "Where the time of the ranks went",
            },
            &self.said(),
            "",
        )
    }

    /// Whether it is the rank that the first finding about a rank blames.
    fn is_culprit(&self, id: &RankId) -> bool {
        let found = self.report.findings.iter().find_map(blamed);
        found.is_some_and(|found| {
            (found.process.pid, &found.process.host) == (id.process.pid, &id.process.host)
        })
    }

    /// The ranks that get a bar.
    fn shown(&self, most: usize) -> Vec<Shown<'_>> {
        let Some(times) = &self.times else {
            return Vec::new();
        };
        let all = &times.ranks;
        if all.len() <= most {
            let shown = |time| Shown { time, why: "" };
            return all.iter().map(shown).collect();
        }
        let mut by_wait: Vec<&RankTime> = all
            .iter()
            .filter(|time| !self.is_culprit(&time.id))
            .collect();
        // The first of equals stands first.
        by_wait.sort_by(|a, b| b.share(Part::Waiting).total_cmp(&a.share(Part::Waiting)));
        let culprit = all.iter().find(|time| self.is_culprit(&time.id));
        let culprit = culprit.map(|time| Shown {
            time,
            why: "culprit",
        });
        let of = |place: usize, why| by_wait.get(place).map(|time| Shown { time, why });
        let ends = [
            of(0, "waits most"),
            of(by_wait.len() / 2, "median"),
            of(by_wait.len().saturating_sub(1), "waits least"),
        ];
        let mut shown: Vec<Shown> = culprit
            .into_iter()
            .chain(ends.into_iter().flatten())
            .collect();
        shown.truncate(most.max(1));
        shown
    }

    /// Whom a rank waits for, if that can be only one.
    fn waits_for(&self, of: &RankTime) -> Option<u32> {
        let ranks = &self.times.as_ref()?.ranks;
        let mut others = ranks.iter().filter(|rank| rank.id != of.id);
        let only = others.next().filter(|_| ranks.len() == 2)?;
        only.id.process.rank
    }

    /// Draws a bar for each rank; where it ends.
    fn bars(&self, to: &mut Canvas, f: Frame, y: f64, most: usize, pitch: f64) -> f64 {
        let shown = self.shown(most);
        let Some(times) = self.times.as_ref().filter(|_| !shown.is_empty()) else {
            return y;
        };
        let what = match times.basis {
            Basis::Account => "Where the time of the steps went",
            Basis::Windows => "Where the time in kernel windows went",
            Basis::Calls => "Where the time of the run went",
        };
        let mut y = y + 32.0;
        to.text(f.left, y, 16.0, what, Face::Bold, to.c.text);
        let by = width(what, 16.0, Face::Bold);
        if shown.len() < times.ranks.len() {
            let of = format!("{} of {} ranks", shown.len(), times.ranks.len());
            if f.is_narrow() {
                y += 18.0;
                to.text(f.left, y, 13.0, &of, Face::Plain, to.c.soft);
            } else {
                to.text(f.left + by + 12.0, y, 13.0, &of, Face::Plain, to.c.soft)
            }
        }
        y += 13.0;
        let high = pitch - if pitch > 30.0 { 8.0 } else { 4.0 };
        for Shown { time, why } in shown {
            let title = title(&time.id);
            if f.is_narrow() {
                y += 15.0;
                let rest = format!("{}{}", whereabouts(&time.id), because(why));
                to.name(f.left, y, 14.0, &title, &rest, f.right - f.left);
                y += 5.0;
            } else {
                let size = if high > 24.0 { 16.0 } else { 13.0 };
                let rest = match why {
                    "" => whereabouts(&time.id),
                    why => why.to_owned(),
                };
                let middle = y + high / 2.0 + 0.36 * size;
                to.name(f.left, middle, size, &title, &rest, f.bars - f.left - 8.0);
            }
            self.bar(to, f, y, high, time);
            y += pitch;
        }
        y
    }

    fn bar(&self, to: &mut Canvas, f: Frame, y: f64, high: f64, time: &RankTime) {
        let mut x = f.bars;
        for part in Part::ALL {
            let share = time.share(part);
            let long = share * f.long();
            if long < 0.05 {
                continue;
            }
            let (fill, ink) = to.c.of(part);
            let fill = to.fill(part, fill);
            let gap = if long > 3.0 { 1.0 } else { 0.0 };
            let percent = format!("{:.0}\u{a0}%", 100.0 * share);
            let tip = format!(
                "{}: {} {}",
                title(&time.id),
                name(part),
                spelling::percent(share)
            );
            let _ = writeln!(
                to.svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{high:.1}\" fill=\"{fill}\">\
                 <title>{}</title></rect>",
                (long - gap).max(0.5),
                escaped(&tip)
            );
            let mut texts = Vec::new();
            match (part, self.waits_for(time)) {
                (Part::Waiting, Some(rank)) => {
                    texts.push(format!("waiting for rank {rank}: {percent}"))
                }
                (Part::Outside, _) => {
                    let why = match self.cause(&time.id) {
                        Some(Cause::Gpu) => "; its GPU is busy with other work",
                        Some(Cause::Host) => "; its host launches late",
                        Some(Cause::Unknown) | None => "",
                    };
                    let what = name(part);
                    texts.push(format!("{what} {percent}: kernels were not recorded{why}"));
                    texts.push(format!("{what} {percent}: kernels were not recorded"));
                }
                (Part::Unknown, _) => {
                    texts.push(format!(
                        "in NCCL {percent}: how much is waiting is not known"
                    ));
                }
                _ => {}
            }
            texts.push(format!("{} {percent}", name(part)));
            texts.push(percent);
            let size = if high > 24.0 { 14.0 } else { 12.0 };
            let fits = |text: &&String| width(text, size, Face::Bold) + 12.0 <= long;
            if let Some(text) = texts.iter().find(fits) {
                let middle = y + high / 2.0 + 0.36 * size;
                to.on(part, x + 6.0, middle, size, text, ink);
            }
            x += long;
        }
    }

    /// Draws the typical step, or says why there is none; where that ends.
    fn one_step(&self, to: &mut Canvas, f: Frame, y: f64) -> f64 {
        let absent = match &self.step {
            Ok(step) => return self.typical(to, f, y, step),
            Err(absent) => absent,
        };
        // Steps are no question of a job that stood still, or that shows nothing.
        let Some(why) =
            absent_because(absent).filter(|_| self.times.is_some() && self.how_far.is_none())
        else {
            return y;
        };
        let mut y = y + 12.0;
        for line in wrap(&why, 14.0, Face::Plain, f.right - f.left) {
            y += 20.0;
            to.text(f.left, y, 14.0, &line, Face::Plain, to.c.soft);
        }
        y
    }

    /// A frame with room for the names of ranks before the bars.
    fn labelled(&self, f: Frame) -> Frame {
        if f.is_narrow() {
            return f;
        }
        let bars = self
            .shown(MOST_BARS)
            .into_iter()
            .map(|Shown { time, why }| {
                let rest = match why {
                    "" => whereabouts(&time.id),
                    why => why.to_owned(),
                };
                (title(&time.id), rest)
            });
        let lines = self
            .how_far
            .map_or_else(Vec::new, |of| how_far::names(of, f));
        let wide = bars.chain(lines).map(|(name, rest)| {
            width(&name, 16.0, Face::Bold) + 5.0 + width(&rest, 13.0, Face::Plain) + 16.0
        });
        let most = f.left + MOST_LABEL;
        Frame {
            bars: wide
                .map(|wide| f.left + wide)
                .fold(f.bars, f64::max)
                .min(most),
            ..f
        }
    }

    /// Why the rank that is blamed is late, if it is this one.
    fn cause(&self, id: &RankId) -> Option<Cause> {
        let blamed = self
            .report
            .findings
            .iter()
            .find(|of| blamed(of).is_some())?;
        blamed.cause.filter(|_| self.is_culprit(id))
    }

    /// Draws the typical step; where it ends.
    fn typical(&self, to: &mut Canvas, f: Frame, y: f64, step: &Typical) -> f64 {
        let span = step.span;
        let length = (span.end - span.begin) as f64;
        let long = time(length / 1e3);
        let of = match step.steps {
            _ if step.is_stall => "a step with a stall".to_owned(),
            1 => "one typical step".to_owned(),
            n => format!("{n} typical steps"),
        };
        let of = if step.has_kernels {
            spelling::capital(&of)
        } else {
            format!("Calls of NCCL in {of}")
        };
        let head = format!("{of} ({long})");
        let mut y = y + 24.0;
        to.text(f.left, y, 16.0, &head, Face::Bold, to.c.text);
        y += 13.0;
        let [other, late] = &step.lanes;
        let waits = other.sum(Part::Waiting) as f64 > 0.05 * length;
        let roles = [
            if waits { "waits" } else { "" },
            if self.is_culprit(&late.id) {
                "culprit"
            } else {
                ""
            },
        ];
        for (place, lane) in [other, late].into_iter().enumerate() {
            if place == 1 {
                y = self.named(to, f, y, step);
            }
            if f.is_narrow() {
                y += 15.0;
                to.name(f.left, y, 14.0, &title(&lane.id), roles[place], f.right);
                y += 5.0;
            } else {
                to.text(
                    f.left,
                    y + 21.0,
                    16.0,
                    &title(&lane.id),
                    Face::Bold,
                    to.c.text,
                );
                to.text(f.left, y + 44.0, 13.0, roles[place], Face::Plain, to.c.soft);
            }
            let row = |y: f64, high: f64| Row { f, y, high, span };
            if step.has_kernels {
                let kernels = row(y, 30.0);
                to.track(kernels, "kernels");
                to.blocks(
                    kernels,
                    &lane.empty,
                    to.c.of(Part::Host).0,
                    name(Part::Host),
                );
                to.blocks(kernels, &lane.computes, to.c.computing, "computing");
                to.blocks(kernels, &lane.named, to.c.named, "");
                y += 33.0;
            }
            let high = if step.has_kernels { 24.0 } else { 36.0 };
            let nccl = row(y, high);
            to.track(nccl, "NCCL");
            for part in Part::ALL {
                let of = lane.communicates.iter().filter(|(of, _)| *of == part);
                let blocks: Vec<Span> = of.map(|(_, span)| *span).collect();
                let fill = to.fill(part, to.c.of(part).0);
                to.blocks(nccl, &blocks, &fill, name(part));
            }
            longest(to, nccl, lane, if place == 0 { late } else { other });
            if !step.has_kernels {
                gap(to, nccl, lane);
            }
            y += high;
        }
        to.axis(f, y + 8.0, length);
        y + 30.0
    }

    /// Writes between the lanes which kernel holds the second up; where the second begins.
    fn named(&self, to: &mut Canvas, f: Frame, y: f64, step: &Typical) -> f64 {
        let row = Row {
            f,
            y,
            high: 0.0,
            span: step.span,
        };
        let blocks = joined(row, &step.lanes[1].named, TOGETHER);
        let longest = blocks
            .into_iter()
            .max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let Some((named, (from, until))) = step.named.as_ref().zip(longest) else {
            return y + if f.is_narrow() { 6.0 } else { 22.0 };
        };
        let runs = format!(
            " × {} in the step ({}: × {})",
            named.runs[1],
            title(&step.lanes[0].id),
            named.runs[0]
        );
        let size = if f.is_narrow() { 11.0 } else { 13.0 };
        let room = f.long() - width(&runs, size, Face::Mono);
        let text = if room > 60.0 {
            cut(&named.name, size, Face::Mono, room) + &runs
        } else {
            cut(&named.name, size, Face::Mono, f.long())
        };
        let by = width(&text, size, Face::Mono);
        let x = from.min(f.right - by).max(f.bars);
        let y = y + 21.0;
        let _ = write!(to.svg, "<g><title>{}</title>", escaped(&named.name));
        to.text(x, y, size, &text, Face::Mono, to.c.text);
        to.svg += "</g>\n";
        if f.is_narrow() {
            return y + 4.0;
        }
        let _ = writeln!(
            to.svg,
            "<path d=\"M{from:.1} {:.1}v-6H{until:.1}v6\" fill=\"none\" stroke=\"{}\" \
             stroke-width=\"1.5\"/>",
            y + 12.0,
            to.c.text
        );
        y + 15.0
    }

    /// Draws what the colours mean, at this line; the last line of it.
    fn legend(&self, to: &mut Canvas, f: Frame, y: f64) -> f64 {
        let shown = self.shown(MOST_BARS);
        let is_there = |part: Part| {
            let bar = shown
                .iter()
                .any(|of| of.time.share(part) * f.long() >= 0.05);
            let drawn = self.step.iter().flat_map(|step| &step.lanes);
            let in_step = |lane: &Lane| match part {
                Part::Computing => !lane.computes.is_empty(),
                Part::Host => false,
                part => lane.longest(part).is_some(),
            };
            let stands_still = self.how_far.is_some() && part == Part::Waiting;
            bar || stands_still || drawn.into_iter().any(in_step)
        };
        let named = self.step.as_ref().is_ok_and(|step| step.named.is_some());
        let mut entries = Vec::new();
        // Calls that can't end have the colour of waiting, because a rank waits in them.
        if self.how_far.is_some() {
            entries.push((to.c.computing.to_owned(), "calls made"));
        }
        for part in Part::ALL.into_iter().filter(|part| is_there(*part)) {
            entries.push((to.fill(part, to.c.of(part).0), meaning(part)));
            if part == Part::Computing && named {
                entries.push((to.c.named.to_owned(), "kernel named above"));
            }
        }
        let (mut x, mut y) = (f.left, y);
        for (fill, text) in entries {
            let by = 19.0 + width(text, 14.0, Face::Plain);
            if x > f.left && x + by > f.right {
                x = f.left;
                y += 22.0;
            }
            let _ = writeln!(
                to.svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"13\" height=\"13\" fill=\"{fill}\"/>",
                y - 11.0
            );
            to.text(x + 19.0, y, 14.0, text, Face::Plain, to.c.soft);
            x += by + 24.0;
        }
        y
    }

    /// Where its figures come from.
    fn source(&self) -> String {
        let mut said: Vec<String> = self.how_far.map(how_far::source).into_iter().collect();
        if let Some(times) = &self.times {
            let seen: Vec<f64> = times.ranks.iter().filter_map(|time| time.seen_us).collect();
            let ends = seen.iter().fold(None, |ends: Option<(f64, f64)>, us| {
                let (low, high) = ends.unwrap_or((*us, *us));
                Some((low.min(*us), high.max(*us)))
            });
            let windows = ends.map(|(low, high)| {
                if time(low) == time(high) {
                    format!("kernel windows of {}", time(low))
                } else {
                    format!("kernel windows of {} a rank", spelling::times(low, high))
                }
            });
            said.push(match (times.basis, windows) {
                (Basis::Account, windows) => {
                    let account = self.report.account.as_ref();
                    let of = account.map_or(String::new(), |account| {
                        format!(" of {}", plural(account.steps, "step", "steps"))
                    });
                    let beside = windows.map_or(String::new(), |windows| {
                        format!("; its work is divided by {windows}")
                    });
                    format!("Shares: account{of}{beside}.")
                }
                (Basis::Windows, windows) => {
                    let windows = windows.unwrap_or_else(|| "kernel windows".to_owned());
                    format!("Shares: {windows}.")
                }
                (Basis::Calls, _) => "Shares: GPU times of calls, over the whole run.".to_owned(),
            });
        }
        if let Ok(step) = &self.step {
            let of = match step.of {
                1 => "the only one that was recorded whole".to_owned(),
                n if step.is_stall => format!("the longest stall in {n} that were recorded whole"),
                n => format!("the most typical of {n} that were recorded whole"),
            };
            let beside = if step.has_kernels {
                ""
            } else {
                "; computing may run beside calls"
            };
            said.push(match step.steps {
                1 => format!("Step: {of}{beside}."),
                n => format!("Steps, {n} in a row: {of}{beside}."),
            });
        }
        said.join(" ")
    }

    /// What the picture shows, in words.
    fn said(&self) -> String {
        let shown = self.shown(MOST_BARS);
        let of = |shown: &Shown| {
            let parts = Part::ALL.into_iter().filter_map(|part| {
                let share = shown.time.share(part);
                (share >= 0.000_5).then(|| format!("{} {}", name(part), spelling::percent(share)))
            });
            let parts: Vec<String> = parts.collect();
            format!("{}: {}.", title(&shown.time.id), parts.join(", "))
        };
        let mut said: Vec<String> = self.how_far.map(how_far::said).into_iter().collect();
        said.extend(shown.iter().map(of));
        if let Ok(step) = &self.step {
            let [other, late] = &step.lanes;
            said.push(format!(
                "In {} of {}, {} waits for {} for {}.",
                match step.steps {
                    _ if step.is_stall => "a step with a stall".to_owned(),
                    1 => "a typical step".to_owned(),
                    n => format!("{n} typical steps"),
                },
                time((step.span.end - step.span.begin) as f64 / 1e3),
                title(&other.id),
                title(&late.id),
                time(other.sum(Part::Waiting) as f64 / 1e3)
            ));
        }
        said.join(" ")
    }
}

/// Writes into the longest blocks of a lane what they are. `whom` it waits for.
fn longest(to: &mut Canvas, row: Row, lane: &Lane, whom: &Lane) {
    for part in [Part::Waiting, Part::Transfer] {
        let Some(block) = lane.longest(part) else {
            continue;
        };
        let long = time((block.end - block.begin) as f64 / 1e3);
        let mut texts = vec![format!("{} {long}", name(part)), long.clone()];
        if let (Part::Waiting, Some(rank)) = (part, whom.id.process.rank) {
            texts.insert(0, format!("waiting for rank {rank}: {long}"));
        }
        let room = row.at(block.end) - row.at(block.begin) - 12.0;
        let fits = |text: &&String| width(text, 13.0, Face::Bold) <= room;
        if let Some(text) = texts.iter().find(fits) {
            let (x, y) = (row.at(block.begin) + 6.0, row.y + row.high / 2.0 + 4.7);
            to.text(x, y, 13.0, text, Face::Bold, to.c.of(part).1);
        }
    }
}

/// Says in the longest time between the calls of a lane what it is, if kernels were not recorded.
fn gap(to: &mut Canvas, row: Row, lane: &Lane) {
    let mut gaps = Vec::new();
    let mut from = row.span.begin;
    for (_, span) in &lane.communicates {
        gaps.push((from, span.begin));
        from = from.max(span.end);
    }
    gaps.push((from, row.span.end));
    let Some((from, until)) = gaps.into_iter().max_by_key(|(from, until)| until - from) else {
        return;
    };
    let (x, room) = (row.at(from) + 6.0, row.at(until) - row.at(from) - 12.0);
    let texts = ["not in NCCL: kernels were not recorded", "not in NCCL"];
    let fits = |text: &&&str| width(text, 13.0, Face::Plain) <= room;
    if let Some(text) = texts.iter().find(fits) {
        to.text(
            x,
            row.y + row.high / 2.0 + 4.7,
            13.0,
            text,
            Face::Plain,
            to.c.soft,
        );
    }
}

/// In a line, why there is no typical step.
fn absent_because(of: &Absent) -> Option<String> {
    let why = match of {
        Absent::NoCalls => return None,
        Absent::Alone => "only one process has GPU times".to_owned(),
        Absent::Clocks => "it is not known how far the hosts' clocks are apart".to_owned(),
        Absent::NoSteps => "the calls show no steps".to_owned(),
        Absent::OneSided(id) => format!(
            "only {} has kernel windows, and in no step all calls of both ranks were timed",
            title(id)
        ),
        Absent::InPart => {
            "no step was recorded from end to end on two ranks, by kernel windows or GPU times"
                .to_owned()
        }
        Absent::Apart => "the ranks that wait share no operation with the last one".to_owned(),
    };
    Some(format!("No typical step is drawn: {why}."))
}

/// How high the line is that says why there is no typical step.
const ABSENT_HIGH: f64 = 60.0;

/// How high a typical step is drawn in a whole picture.
fn step_height(step: &Typical) -> f64 {
    let lanes = if step.has_kernels {
        2.0 * 57.0
    } else {
        2.0 * 36.0
    };
    let between = if step.named.is_some() { 36.0 } else { 22.0 };
    24.0 + 13.0 + lanes + between + 30.0
}

/// The rank that a finding blames; none if it blames a link.
fn blamed(of: &Finding) -> Option<&RankId> {
    let is_rank = matches!(of.kind(), Kind::LateRank | Kind::Stall | Kind::DeadRank);
    of.subject.rank().filter(|_| is_rank)
}

/// GPU-hours that the job lost by its first finding.
fn gpu_hours(report: &Report) -> Option<f64> {
    let loss = report.findings.first()?.loss.as_ref()?;
    Some(crate::findings::gpu_hours(loss, report))
}

/// What was recorded, in a line.
pub(crate) fn kicker(report: &Report) -> String {
    let job = &report.job;
    let path = std::path::Path::new(&job.capture);
    let name = path.file_name().map_or_else(
        || job.capture.clone(),
        |name| name.to_string_lossy().into_owned(),
    );
    let ranks = report.ranks.rows.len().max(job.nprocesses) as u64;
    let mut parts = vec![name, plural(ranks, "rank", "ranks")];
    if job.hosts.len() > 1 {
        parts.push(format!("{} hosts", job.hosts.len()));
    }
    parts.extend(job.gpu.first().map(|gpu| {
        gpu.split_once(" x ")
            .map_or(gpu.clone(), |(_, name)| name.to_owned())
    }));
    parts.extend(job.nccl.first().map(|version| format!("NCCL {version}")));
    let steps = report.steps.as_ref().and_then(|steps| steps.steps);
    if let Some(part) = &report.job.part {
        parts.push(part.clone());
    } else if let Some(n) = steps {
        parts.push(plural(n.median.round() as u64, "step", "steps"));
    }
    parts.join("  ·  ")
}

/// What the first finding costs, in a line.
fn figures(report: &Report) -> Option<String> {
    let mut said: Vec<String> = how_far::of(report)
        .map(how_far::waited)
        .into_iter()
        .collect();
    let first = report.findings.first();
    if let Some((now, without)) = step(report) {
        said.push(match without {
            Some(without) => format!(
                "Step {}, about {} without it ({} less).",
                time(now),
                time(without),
                spelling::percent(1.0 - without / now)
            ),
            None => format!("Step {}.", time(now)),
        });
    }
    let loss = first.and_then(|finding| finding.loss.as_ref());
    said.extend(steps_of_run(report, loss.and_then(|loss| loss.run_us)));
    if let Some((low, high)) = loss.and_then(|loss| loss.interval_us) {
        said.push(format!(
            "Interval of the cost: {}.",
            spelling::times(low, high)
        ));
    }
    (!said.is_empty()).then(|| said.join("  "))
}

/// How long all steps are, if that is less than the run, of which the headline has the cost: it is another
/// part of each.
fn steps_of_run(report: &Report, run_us: Option<f64>) -> Option<String> {
    let steps_us = report.account.as_ref()?.wall_us;
    run_us
        .filter(|run_us| steps_us < MOSTLY_STEPS * run_us)
        .map(|_| format!("Steps take {} of the run.", time(steps_us)))
}

/// How long a step takes, and how long without what the first finding says, µs.
pub(crate) fn step(report: &Report) -> Option<(f64, Option<f64>)> {
    let now = report.steps.as_ref()?.mean_us()?;
    let first = report.findings.first();
    let habit = first.filter(|of| matches!(of.kind(), Kind::LateRank | Kind::SlowNetwork));
    let share = habit.and_then(|of| {
        let loss = of.loss.as_ref()?;
        let of = crate::findings::steps_of(of, report)?;
        Some(loss.wall_us / of).filter(|share| (0.0..1.0).contains(share))
    });
    Some((now, share.map(|share| now * (1.0 - share))))
}

/// The size at which a headline fits, and its lines.
fn headline(text: &str, most: f64) -> (f64, Vec<String>) {
    for (size, lines) in [(31.0, 2), (25.0, 3), (20.0, 4)] {
        let wrapped = wrap(text, size, Face::Bold, most);
        if wrapped.len() <= lines {
            return (size, wrapped);
        }
    }
    let mut lines = wrap(text, 20.0, Face::Bold, most);
    let rest = lines.split_off(3).join(" ");
    lines.push(cut(&rest, 20.0, Face::Bold, most));
    (20.0, lines)
}

/// A rank in a few letters.
fn title(id: &RankId) -> String {
    match id.process.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("pid {}", tables::pid::shown(id.process.pid)),
    }
}

fn whereabouts(id: &RankId) -> String {
    match id.device {
        Some(device) => format!("GPU {device}, {}", id.process.host),
        None => id.process.host.clone(),
    }
}

/// Whereabouts that fit: of a long host, its end stays, because there hosts differ.
fn short_host(rest: &str, size: f64, most: f64) -> String {
    let fits = |text: &str| width(text, size, Face::Plain) <= most;
    let host_at = rest.rfind(", ").map_or(0, |at| at + 2);
    let (before, host) = rest.split_at(host_at);
    let is_whole = fits(rest) || host_at == 0;
    let ends = host.char_indices().skip(1).filter(|_| !is_whole);
    let mut ends = ends
        .map(|(at, _)| &host[at..])
        .take_while(|end| end.chars().count() >= 3);
    let short = ends.find_map(|end| Some(format!("{before}…{end}")).filter(|text| fits(text)));
    short.unwrap_or_else(|| cut(rest, size, Face::Plain, most))
}

fn because(why: &str) -> String {
    match why {
        "" => String::new(),
        why => format!(", {why}"),
    }
}

/// From where to where blocks are on a row; those that are closer than this are one.
fn joined(row: Row, blocks: &[Span], close: f64) -> Vec<(f64, f64)> {
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for block in blocks {
        let (from, until) = (row.at(block.begin), row.at(block.end));
        match joined.last_mut() {
            Some((_, last)) if from - *last < close => *last = last.max(until),
            _ => joined.push((from, until)),
        }
    }
    joined
}

/// What a part is called in a bar.
const fn name(part: Part) -> &'static str {
    match part {
        Part::Computing => "computing",
        Part::Beside => "beside communication",
        Part::Transfer => "transfer",
        Part::Waiting => "waiting",
        Part::Host => "GPU empty",
        Part::Outside => "computing or idle",
        Part::Unknown => "not known",
    }
}

/// What a part means, in the legend.
const fn meaning(part: Part) -> &'static str {
    match part {
        Part::Computing => "computing",
        Part::Beside => "computing beside communication",
        Part::Transfer => "transfer",
        Part::Waiting => "waiting for a rank",
        Part::Host => "host: GPU empty",
        Part::Outside => "computing or idle, calls may run beside it",
        Part::Unknown => "in NCCL, not known",
    }
}

/// An SVG under construction.
struct Canvas {
    svg: String,
    c: &'static Colours,
    id: String,
}

impl Canvas {
    fn new(theme: Theme, id: &str) -> Canvas {
        Canvas {
            svg: String::new(),
            c: theme.colours(),
            id: id.to_owned(),
        }
    }

    /// The picture around what was drawn.
    fn whole(self, width: f64, height: f64, title: &str, said: &str, ground: &str) -> String {
        let Canvas { svg, c, id } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" class=\"picture\" role=\"img\" \
             aria-labelledby=\"t-{id} d-{id}\" \
             font-family=\"system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif\">\n\
             <title id=\"t-{id}\">{}</title>\n<desc id=\"d-{id}\">{}</desc>\n\
             <defs><pattern id=\"hatch-{id}\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"{}\"/>\
             <rect width=\"1.6\" height=\"7\" fill=\"{}\"/></pattern>\
             <pattern id=\"other-hatch-{id}\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(-45)\"><rect width=\"7\" height=\"7\" fill=\"{}\"/>\
             <rect width=\"1.6\" height=\"7\" fill=\"{}\"/></pattern></defs>\n{ground}{svg}</svg>\n",
            escaped(title),
            escaped(said),
            c.unknown,
            c.hatch,
            c.unknown,
            c.hatch
        )
    }

    /// What fills a part: a hatch, if it was not seen.
    fn fill(&self, part: Part, colour: &str) -> String {
        match part {
            Part::Outside => format!("url(#hatch-{})", self.id),
            Part::Unknown => format!("url(#other-hatch-{})", self.id),
            _ => colour.to_owned(),
        }
    }

    fn text(&mut self, x: f64, y: f64, size: f64, text: &str, face: Face, fill: &str) {
        if text.is_empty() {
            return;
        }
        let face = match face {
            Face::Plain => "",
            Face::Bold => " font-weight=\"700\"",
            Face::Mono => {
                " font-weight=\"600\" \
                 font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\""
            }
        };
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{fill}\"{face}>{}</text>",
            escaped(text)
        );
    }

    /// Text on a part of a bar. On a hatch it has a ground of its own.
    fn on(&mut self, part: Part, x: f64, y: f64, size: f64, text: &str, ink: &str) {
        if matches!(part, Part::Outside | Part::Unknown) {
            let _ = writeln!(
                self.svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                x - 2.0,
                y - size,
                width(text, size, Face::Bold) + 4.0,
                1.3 * size,
                self.c.unknown
            );
        }
        self.text(x, y, size, text, Face::Bold, ink);
    }

    /// A rank's name and what is said of it, within this width.
    fn name(&mut self, x: f64, y: f64, size: f64, name: &str, rest: &str, most: f64) {
        self.text(x, y, size, name, Face::Bold, self.c.text);
        let by = width(name, size, Face::Bold) + 5.0;
        let small = size.min(13.0);
        let rest = short_host(rest, small, most - by);
        self.text(x + by, y, small, &rest, Face::Plain, self.c.soft);
    }

    /// The ground of a row, and what it is called.
    fn track(&mut self, row: Row, called: &str) {
        let (f, y, high) = (row.f, row.y, row.high);
        if !f.is_narrow() {
            let by = width(called, 12.0, Face::Plain);
            let x = f.bars - 8.0 - by;
            self.text(
                x,
                y + high / 2.0 + 4.0,
                12.0,
                called,
                Face::Plain,
                self.c.soft,
            );
        }
        let _ = writeln!(
            self.svg,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{high:.1}\" fill=\"{}\"/>",
            f.bars,
            f.long(),
            self.c.track
        );
    }

    /// Blocks of one colour on a row. Those that nearly touch are one.
    fn blocks(&mut self, row: Row, blocks: &[Span], fill: &str, tip: &str) {
        let joined = joined(row, blocks, CLOSE);
        if joined.is_empty() {
            return;
        }
        let _ = write!(self.svg, "<path fill=\"{fill}\" d=\"");
        for (from, until) in joined {
            let long = (until - from).max(CLOSE);
            let _ = write!(
                self.svg,
                "M{from:.1} {:.1}h{long:.1}v{:.1}h-{long:.1}z",
                row.y, row.high
            );
        }
        let _ = match tip {
            "" => writeln!(self.svg, "\"/>"),
            tip => writeln!(self.svg, "\"><title>{tip}</title></path>"),
        };
    }

    /// An axis from 0 to this many ns.
    fn axis(&mut self, f: Frame, y: f64, length: f64) {
        let (unit, name) = match length {
            ns if ns >= 10e9 => (1e9, "s"),
            ns if ns >= 1e6 => (1e6, "ms"),
            _ => (1e3, "µs"),
        };
        let all = length / unit;
        let most = if f.is_narrow() { 4.0 } else { 6.0 };
        let step = nice(all / most);
        let _ = writeln!(
            self.svg,
            "<path d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"{}\" fill=\"none\"/>",
            f.bars, f.right, self.c.line
        );
        let ticks = (all / step).floor() as usize;
        for tick in 0..=ticks {
            let value = tick as f64 * step;
            let x = f.bars + f.long() * value / all;
            let _ = writeln!(
                self.svg,
                "<path d=\"M{x:.1} {y:.1}v4\" stroke=\"{}\" fill=\"none\"/>",
                self.c.line
            );
            let digits = usize::from(step < 1.0) + usize::from(step < 0.1);
            let text = if tick == ticks {
                format!("{value:.digits$} {name}")
            } else {
                format!("{value:.digits$}")
            };
            let by = width(&text, 13.0, Face::Plain);
            let x = match tick {
                0 => x,
                _ => (x - by / 2.0).min(f.right - by),
            };
            self.text(x, y + 19.0, 13.0, &text, Face::Plain, self.c.soft);
        }
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is no smaller.
fn nice(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    let of = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power);
    of.into_iter()
        .find(|step| *step >= least * 0.999)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests;
