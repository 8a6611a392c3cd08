//! The script: a job on one screen.
//!
//! [`Script::parse`] turns the text into [`Statement`]s with every name resolved, so that playing it can't
//! fail on a word. `script/grammar.rs` has a table of all words that begin a statement.
//! `docs/reference/fake-nccl.md` describes them for users.
//!
//! Rule: every process reads the same script and follows all ranks. If only some ranks do something, the
//! script names them. So each process knows what the other ranks do.
//!
//! # Adding a statement
//!
//! 1. `script/statement.rs`: add a variant to [`Statement`], and say what happens in the job.
//! 2. `script/grammar/`: add a function that reads the statement, in the file of its subject, and a row to
//!    the table in `script/grammar.rs`. CUDA graphs are in `graphs.rs`. Kernels of the program's own, streams
//!    and stream waits are in `streams.rs`. A new subject gets a file. Add the statement to the test
//!    `whole_grammar_on_one_screen` below.
//! 3. `schedule.rs` or `schedule/`: if the statement takes time or holds something up, add a function that
//!    says how, for all ranks.
//! 4. `play/statements.rs`: add an arm to the match; the compiler asks for it. What the ranks of this process
//!    do is a function in the file of that subject in `play/`. State that outlives the statement is a field
//!    in `play/driver.rs`. What the CUDA runtime would hold is in `play/cuda.rs`.
//! 5. `nccl/`: if the statement changes which callbacks come, change the file of that event or mechanism.
//! 6. `docs/reference/fake-nccl.md`: add a row. The test `documentation_lists_every_word` asks for it.
//!
//! A setting of the whole job is a field of [`Script`] (`script/job.rs`), and `setting` in the table's row. A
//! call is a row of [`Op`] (`script/call.rs`), with what NCCL makes of it in `nccl/plan.rs`.

mod call;
mod choice;
mod error;
mod grammar;
mod job;
mod parser;
mod statement;
mod tokens;
mod values;

use parser::Parser;

pub use crate::fault::{Fault, FAULTS};
pub use call::{Call, Op, Path, Peer};
pub use choice::Choice;
pub use error::Error;
pub use grammar::{calls, statements};
pub use job::{Comm, Instance, Script};
pub use statement::{Act, Statement};
pub use values::datatype_word;

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first line that can't be read, with what was expected there.
    pub fn parse(source: &str) -> Result<Script, Error> {
        let mut parser = Parser::new(source, grammar::statement);
        let body = parser.statements(false)?;
        let mut script = parser.script;
        script.body.extend(body);
        Ok(script)
    }
}

#[cfg(test)]
mod tests {
    use super::values::{bytes, nanos};
    use super::*;

    #[test]
    fn whole_grammar_on_one_screen() {
        let source = "nccl 2.30.7
            ranks 8
            hosts 2
            per_process 2 ; one_thread ; net_plugin ; cuda ; lead 60ms ; linger 1s ; host_cost 20us
            virtual_time
            gpu_offset 3 -850us
            host_clock 1 -70ms
            load_kernels 0,2 1.5s
            choice RING SIMPLE x1 ; choice TREE LL x0.8 ; noise 2.5%
            comm dp ranks 0..7 name \"data parallel\"   # a comment
            comm tp split dp every 2
            comm odd split dp colors 0 1 - 1 0 1 0 1
            comm less shrink dp without 3,5 share hash 0x1f
            repeat 45 { all_reduce 64MiB bf16 comm=dp algo=TREE proto=SIMPLE channels=16 time=1.2ms }
            rank 2 late 5ms
            rank 3 slow 1ms
            group { send 1MiB to=+1 ; recv 1MiB from=-1 }
            all_to_all 4MiB inplace ; gather 1MiB root=1 ; scatter 1MiB comm=tp
            graph g { all_reduce 1KiB x16 }
            replay g x10
            rate 10000/s ; sleep 10ms ; sync ; rate off
            compute 2ms ; join
            rank 0..3 { broadcast 1KiB comm=tp tag=7 }
            mask none ; mask 0x1e
            fault stale_stop
            reinit tp ; destroy dp
            rank 2 stuck send_network step=5 channel=1
            rank 3 drag recv_flush 2ms
            rank 3 kill ; rank 4 exit 3 ; no_destroy";
        let script = Script::parse(source).unwrap();
        let words: Vec<&str> = source.split_whitespace().collect();
        let missing = |word: &&str| !words.contains(word);
        assert_eq!(statements().into_iter().find(missing), None);
        assert_eq!(script.nccl.to_string(), "2.30.7");
        assert_eq!(script.comms.len(), 5);
        assert_eq!(script.comms[1].instances.len(), 4);
        assert_eq!(script.comms[2].instances[1].members, [1, 3, 5, 7]);
        assert_eq!(script.comms[3].instances[0].members, [0, 1, 2, 4, 6, 7]);
        assert_eq!(script.comms[3].instances[0].hash, 0x1f);
        assert_eq!(
            (script.comms[2].shares, script.comms[3].shares),
            (None, Some(0))
        );
        assert_eq!(script.gpu_offset_ns[3], -850_000);
        assert_eq!(script.host_clock_ns, [0, -70_000_000]);
        assert_eq!(script.load_kernels_ns[2], 1_500_000_000);
        assert_eq!((script.choices.len(), script.noise), (2, 0.025));
        assert_eq!(
            (script.choices[1].algo, script.choices[1].factor),
            (c"TREE", 0.8)
        );
        assert!(!script.destroy && script.one_thread);
        assert_eq!((script.host(3), script.host(4)), (0, 1));
    }

    #[test]
    fn errors_name_line_expectation_and_finding() {
        let error = |source| Script::parse(source).unwrap_err().to_string();
        assert!(error("ranks 2\nall_redcue 1MiB").starts_with("line 2: expected a statement"));
        assert!(error("ranks 2\nall_redcue 1MiB").ends_with("found `all_redcue`"));
        for word in [statements(), calls()].concat() {
            let error = error("all_redcue 1MiB");
            assert!(
                error.contains(&format!("{word}, ")) || error.contains(&format!("{word})")),
                "{word}"
            );
        }
        assert_eq!(
            error("all_reduce"),
            "line 1: expected a size like 64MiB, found the end of the statement"
        );
        assert_eq!(
            error("ranks 4\nrank 5 kill"),
            "line 2: expected ranks below 4, like 2, 0..7 or 0,3,4, found `5`"
        );
        assert!(error("ranks 2\nhosts 2\nhost_clock 2 1ms").contains("hosts below 2"));
        assert!(error("nccl 2.28.8").contains("an examined release (2.23.4"));
        assert_eq!(
            error("send 1KiB"),
            "line 1: expected to=, found the end of the statement"
        );
        assert!(error("all_reduce 1KiB comm=dp").contains("found `comm=dp`"));
        assert!(error("repeat 3 {\nall_reduce 1KiB").contains("expected `}`"));
        assert!(error("all_reduce 1KiB\nranks 4").contains("job settings before"));
        assert!(error("choice RING FAST x1").contains("LL, LL128 or SIMPLE, found `FAST`"));
        assert!(error("choice RING LL 0").contains("a factor like x1.2, found `0`"));
        assert!(error("noise 99%").contains("up to 25%, found `99%`"));
        assert!(error("fault nothing").contains("stale_stop, double_stop"));
        assert!(error("rank 0 drag send_queued 1ms").contains("recv_flush, recv_gpu, found"));
        assert!(error("rank 0 stuck wire").contains("one of send_gpu, send_peer, send_network"));
        assert!(error("rank 0 stuck send_gpu steps=1").contains("expected step=N or channel=N"));
    }

    #[test]
    fn every_fault_has_its_word_once() {
        for (i, (fault, word, _)) in FAULTS.iter().enumerate() {
            assert_eq!(*fault as usize, i);
            assert_eq!(FAULTS.iter().filter(|f| f.1 == *word).count(), 1);
        }
        for (i, (op, _, _)) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, i);
        }
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(bytes("1.5KiB"), Some(1536));
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("1XB"), None);
        assert_eq!(nanos("1.2ms"), Some(1_200_000));
        assert_eq!(nanos("5"), None);
        assert_eq!(Peer::Next(-1).of(0, 8), 7);
    }
}
