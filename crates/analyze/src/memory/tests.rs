use super::*;
use crate::findings::nccl_memory;
use crate::findings::Evidence;
use setup::log::{read, Reader};
use tables::communicators::Local;
use tables::nodes::Series;

/// NCCL 2.28.9 on two H200: a ring of sends and receives, then collectives.
const TWO_H200: &str = include_str!("../../../setup/tests/two_h200.log");
const MIB: u64 = 1 << 20;

#[test]
fn the_model_of_buffers_gives_what_a_real_job_s_connections_took() {
    let memory = of_inits(&read(TWO_H200), Sizes::default());
    let [row] = memory.communicators.as_slice() else {
        panic!("{memory:?}");
    };
    for rank in &row.ranks {
        let modelled: Vec<u64> = rank
            .connections
            .iter()
            .filter_map(|row| row.modelled_gpu_bytes)
            .collect();
        assert_eq!(modelled, [288 * MIB, 384 * MIB]);
        assert_eq!(
            rank.gpu_bytes,
            rank.init_gpu_bytes.unwrap_or(0) + modelled.iter().sum::<u64>()
        );
    }
}

#[test]
fn more_communicators_add_up_and_more_ranks_need_more_pairs() {
    let mut memory = of_inits(&read(TWO_H200), Sizes::default());
    memory.project(3, Some(5));
    let projection = memory.projection.expect("a projection");
    // 32 channels to each of four others.
    assert_eq!(projection.pairs_gpu_bytes, Some(4 * 384 * MIB));
    assert_eq!(projection.gpu_bytes, 3 * (196 + 288 + 4 * 384) * MIB);
}

#[test]
fn communicators_that_were_split_without_an_id_are_told_apart() {
    // NCCL 2.28 prints no id for them. Both ranks split theirs twice.
    let rank = |rank: u32| {
        let line = |text: &str| format!("n1:{}:7 [{rank}] NCCL INFO {text}\n", 100 + rank);
        let of = format!("rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId 1");
        let split = |comm: u32, mib: u64| {
            let of = format!(
                "ncclCommSplit comm 0x{comm} {of} parent 0x1 splitCount {comm} color 5 key 0"
            );
            [
                line(&format!("{of}- Init START")),
                line(&format!(
                    "x.cc:1 Cuda Alloc Size {} pointer 0x{comm}00000",
                    mib * MIB
                )),
                line(&format!("{of} - Init COMPLETE")),
            ]
            .concat()
        };
        let world = line(&format!(
            "ncclCommInitRank comm 0x1 {of} commId 0xa - Init START"
        ));
        [world, split(2, 10), split(3, 20)].concat()
    };
    let memory = of_inits(&read(&[rank(0), rank(1)].concat()), Sizes::default());
    let sizes: Vec<Vec<u64>> = memory
        .communicators
        .iter()
        .map(|row| row.ranks.iter().map(|rank| rank.gpu_bytes / MIB).collect())
        .collect();
    assert_eq!(sizes, [[20, 20], [10, 10]]);
}

/// A process on a node with one GPU, which NVML saw with these MiB in use every 100 ms from 100 s on.
fn capture(log: &str, total: u64, used: &[u64]) -> Capture {
    let mut reader = Reader::default();
    log.lines().for_each(|line| reader.add(line));
    let said = reader.finish();
    let mut capture = Capture::default();
    let mut process = Process {
        host: "n1".to_owned(),
        communicators: vec![Local {
            uid: 1,
            hash: 10,
            nranks: 2,
            rank: Some(0),
            gpu: Some("00000000000000000000000000000abc".to_owned()),
            ..Local::default()
        }],
        ..Process::default()
    };
    process.setup.inits = said.inits;
    capture.processes.push(process);
    let points = used.iter().enumerate();
    let points = points.map(|(at, mib)| (100_000_000_000 + 100_000_000 * at as i64, mib * MIB));
    let mut node = Node {
        host: "n1".to_owned(),
        series: vec![Series {
            name: "gpu_memory_bytes".to_owned(),
            of: "GPU-00000000-0000-0000-0000-000000000abc".to_owned(),
            points: points.collect(),
        }],
        ..Node::default()
    };
    let facts = [
        (
            "gpu.0",
            "GPU-00000000-0000-0000-0000-000000000abc H200".to_owned(),
        ),
        ("gpu_memory.0", total.to_string()),
    ];
    node.facts = facts.map(|(k, v)| (k.to_owned(), v)).into();
    capture.nodes.push(node);
    capture
}

const LOG: &str = "\
[100.250000] n1:7:7 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 commId 0xa - Init START
[100.260000] n1:7:7 [0] NCCL INFO x.cc:1 Cuda Alloc Size 6291456000 pointer 0x200000
[100.340000] n1:7:7 [0] NCCL INFO f comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 commId 0xa - Init COMPLETE
";

#[test]
fn nvml_s_change_stands_beside_what_nccl_said() {
    let nvml = |log: &str, used: &[u64]| {
        let memory = of_capture(&capture(log, 1, used));
        memory.communicators[0].ranks[0].nvml_bytes
    };
    let used = [500, 500, 500, 6500, 6500];
    assert_eq!(nvml(LOG, &used), Some(6000 * MIB as i64));
    // Nothing was read in time, or only after it was destroyed.
    assert_eq!(nvml(LOG, &used[..3]), None);
    let gone = format!(
        "{LOG}[100.290000] n1:7:7 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Destroy COMPLETE\n"
    );
    assert_eq!(nvml(&gone, &used), None);
}

#[test]
fn nvml_confirms_or_says_by_how_much_more() {
    let note = |used: &[u64]| {
        let memory = of_capture(&capture(LOG, 1, used));
        let rank = &memory.communicators[0].ranks[0];
        assert!(rank.is_first);
        let mut notes = memory.notes.iter();
        let note = notes.find_map(|note| match note {
            Note::Nvml(by) => Some(*by),
            _ => None,
        });
        (rank.nvml_agrees, note)
    };
    let (known, agree) = (1, 1);
    let by = ByNvml {
        known,
        agree,
        ..ByNvml::default()
    };
    assert_eq!(note(&[500, 500, 500, 7000, 7000]), (Some(true), Some(by)));
    let by = ByNvml {
        known,
        more_for_first: Some(1000 * MIB),
        ..ByNvml::default()
    };
    assert_eq!(note(&[500, 500, 500, 7500, 7500]), (Some(false), Some(by)));
    assert_eq!(note(&[500]), (None, None));
}

fn asked(comm: u64, at_s: i64, total: u64) -> setup::comm_memory::CommMemory {
    setup::comm_memory::CommMemory {
        at_ns: at_s * 1_000_000_000,
        comm,
        nranks: 2,
        device: Some(0),
        total: total * MIB,
        suspendable: MIB,
        ..setup::comm_memory::CommMemory::default()
    }
}

#[test]
fn what_nccl_counts_stands_beside_what_its_output_says() {
    let mut capture = capture(LOG, 1 << 40, &[]);
    let setup = &mut capture.processes[0].setup;
    setup.comm_memory = vec![asked(1, 101, 200), asked(1, 102, 6000), asked(1, 103, 5900)];
    let memory = of_capture(&capture);
    let [row] = memory.communicators.as_slice() else {
        panic!("{memory:?}");
    };
    let counted = row.ranks[0].counted.expect("counted");
    assert_eq!(counted.first_gpu_bytes, 200 * MIB);
    assert_eq!(
        (counted.most_gpu_bytes, counted.last_gpu_bytes),
        (6000 * MIB, 5900 * MIB)
    );
    assert_eq!((row.ranks.len(), row.ranks[0].gpu_bytes), (1, 6000 * MIB));
    assert_eq!(row.ranks[0].init_gpu_bytes, Some(6000 * MIB));
    assert!(!counted.is_shared);
}

#[test]
fn a_suspended_communicator_holds_what_it_can_not_give_back() {
    let mut capture = capture("", 1 << 40, &[]);
    let [mut before, mut then] = [asked(1, 101, 6000), asked(1, 102, 6000)];
    (before.suspendable, then.suspendable) = (5000 * MIB, 5000 * MIB);
    then.is_suspended = true;
    capture.processes[0].setup.comm_memory = vec![before, then];
    let counted = of_capture(&capture).communicators[0].ranks[0].counted;
    let counted = counted.expect("counted");
    assert_eq!(
        (counted.most_gpu_bytes, counted.last_gpu_bytes),
        (6000 * MIB, 1000 * MIB)
    );
}

#[test]
fn communicators_that_share_buffers_are_counted_together_and_a_note_says_so() {
    let mut capture = capture(LOG, 1 << 40, &[]);
    let setup = &mut capture.processes[0].setup;
    setup.comm_memory = vec![asked(1, 101, 7000)];
    let mut child = setup.inits[0].clone();
    (child.comm, child.id, child.shares) = (Some(2), None, true);
    child.split = Some((1, 1, 0));
    setup.inits.push(child);
    let memory = of_capture(&capture);
    let mut ranks = memory.communicators.iter().flat_map(|row| &row.ranks);
    let counted = ranks.find_map(|rank| rank.counted).expect("counted");
    assert!(counted.is_shared);
    let notes = &memory.notes;
    assert!(notes.contains(&Note::SharedBuffers), "{notes:?}");
}

#[test]
fn without_nccl_s_output_its_count_is_the_figure() {
    let mut counted = capture("", 100_000 * MIB, &[]);
    counted.processes[0].setup.comm_memory = vec![asked(1, 101, 6000)];
    let mut memory = of_capture(&counted);
    let row = &memory.communicators[0].ranks[0];
    assert_eq!((row.init_gpu_bytes, row.gpu_bytes), (None, 6000 * MIB));
    assert_eq!(memory.gpus[0].share, Some(0.06));
    let found = nccl_memory(&memory).expect("6 % are a finding");
    assert!(
        matches!(found.evidence, Evidence::Memory { init_bytes: None, largest_bytes, .. }
            if largest_bytes == 6000 * MIB)
    );
    memory.project(3, None);
    assert_eq!(
        memory.projection.as_ref().map(|p| p.gpu_bytes),
        Some(3 * 6000 * MIB)
    );
    memory.projection = None;
    memory.project(3, Some(8));
    assert_eq!(memory.projection, None);
    // Two communicators that look alike are not told apart by the capture's ids.
    let local = counted.processes[0].communicators[0].clone();
    counted.processes[0]
        .communicators
        .push(Local { uid: 2, ..local });
    counted.processes[0]
        .setup
        .comm_memory
        .push(asked(2, 102, 1000));
    let memory = of_capture(&counted);
    assert_eq!(memory.communicators.len(), 1);
    assert_eq!(
        (
            memory.communicators[0].communicator.as_ref(),
            memory.communicators[0].ranks.len()
        ),
        (None, 2)
    );
}

#[test]
fn much_of_a_gpu_s_memory_is_a_finding() {
    let found = |total: u64| {
        let memory = of_capture(&capture(LOG, total, &[]));
        assert_eq!(memory.gpus[0].total_bytes, Some(total));
        nccl_memory(&memory)
    };
    let much = found(100_000 * MIB).expect("a finding");
    let bytes = (6000 * MIB, 100_000 * MIB);
    assert!(
        matches!(much.evidence, Evidence::Memory { gpu_bytes, total_bytes, .. }
            if (gpu_bytes, total_bytes) == bytes),
        "{much:?}"
    );
    assert_eq!(found(130_000 * MIB), None);
}

#[test]
fn communicators_that_were_not_there_at_once_do_not_add_up() {
    let init = |first: f64, gone: Option<f64>| {
        let mut init = read(LOG).remove(0);
        (init.memory.between_s, init.memory.gone_s) = (Some((first, first)), gone);
        init
    };
    let all = [init(1.0, Some(2.0)), init(2.0, None), init(3.0, None)];
    let (n, bytes) = at_once(&all.iter().collect::<Vec<_>>());
    assert_eq!((n, bytes), (2, 2 * 6000 * MIB));
}
