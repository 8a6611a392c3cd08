//! For how long a process stood still in the CUDA driver: in synchronisations, and in launches without room.
//!
//! The recorder sums this over the threads that launch kernels, and each call of NCCL has what came since the
//! call before. [`Blocked`] answers for any span of time between calls.
//!
//! Rule: a call's share counts at the call's entry, because it ended before that.

use tables::Process;

/// What a process stood still, by time.
#[derive(Clone, Debug, Default)]
pub struct Blocked {
    /// Entry of each call that has a share, and the sum up to there, ns; both ascend.
    sums: Vec<(i64, u64)>,
}

impl Blocked {
    /// Of a process with all its calls.
    pub fn of(process: &Process) -> Blocked {
        let share = |call: &tables::Call| {
            let extra = process.extras.get((call.extra as usize).checked_sub(1)?)?;
            let known = extra.blocked_ns != 0 && call.api_ns != 0;
            known.then_some((call.api_ns, extra.blocked_ns))
        };
        let mut sums: Vec<(i64, u64)> = process.calls.iter().filter_map(share).collect();
        sums.sort_unstable();
        let mut sum = 0u64;
        for (_, upto) in &mut sums {
            sum = sum.saturating_add(*upto);
            *upto = sum;
        }
        Blocked { sums }
    }

    /// How long it stood still between two moments, ns, to the nearest calls. `None` if it is never seen to
    /// stand still: its driver may not be watched.
    pub fn between(&self, from_ns: i64, to_ns: i64) -> Option<u64> {
        let upto = |moment: i64| {
            let calls = self.sums.partition_point(|(entered, _)| *entered <= moment);
            calls.checked_sub(1).map_or(0, |last| self.sums[last].1)
        };
        (!self.sums.is_empty()).then(|| upto(to_ns).saturating_sub(upto(from_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::calls::Extra;
    use tables::Call;

    #[test]
    fn a_span_has_what_its_calls_bring() {
        let call = |api_ns, extra| Call {
            api_ns,
            extra,
            ..Call::default()
        };
        let extra = |blocked_ns| Extra {
            blocked_ns,
            ..Extra::default()
        };
        let process = Process {
            calls: vec![call(100, 1), call(200, 0), call(300, 2), call(400, 3)],
            extras: vec![extra(10), extra(25), extra(5)],
            ..Process::default()
        };
        let blocked = Blocked::of(&process);
        assert_eq!(blocked.between(0, 99), Some(0));
        assert_eq!(blocked.between(0, 100), Some(10));
        assert_eq!(blocked.between(100, 300), Some(25));
        assert_eq!(blocked.between(150, 1000), Some(30));
        assert_eq!(Blocked::of(&Process::default()).between(0, 100), None);
    }
}
