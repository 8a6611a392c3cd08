//! What a driver does at each statement.

use super::driver::Driver;
use super::job::{Flow, Stuck};
use crate::fault;
use crate::script::Statement;

impl<'j> Driver<'j> {
    pub(super) fn statements(&mut self, body: &'j [Statement], who: &[bool]) -> Flow {
        for statement in body {
            self.statement(statement, who)?;
        }
        Flow::Continue(())
    }

    pub(super) fn statement(&mut self, statement: &'j Statement, who: &[bool]) -> Flow {
        match statement {
            Statement::Group { calls, explicit } => self.group(calls, *explicit, who)?,
            Statement::Repeat(times, body) => {
                for _ in 0..*times {
                    self.statements(body, who)?;
                }
            }
            Statement::Only(ranks, body) => {
                let mut these = vec![false; who.len()];
                for rank in ranks {
                    these[*rank] = who[*rank];
                }
                self.statements(body, &these)?;
            }
            Statement::Rank(ranks, act) => {
                for rank in ranks {
                    self.act(*rank, *act)?;
                }
            }
            Statement::Graph(id, body) => {
                let mut graph = Vec::new();
                self.capture(body, who, &mut graph);
                self.graphs.insert(*id, graph);
            }
            Statement::Replay(id, times) => {
                for _ in 0..*times {
                    self.replay(*id, who);
                }
            }
            Statement::Sleep(by) => self.schedule.sleep(who, *by),
            Statement::Compute(time) => self.schedule.compute(who, *time),
            Statement::Join => self.schedule.join(who),
            Statement::Pace(gap) => self.schedule.pace(*gap),
            Statement::Sync => {
                self.schedule.sync(who);
                self.drain_host_callbacks();
                for rank in self.mine.clone() {
                    if self.schedule.gone(rank) {
                        return Flow::Break(Stuck);
                    }
                    self.wait_host(rank);
                }
            }
            Statement::Create(id) => self.create(*id, who),
            Statement::Destroy(id) => self.destroy(*id, who)?,
            Statement::Reinit(id) => {
                self.destroy(*id, who)?;
                self.create(*id, who);
            }
            Statement::Fault(fault) => {
                self.fault_seed += 1;
                let mine = self.mine.iter().filter(|r| who[**r]);
                for rank in mine {
                    let open = self.open.iter().filter(|((_, r), _)| r == rank);
                    let comm = open.min().map(|(_, index)| &self.launcher.comms[*index]);
                    if let Some(profiler) = comm.and_then(|c| c.profiler.as_ref()) {
                        fault::play(*fault, profiler, self.fault_seed);
                    }
                }
            }
        }
        Flow::Continue(())
    }
}
