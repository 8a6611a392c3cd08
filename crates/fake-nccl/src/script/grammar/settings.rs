//! What holds for the whole job: its size, its release, its clocks.

use crate::plugin::Version;
use crate::script::choice::Choice;
use crate::script::error::Error;
use crate::script::parser::{Parser, Said};
use crate::script::values::{nanos, rank_list, signed_nanos, static_text};

/// `nccl VERSION`
pub(super) fn nccl(parser: &mut Parser) -> Said {
    let expected = format!("an examined release ({})", Version::known());
    parser.script.nccl = parser.word(&expected, |w| {
        Version::parse(w).filter(|v| v.native_abi().is_some())
    })?;
    parser.ends(None)
}

/// `ranks N`
pub(super) fn ranks(parser: &mut Parser) -> Said {
    parser.script.ranks = parser.word("a number of ranks from 1 to 4096", |w| {
        w.parse().ok().filter(|n| (1..=4096).contains(n))
    })?;
    parser.script.gpu_offset_ns = vec![0; parser.script.ranks];
    parser.ends(None)
}

/// `hosts N`
pub(super) fn hosts(parser: &mut Parser) -> Said {
    let expected = "a number of hosts, from 1 to the number of ranks";
    parser.script.hosts = part_of_ranks(parser, expected)?;
    parser.ends(None)
}

/// `per_process N`
pub(super) fn per_process(parser: &mut Parser) -> Said {
    let expected = "ranks per process, from 1 to the number of ranks";
    parser.script.per_process = part_of_ranks(parser, expected)?;
    parser.ends(None)
}

/// A number from 1 to the number of ranks.
fn part_of_ranks(parser: &mut Parser, expected: &str) -> Result<usize, Error> {
    let ranks = parser.script.ranks;
    parser.word(expected, |w| {
        w.parse().ok().filter(|n| (1..=ranks).contains(n))
    })
}

/// `one_thread`
pub(super) fn one_thread(parser: &mut Parser) -> Said {
    parser.script.one_thread = true;
    parser.ends(None)
}

/// `net_plugin`
pub(super) fn net_plugin(parser: &mut Parser) -> Said {
    parser.script.net_plugin = true;
    parser.ends(None)
}

/// `cuda`
pub(super) fn cuda(parser: &mut Parser) -> Said {
    parser.script.cuda = true;
    parser.ends(None)
}

/// `virtual_time`
pub(super) fn virtual_time(parser: &mut Parser) -> Said {
    parser.script.virtual_time = true;
    parser.ends(None)
}

/// `lead TIME`
pub(super) fn lead(parser: &mut Parser) -> Said {
    parser.script.lead_ns = parser.word("a time like 50ms", nanos)?;
    parser.ends(None)
}

/// `linger TIME`
pub(super) fn linger(parser: &mut Parser) -> Said {
    parser.script.linger_ns = parser.word("a time like 2s", nanos)?;
    parser.ends(None)
}

/// `host_cost TIME`
pub(super) fn host_cost(parser: &mut Parser) -> Said {
    parser.script.host_cost_ns = parser.word("a time like 10us", nanos)?;
    parser.ends(None)
}

/// `gpu_offset RANKS TIME`
pub(super) fn gpu_offset(parser: &mut Parser) -> Said {
    let ranks = parser.ranks()?;
    let by = parser.word("a time like -850us", signed_nanos)?;
    for rank in ranks {
        parser.script.gpu_offset_ns[rank] = by;
    }
    parser.ends(None)
}

/// `load_kernels RANKS TIME`
pub(super) fn load_kernels(parser: &mut Parser) -> Said {
    let ranks = parser.ranks()?;
    let time = parser.word("a time like 3s", nanos)?;
    let count = parser.script.ranks;
    parser.script.load_kernels_ns.resize(count, 0);
    for rank in ranks {
        parser.script.load_kernels_ns[rank] = time;
    }
    parser.ends(None)
}

/// `host_clock HOSTS TIME`
pub(super) fn host_clock(parser: &mut Parser) -> Said {
    let limit = parser.script.hosts;
    let expected = format!("hosts below {limit}, like 1, 0..3 or 0,2; say `hosts` before");
    let hosts = parser.word(&expected, |w| rank_list(w, limit))?;
    let by = parser.word("a time like -70ms", signed_nanos)?;
    parser.script.host_clock_ns.resize(limit, 0);
    for host in hosts {
        parser.script.host_clock_ns[host] = by;
    }
    parser.ends(None)
}

/// `choice ALGORITHM PROTOCOL xFACTOR`
pub(super) fn choice(parser: &mut Parser) -> Said {
    let algorithms = &nccl_abi::names::ALGOS;
    let algo = parser.word("an algorithm of NCCL's, like RING or NVLS_TREE", |w| {
        static_text(w, algorithms)
    })?;
    let proto = parser.word("a protocol: LL, LL128 or SIMPLE", |w| {
        static_text(w, &nccl_abi::names::PROTOS)
    })?;
    let factor = parser.word("a factor like x1.2", |w| {
        let factor = w.strip_prefix('x')?.parse().ok();
        factor.filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
    })?;
    parser.script.choices.push(Choice {
        algo,
        proto,
        factor,
    });
    parser.ends(None)
}

/// `noise PERCENT`
pub(super) fn noise(parser: &mut Parser) -> Said {
    parser.script.noise = parser.word("a standard deviation like 2%, up to 25%", |w| {
        let percent: f64 = w.strip_suffix('%')?.parse().ok()?;
        (0.0..=25.0).contains(&percent).then_some(percent / 100.0)
    })?;
    parser.ends(None)
}
