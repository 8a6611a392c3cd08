//! OTF2's numbers of collectives, and roles of regions.

#![allow(missing_docs)]

use super::FUNCTION;

/// `OTF2_REGION_ROLE_…`.
const ONE_TO_ALL: u8 = 23;
const ALL_TO_ONE: u8 = 24;
const ALL_TO_ALL: u8 = 25;
const POINT_TO_POINT: u8 = 28;

/// `OTF2_COLLECTIVE_OP_…`.
pub const BCAST: u8 = 1;
pub const GATHER: u8 = 2;
pub const SCATTER: u8 = 4;
pub const ALLGATHER: u8 = 6;
pub const ALLTOALL: u8 = 8;
pub const ALLREDUCE: u8 = 11;
pub const REDUCE: u8 = 12;
pub const REDUCE_SCATTER: u8 = 16;

/// OTF2's number of a collective; `None` for sends and receives.
pub fn operation(function: &str) -> Option<u8> {
    Some(match function {
        "AllReduce" => ALLREDUCE,
        "AllGather" => ALLGATHER,
        "ReduceScatter" => REDUCE_SCATTER,
        "Broadcast" => BCAST,
        "Reduce" => REDUCE,
        "AlltoAll" | "AllToAll" => ALLTOALL,
        "Gather" => GATHER,
        "Scatter" => SCATTER,
        _ => return None,
    })
}

pub fn role(function: &str) -> u8 {
    match (operation(function), function) {
        (Some(BCAST | SCATTER), _) => ONE_TO_ALL,
        (Some(REDUCE | GATHER), _) => ALL_TO_ONE,
        (Some(_), _) => ALL_TO_ALL,
        (None, "Send" | "Recv") => POINT_TO_POINT,
        (None, _) => FUNCTION,
    }
}
