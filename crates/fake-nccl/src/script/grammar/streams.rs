//! What GPUs do beside NCCL's operations: kernels of the program's own, and streams that wait for each other.

use crate::script::parser::{Parser, Said};
use crate::script::statement::Statement;
use crate::script::values::nanos;

/// `compute TIME`
pub(super) fn compute(parser: &mut Parser) -> Said {
    let time = parser.word("a time like 10ms", nanos)?;
    parser.ends(Statement::Compute(time))
}

/// `join`
pub(super) fn join(parser: &mut Parser) -> Said {
    parser.ends(Statement::Join)
}
