//! What a driver does at each statement.
//!
//! [`Driver::statement`] has a line for each. The functions are in files by subject, named as in
//! `script/grammar/`. `script.rs` says how to add a statement.

use super::driver::Driver;
use super::job::Flow;
use crate::script::Statement;

impl<'j> Driver<'j> {
    /// Does these statements, for the ranks of `who`.
    pub(super) fn statements(&mut self, body: &'j [Statement], who: &[bool]) -> Flow {
        for statement in body {
            self.statement(statement, who)?;
        }
        Flow::Continue(())
    }

    fn statement(&mut self, statement: &'j Statement, who: &[bool]) -> Flow {
        match statement {
            Statement::Group { calls, explicit } => self.group(calls, *explicit, who)?,
            Statement::Repeat(times, body) => self.repeat(*times, body, who)?,
            Statement::Only(ranks, body) => self.only(ranks, body, who)?,
            Statement::Rank(ranks, act) => self.rank(ranks, *act)?,
            Statement::Graph(id, body) => self.graph(*id, body, who),
            Statement::Replay(id, times) => self.replay(*id, *times, who),
            Statement::Sleep(by) => self.schedule.sleep(who, *by),
            Statement::Pace(gap) => self.schedule.pace(*gap),
            Statement::Sync => self.sync(who)?,
            Statement::Compute(time) => self.compute(*time, who),
            Statement::Join => self.join(who),
            Statement::Create(id) => self.create(*id, who),
            Statement::Destroy(id) => self.destroy(*id, who)?,
            Statement::Reinit(id) => self.reinit(*id, who)?,
            Statement::Mask(bits) => self.mask(*bits, who),
            Statement::Fault(fault) => self.fault(*fault, who),
        }
        Flow::Continue(())
    }

    fn repeat(&mut self, times: u64, body: &'j [Statement], who: &[bool]) -> Flow {
        for _ in 0..times {
            self.statements(body, who)?;
        }
        Flow::Continue(())
    }

    fn only(&mut self, ranks: &[usize], body: &'j [Statement], who: &[bool]) -> Flow {
        let mut these = vec![false; who.len()];
        for rank in ranks {
            these[*rank] = who[*rank];
        }
        self.statements(body, &these)
    }
}
