//! Which algorithm and protocol a collective gets, and what that costs: NCCL's part in a tuning experiment.
//!
//! A [`Chooser`] belongs to one thread of a process. If the script names no protocol for a collective, it
//! takes the cheapest of the script's `choice`s that `NCCL_ALGO` and `NCCL_PROTO` leave. By NCCL's own
//! estimate that is the first. The call then takes the choice's factor times its time, and `noise` spreads
//! it.
//!
//! Rule: every process of a job comes to the same choices and the same noise, because each follows all ranks.
//! Noise depends on the seed (`FAKE_NCCL_SEED`) and on the number of the call, and on nothing else.

use crate::event::Text;
use crate::hash::mix;
use crate::schedule::time;
use crate::script::{Call, Choice, Op, Path, Script};

/// The variable that has the seed of a play's noise.
pub const SEED: &str = "FAKE_NCCL_SEED";

/// Takes a choice for each collective.
pub struct Chooser {
    /// By choice of the script: whether the variables leave it.
    left: Vec<bool>,
    seed: u64,
    calls: u64,
}

impl Chooser {
    /// With the variables that `env` has.
    pub fn new(script: &Script, env: impl Fn(&str) -> Option<String>) -> Chooser {
        let (algorithms, protocols) = (env("NCCL_ALGO"), env("NCCL_PROTO"));
        let left = |choice: &Choice| {
            let name = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
            allows(algorithms.as_deref(), &name(choice.algo))
                && allows(protocols.as_deref(), &name(choice.proto))
        };
        let mut left: Vec<bool> = script.choices.iter().map(left).collect();
        // A wish that nothing can fulfil is not heard.
        if !left.contains(&true) {
            left.fill(true);
        }
        Chooser {
            left,
            seed: env(SEED).and_then(|seed| seed.parse().ok()).unwrap_or(0),
            calls: 0,
        }
    }

    /// The calls of a group, as NCCL makes them. `choose` gets the choices that are left, and the call; it
    /// gives the index of the choice.
    pub fn group(
        &mut self,
        script: &Script,
        calls: &[Call],
        mut choose: impl FnMut(&[bool], &Call) -> Option<usize>,
    ) -> Vec<Call> {
        let mut made = calls.to_vec();
        for call in &mut made {
            self.calls += 1;
            let is_open = call.proto.is_none() && !call.op.is_p2p() && call.path == Path::Kernel;
            if script.choices.is_empty() || !is_open {
                continue;
            }
            let runs = |index: &usize| runs(script.choices[*index].algo, call.op);
            let mut left = self.left.clone();
            for (index, left) in left.iter_mut().enumerate() {
                *left &= runs(&index);
            }
            if !left.contains(&true) {
                left = (0..left.len()).map(|index| runs(&index)).collect();
            }
            let first = left.iter().position(|left| *left);
            let Some(index) = choose(&left, call).or(first) else {
                continue;
            };
            let choice = script.choices[index];
            let noise = 1.0 + script.noise * normal(self.seed, self.calls);
            let members = &script.comms[call.comm].instances[0].members;
            let takes = time(script, call, members) as f64 * choice.factor * noise.max(0.1);
            (call.algo, call.proto) = (choice.algo, Some(choice.proto));
            call.time_ns = Some(takes as u64);
        }
        made
    }
}

/// Whether a value of `NCCL_ALGO` or `NCCL_PROTO` leaves `name`.
fn allows(value: Option<&str>, name: &str) -> bool {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return true;
    };
    let plain = |text: &str| text.replace('_', "").to_uppercase();
    let (except, list) = match value.strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, value),
    };
    list.split(',').any(|one| plain(one) == plain(name)) != except
}

/// Whether NCCL has a collective by an algorithm.
fn runs(algorithm: Text, op: Op) -> bool {
    match algorithm.to_bytes() {
        b"RING" => true,
        b"PAT" => matches!(op, Op::AllGather | Op::ReduceScatter),
        b"NVLS" | b"COLLNET_DIRECT" => !matches!(op, Op::Broadcast | Op::Reduce),
        _ => op == Op::AllReduce,
    }
}

/// A number from a normal distribution around 0, by seed and place (Box and Muller).
fn normal(seed: u64, place: u64) -> f64 {
    let uniform = |of: u64| (mix(seed, of) >> 11) as f64 / (1u64 << 53) as f64;
    let (a, b) = (uniform(2 * place), uniform(2 * place + 1));
    (-2.0 * (1.0 - a).ln()).sqrt() * (b * std::f64::consts::TAU).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Statement;

    const JOB: &str = "ranks 2
        choice RING SIMPLE x1 ; choice RING LL x2 ; choice TREE SIMPLE x3
        all_reduce 4MiB time=1ms";

    fn call(script: &Script) -> Call {
        match script.body.last() {
            Some(Statement::Group { calls, .. }) => calls[0],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_nccl_lacks_is_not_chosen() {
        let job = JOB.replace("all_reduce", "all_gather");
        let script = Script::parse(&job).expect("a script");
        let tree = |name: &str| (name == "NCCL_ALGO").then(|| "Tree".to_owned());
        let calls = Chooser::new(&script, tree).group(&script, &[call(&script)], |left, _| {
            assert_eq!(left, [true, true, false]);
            None
        });
        assert_eq!(calls[0].algo, c"RING");
    }

    fn made(env: &[(&str, &str)]) -> (String, u64) {
        let script = Script::parse(JOB).expect("a script");
        let get = |name: &str| {
            let found = env.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let calls = Chooser::new(&script, get).group(&script, &[call(&script)], |_, _| None);
        let proto = calls[0].proto.expect("chosen").to_string_lossy();
        let how = format!("{} {proto}", calls[0].algo.to_string_lossy());
        (how, calls[0].time_ns.expect("timed"))
    }

    #[test]
    fn variables_choose_as_they_do_in_nccl() {
        let is = |env: &[(&str, &str)], how: &str, ns: u64| {
            assert_eq!(made(env), (how.to_owned(), ns), "{env:?}");
        };
        is(&[], "RING SIMPLE", 1_000_000);
        is(&[("NCCL_PROTO", "LL")], "RING LL", 2_000_000);
        is(&[("NCCL_ALGO", "Tree")], "TREE SIMPLE", 3_000_000);
        is(&[("NCCL_ALGO", "^ring")], "TREE SIMPLE", 3_000_000);
        is(
            &[("NCCL_ALGO", "ring,tree"), ("NCCL_PROTO", "^simple")],
            "RING LL",
            2_000_000,
        );
        // Nothing is both.
        is(
            &[("NCCL_ALGO", "tree"), ("NCCL_PROTO", "ll")],
            "RING SIMPLE",
            1_000_000,
        );
        is(&[("NCCL_ALGO", "nvls")], "RING SIMPLE", 1_000_000);
    }

    #[test]
    fn noise_is_spread_as_asked_and_a_seed_repeats_it() {
        let values: Vec<f64> = (0..4000).map(|place| normal(7, place)).collect();
        let mean = values.iter().sum::<f64>() / 4000.0;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4000.0;
        assert!(
            mean.abs() < 0.06 && (0.9..1.1).contains(&variance),
            "{mean} {variance}"
        );
        assert_eq!(normal(7, 3), normal(7, 3));
        assert_ne!(normal(7, 3), normal(8, 3));
    }
}
