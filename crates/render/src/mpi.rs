//! Time in MPI, as text.

use crate::layout::ROWS;
use crate::layout::{Page, Table};
use analyze::mpi::{Mpi, MpiRow};
use analyze::spelling::{percent, time, times};
use analyze::Report;

/// A rank that spends this share of its time in MPI is worth a line.
const MUCH: f64 = 0.05;
/// A thread that was inside of one call for so long when the process ended is worth a line, too, µs.
const LONG_US: f64 = 1e6;

fn who(row: &MpiRow) -> String {
    match row.process.rank {
        Some(rank) => format!("Rank {rank}"),
        None => format!("Process {}", row.process.pid),
    }
}

/// Who waited for whom in collectives of MPI, if that is much.
fn waited_for(mpi: &Mpi, world: Option<u32>) -> Option<String> {
    let found = mpi.waited_for(world).filter(|of| of.share >= MUCH)?;
    let (least, most) = found.others_us;
    let (other, others) = match mpi.rows.len() {
        2 => ("the other rank", time(most)),
        _ => ("the others", times(least, most)),
    };
    let place = match &found.function {
        Some(function) => function,
        None => "MPI's collectives",
    };
    Some(format!(
        "In {place}, {other} waited for rank {}: it was inside for {}, {other} for {others} (up to \
         {} of the time).",
        found.rank,
        time(found.time_us),
        percent(found.share)
    ))
}

/// For which share of their time ranks were in MPI, if that is large for one of them. Who was there for
/// longest is not who is late, so the sentence says that the rank waits.
fn line(mpi: &Mpi) -> Option<String> {
    let rows = mpi.rows.iter();
    let by_share = |a: &&MpiRow, b: &&MpiRow| {
        a.share
            .total_cmp(&b.share)
            .then(b.process.rank.cmp(&a.process.rank))
    };
    let (most, least) = (rows.clone().max_by(by_share)?, rows.min_by(by_share)?);
    (most.share >= MUCH).then(|| {
        let parts = [
            (most.collective_us, "in collectives"),
            (most.point_to_point_us, "in sends and receives"),
            (most.waits_us, "in waits and tests"),
            (most.one_sided_us, "in one-sided operations"),
            (most.files_us, "in files"),
            (most.other_us, "in its start and end"),
        ];
        let largest = parts
            .iter()
            .fold(parts[0], |a, b| if b.0 > a.0 { *b } else { a });
        let step = match (most.step_us, most.step_share) {
            (Some(us), Some(share)) => {
                format!(", {} ({}) of each step", time(us), percent(share))
            }
            _ => String::new(),
        };
        let part = percent(largest.0 / most.time_us);
        if mpi.rows.len() == 1 {
            return format!(
                "{} was in MPI for {} of its time ({}){step}: {part} of that {}.",
                who(most),
                percent(most.share),
                time(most.time_us),
                largest.1,
            );
        }
        format!(
            "Ranks were in MPI for {} to {} of their time. {} waited or worked there for longest ({}){step}: \
             {part} of that {}.",
            percent(least.share),
            percent(most.share),
            who(most),
            time(most.time_us),
            largest.1,
        )
    })
}

/// Ranks that were inside of MPI when they were last seen.
fn open(mpi: &Mpi) -> Option<String> {
    let is_long = |row: &&MpiRow| row.open_us.is_some_and(|us| us >= LONG_US);
    let inside: Vec<&MpiRow> = mpi.rows.iter().filter(is_long).collect();
    let longest = inside.iter().max_by(|a, b| {
        let us = |row: &MpiRow| row.open_us.unwrap_or(0.0);
        us(a)
            .total_cmp(&us(b))
            .then(b.process.rank.cmp(&a.process.rank))
    })?;
    let others = match inside.len() - 1 {
        0 => String::new(),
        1 => "; one other rank was in MPI, too".to_owned(),
        n => format!("; {n} other ranks were in MPI, too"),
    };
    Some(format!(
        "{} had been inside of {} for {} when it was last seen{others}.",
        who(longest),
        longest.open.as_deref().unwrap_or("MPI"),
        time(longest.open_us.unwrap_or(0.0)),
    ))
}

/// What matters most of it.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let Some(mpi) = &report.mpi else {
        return Vec::new();
    };
    let waited_for = waited_for(mpi, report.job.world_size);
    let all = [waited_for, line(mpi), open(mpi)];
    all.into_iter().flatten().collect()
}

/// Writes what ranks did in MPI.
pub(crate) fn mpi(report: &Report, page: &mut Page) {
    let Some(mpi) = &report.mpi else { return };
    let lines = lines(report);
    if !lines.is_empty() {
        page.title("MPI");
        lines.iter().for_each(|line| page.line(line));
    }
    if !page.all {
        return;
    }
    page.title("Time in MPI (by rank; `in_mpi` and `of_step_%`: % of the time)");
    let names = [
        "rank",
        "pid",
        "calls",
        "in_mpi",
        "time",
        "collective",
        "messages",
        "waits",
        "one-sided",
        "files",
        "mpi/step",
        "of_step_%",
    ];
    let mut table = Table::new(names, ">>>>>>>>>>>>");
    table.squeeze = &["pid", "one-sided", "files", "messages", "waits"];
    let share = |share: f64| format!("{:.1}", 100.0 * share);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for row in &mpi.rows {
        table.row([
            or_none(row.process.rank.map(|rank| rank.to_string())),
            row.process.pid.to_string(),
            row.calls.to_string(),
            share(row.share),
            time(row.time_us),
            time(row.collective_us),
            time(row.point_to_point_us),
            time(row.waits_us),
            time(row.one_sided_us),
            time(row.files_us),
            or_none(row.step_us.map(time)),
            or_none(row.step_share.map(share)),
        ]);
    }
    page.table(&table, ROWS, "ranks");
    let untimed: u64 = mpi.rows.iter().map(|row| row.untimed).sum();
    if untimed != 0 {
        page.line(&format!(
            "{untimed} calls of MPI have no times of their own: they are in no step and in no idle time."
        ));
    }
    page.title("Functions of MPI (longest time first; over all ranks)");
    let mut table = Table::new(["function", "calls", "time", "mean", "ranks"], "<>>>>");
    for of in &mpi.functions {
        table.row([
            of.function.clone(),
            of.calls.to_string(),
            time(of.time_us),
            time(of.mean_us),
            of.ranks.to_string(),
        ]);
    }
    page.table(&table, ROWS, "functions");
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::subject::ProcessId;

    fn row(rank: u32, share: f64) -> MpiRow {
        MpiRow {
            process: ProcessId {
                rank: Some(rank),
                host: "node".to_owned(),
                pid: 7,
            },

            seen_s: 10.0,
            calls: 5,
            time_us: share * 10e6,
            share,
            collectives: [("MPI_Allreduce".to_owned(), (5, 0.8 * share * 1e7))].into(),
            point_to_point_us: 0.2 * share * 10e6,
            collective_us: 0.8 * share * 10e6,
            waits_us: 0.0,
            one_sided_us: 0.0,
            files_us: 0.0,
            other_us: 0.0,
            step_us: None,
            step_share: None,
            open: None,
            open_us: None,
            untimed: 0,
        }
    }

    fn mpi(rows: Vec<MpiRow>) -> Mpi {
        Mpi {
            rows,
            functions: Vec::new(),
        }
    }

    #[test]
    fn the_rank_with_most_time_in_mpi_waits_there_if_that_is_much() {
        assert_eq!(line(&mpi(vec![row(0, 0.04), row(1, 0.01)])), None);
        let mut most = row(2, 0.25);
        (most.step_us, most.step_share) = (Some(1_500.0), Some(0.3));
        let longest = "(2.50 s), 1.50 ms (30.0 %) of each step: 80.0 % of that in collectives.";
        assert_eq!(
            line(&mpi(vec![row(0, 0.2), most.clone()])),
            Some(format!(
                "Ranks were in MPI for 20.0 % to 25.0 % of their time. Rank 2 waited or worked there for \
                 longest {longest}"
            ))
        );
        assert_eq!(
            line(&mpi(vec![most])),
            Some(format!(
                "Rank 2 was in MPI for 25.0 % of its time {longest}"
            ))
        );
    }

    #[test]
    fn the_rank_that_others_wait_for_in_mpi_is_named() {
        let late = mpi(vec![row(0, 0.8), row(1, 0.01), row(2, 0.9)]);
        assert_eq!(
            waited_for(&late, Some(3)).as_deref(),
            Some(
                "In MPI's collectives, the others waited for rank 1: it was inside for 80.0 ms, the others \
                 for 6.40 to 7.20 s (up to 72.0 % of the time)."
            )
        );
        assert_eq!(waited_for(&late, Some(4)), None);
        assert_eq!(
            waited_for(&mpi(vec![row(0, 0.04), row(1, 0.01)]), Some(2)),
            None
        );
    }

    #[test]
    fn ranks_that_stay_in_mpi_are_named() {
        let inside = |rank, us| MpiRow {
            open: Some("MPI_Recv".to_owned()),
            open_us: Some(us),
            ..row(rank, 0.0)
        };
        assert_eq!(open(&mpi(vec![inside(0, 900.0)])), None);
        assert_eq!(
            open(&mpi(vec![inside(0, 2e6), inside(1, 3e6), inside(2, 5.0)])).as_deref(),
            Some(
                "Rank 1 had been inside of MPI_Recv for 3.00 s when it was last seen; one other rank was in \
                 MPI, too."
            )
        );
    }
}
