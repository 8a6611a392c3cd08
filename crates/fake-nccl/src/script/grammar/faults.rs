//! Hostile callbacks.

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
