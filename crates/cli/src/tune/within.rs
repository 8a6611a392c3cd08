//! Settings tried within one run, by the tuner plugin.
//!
//! [`Plan`] is what the plugin is told: arms, blocks, and the calls that take part. The job runs once, and
//! its steps are held against the blocks that the plugin logged.
//!
//! Rule: a plan has only what every rank reads the same.

use super::arms::Arm;
use anyhow::{bail, Context};
use nccl_abi::names::{ALGOS, FUNCS, PROTOS};
use std::path::{Path, PathBuf};

/// The tuner plugin.
pub const PLUGIN: &str = "libnccl_tuner_ncclscope.so";
/// NVIDIA's file of settings.
pub const CSV: &str = "nccl_tuner.conf";
/// The collectives that NVIDIA's file knows.
const KNOWN: [&str; 5] = [
    "Broadcast",
    "Reduce",
    "AllGather",
    "ReduceScatter",
    "AllReduce",
];

/// Which calls take part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallFilter {
    /// Only this function, as NCCL names it.
    pub function: Option<String>,
    /// Only these bytes.
    pub bytes: Option<(u64, u64)>,
}

/// What an arm asks NCCL for; `None` leaves it to NCCL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    algorithm: Option<&'static str>,
    protocol: Option<&'static str>,
    channels: Option<u8>,
}

impl Wish {
    /// What the variables of an arm ask for.
    pub fn of(arm: &Arm) -> anyhow::Result<Wish> {
        let mut wish = Wish::default();
        for (name, value) in &arm.variables {
            match name.as_str() {
                "NCCL_ALGO" => wish.algorithm = Some(one(&ALGOS, name, value)?),
                "NCCL_PROTO" => wish.protocol = Some(one(&PROTOS, name, value)?),
                "NCCL_MAX_NCHANNELS" => {
                    let channels = value.parse().ok().filter(|n| (1..=64).contains(n));
                    let expected = || format!("{name}: expected 1 to 64, found `{value}`");
                    wish.channels = Some(channels.with_context(expected)?);
                }
                _ => bail!(
                    "--within can't try {name}: NCCL reads it once, when the job starts\n  hint: leave \
                     --within out; it can try NCCL_ALGO, NCCL_PROTO and NCCL_MAX_NCHANNELS"
                ),
            }
        }
        Ok(wish)
    }

    /// As the plugin reads it.
    fn words(&self) -> String {
        let channels = self.channels.map_or("-".to_owned(), |n| n.to_string());
        let or = |word: Option<&'static str>| word.unwrap_or("-");
        format!("{}/{}/{channels}", or(self.algorithm), or(self.protocol))
    }

    /// Lines of NVIDIA's file for communicators of this size; `None` if it needs more than was asked for.
    /// `called` are the functions of the job.
    pub fn csv(
        &self,
        calls: &CallFilter,
        called: &[String],
        ranks: u32,
        nodes: u32,
    ) -> Option<String> {
        let (algorithm, protocol) = (self.algorithm?, self.protocol?);
        let (low, high) = calls.bytes.unwrap_or((0, i64::MAX as u64));
        let channels = self.channels.map_or(-1, i32::from);
        let takes = |function: &&&str| {
            let named = calls
                .function
                .as_ref()
                .is_none_or(|only| only == **function);
            let can = analyze::algorithms::algorithms_of(function).contains(&algorithm);
            named && can && called.iter().any(|called| called == **function)
        };
        let line = |function: &&str| {
            format!(
                "{},{low},{high},{},{},{channels},{nodes},{ranks},-1,-1\n",
                function.to_lowercase(),
                algorithm.to_lowercase(),
                protocol.to_lowercase()
            )
        };
        let lines: String = KNOWN.iter().filter(takes).map(line).collect();
        (!lines.is_empty()).then(|| format!("# written by ncclscope tune --within\n{lines}"))
    }
}

/// One name of `names`, however it is spelled.
fn one(names: &[&'static str], variable: &str, value: &str) -> anyhow::Result<&'static str> {
    let plain = |text: &str| text.replace('_', "").to_uppercase();
    let found = names.iter().find(|name| plain(name) == plain(value));
    let expected = || {
        format!(
            "{variable}: expected one of {} with --within, found `{value}`",
            names.join(", ")
        )
    };
    found.copied().with_context(expected)
}

/// The variable that tells the plugin all of it.
pub fn plan(
    wishes: &[Wish],
    calls: &CallFilter,
    block: u64,
    seed: u64,
    out: &Path,
) -> anyhow::Result<String> {
    let words: Vec<String> = wishes.iter().map(Wish::words).collect();
    let mut plan = format!("arms={} block={block} seed={seed}", words.join(";"));
    if let Some(function) = &calls.function {
        plan += &format!(" function={function}");
    }
    if let Some((low, high)) = calls.bytes {
        plan += &format!(" bytes={low}-{high}");
    }
    let out = std::path::absolute(out)?;
    let shown = || format!("`{}` is not UTF-8", out.display());
    Ok(format!("{plan} out={}", out.to_str().with_context(shown)?))
}

/// A function by the name of NCCL or of nccl-tests.
pub fn function(text: &str) -> Result<String, String> {
    let plain = |text: &str| text.replace('_', "").to_lowercase();
    let found = KNOWN.iter().find(|name| plain(name) == plain(text));
    let known = found.filter(|name| FUNCS.contains(name));
    let expected = || format!("expected one of {}", KNOWN.join(", "));
    known.map(|name| (*name).to_owned()).ok_or_else(expected)
}

/// `1K..4M`.
pub fn bytes(text: &str) -> Result<(u64, u64), String> {
    let expected = || "expected two sizes, like 64K..4M".to_owned();
    let (low, high) = text.split_once("..").ok_or_else(expected)?;
    let size = |text: &str| crate::measured::size(text).map_err(|_| expected());
    let (low, high) = (size(low)?, size(high)?);
    (low <= high).then_some((low, high)).ok_or_else(expected)
}

/// The tuner's log of a process.
pub fn log(folder: &Path, host: &str, pid: u32) -> PathBuf {
    folder.join(format!("{host}-{pid}.blocks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(variables: &[(&str, &str)]) -> anyhow::Result<Wish> {
        let variables = variables
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        Wish::of(&Arm {
            name: String::new(),
            folder: String::new(),
            variables: variables.collect(),
        })
    }

    #[test]
    fn what_nccl_reads_once_can_t_be_tried_within_a_run() {
        let tree = wish(&[("NCCL_ALGO", "nvlstree"), ("NCCL_MAX_NCHANNELS", "8")]).expect("a wish");
        assert_eq!(tree.words(), "NVLS_TREE/-/8");
        for (name, value) in [
            ("NCCL_NTHREADS", "64"),
            ("NCCL_ALGO", "Ring,Tree"),
            ("NCCL_PROTO", "^LL"),
        ] {
            assert!(wish(&[(name, value)]).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn nvidia_s_file_has_a_line_for_each_function_that_can() {
        let called = ["AllReduce", "AllGather", "Send"].map(str::to_owned);
        let tree = wish(&[("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "LL")]).expect("a wish");
        assert_eq!(
            tree.csv(&CallFilter::default(), &called, 16, 2).as_deref(),
            Some(
                "# written by ncclscope tune --within\n\
                 allreduce,0,9223372036854775807,tree,ll,-1,2,16,-1,-1\n"
            )
        );
        let some = CallFilter {
            function: Some("AllGather".to_owned()),
            bytes: Some((1, 9)),
        };
        assert_eq!(tree.csv(&some, &called, 16, 2), None);
        let ring = wish(&[
            ("NCCL_ALGO", "Ring"),
            ("NCCL_PROTO", "Simple"),
            ("NCCL_MAX_NCHANNELS", "4"),
        ]);
        let ring = ring.expect("a wish").csv(&some, &called, 16, 2);
        assert!(
            ring.is_some_and(|text| text.ends_with("\nallgather,1,9,ring,simple,4,2,16,-1,-1\n"))
        );
        let half = wish(&[("NCCL_ALGO", "Ring")]).expect("a wish");
        assert_eq!(half.csv(&CallFilter::default(), &called, 16, 2), None);
    }

    #[test]
    fn a_plan_says_all_that_ranks_must_agree_on() {
        let wishes = [wish(&[("NCCL_PROTO", "LL")]).expect("a wish")];
        let calls = CallFilter {
            function: Some("AllReduce".to_owned()),
            bytes: bytes("1K..1M").ok(),
        };
        assert_eq!(
            plan(&wishes, &calls, 50, 3, Path::new("/a b")).expect("a plan"),
            "arms=-/LL/- block=50 seed=3 function=AllReduce bytes=1024-1048576 out=/a b"
        );
        assert_eq!(function("all_reduce").as_deref(), Ok("AllReduce"));
        assert!(function("reduces").is_err() && bytes("2M..1M").is_err() && bytes("2M").is_err());
    }
}
