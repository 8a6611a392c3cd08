//! Whether a job can afford CUPTI.
//!
//! Once CUPTI was switched on, it stays before the driver's functions, also between windows. On H200 with
//! CUPTI 13.0, a launch of a kernel then takes 0.8 to 0.9 us of the host's time on top of 7 us. The launch of
//! a graph of ten kernels takes 3.5 us on top of 2.7. Only `cuptiFinalize` removes it, and that breaks CUDA
//! graphs. On a host with other work it is more. FSDP2, bound by its host, ran 10 % slower, and its 12 000
//! launches a second explain only 1 % (bench/README.md). So the question comes before CUPTI is first switched
//! on:
//!
//! - The host is ahead of its GPU (`gpu_events::lead`), or stands still for it for much of the time: what
//!   makes it slower makes that shorter, and costs nothing or little.
//! - Else the GPU may wait for each launch. CUPTI is switched on if what all launches would take longer is
//!   within the budget.
//!
//! Rule: the answer may change from no to yes, and never back, because nothing is gained by that.

use super::driver_calls::HostActivity;
use capture::graphs::Launched;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What CUPTI adds to the launch of a kernel or copy, ns of the host's time, where it is most.
const LAUNCH_NS: u64 = 8_500;
/// What it adds to the launch of a graph.
const GRAPH_NS: u64 = 3_500;
/// A host that stands still for its GPU for this part of the time can be slower.
const WAITS: f64 = 0.25;
/// The rate of launches is measured for at least so long, and over at least so many calls. A job that
/// compiles or loads makes no launches, so its rate says nothing.
const SPAN: Duration = Duration::from_millis(500);
const CALLS: u64 = 16;
/// So many spans in a row must be cheap: the first steps of a job are slower than later ones.
const SPANS: u32 = 2;

/// Graphs of which the shortest launch is kept.
const GRAPHS: usize = 1024;

/// For how long launches of graphs waited for room in their stream. A host that is far enough ahead of its
/// GPU has to, and nothing else shows that in a job that only replays graphs. A launch waited for as long as
/// it took beyond the shortest one of its graph.
#[derive(Default)]
pub struct InLaunches {
    /// By number of the executable graph, ticks.
    shortest: HashMap<u32, u32>,
    /// Ticks.
    waited: u64,
}

impl InLaunches {
    pub fn add(&mut self, launch: &Launched) {
        if self.shortest.len() >= GRAPHS && !self.shortest.contains_key(&launch.exec) {
            return;
        }
        let shortest = self.shortest.entry(launch.exec).or_insert(launch.took);
        *shortest = launch.took.min(*shortest);
        self.waited += u64::from(launch.took - *shortest);
    }

    /// Ticks until now.
    pub fn waited(&self) -> u64 {
        self.waited
    }
}

/// Whether CUPTI may be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is not known yet.
    Wait,
    /// It would be cheap by the launches that are seen. Libraries that have looked the driver up since must
    /// be searched for, so that theirs are seen too.
    Search,
    Yes,
    /// It may slow the job by more than the budget: by this part at most, in units of 0.01 %.
    TooDear(u32),
}

/// See the module.
pub struct Price {
    /// The share of the time that it may cost; `None`: whatever it costs.
    budget: Option<f64>,
    /// Since when it is looked, and what the host had done by then, with its calls.
    since: Option<(Instant, HostActivity, u64)>,
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

    /// Whether windows are to be left out where they cost too much.
    pub fn is_limited(&self) -> bool {
        self.budget.is_some()
    }

    /// Whether it has asked for a search.
    pub fn has_searched(&self) -> bool {
        self.searched
    }

    /// To be asked now and then. `passed` is what the host has done until `now`, and `calls` the number of
    /// NCCL calls and launches of graphs. `ahead`: the host is known to be ahead of its GPU.
    pub fn ask(&mut self, now: Instant, passed: HostActivity, calls: u64, ahead: bool) -> Decision {
        let Some(budget) = self.budget.filter(|_| !ahead) else {
            return Decision::Yes;
        };
        let (since, before, calls_before) = *self.since.get_or_insert((now, passed, calls));
        let long = now - since;
        if long < SPAN || calls.saturating_sub(calls_before) < CALLS {
            return Decision::Wait;
        }
        self.since = None;
        let of_time = |ns: u64| ns as f64 / long.as_nanos() as f64;
        let launches = (passed.launches - before.launches) * LAUNCH_NS;
        let cost = of_time(launches + (passed.graphs - before.graphs) * GRAPH_NS);
        let waited = passed.waited.saturating_sub(before.waited);
        let waits = waited.as_secs_f64() >= WAITS * long.as_secs_f64();
        if cost > budget && !waits {
            self.cheap = 0;
            return Decision::TooDear((cost * 1e4) as u32);
        }
        if !waits && !self.searched {
            self.searched = true;
            return Decision::Search;
        }
        self.cheap += 1;
        match self.cheap {
            SPANS.. => Decision::Yes,
            _ => Decision::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to a job that does so much in a second, over some seconds.
    fn answers(price: &mut Price, second: HostActivity, calls: u64, to_ms: u64) -> Vec<Decision> {
        let start = Instant::now();
        let ask = |ms: u64| {
            let until = |in_a_second: u64| in_a_second * ms / 1000;
            let passed = HostActivity {
                launches: until(second.launches),
                graphs: until(second.graphs),
                waited: second.waited * ms as u32 / 1000,
            };
            let now = start + Duration::from_millis(ms);
            price.ask(now, passed, until(calls), false)
        };
        let mut answers: Vec<Decision> = (0..to_ms).step_by(40).map(ask).collect();
        answers.dedup();
        answers
    }

    fn launching(launches: u64) -> HostActivity {
        HostActivity {
            launches,
            ..HostActivity::default()
        }
    }

    #[test]
    fn few_launches_are_affordable_once_all_callers_were_searched_for() {
        let found = answers(&mut Price::new(Some(0.01)), launching(1000), 800, 1650);
        use Decision::{Search, Wait, Yes};
        assert_eq!(found, [Wait, Search, Wait, Yes]);
        // A graph for each token, with many kernels in it.
        let graphs = HostActivity {
            graphs: 2000,
            ..HostActivity::default()
        };
        let found = answers(&mut Price::new(Some(0.01)), graphs, 2000, 1650);
        assert_eq!(found, [Wait, Search, Wait, Yes]);
    }

    #[test]
    fn many_launches_are_not_unless_the_host_waits_for_its_gpu_or_it_was_asked_for() {
        let mut price = Price::new(Some(0.01));
        let found = answers(&mut price, launching(30_000), 800, 4000);
        let dear = |answer: &Decision| matches!(answer, Decision::TooDear(2500..=2550));
        assert!(found.iter().any(dear), "{found:?}");
        assert!(!found.contains(&Decision::Yes), "{found:?}");
        let now = Instant::now();
        assert_eq!(
            price.ask(now, HostActivity::default(), 0, true),
            Decision::Yes
        );
        let waits = HostActivity {
            waited: Duration::from_millis(300),
            ..launching(30_000)
        };
        let found = answers(&mut Price::new(Some(0.01)), waits, 800, 1200);
        assert_eq!(found, [Decision::Wait, Decision::Yes, Decision::Wait]);
        let forced = Price::new(None).ask(now, HostActivity::default(), 0, false);
        assert_eq!(forced, Decision::Yes);
    }

    #[test]
    fn launches_of_a_graph_that_take_longer_than_its_shortest_waited() {
        let mut waits = InLaunches::default();
        let launch = |exec, took| Launched {
            exec,
            took,
            entered: capture::rows::Ticks(1),
            stream: 7,
            gpu: None,
        };
        // A large graph takes long each time; a small one had to wait.
        let took = [(1, 500), (1, 505), (2, 3), (2, 1003), (2, 4), (1, 500)];
        took.iter()
            .for_each(|(exec, took)| waits.add(&launch(*exec, *took)));
        assert_eq!(waits.waited(), 5 + 1000 + 1);
        (10..10_000).for_each(|exec| waits.add(&launch(exec, 1)));
        assert_eq!(waits.shortest.len(), GRAPHS);
    }

    #[test]
    fn a_job_that_does_nothing_yet_is_not_judged() {
        let found = answers(&mut Price::new(Some(0.01)), launching(0), 1, 10_000);
        assert_eq!(found, [Decision::Wait]);
    }

    #[test]
    fn one_busy_span_begins_the_count_again() {
        let mut price = Price::new(Some(0.01));
        let start = Instant::now();
        let mut ask = |(ms, launches): (u64, u64)| {
            let now = start + Duration::from_millis(ms);
            price.ask(now, launching(launches), ms, false)
        };
        // Half a second of 20 000 launches a second between others of 200.
        let begin = [
            (0, 0),
            (500, 100),
            (540, 100),
            (1040, 200),
            (1080, 200),
            (1580, 10_200),
        ];
        let found = begin.map(&mut ask);
        assert_eq!(found[1], Decision::Search);
        assert_eq!(found[5], Decision::TooDear(1700));
        let later = [
            (1620, 10_200),
            (2120, 10_300),
            (2160, 10_300),
            (2660, 10_400),
        ];
        let found = later.map(&mut ask);
        assert_eq!((found[1], found[3]), (Decision::Wait, Decision::Yes));
    }
}
