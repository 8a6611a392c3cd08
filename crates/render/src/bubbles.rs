//! Bubbles of ranks that pass data on, as text.

use crate::layout::FEW_RANKS;
use crate::layout::{plural, share_with_interval, Page, Table};
use analyze::spelling::{three, time};
use analyze::streams::bubbles::{Bubble, For};
use analyze::streams::Streams;

/// Sentences on late senders and receivers.
const SENTENCES: usize = 4;
/// Least part of a step that is worth one.
const LEAST_SHARE: f64 = 0.01;

fn name(rank: Option<u32>, pid: u32) -> String {
    rank.map_or(format!("pid {}", tables::pid::shown(pid)), |rank| {
        format!("rank {rank}")
    })
}

/// A rank that waited for another: how long of a step, as what, and who stands behind that.
struct Late<'a> {
    waits: &'a Bubble,
    on: &'a For,
    us: f64,
    sender: bool,
}

impl Late<'_> {
    fn say(&self) -> String {
        let (who, on) = (
            name(self.waits.process.rank, self.waits.process.pid),
            name(self.on.process.rank, self.on.process.pid),
        );
        let share = self.us / self.waits.step_us;
        let what = if self.sender {
            format!("Late sender: {who} waits to receive from {on}")
        } else {
            format!("Late receiver: {who} waits to send to {on}")
        };
        let behind = match behind(self.waits) {
            Some(behind)
                if (behind.process.rank, behind.process.pid)
                    != (self.on.process.rank, self.on.process.pid) =>
            {
                let behind = name(behind.process.rank, behind.process.pid);
                format!("; {on} waits itself, mostly for {behind}")
            }
            _ => String::new(),
        };
        format!(
            "{what} for {:.1} % of a step ({:.2} s of the run){behind}.",
            100.0 * share,
            share * run_us(self.waits) / 1e6
        )
    }
}

/// The whole run of a rank, µs.
fn run_us(of: &Bubble) -> f64 {
    match of.bubble.share {
        share if share > 0.0 => of.bubble_run_us / share,
        _ => 0.0,
    }
}

/// Who stands behind most of the waiting of a rank.
fn behind(of: &Bubble) -> Option<&For> {
    let others = of.waits_for.iter().filter(|other| other.behind_us > 0.0);
    // The first of equals.
    others.reduce(|a, b| if b.behind_us > a.behind_us { b } else { a })
}

/// Sentences on who waits for whom, longest first.
pub(crate) fn lines(streams: &Streams) -> Vec<String> {
    let mut late: Vec<Late> = Vec::new();
    for waits in &streams.bubbles {
        for on in &waits.waits_for {
            for (us, sender) in [(on.late_sender_us, true), (on.late_receiver_us, false)] {
                late.push(Late {
                    waits,
                    on,
                    us,
                    sender,
                });
            }
        }
    }
    late.retain(|late| late.us >= LEAST_SHARE * late.waits.step_us);
    late.sort_by(|a, b| b.us.total_cmp(&a.us));
    late.iter().take(SENTENCES).map(Late::say).collect()
}

/// What the section says before its rows.
pub(crate) const ABOUT: &str =
    "For how long of a step each GPU computed nothing, in the time that windows of all GPUs show.";

/// Writes the bubbles of ranks.
pub(crate) fn bubbles(streams: Option<&Streams>, page: &mut Page) {
    let Some((streams, first)) = streams.and_then(|s| Some((s, s.bubbles.first()?))) else {
        return;
    };
    page.title(&format!(
        "Pipeline bubbles (ms, of a step of {}, in {}; a GPU computed nothing; run_s: of the run)",
        time(first.step_us),
        plural(first.steps, "step", "steps")
    ));
    let names = [
        "rank",
        "bubble_%",
        "bubble",
        "late_sender",
        "late_receiver",
        "collective",
        "transfer",
        "idle",
        "run_s",
        "waits_for",
        "behind",
    ];
    let mut table = Table::new(names, ">>>>>>>>>>>");
    table.squeeze = &[
        "transfer",
        "collective",
        "idle",
        "bubble",
        "behind",
        "run_s",
    ];
    for bubble in &streams.bubbles {
        let ms = |us: f64| three(us / 1e3);
        let number = |other: Option<&For>| match other {
            Some(other) => other.process.rank.map_or(
                format!("pid {}", tables::pid::shown(other.process.pid)),
                |rank| rank.to_string(),
            ),
            None => "-".to_owned(),
        };
        table.row([
            bubble.process.rank.map_or(
                format!("pid {}", tables::pid::shown(bubble.process.pid)),
                |rank| rank.to_string(),
            ),
            share_with_interval(&bubble.bubble),
            ms(bubble.bubble_us),
            ms(bubble.late_sender_us),
            ms(bubble.late_receiver_us),
            ms(bubble.collective_us),
            ms(bubble.transfer_us),
            ms(bubble.idle_us),
            three(bubble.bubble_run_us / 1e6),
            number(bubble.waits_for.first()),
            number(behind(bubble)),
        ]);
    }
    page.table(&table, FEW_RANKS, "ranks");
    lines(streams).iter().for_each(|line| page.line(line));
}
