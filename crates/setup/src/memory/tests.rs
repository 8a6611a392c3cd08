use super::ledger::LATER;
use super::*;
use crate::log::{read, Reader};

const MIB: u64 = 1 << 20;

fn line(tid: u32, text: &str) -> String {
    format!("n1:100:{tid} [0] NCCL INFO {text}\n")
}

fn state(tid: u32, comm: u32, what: &str) -> String {
    let text = format!(
        "ncclCommInitRank comm {comm:#x} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 18000 commId {comm:#x}"
    );
    line(tid, &format!("{text} - Init {what}"))
}

#[test]
fn every_kind_of_line_is_read() {
    let cases = [
        (
            "channel.cc:42 Cuda Alloc Size 1152 pointer 0x7f2a26000000",
            MemoryKind::Gpu,
            2 * MIB,
        ),
        (
            "channel.cc:42 Cuda Alloc Size 1152 pointer 0x7f2a26000200",
            MemoryKind::Gpu,
            1152,
        ),
        (
            "init.cc:1 (f) Cuda Calloc Size 5 pointer 0x200000 memType 0",
            MemoryKind::Gpu,
            2 * MIB,
        ),
        (
            "Allocated shareable buffer 0x7f2a00000000 size 9637888 ipcDesc 0x1",
            MemoryKind::Gpu,
            10 * MIB,
        ),
        // 2.30.7 says where.
        (
            "transport/p2p.cc:255 (ncclP2pAllocateShareableBuffer) Allocated shareable buffer 0x48ea000000 \
             size 10485760 ipcDesc 0x7f2c1400add0",
            MemoryKind::Gpu,
            10 * MIB,
        ),
        (
            "CUMEM Host Alloc Size 2097152 pointer 0x9 handle 1 numa 0 dev 0 granularity 2",
            MemoryKind::Pinned,
            2 * MIB,
        ),
        (
            "transport/net.cc:917 Cuda Host Alloc Size 1024 pointer 0x9",
            MemoryKind::Pinned,
            1024,
        ),
        (
            "Allocated 33030144 bytes of shared memory in /dev/shm/nccl-x1",
            MemoryKind::Shared,
            33_030_144,
        ),
    ];
    for (text, kind, bytes) in cases {
        let found = Allocation::parse(text).map(|a| (a.kind, a.bytes));
        assert_eq!(found, Some((kind, bytes)), "{text}");
    }
    for text in [
        "Mem Realloc old size 0, new size 8 pointer 0x1",
        "net_ib.cc:1 Ib Alloc Size 4096 pointer 0x1",
        "x.cc:1 Cuda Alloc Size 0 pointer (nil)",
        "x.cc:1 Cuda Alloc Size -1 pointer 0x1",
        "Allocated shareable buffer",
        "x.cc:1 Cuda Alloc Size 18446744073709551615 pointer 0x200000",
    ] {
        assert_eq!(Allocation::parse(text), None, "{text}");
    }
}

#[test]
fn each_communicator_has_what_its_threads_and_its_proxy_allocate() {
    let log = [
        line(7, "a.cc:1 Cuda Alloc Size 1 pointer 0x200000"),
        state(7, 0x10, "START"),
        line(8, "[Proxy Service] Device 0 CPU core 3"),
        line(
            8,
            "Allocated shareable buffer 0x400000 size 4194304 ipcDesc 0x1",
        ),
        state(7, 0x10, "COMPLETE"),
        line(9, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"),
        line(9, "a.cc:1 Cuda Alloc Size 1 pointer 0x800000"),
        line(
            8,
            "Allocated shareable buffer 0xa00000 size 10000000 ipcDesc 0x1",
        ),
        line(9, "Connected all rings, use ring PXN 0 GDR 1"),
        line(10, "Channel 00/1 : 0[0] -> 1[1] via P2P/CUMEM"),
        line(
            8,
            "Allocated shareable buffer 0x2000000 size 10000000 ipcDesc 0x1",
        ),
        state(7, 0x20, "START"),
        line(11, "[Proxy Service] Device 0 CPU core 3"),
        line(
            11,
            "Allocated shareable buffer 0x4000000 size 4194304 ipcDesc 0x1",
        ),
        state(7, 0x20, "COMPLETE"),
        line(8, "Allocated shareable buffer 0x6000000 size 1 ipcDesc 0x1"),
        // Either of them.
        line(12, "a.cc:1 Cuda Host Alloc Size 77 pointer 0x1"),
    ];
    let mut reader = Reader::default();
    log.concat().lines().for_each(|line| reader.add(line));
    let said = reader.finish();
    let steps: Vec<Vec<(&str, u64)>> = said
        .inits
        .iter()
        .map(|init| {
            let steps = init.memory.steps.iter();
            steps
                .map(|s| (s.name.as_str(), s.sizes.gpu / MIB))
                .collect()
        })
        .collect();
    assert_eq!(
        steps[0],
        [("init", 6), ("rings", 12), (PAIRS, 10), (LATER, 2)]
    );
    assert_eq!(steps[1], [("init", 4)]);
    let connections = &said.inits[0].memory.connections;
    assert_eq!(connections.len(), 2);
    assert_eq!(
        (connections[1].index, connections[1].way.as_str()),
        (1, "P2P/CUMEM")
    );
    assert_eq!(said.unowned[&("n1".to_owned(), 100)].pinned, 77);
}

#[test]
fn an_address_that_comes_again_was_freed() {
    let log = [
        state(7, 0x10, "START"),
        line(7, "a.cc:1 Cuda Alloc Size 4194304 pointer 0x200000"),
        line(
            7,
            "Allocated shareable buffer 0x200000 size 4194304 ipcDesc 0x1",
        ),
        state(7, 0x10, "COMPLETE"),
        line(7, "a.cc:1 Cuda Alloc Size 1 pointer 0x200000"),
        line(
            7,
            "comm 0x10 rank 0 nranks 2 cudaDev 0 busId 18000 - Destroy COMPLETE",
        ),
        state(7, 0x10, "START"),
        line(7, "a.cc:1 Cuda Alloc Size 4194304 pointer 0x200000"),
        line(
            7,
            "NVLS comm 0x10 headRank 0 nHeads 2 buffSize 1 nvlsPerRankSize 1 nvlsTotalSize 5000000",
        ),
    ];
    let inits = read(&log.concat());
    assert_eq!(inits[0].memory.total().gpu, 2 * MIB);
    assert!(inits[0].memory.is_gone);
    assert_eq!(inits[1].memory.total().gpu, 10 * MIB);
}

/// NCCL 2.28.9 on two H200, 2026-11-23: a ring of sends and receives, then collectives.
const TWO_H200: &str = include_str!("../../tests/two_h200.log");

#[test]
fn a_real_job_s_memory_is_told_by_step() {
    for init in read(TWO_H200) {
        let memory = &init.memory;
        let steps: Vec<(&str, u64)> = memory
            .steps
            .iter()
            .map(|s| (s.name.as_str(), s.sizes.gpu / MIB))
            .collect();
        // 98 allocations of a few bytes take 2 MiB each. Then 32 channels, 10 MiB in and 2 MiB out;
        // and 24.
        assert_eq!(steps, [("init", 196), (PAIRS, 384), ("rings", 288)]);
        let of = |index: u32| memory.connections.iter().filter(move |c| c.index == index);
        assert_eq!((of(1).count(), of(0).count()), (32, 24));
        assert!(memory.is_gone);
    }
}

#[test]
fn two_real_communicators_of_a_process_are_told_apart() {
    // The driver's free memory fell by the same for the second one, on two H200 with NCCL 2.28.9. For the
    // first one it fell by the kernels of NCCL, too.
    let inits = read(include_str!("../../tests/two_communicators.log"));
    assert_eq!(inits.len(), 2);
    for init in inits {
        let steps = init.memory.steps.iter();
        let steps: Vec<(&str, u64)> = steps
            .map(|step| (step.name.as_str(), step.sizes.gpu / MIB))
            .collect();
        assert_eq!(steps, [("init", 196), ("rings", 288), (PAIRS, 384)]);
    }
}
