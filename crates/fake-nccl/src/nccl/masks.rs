//! Which bits of the activation mask bring an event. Bits of children bring their parents too.

use nccl_abi::event::*;

pub(super) const FOR_COLL: u64 = COLL | PROXY_OP | PROXY_STEP | KERNEL_CH | NET_PLUGIN;
pub(super) const FOR_P2P: u64 = P2P | PROXY_OP | PROXY_STEP | KERNEL_CH | NET_PLUGIN;
pub(super) const FOR_CE: u64 = CE_COLL | CE_SYNC | CE_BATCH;
pub(super) const FOR_COLL_API: u64 = COLL_API | FOR_COLL | FOR_CE;
pub(super) const FOR_P2P_API: u64 = P2P_API | FOR_P2P;
pub(super) const FOR_GROUP: u64 = GROUP | FOR_COLL | FOR_P2P;
pub(super) const FOR_GROUP_API: u64 = 0x7fdf;
pub(super) const FOR_PROXY_OP: u64 = PROXY_OP | PROXY_STEP | NET_PLUGIN;
pub(super) const FOR_PROXY_STEP: u64 = PROXY_STEP | NET_PLUGIN;
