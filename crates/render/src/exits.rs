//! Words for processes that ended by a signal or with an error.

use analyze::exits::ExitRow;
use analyze::spelling::{capital, ranges, size, time};

/// Ways to end that are told; others are counted.
const WAYS: usize = 3;

/// Which was the first, when and how, and what became of the others; `None` if there are none.
pub(crate) fn sentence(rows: &[ExitRow]) -> Option<String> {
    told(rows, |_| String::new())
}

/// The same, with the last call of the first.
pub(crate) fn with_last_call(rows: &[ExitRow]) -> Option<String> {
    told(rows, last_call)
}

fn told(rows: &[ExitRow], last_call: impl Fn(&ExitRow) -> String) -> Option<String> {
    let first = rows.first()?;
    let near = rows.iter().take_while(|row| first.is_near(row)).count();
    let (at, way) = (&first.at, first.exit);
    if near > 1 {
        let (near, rest) = rows.split_at(near);
        let rest = rest.first().map(|next| after(next, first, rest));
        return Some(format!(
            "{} of {} processes ended at {at} ({}): which was the first can't be told.{}",
            near.len(),
            rows.len(),
            ways(near),
            rest.unwrap_or_default()
        ));
    }
    let (who, call) = (name(first), last_call(first));
    Some(match rows.get(1) {
        None => format!("{who} ended at {at} ({way}){call}."),
        Some(next) if !first.is_first => format!(
            "{who} ended at {at} ({way}){call}. Others may have ended before: nobody saw their end.{}",
            after(next, first, &rows[1..])
        ),
        Some(next) => format!(
            "{who} ended first, at {at} ({way}){call}.{}",
            after(next, first, &rows[1..])
        ),
    })
}

/// ` 204 ms later and after, ranks 0,2-7 ended (SIGTERM).`
fn after(next: &ExitRow, first: &ExitRow, rest: &[ExitRow]) -> String {
    let later = time(next.at_ns.saturating_sub(first.at_ns) as f64 / 1e3);
    format!(
        " {later} later{} {}.",
        if rest.len() > 1 { " and after," } else { "," },
        ended(rest)
    )
}

/// `ranks 0,2-7 ended (SIGTERM)`.
fn ended(rows: &[ExitRow]) -> String {
    format!("{} ended ({})", names(rows), ways(rows))
}

/// `SIGTERM`, or `SIGTERM: 6, exit status 1: 1`.
fn ways(rows: &[ExitRow]) -> String {
    let mut all: Vec<(String, usize)> = Vec::new();
    for row in rows {
        let way = row.exit.to_string();
        match all.iter_mut().find(|(known, _)| *known == way) {
            Some((_, count)) => *count += 1,
            None => all.push((way, 1)),
        }
    }
    if let [(way, _)] = &all[..] {
        return way.clone();
    }
    let told = all
        .iter()
        .take(WAYS)
        .map(|(way, count)| format!("{way}: {count}"));
    let told: Vec<String> = told.collect();
    let more = match all.len() - told.len() {
        0 => String::new(),
        more => format!(", and {more} other ways"),
    };
    format!("{}{more}", told.join(", "))
}

fn name(row: &ExitRow) -> String {
    let at = format!(
        "pid {} on {}",
        tables::pid::shown(row.process.pid),
        row.process.host
    );
    match row.process.rank {
        Some(rank) => format!("Rank {rank} ({at})"),
        None => capital(at),
    }
}

fn names(rows: &[ExitRow]) -> String {
    let ranks: Option<Vec<u32>> = rows.iter().map(|row| row.process.rank).collect();
    match (ranks, rows) {
        (Some(ranks), [_]) => format!("rank {}", ranges(ranks)),
        (Some(ranks), _) => format!("ranks {}", ranges(ranks)),
        (None, [_]) => "one other process".to_owned(),
        (None, _) => format!("{} other processes", rows.len()),
    }
}

/// Its last call, and the line of the program.
fn last_call(row: &ExitRow) -> String {
    let Some(function) = &row.last_function else {
        return String::new();
    };
    let bytes = row
        .last_bytes
        .map_or(String::new(), |bytes| format!(" of {}", size(bytes)));
    let caller = row.last_caller.as_ref();
    let caller = caller.map_or(String::new(), |caller| format!(" in {caller}"));
    format!("; its last call was {function}{bytes}{caller}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::exits::{rows, LastCall};
    use tables::exit::{Exit, HowEnded};
    use tables::{Capture, Process};

    /// Of processes of one host that ended so, so many ms after each other's beginning.
    fn said(ends: &[(i64, HowEnded)]) -> Option<String> {
        let process = |(rank, (ms, how)): (usize, &(i64, HowEnded))| Process {
            rank: Some(rank as u32),
            host: "node".to_owned(),
            pid: 70 + rank as u32,
            exit: Some(Exit {
                at_ns: 1_800_000_000_000_000_000 + ms * 1_000_000,
                how: Some(*how),
                out_of_memory: *how == HowEnded::Signal(9),
            }),
            ended: true,
            ..Process::default()
        };
        of(ends.iter().enumerate().map(process).collect())
    }

    fn of(processes: Vec<Process>) -> Option<String> {
        let capture = Capture {
            processes,
            ..Capture::default()
        };
        let last = |_| {
            Some(LastCall {
                function: Some("AllReduce".to_owned()),
                bytes: Some(1 << 20),
                caller: Some("train.py:33 step".to_owned()),
            })
        };
        with_last_call(&rows(&capture, last))
    }

    #[test]
    fn nobody_is_the_first_if_the_end_of_another_was_not_seen() {
        let end = |rank: u32, ms: i64| Process {
            rank: Some(rank),
            exit: Some(Exit {
                at_ns: ms * 1_000_000,
                how: (rank == 0).then_some(HowEnded::Signal(15)),
                out_of_memory: false,
            }),
            ..Process::default()
        };
        let unseen = Process {
            rank: Some(2),
            ended: true,
            ..Process::default()
        };
        let said = of(vec![end(0, 5), end(1, 300), unseen]).expect("two ended");
        assert!(
            said.contains("Others may have ended before: nobody saw their end."),
            "{said}"
        );
        assert!(
            said.ends_with("295 ms later, rank 1 ended (how is not known)."),
            "{said}"
        );
        let far = of(vec![
            end(0, i64::MIN / 1_000_000),
            end(1, i64::MAX / 1_000_000),
        ]);
        assert!(far.is_some());
    }

    #[test]
    fn the_first_that_ended_is_named_if_the_order_is_known() {
        const TERM: HowEnded = HowEnded::Signal(15);
        let at = "2027-01-15 08:00:00.005 UTC";
        let one = "Rank 1 (pid 71 on node) ended";
        let call = "its last call was AllReduce of 1 MiB in train.py:33 step";
        for (ends, wanted) in [
            (vec![(0, HowEnded::Status(0))], None),
            (
                vec![(0, HowEnded::Status(0)), (5, HowEnded::Signal(9))],
                Some(format!("{one} at {at} (SIGKILL, out of memory); {call}.")),
            ),
            (
                vec![(300, TERM), (5, HowEnded::Status(3)), (310, TERM)],
                Some(format!(
                    "{one} first, at {at} (exit status 3); {call}. 295 ms later and after, ranks 0,2 ended \
                     (SIGTERM)."
                )),
            ),
            (
                vec![(14, TERM), (5, HowEnded::Status(3)), (400, TERM)],
                Some(format!(
                    "2 of 3 processes ended at {at} (exit status 3: 1, SIGTERM: 1): which was the first \
                     can't be told. 395 ms later, rank 2 ended (SIGTERM)."
                )),
            ),
        ] {
            assert_eq!(said(&ends), wanted, "{ends:?}");
        }
    }
}
