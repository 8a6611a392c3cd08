//! The lead: orders the ranks, decides when enough is measured, and notices the one that hangs.
//!
//! [`Lead::run`] goes through the cases of the plan; [`crate::ranks`] has the sockets and what is known of
//! each rank.
//!
//! Rule: an order goes to all ranks, and the next one only once all have answered, so all make the same
//! number of calls.

use crate::calls::{BatchShape, CallsFile, Made};
use crate::function::Function;
use crate::link::{Batch, Case, Device, Order, Reply};
use crate::meet::Name;
use crate::plan::{Length, Mode, Placement, Plan};
use crate::ranks::{Ranks, Trouble};
use crate::summary::Stress;
use crate::table::{self, deviation, dotted, mean, percentiles, Figures, Spread, Table, TableRow};
use crate::worker::token;
use std::time::{Duration, Instant};

/// A batch is to take about this long where the length is given as time.
const BATCH: f64 = 0.1;
/// Steps of one batch at most; answers hold some numbers for each.
const MOST_STEPS: u64 = 4096;

/// Who follows the run.
pub trait Watch {
    /// What is being measured now.
    fn at(&mut self, what: &str, done: u64, of: u64);
    /// Lines of the table.
    fn print(&mut self, text: &str);
    /// Something to note.
    fn note(&mut self, text: &str);
}

/// The lead of a run.
pub struct Lead<'a> {
    /// The ranks.
    pub ranks: Ranks,
    /// What is to be measured.
    pub plan: &'a Plan,
    /// Where every call goes.
    pub calls: Option<CallsFile>,
    /// Who follows.
    pub watch: &'a mut dyn Watch,
}

/// What the ranks measured for a case, in ns for each call.
#[derive(Default)]
struct Measured {
    /// Longest GPU time over ranks of each step that was not set apart, by call.
    times: Vec<f64>,
    skewed: u64,
    /// How far the ranks of a host started each step apart; back to back, each batch.
    skews: Vec<f64>,
    steps: u64,
    /// Sums over ranks and steps.
    wall: f64,
    gpu: f64,
    host: f64,
}

/// A run that ended before its end.
#[derive(Debug)]
pub struct Ended {
    /// Why.
    pub why: Trouble,
    /// What was measured until then.
    pub table: Table,
}

impl From<Trouble> for Box<Ended> {
    fn from(why: Trouble) -> Box<Ended> {
        let table = Table::default();
        Box::new(Ended { why, table })
    }
}

impl Lead<'_> {
    /// Measures all cases; prints the table row by row, and returns it. The table of calls is completed
    /// however it ends.
    ///
    /// # Errors
    /// [`Trouble::Setup`] before the first call was timed, [`Trouble::Failed`] from then on; with the rows
    /// until then.
    pub fn run(mut self) -> Result<Table, Box<Ended>> {
        let mut table = Table::default();
        let measured = self.measure(&mut table);
        let kept = self.calls.take().map_or(Ok(()), CallsFile::finish);
        match measured.and(kept.map_err(Trouble::Setup)) {
            Ok(()) => Ok(table),
            Err(why) => Err(Box::new(Ended { why, table })),
        }
    }

    fn measure(&mut self, table: &mut Table) -> Result<(), Trouble> {
        let devices = self.open()?;
        let n = self.ranks.count();
        self.plan
            .check_for(n)
            .map_err(|why| Trouble::Setup(anyhow::anyhow!(why)))?;
        *table = self.about(&devices);
        self.watch.print(&table.head());
        if n == 1 {
            self.watch.note(
                "one rank: NCCL copies within the GPU and communicates with nobody, so busbw is 0; more GPUs \
                (--gpus N) show more",
            );
        }
        let _name = self.init(&devices)?;
        let plan = self.plan;
        let (mut number, of) = (0, plan.functions.len() as u64 * plan.sizes.len() as u64);
        for function in &plan.functions {
            self.watch.print(&table::header(Some(*function), true));
            for bytes in &plan.sizes {
                number += 1;
                let Some(row) = self.row(*function, *bytes, (number, of))? else {
                    continue;
                };
                self.watch.print(&table::line(&row));
                table.rows.push(row);
            }
        }
        for (at, function) in plan.functions.iter().enumerate() {
            let case = 2 * (number + 1 + at as u64);
            table.stress.extend(self.stress(*function, case)?);
        }
        self.watch.print(&table.foot());
        self.ranks.end()
    }

    /// Has all ranks open what they need.
    fn open(&mut self) -> Result<Vec<Device>, Trouble> {
        self.watch.at("opening NCCL and the GPUs", 0, 0);
        let answers = self
            .ranks
            .ask_all(Order::Open, "opening NCCL and the GPU", Duration::ZERO);
        let answers = answers.map_err(Trouble::into_setup)?;
        let devices: Vec<Device> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                Reply::Opened(device) => Some(*device),
                _ => None,
            })
            .collect();
        let other = devices
            .iter()
            .position(|device| device.nccl != devices[0].nccl);
        match other {
            Some(rank) => Err(Trouble::Setup(anyhow::anyhow!(
                "rank {rank} has NCCL {} and rank 0 has {}; all need the same\n  hint: --nccl PATH names one \
                for all",
                dotted(devices[rank].nccl),
                dotted(devices[0].nccl)
            ))),
            None if devices.len() == self.ranks.count() as usize => Ok(devices),
            None => Err(Trouble::Setup(anyhow::anyhow!("a rank gave an answer to another question"))),
        }
    }

    /// Has all ranks make the communicator. What they share on this host is theirs to remove, and ours where
    /// they were killed.
    fn init(&mut self, devices: &[Device]) -> Result<Name, Trouble> {
        self.watch.at("ncclCommInitRank", 0, 0);
        let id = devices[0].id.clone().unwrap_or_default();
        let token = token().map_err(Trouble::Setup)?;
        let name = Name::new(&token);
        let hosts = self.ranks.hosts();
        let orders = (0..self.ranks.count()).map(|rank| {
            let host = hosts.iter().find(|members| members.contains(&rank));
            let members = host.map_or(&[][..], |members| members);
            Order::Init {
                id: id.clone(),
                token: token.clone(),
                local: members.iter().position(|m| *m == rank).unwrap_or(0) as u32,
                locals: members.len() as u32,
                hosts: hosts.len() as u32,
            }
        });
        let orders = orders.collect();
        self.ranks
            .ask(orders, "ncclCommInitRank", Duration::ZERO)
            .map_err(Trouble::into_setup)?;
        Ok(name)
    }

    fn about(&self, devices: &[Device]) -> Table {
        let plan = self.plan;
        let length = match plan.length {
            Length::Iterations(n) => format!("{n} iterations"),
            Length::Seconds(s) => format!("{s} s"),
        };
        let how = match (plan.group, plan.graph) {
            (1, 0) => "eager".to_owned(),
            (group, 0) => format!("groups of {group}"),
            (1, graph) => format!("CUDA graphs of {graph}"),
            (group, graph) => format!("CUDA graphs of {graph} groups of {group}"),
        };
        let hosts = self.ranks.hosts().len();
        let (n, s) = (self.ranks.count(), |n: usize| if n == 1 { "" } else { "s" });
        let grouped = plan.functions.iter().filter(|f| {
            devices[0].grouped.contains(f)
                && !matches!(f, Function::SendRecv | Function::SendRecvPairs)
        });
        let grouped: Vec<&str> = grouped.map(|f| f.name()).collect();
        let apart = match plan.mode {
            Mode::Single => format!(
                "; calls with a start skew above {} us set apart",
                plan.max_skew_us
            ),
            Mode::BackToBack => String::new(),
        };
        let mut about = vec![
            format!("ncclscope bench {}; NCCL {}", env!("CARGO_PKG_VERSION"), dotted(devices[0].nccl)),
            format!(
                "{n} rank{} on {hosts} host{}; {} mode, {how}; {length} after {} to warm up{apart}",
                s(n as usize),
                s(hosts),
                plan.mode.name(),
                plan.warmup
            ),
            match plan.mode {
                Mode::Single => "time: mean over calls of the longest GPU time over ranks (CUDA \
                    events)".to_owned(),
                Mode::BackToBack => {
                    "time: host time from the first call to the end of the last by calls, mean over ranks, \
                    as in nccl-tests".to_owned()
                }
            },
        ];
        if !grouped.is_empty() {
            about.push(format!(
                "{}: groups of ncclSend and ncclRecv in this NCCL",
                grouped.join(", ")
            ));
        }
        let nccl_version = Some(devices[0].nccl);
        let devices = devices
            .iter()
            .zip(self.ranks.hellos())
            .map(|(device, hello)| table::Device {
                rank: hello.rank,
                group: 0,
                pid: hello.pid,
                hostname: hello.host.clone(),
                device: device.device,
                device_hex: device.bus.to_lowercase(),
                device_info: device.name.clone(),
            });
        Table {
            about,
            nccl_version,
            devices: devices.collect(),
            ..Table::default()
        }
    }

    /// One row; `None` where the size is too small for the ranks to share.
    fn row(
        &mut self,
        function: Function,
        bytes: u64,
        (number, of): (u64, u64),
    ) -> Result<Option<TableRow>, Trouble> {
        let plan = self.plan;
        let n = self.ranks.count();
        let shape = plan.shape(function, bytes, n);
        if shape.count == 0 {
            self.watch.note(&format!(
                "{} of {bytes} bytes: less than 16 bytes, or one element, for each of {n} ranks; left out",
                function.name()
            ));
            return Ok(None);
        }
        let size = (shape.elements * plan.datatype.size()) as u64;
        let mut row = TableRow {
            function: Some(function),
            size,
            count: shape.count as u64,
            datatype: plan.datatype.name().to_owned(),
            redop: if function.reduces() {
                plan.reduction.name()
            } else {
                "none"
            }
            .to_owned(),
            root: if function.has_root() {
                plan.root.into()
            } else {
                -1
            },
            ..TableRow::default()
        };
        for in_place in [false, true] {
            let wanted = match plan.placement {
                Placement::Both => true,
                Placement::In => in_place,
                Placement::Out => !in_place,
            };
            if !wanted || (in_place && !function.in_place()) {
                continue;
            }
            let place = if in_place { "in place" } else { "out of place" };
            self.watch.at(
                &format!("{} of {size} bytes, {place}", function.name()),
                number - 1,
                of,
            );
            let case = Case {
                function,
                bytes,
                in_place,
                number: 2 * number + u64::from(in_place),
            };
            let figures = self.side(case, size, shape.count as u64)?;
            if figures.time_us.is_none() {
                self.watch.note(&format!(
                    "{} of {size} bytes, {place}: every call was set apart, its ranks started more than {} \
                     us from each other\n  hint: other work on the CPUs delays the starts; --max-skew TIME \
                     allows more",
                    function.name(),
                    plan.max_skew_us
                ));
            }
            if in_place {
                row.in_place = Some(figures)
            } else {
                row.out_of_place = Some(figures)
            }
        }
        Ok(Some(row))
    }

    /// Makes steps without a wait between them; `None` if no such run is wanted, or the size is too small.
    fn stress(&mut self, function: Function, number: u64) -> Result<Option<Stress>, Trouble> {
        let plan = self.plan;
        let Some((steps, bytes)) = plan.stress else {
            return Ok(None);
        };
        let shape = plan.shape(function, bytes, self.ranks.count());
        if shape.count == 0 {
            return Ok(None);
        }
        let size = (shape.elements * plan.datatype.size()) as u64;
        let case = Case {
            function,
            bytes,
            in_place: plan.placement == Placement::In && function.in_place(),
            number,
        };
        let record = Record {
            case,
            size,
            count: shape.count as u64,
            plan,
        };
        let what = format!("{steps} × {} of {size} bytes", function.name());
        self.watch.at(&what, 0, 0);
        self.ranks
            .ask_all(Order::Prepare(case), &what, Duration::ZERO)?;
        self.keep(&record, "warmup", 0, &[])?;
        let warmup = self.batches(false, plan.warmup.max(1), &what, 0.0)?;
        self.keep(&record, "warmup", 1, &warmup)?;
        let expected = slowest(&warmup) / plan.warmup.max(1) as f64 * steps as f64;
        let batches = self.batches(false, steps, &what, expected)?;
        self.keep(&record, "stress", 0, &batches)?;
        Ok(Some(Stress {
            function,
            size,
            operations: steps * plan.calls_per_step(),
            time_s: slowest(&batches),
        }))
    }

    /// Measures one case.
    fn side(&mut self, case: Case, size: u64, count: u64) -> Result<Figures, Trouble> {
        let plan = self.plan;
        let name = case.function.name();
        let what = format!("{name} of {size} bytes");
        let record = Record {
            case,
            size,
            count,
            plan,
        };
        self.ranks
            .ask_all(Order::Prepare(case), &what, Duration::ZERO)?;
        self.keep(&record, "warmup", 0, &[])?;
        let mut step_s = 0.0;

        if plan.warmup > 0 {
            let batches = self.batches(false, plan.warmup, &what, 0.0)?;
            self.keep(&record, "warmup", 1, &batches)?;
            step_s = slowest(&batches) / plan.warmup as f64;
        }
        let (mut measured, mut next) = (Measured::default(), 0);
        let began = Instant::now();
        while let Some(steps) =
            self.next_batch(measured.steps, step_s, began.elapsed().as_secs_f64())
        {
            let batches = self.batches(true, steps, &what, step_s * steps as f64)?;
            step_s = slowest(&batches) / steps as f64;
            let skews = self.skews(&batches);
            measured.add(&batches, &skews, plan);
            self.keep(&record, plan.mode.name(), next, &batches)?;
            next += steps * plan.calls_per_step();
        }
        let n = self.ranks.count();
        let meet = self.ranks.hosts().iter().any(|members| members.len() > 1);
        let mut figures = measured.figures(case.function, n, size, plan, meet);
        if plan.check {
            let answers =
                self.ranks
                    .ask_all(Order::Check, &format!("{what}, data check"), Duration::ZERO)?;
            self.keep(&record, "check", 0, &[])?;
            figures.wrong = Some(
                answers
                    .iter()
                    .map(|a| if let Reply::Checked(n) = a { *n } else { 0 })
                    .sum(),
            );
        }
        Ok(figures)
    }

    /// How many steps come next; `None` when enough is measured. The ranks have none of this to decide, so
    /// all agree.
    fn next_batch(&self, done: u64, step_s: f64, elapsed: f64) -> Option<u64> {
        let whole = self.plan.mode == Mode::BackToBack;
        match self.plan.length {
            Length::Iterations(n) if whole => (done == 0).then_some(n),
            Length::Iterations(n) => Some((n - done).min(MOST_STEPS)).filter(|steps| *steps > 0),
            Length::Seconds(limit) if done > 0 && elapsed >= limit => None,
            Length::Seconds(_) if step_s <= 0.0 => Some(1),
            Length::Seconds(limit) => {
                let left = (limit - elapsed).clamp(0.0, BATCH) / step_s;
                Some((left.ceil() as u64).clamp(1, MOST_STEPS))
            }
        }
    }

    fn batches(
        &mut self,
        timed: bool,
        steps: u64,
        what: &str,
        expected_s: f64,
    ) -> Result<Vec<Batch>, Trouble> {
        // Ten times what it should take is not yet a hang.
        let more = Duration::from_secs_f64((10.0 * expected_s).min(86_400.0));
        let answers = self
            .ranks
            .ask_all(Order::Run { timed, steps }, what, more)?;
        let batches: Vec<Batch> = answers
            .into_iter()
            .filter_map(|answer| match answer {
                Reply::Ran(batch) if batch.start.len() as u64 == steps => Some(batch),
                _ => None,
            })
            .collect();
        if batches.len() < self.ranks.count() as usize {
            return Err(Trouble::Failed(format!(
                "{what}: a rank did not make the {steps} steps of a batch"
            )));
        }
        Ok(batches)
    }

    /// For each step and rank, how long after the first rank of its host it began, ns.
    fn skews(&self, batches: &[Batch]) -> Vec<Vec<i64>> {
        let mut skews: Vec<Vec<i64>> = batches.iter().map(|b| b.start.clone()).collect();
        for members in self.ranks.hosts() {
            let starts = || members.iter().filter_map(|m| batches.get(*m as usize));
            let steps = starts().map(|b| b.start.len()).min().unwrap_or(0);
            let first = |step: usize| starts().map(|b| b.start[step]).min().unwrap_or(0);
            let firsts: Vec<i64> = (0..steps).map(first).collect();
            for member in members.iter().filter(|m| (**m as usize) < batches.len()) {
                let skews = skews[*member as usize].iter_mut();
                skews.zip(&firsts).for_each(|(skew, first)| *skew -= first);
            }
        }
        skews
    }

    /// Writes a batch's calls; those of one untimed call where there is no batch.
    fn keep(
        &mut self,
        record: &Record,
        mode: &str,
        first: u64,
        batches: &[Batch],
    ) -> Result<(), Trouble> {
        let skews = self.skews(batches);
        let pids: Vec<u32> = self.ranks.hellos().map(|hello| hello.pid).collect();
        let Some(calls) = &mut self.calls else {
            return Ok(());
        };
        let plan = record.plan;
        for (rank, pid) in (0..).zip(pids) {
            let kind = BatchShape {
                function: record.case.function.name(),
                bytes: record.size,
                count: record.count,
                datatype: plan.datatype.nccl_name(),
                in_place: record.case.in_place,
                mode,
                group: if batches.is_empty() { 1 } else { plan.group },
                rank,
                pid,
            };
            let per_step = plan.calls_per_step();
            let done = match batches.get(rank as usize) {
                None => calls.push(
                    &kind,
                    std::iter::once(Made {
                        iteration: first,
                        start_ns: None,
                        skew_ns: None,
                        time_ns: None,
                        host_ns: None,
                    }),
                ),
                Some(batch) => {
                    let steps = batch.start.len() as u64;
                    let timed = !matches!(mode, "warmup" | "stress");
                    let made = |index: u64| {
                        let step = (index / per_step) as usize;
                        // Back to back, the mean of all.
                        let whole = || batch.gpu_total / steps as i64;
                        let time = batch.gpu.get(step).copied().unwrap_or_else(whole);
                        Made {
                            iteration: first + index,
                            start_ns: Some(batch.start[step]),
                            skew_ns: timed.then(|| skews[rank as usize][step]),
                            time_ns: timed.then_some(time / per_step as i64),
                            host_ns: Some(batch.host[step] / per_step as i64),
                        }
                    };
                    calls.push(&kind, (0..steps * per_step).map(made))
                }
            };
            done.map_err(|error| Trouble::Failed(format!("{error:#}")))?;
        }
        Ok(())
    }
}

/// What the rows of a case have in common.
struct Record<'a> {
    case: Case,
    size: u64,
    count: u64,
    plan: &'a Plan,
}

impl Measured {
    fn add(&mut self, batches: &[Batch], skews: &[Vec<i64>], plan: &Plan) {
        let steps = batches[0].start.len();
        let per_step = plan.calls_per_step() as f64;
        self.steps += steps as u64;
        for batch in batches {
            self.wall += batch.wall as f64 / per_step;
            self.gpu += batch.gpu_total as f64 / per_step;
            self.host += batch.host.iter().sum::<i64>() as f64 / per_step;
        }
        let skew = |step: usize| skews.iter().map(|rank| rank[step]).max().unwrap_or(0);
        if plan.mode == Mode::BackToBack {
            self.skews.push(skew(0) as f64);
            return;
        }
        for step in 0..steps {
            let skew = skew(step);
            self.skews.push(skew as f64);
            if skew as f64 > plan.max_skew_us * 1e3 {
                self.skewed += plan.calls_per_step();
                continue;
            }
            let longest = batches.iter().filter_map(|batch| batch.gpu.get(step)).max();
            self.times.extend(longest.map(|ns| *ns as f64 / per_step));
        }
    }

    /// `meet` is whether ranks share a host, so that their starts compare.
    fn figures(
        self,
        function: Function,
        ranks: u32,
        bytes: u64,
        plan: &Plan,
        meet: bool,
    ) -> Figures {
        let steps = f64::from(ranks) * self.steps.max(1) as f64;
        let us = |ns: f64| ns / 1e3;
        let skews = percentiles(self.skews);
        let (time, percentiles, deviation_us, calls) = match plan.mode {
            Mode::Single => {
                let calls = self.times.len() as u64 * plan.calls_per_step();
                let times: Vec<f64> = self.times.into_iter().map(us).collect();
                let deviation = deviation(&times);
                let mean = mean(times.iter().copied());
                (mean, percentiles(times), deviation, calls)
            }
            Mode::BackToBack => (
                Some(us(self.wall / steps)),
                None,
                None,
                self.steps * plan.calls_per_step(),
            ),
        };
        Figures {
            spread: Some(Spread {
                calls: Some(calls),
                skew_us: skews.filter(|_| meet).map(|skews| us(skews[0])),
                skewed: self.skewed,
                percentiles,
                deviation_us,
                gpu_us: Some(us(self.gpu / steps)),
                host_us: us(self.host / steps),
            }),
            ..Figures::new(function, ranks, bytes, time)
        }
    }
}

/// Seconds of the slowest rank.
fn slowest(batches: &[Batch]) -> f64 {
    batches.iter().map(|batch| batch.wall).max().unwrap_or(0) as f64 / 1e9
}
