//! The head of the page: the answer and its figures, with links to the sections.

use super::escape::escaped;
use super::Page;
use analyze::spelling::time;
use std::fmt::Write as _;

impl<'a> Page<'a> {
    pub(super) fn header(&mut self) {
        let (report, job) = (self.report, &self.report.job);
        let _ = writeln!(
            self.html,
            "<header>\n<h1 class=\"lead\">{}</h1>\n<p>{}</p>\n\
             <p class=\"next\">NCCL calls of {}. Next: <code>{}</code></p>",
            escaped(&crate::findings::verdict(report)),
            escaped(&analyze::summary::figures(report).join(" · ")),
            escaped(&job.capture),
            escaped(&report.next)
        );
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
        let hosts = match job.hosts.as_slice() {
            [] => "hosts not known".to_owned(),
            [one] => format!("on {one}"),
            hosts => format!("on {} hosts", hosts.len()),
        };
        let share = report.ranks.share.map(|s| {
            let spread = format!(
                "{:.1} to {:.1} % of the time over ranks",
                100.0 * s.min,
                100.0 * s.max
            );
            (format!("{:.1} %", 100.0 * s.median), spread)
        });
        let (share, spread) =
            share.unwrap_or(("-".to_owned(), "no rank has both times".to_owned()));
        // Where windows tell it, what communication costs says more than how long it ran.
        let in_nccl = match analyze::summary::exposed(report) {
            Some((exposed, from)) => (
                "Exposed communication",
                exposed,
                small(match from {
                    None => "of the time, nothing computed beside it",
                    Some(_) => "of the time, by stream waits",
                }),
            ),
            None => ("In NCCL, median rank", share, small(&spread)),
        };
        // All % are of the first.
        let wall = report
            .ranks
            .wall_us
            .map_or("-".to_owned(), |wall| time(wall.max));
        let mut end = format!("from {} to the last call", crate::text::first(job));
        if let (Some(_), Some(_), Some(all)) = (&job.started, &job.ended, job.wall_us) {
            end += &match crate::text::is_from_outside(job) {
                true => format!("; recorded from outside for {}", time(all)),
                false => format!("; {} from launch to exit", time(all)),
            };
        }
        match job.exit_status {
            Some(0) => {}
            Some(status) => end += &format!(", exit status {status}"),
            None => {}
        }
        let tiles = [
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
            in_nccl,
            ("Processes", job.nprocesses.to_string(), small(&hosts)),
            ("Time", wall, small(&end)),
        ];
        self.html += "<dl class=\"tiles\">\n";
        for (name, figure, below) in tiles {
            let _ = writeln!(
                self.html,
                "<div><dt>{name}</dt><dd>{}{below}</dd></div>",
                escaped(&figure)
            );
        }
        self.html += "</dl>\n</header>\n<nav aria-label=\"Sections\"><ul>\n";
        let there = |there: bool, id: &'static str, name: &'static str| there.then_some((id, name));
        let has_models = !super::models::of(report).is_empty();
        let sections = [
            there(!report.recommendations.is_empty(), "findings", "Evidence"),
            there(report.timeline.is_some(), "timeline", "Over time"),
            there(self.has_lanes, "lanes", "Lanes"),
            Some(("job", "Job")),
            Some(("completeness", "Completeness")),
            there(!report.topologies.is_empty(), "topology", "Topology"),
            there(
                super::startup::slowest(report).is_some(),
                "start-up",
                "Start-up",
            ),
            there(report.steps.is_some(), "steps", "Steps"),
            there(!report.phases.is_empty(), "phases", "Phases"),
            there(
                report.critical_path.is_some(),
                "critical-path",
                "Critical path",
            ),
            there(!report.ranks.rows.is_empty(), "ranks", "Ranks"),
            Some(("operations", "Operations")),
            there(has_models, "models", "Cost models"),
            there(
                !report.callers.is_empty(),
                "callers",
                "Lines of the program",
            ),
            there(!report.graphs.is_empty(), "graphs", "CUDA graphs"),
            there(report.streams.is_some(), "streams", "What the GPUs did"),
            there(
                report.streams.iter().any(|s| !s.bubbles.is_empty()),
                "bubbles",
                "Pipeline bubbles",
            ),
            there(
                report.stream_waits.is_some(),
                "stream-waits",
                "Stream waits",
            ),
            there(
                report.driver_calls.is_some(),
                "driver-calls",
                "Driver calls",
            ),
            there(report.arrivals.is_some(), "waiting", "Waiting"),
            there(report.clocks.is_some(), "clocks", "Clocks"),
            there(self.has_hosts(), "hosts", "Power and hosts"),
            there(report.mpi.is_some(), "mpi", "MPI"),
            there(!report.settings.is_empty(), "settings", "Settings"),
            Some(("communicators", "Communicators")),
            there(!report.functions.is_empty(), "functions", "Functions"),
            there(!report.warmup.is_empty(), "warmup", "Warm-up"),
            there(!report.network.is_empty(), "network", "Network"),
            there(!report.notes.is_empty(), "notes", "Notes"),
            there(!report.problems.is_empty(), "problems", "Problems"),
            Some(("definitions", "Definitions")),
        ];
        for (id, name) in sections.into_iter().flatten() {
            let _ = writeln!(self.html, "<li><a href=\"#{id}\">{name}</a></li>");
        }
        self.html += "</ul></nav>\n";
    }
}

fn small(text: &str) -> String {
    format!("<small>{}</small>", escaped(text))
}
