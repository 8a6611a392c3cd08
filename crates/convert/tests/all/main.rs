//! Files of other tools, read as captures.

mod damage;
mod flight;
mod inspector;
mod kineto;
mod nccl_tests;
mod nsys;
mod ras;
