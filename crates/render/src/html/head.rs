//! The head of the page: the answer, and cards about the job: what is lost, the step, who and why.

use super::Page;
use crate::escape::escaped;
use crate::layout::{held, plural};
use crate::verdict;
use analyze::account::RankAccount;
use analyze::findings::{BusierBy, Cause, Evidence, Finding, Kind};
use analyze::spelling::{percent, three, time, times};
use analyze::summary::ExposedBy;
use analyze::Report;
use std::fmt::Write as _;

/// A card: its name, its figure, and what stands below.
type Card = (&'static str, String, String);

impl Page<'_> {
    pub(super) fn header(&mut self) {
        let report = self.report;
        let loss = report
            .findings
            .first()
            .and_then(|first| first.loss.as_ref());
        let hours = loss.map_or(String::new(), |loss| {
            let hours = crate::findings::gpu_hours(loss, report);
            format!(" title=\"{} GPU-hours lost\"", three(hours))
        });
        let _ = writeln!(
            self.html,
            "<header>\n<p class=\"next\">{}</p>\n<h1 class=\"lead\"{hours}>{}</h1>\n<p>{}</p>",
            escaped(&crate::picture::kicker(report)),
            escaped(&held(&verdict::sentence(report))),
            escaped(&held(&verdict::figures(report).join(" · "))),
        );
        self.html += &tiles(&job_cards(report));
        let _ = writeln!(
            self.html,
            "<p class=\"next\">Next: <code>{}</code></p>\n</header>",
            escaped(&verdict::next(report))
        );
    }

    /// Cards about the recording.
    pub(super) fn recorded(&mut self) {
        self.html += &tiles(&recording_cards(self.report));
    }

    /// Where the wall time of the steps went, as figures.
    pub(super) fn account(&mut self) {
        let Some(account) = self
            .report
            .account
            .as_ref()
            .filter(|account| account.settles)
        else {
            return;
        };
        self.section(
            "account",
            "The account of time",
            &format!(
                "Of the wall time of {}, in percent; {} of the start-up are left out. Each line sums to 100.",
                plural(account.steps, "step", "steps"),
                plural(account.skipped, "step", "steps"),
            ),
        );
        let heads = ["rank", "work", "wait", "transfer", "unknown", "known"];
        let helps = [
            "The launcher's rank",
            "It computed, or its host had launched nothing",
            "It stood still for ranks that had not come",
            "It stood still while bytes moved",
            "It was in operations, and if it stood still is not known",
            "The part of its launches whose exposed time is known",
        ];
        self.html += "<div class=\"frame\" tabindex=\"0\" role=\"region\" aria-label=\"The account of time\">\
                      <table aria-label=\"The account of time\">\n<thead><tr>";
        for (head, help) in heads.into_iter().zip(helps) {
            let unit = if head == "rank" { "" } else { "<span>%</span>" };
            let _ = write!(
                self.html,
                "<th scope=\"col\" title=\"{}\">{head}{unit}</th>",
                escaped(help)
            );
        }
        self.html += "</tr></thead>\n<tbody>\n";
        let share = |us: f64| format!("{:.1}", 100.0 * us / account.wall_us);
        let row = |rank: &RankAccount| {
            [
                rank.process.rank.map_or(
                    format!("pid {}", tables::pid::shown(rank.process.pid)),
                    |rank| rank.to_string(),
                ),
                share(rank.work_us),
                share(rank.wait_us),
                share(rank.transfer_us),
                share(rank.unknown_us),
                format!("{:.0}", 100.0 * rank.known_share),
            ]
        };
        for rank in account.ranks.iter().take(self.rows) {
            let cells = row(rank).map(|cell| format!("<td>{cell}</td>"));
            let _ = writeln!(self.html, "<tr>{}</tr>", cells.concat());
        }
        self.html += "</tbody></table></div>\n";
        if let Some(said) = crate::account::efficiencies(account) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&said));
        }
        self.end();
    }
}

fn tiles(cards: &[Card]) -> String {
    let mut html = String::from("<dl class=\"tiles\">\n");
    for (name, figure, below) in cards {
        let _ = writeln!(
            html,
            "<div><dt>{name}</dt><dd>{}{below}</dd></div>",
            escaped(figure)
        );
    }
    html + "</dl>\n"
}

/// What is lost, the step with and without that, who it is, and why; else how much communication there is.
fn job_cards(report: &Report) -> Vec<Card> {
    let first = report.findings.first();
    let mut cards: Vec<Card> = Vec::new();
    cards.extend(first.and_then(|first| lost(first, report)));
    match crate::picture::how_far::of(report) {
        Some(of) => cards.push((
            "Ranks waited",
            time(of.lasted.us()),
            small(&format!("in call {}, until the recording ended", of.call)),
        )),
        None if cards.is_empty() => cards.push(in_nccl(report)),
        None => {}
    }
    cards.extend(crate::picture::step(report).map(|(now, without)| {
        let n = report.steps.as_ref().and_then(|steps| steps.steps);
        let all = n.map_or(String::new(), |n| {
            plural(n.median.round() as u64, "step", "steps")
        });
        match without {
            Some(without) => (
                "Step",
                format!("{} → {}", time(now), time(without)),
                small(&format!("now, and without it; {all}")),
            ),
            None => ("Step", time(now), small(&all)),
        }
    }));
    match first {
        Some(first) => {
            cards.extend(who(first));
            cards.extend(cause(first));
        }
        None => {
            let hosts = match report.job.hosts.as_slice() {
                [] => "hosts not known".to_owned(),
                [one] => format!("on {one}"),
                hosts => format!("on {} hosts", hosts.len()),
            };
            cards.push((
                "Processes",
                report.job.nprocesses.to_string(),
                small(&hosts),
            ));
            cards.push(took(report));
        }
    }
    cards
}

fn lost(first: &Finding, report: &Report) -> Option<Card> {
    let loss = first.loss.as_ref()?;
    let mut below: Vec<String> = Vec::new();
    below.extend(
        loss.run_us
            .map(|run| format!("{} of the run", percent(loss.wall_us / run))),
    );
    below.extend(loss.interval_us.map(|(low, high)| times(low, high)));
    let hours = crate::findings::gpu_hours(loss, report);
    below.push(format!("{} GPU-hours", three(hours)));
    Some(("Lost", time(loss.wall_us), small(&below.join("; "))))
}

fn who(first: &Finding) -> Option<Card> {
    let subject = &first.subject;
    let number = |rank: Option<u32>| rank.map_or("?".to_owned(), |rank| rank.to_string());
    let host = || subject.hosts.first().cloned();
    let (figure, below) = match &subject.ranks[..] {
        [] => (host()?, String::new()),
        [one] => {
            let place = match one.device {
                Some(device) => format!(
                    "GPU {device} on {}, pid {}",
                    one.process.host,
                    tables::pid::shown(one.process.pid)
                ),
                None => format!(
                    "on {}, pid {}",
                    one.process.host,
                    tables::pid::shown(one.process.pid)
                ),
            };
            match &subject.peer {
                Some(peer) => (
                    format!("rank {} → {}", number(one.process.rank), number(peer.rank)),
                    format!("{} → {}", one.process.host, peer.host),
                ),
                None => (format!("rank {}", number(one.process.rank)), place),
            }
        }
        [first, ..] => {
            let all = subject.ranks.iter().filter_map(|id| id.process.rank);
            (
                format!("ranks {}", analyze::spelling::ranges(all)),
                format!("the first on {}", first.process.host),
            )
        }
    };
    Some(("Who", figure, small(&below)))
}

fn cause(first: &Finding) -> Option<Card> {
    if let Evidence::Death { death, .. } = &first.evidence {
        let how = if death.exited { "it exited" } else { "it died" };
        let way = death.exit.filter(|exit| exit.how.is_some());
        let way = way.map_or(String::new(), |exit| format!("{exit}; "));
        let below = format!("{way}the others waited for it");
        return Some(("Cause", how.to_owned(), small(&below)));
    }
    let on_gpu = match first.busy_gpu().map(|of| of.by) {
        Some(BusierBy::MoreKernels) => "it runs more kernels",
        Some(BusierBy::LongerKernels) => "the same kernels take longer on it",
        None => "it is busy with other work",
    };
    let (figure, below) = match (first.kind(), first.cause) {
        (Kind::Standstill, _) => ("stands still", "ranks wait to the end of the recording"),
        (Kind::SlowNetwork, _) => ("network", "a link is slower than the others"),
        (Kind::DifferingOperations, _) => ("different calls", "ranks disagree at the same place"),
        (Kind::LateRank | Kind::Stall, Some(Cause::Host)) => ("host", "it launches late"),
        (Kind::LateRank | Kind::Stall, Some(Cause::Gpu)) => ("GPU", on_gpu),
        (Kind::LateRank | Kind::Stall, _) => ("not known", "host or GPU"),
        _ => return None,
    };
    Some(("Cause", figure.to_owned(), small(below)))
}

/// What communication costs; without that, how long it ran.
fn in_nccl(report: &Report) -> Card {
    if let Some(exposed) = analyze::summary::exposed(report) {
        let below = match exposed.by {
            ExposedBy::Windows => "of the time, nothing computed beside it",
            ExposedBy::Account | ExposedBy::StreamWaits => "of the time, by stream waits",
        };
        let shares = verdict::range(exposed.shares);
        return ("Exposed communication", shares, small(below));
    }
    let share = report.ranks.share.map(|s| {
        let spread = format!(
            "{:.1} to {:.1} % of the time over ranks",
            100.0 * s.min,
            100.0 * s.max
        );
        (format!("{:.1} %", 100.0 * s.median), spread)
    });
    let (share, spread) = share.unwrap_or(("-".to_owned(), "no rank has both times".to_owned()));
    ("In NCCL, median rank", share, small(&spread))
}

/// How long it took. All % are of this.
fn took(report: &Report) -> Card {
    let job = &report.job;
    let wall = report
        .ranks
        .wall_us
        .map_or("-".to_owned(), |wall| time(wall.max));
    let mut end = crate::text::from_to(job).to_owned();
    if let (Some(_), Some(_), Some(all)) = (&job.started, &job.ended, job.wall_us) {
        end += &if crate::text::is_from_outside(job) {
            format!("; recorded from outside for {}", time(all))
        } else {
            format!("; {} from launch to exit", time(all))
        };
    }
    match job.exit_status {
        Some(0) | None => {}
        Some(status) => end += &format!(", exit status {status}"),
    }
    if let Some(exits) = crate::exits::with_last_call(&report.exits) {
        end += &format!("; {exits}");
    }
    ("Time", wall, small(&end))
}

/// How much was recorded.
fn recording_cards(report: &Report) -> Vec<Card> {
    let c = &report.completeness;
    let least = if c.announced_is_lower_bound {
        "at least "
    } else {
        ""
    };
    let announced = c.announced.saturating_add(c.missing_at_least);
    let lost = announced.saturating_sub(c.recorded);
    let recorded = match (lost, c.adds_up) {
        (0, true) if !c.absent.is_empty() => {
            "<small class=\"bad\">ranks are missing</small>".to_owned()
        }
        (0, true) if !c.unseen.is_empty() => {
            "<small class=\"bad\">CUDA graphs not counted</small>".to_owned()
        }
        (0, true) => "<small class=\"good\">none lost</small>".to_owned(),
        (_, false) => "<small class=\"bad\">the figures do not add up</small>".to_owned(),
        (lost, _) if c.missing_at_least > 0 => {
            format!("<small class=\"bad\">at least {lost} missing</small>")
        }
        (lost, _) => format!("<small class=\"bad\">{lost} lost</small>"),
    };
    let without = c.recorded.saturating_sub(c.timed);
    vec![
        (
            "Calls recorded",
            format!("{} of {least}{announced}", c.recorded),
            recorded,
        ),
        (
            "Calls with a GPU time",
            c.timed.to_string(),
            small(&format!("{without} without")),
        ),
        took(report),
    ]
}

fn small(text: &str) -> String {
    format!("<small>{}</small>", escaped(text))
}
