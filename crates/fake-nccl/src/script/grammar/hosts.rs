//! What hosts do beside calling: repeat, sleep, keep a pace, and wait for their GPUs.

use crate::script::parser::{Parser, Said};
use crate::script::statement::Statement;
use crate::script::values::{count, nanos};

/// `repeat N { … }`
pub(super) fn repeat(parser: &mut Parser) -> Said {
    let times = parser.word("a number", count)?;
    let body = parser.block()?;
    Ok(Some(Statement::Repeat(times, body)))
}

/// `sleep TIME`
pub(super) fn sleep(parser: &mut Parser) -> Said {
    let by = parser.word("a time like 10ms", nanos)?;
    parser.ends(Statement::Sleep(by))
}

/// `rate N/s`, `rate off`
pub(super) fn rate(parser: &mut Parser) -> Said {
    let gap = parser.word("a rate like 10000/s, or `off`", |w| match w {
        "off" => Some(0),
        w => {
            let rate: f64 = w.strip_suffix("/s")?.parse().ok()?;
            (rate > 0.0).then_some((1e9 / rate) as u64)
        }
    })?;
    parser.ends(Statement::Pace(gap))
}

/// `sync`
pub(super) fn sync(parser: &mut Parser) -> Said {
    parser.ends(Statement::Sync)
}
