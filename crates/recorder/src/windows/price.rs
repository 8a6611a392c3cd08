//! Whether a job can afford CUPTI.
//!
//! Once CUPTI was switched on, it stays before the driver's functions, also between windows. On H200 with
//! CUPTI 13.0, a launch of a kernel then takes [`LAUNCH_NS`] more of the host's time than 7 us, and the
//! launch of a graph of ten kernels [`GRAPH_NS`] more than 2.7 us (bench/README.md). Only `cuptiFinalize`
//! removes it, and that breaks CUDA graphs. So the question comes before CUPTI is first switched on:
//!
//! - The host is ahead of its GPU (`gpu_events::lead`): the GPU never waits for the host, so a slower
//!   host costs nothing.
//! - Else the GPU may wait for each launch. The cost is at most the number of launches times what each takes.
//!   CUPTI is switched on if that is within the budget.
//!
//! Rule: the answer may change from no to yes, and never back, because nothing is gained by that.

use std::time::{Duration, Instant};

/// What CUPTI adds to the launch of a kernel or copy, ns of the host's time (measured: 0.8 to 0.9 us).
pub const LAUNCH_NS: u64 = 850;
/// What it adds to the launch of a graph (measured: 3.3 to 3.5 us).
pub const GRAPH_NS: u64 = 3_500;
/// The rate of launches is looked at over so long, and over so many calls at least: a job that compiles or
/// loads makes no launches and says nothing.
const SPAN: Duration = Duration::from_millis(500);
const CALLS: u64 = 16;
/// So many spans in a row must be cheap: the first steps of a job are slower than later ones.
const SPANS: u32 = 2;

/// Whether CUPTI may be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is not known yet.
    Wait,
    /// It would be cheap by the launches that are seen. Libraries that have looked the driver up since must
    /// be searched for, so that theirs are seen too.
    Search,
    Yes,
    /// It would slow the job by more than the budget: by at most this part, in units of 0.01 %.
    TooDear(u32),
}

/// See the module.
pub struct Price {
    /// The share of the time that it may cost; `None`: whatever it costs.
    budget: Option<f64>,
    /// Since when launches are counted: their cost in ns, and calls, by then.
    since: Option<(Instant, u64, u64)>,
    searched: bool,
    cheap: u32,
}

impl Price {
    pub fn new(budget: Option<f64>) -> Price {
        Price {
            budget,
            since: None,
            searched: false,
            cheap: 0,
        }
    }

    /// To be asked now and then. `cost_ns` is what CUPTI would have added to all launches until `now`, and
    /// `calls` the number of NCCL calls and launches of graphs. `ahead`: the host is known to be ahead of its
    /// GPU.
    pub fn ask(&mut self, now: Instant, cost_ns: u64, calls: u64, ahead: bool) -> Answer {
        let Some(budget) = self.budget.filter(|_| !ahead) else {
            return Answer::Yes;
        };
        let (since, cost_before, calls_before) = *self.since.get_or_insert((now, cost_ns, calls));
        let long = now - since;
        if long < SPAN || calls.saturating_sub(calls_before) < CALLS {
            return Answer::Wait;
        }
        self.since = None;
        let share = (cost_ns - cost_before) as f64 / long.as_nanos() as f64;
        if share > budget {
            self.cheap = 0;
            return Answer::TooDear((share * 1e4) as u32);
        }
        if !self.searched {
            self.searched = true;
            return Answer::Search;
        }
        self.cheap += 1;
        match self.cheap {
            SPANS.. => Answer::Yes,
            _ => Answer::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of a job that launches so many kernels a second and makes so many calls, over some
    /// seconds.
    fn answers(
        price: &mut Price,
        launches: u64,
        calls: u64,
        from_ms: u64,
        to_ms: u64,
    ) -> Vec<Answer> {
        let start = Instant::now();
        let mut answers: Vec<Answer> = (from_ms..to_ms)
            .step_by(40)
            .map(|ms| {
                let cost = ms * launches * LAUNCH_NS / 1000;
                let now = start + Duration::from_millis(ms);
                price.ask(now, cost, ms * calls / 1000, false)
            })
            .collect();
        answers.dedup();
        answers
    }

    #[test]
    fn few_launches_are_affordable_once_all_callers_were_searched_for() {
        let found = answers(&mut Price::new(Some(0.01)), 11_000, 800, 0, 1650);
        use Answer::{Search, Wait, Yes};
        assert_eq!(found, [Wait, Search, Wait, Yes]);
    }

    #[test]
    fn many_launches_are_not_unless_the_host_is_ahead_or_it_was_asked_for() {
        let mut price = Price::new(Some(0.01));
        let found = answers(&mut price, 30_000, 800, 0, 4000);
        // 30 000 times 850 ns in a second.
        let dear = |answer: &Answer| matches!(answer, Answer::TooDear(250..=255));
        assert!(found.iter().any(dear), "{found:?}");
        assert!(!found.contains(&Answer::Yes), "{found:?}");
        assert_eq!(price.ask(Instant::now(), 0, 0, true), Answer::Yes);
        assert_eq!(
            Price::new(None).ask(Instant::now(), 0, 0, false),
            Answer::Yes
        );
    }

    #[test]
    fn a_job_that_does_nothing_yet_is_not_judged() {
        let found = answers(&mut Price::new(Some(0.01)), 0, 1, 0, 10_000);
        assert_eq!(found, [Answer::Wait]);
    }

    #[test]
    fn one_busy_span_begins_the_count_again() {
        let mut price = Price::new(Some(0.01));
        let start = Instant::now();
        let mut ask = |ms: u64, cost_us: u64| {
            price.ask(start + Duration::from_millis(ms), cost_us * 1000, ms, false)
        };
        // 0.5 s of 2 % between two of 0.2 %.
        let costs = [
            (0, 0),
            (500, 1000),
            (540, 1000),
            (1040, 2000),
            (1080, 2000),
            (1580, 12_000),
        ];
        let found = costs.map(|(ms, cost)| ask(ms, cost));
        assert_eq!(found[1], Answer::Search);
        assert_eq!(found[5], Answer::TooDear(200));
        let later = [
            (1620, 12_000),
            (2120, 13_000),
            (2160, 13_000),
            (2660, 14_000),
        ];
        let found = later.map(|(ms, cost)| ask(ms, cost));
        assert_eq!(found[3], Answer::Yes);
        assert_eq!(found[1], Answer::Wait);
    }
}
