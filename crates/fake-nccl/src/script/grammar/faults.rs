//! Hostile callbacks, and a mask that somebody else sets.

use crate::fault::FAULTS;
use crate::script::parser::{Parser, Said};
use crate::script::statement::Statement;

/// `fault WORD`
pub(super) fn fault(parser: &mut Parser) -> Said {
    let words = FAULTS.map(|f| f.1).join(", ");
    let fault = parser.word(&format!("a fault: {words}"), |w| {
        FAULTS.iter().find(|f| f.1 == w).map(|f| f.0)
    })?;
    parser.world_if_none();
    parser.ends(Statement::Fault(fault))
}

/// `mask none|BITS`
pub(super) fn mask(parser: &mut Parser) -> Said {
    let bits = parser.word("none, or bits like 0x1e", |word| match word {
        "none" => Some(0),
        bits => u32::from_str_radix(bits.strip_prefix("0x")?, 16).ok(),
    })?;
    parser.world_if_none();
    parser.ends(Statement::Mask(bits))
}
