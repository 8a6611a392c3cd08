use super::*;
use crate::log::Reader;

fn of(lines: &str) -> Paths {
    let mut reader = Reader::default();
    lines.lines().for_each(|line| reader.add(line));
    let said = reader.finish();
    paths(&said.inits, &said.apart, &said.hosts, |_| None)
}

/// A rank's lines: its init, then what it says.
fn rank(host: &str, rank: u32, device: u32, says: &[&str]) -> String {
    let at = format!("{host}:{}:{} [{device}] NCCL INFO", 50 + rank, 50 + rank);
    let init = format!(
        "ncclCommInitRank comm 0x7{rank} rank {rank} nranks 4 cudaDev {device} nvmlDev {device} busId \
         {device}00 commId 0xbad - Init"
    );
    let mut text = format!("{at} {init} START\n");
    for line in says {
        text += &format!("{at} {line}\n");
    }
    text + &format!("{at} {init} COMPLETE\n")
}

fn kinds(paths: &Paths) -> Vec<&str> {
    paths.reasons.iter().map(|reason| reason.kind).collect()
}

#[test]
fn both_ends_of_a_network_make_one_route() {
    let card = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>";
    let found = of(&[
        rank(
            "n0",
            1,
            1,
            &[
                card,
                "Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA",
                "Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA",
            ],
        ),
        rank(
            "n1",
            2,
            0,
            &[
                card,
                "Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/1/GDRDMA",
                "Channel 01/0 : 1[1] -> 2[0] [receive] via NET/IB/1",
            ],
        ),
    ]
    .concat());
    let routes = &found.communicators[0].routes;
    let seen: Vec<_> = routes
        .iter()
        .map(|route| {
            let cards = (route.from_card.as_deref(), route.to_card.as_deref());
            (cards, route.gdr, route.channels.clone(), route.is_best)
        })
        .collect();
    let cards = (Some("mlx5_0"), Some("mlx5_1"));
    assert_eq!(
        seen,
        [
            (cards, Some(false), vec![1], Some(false)),
            (cards, Some(true), vec![0], Some(true)),
        ]
    );
    assert_eq!(kinds(&found), ["gdr_unexplained"]);
}

#[test]
fn each_reason_is_found_by_its_line() {
    let sockets = "Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0";
    let other = rank("n1", 2, 0, &[]);
    for (line, kind, is_best) in [
        (
            "NCCL_IB_DISABLE set by environment to 1.",
            "sockets_by_setting",
            Some(false),
        ),
        (
            "NCCL_NET set by environment to Socket",
            "sockets_by_setting",
            Some(false),
        ),
        ("Failed to open libibverbs.so[.1]", "no_verbs", Some(false)),
        ("NET/IB : No device found.", "no_rdma_device", None),
        ("Using network Socket", "sockets_unexplained", None),
    ] {
        let found = of(&(rank("n0", 1, 1, &[line, sockets]) + &other));
        assert_eq!(kinds(&found), [kind], "{line}");
        assert_eq!(found.communicators[0].routes[0].is_best, is_best, "{line}");
    }
    let shm = "Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct";
    for (line, kind) in [
        (
            "NCCL_P2P_DISABLE set by environment to 1.",
            "p2p_by_setting",
        ),
        (
            "P2P is disabled between connected GPUs 1 and 0. You can",
            "p2p_not_possible",
        ),
        ("Using network IB", "p2p_unexplained"),
    ] {
        assert_eq!(
            kinds(&of(&rank("n0", 1, 1, &[line, shm]))),
            [kind],
            "{line}"
        );
    }
}

#[test]
fn the_topology_says_if_p2p_was_possible() {
    let text = "\tGPU0\tGPU1\nGPU0\t X \tLINK\nGPU1\tLINK\t X \n";
    let shm = "Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct";
    let lines = rank("n0", 1, 1, &[shm]) + &rank("n0", 0, 0, &[]);
    let mut reader = Reader::default();
    lines.lines().for_each(|line| reader.add(line));
    let said = reader.finish();
    for (link, kind, is_best) in [
        ("SYS", "p2p_too_far", Some(true)),
        ("NV12", "p2p_lost", Some(false)),
        ("PIX", "p2p_lost", Some(false)),
    ] {
        let topology = Topology::read(&text.replace("LINK", link)).expect("a matrix");
        let found = paths(&said.inits, &[], &said.hosts, |_| Some(&topology));
        assert_eq!(kinds(&found), [kind], "{link}");
        assert_eq!(found.communicators[0].routes[0].is_best, is_best, "{link}");
    }
}

#[test]
fn a_network_within_a_host_and_cards_left_unused_are_named() {
    let way = "Channel 00/0 : 1[1] -> 0[0] [send] via NET/IB/0";
    let found = of(&(rank("n0", 1, 1, &[way]) + &rank("n0", 0, 0, &[])));
    assert_eq!(kinds(&found), ["seen_as_other_host"]);
    let cards = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB";
    let found = of(&[
        rank(
            "n0",
            0,
            0,
            &[
                cards,
                "Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA",
            ],
        ),
        rank(
            "n0",
            1,
            1,
            &["Channel 00/0 : 1[1] -> 3[1] [send] via NET/IB/0/GDRDMA"],
        ),
        rank("n1", 2, 0, &[]),
        rank("n1", 3, 1, &[]),
    ]
    .concat());
    assert_eq!(kinds(&found), ["few_cards"]);
    assert!(
        found.reasons[0].because.contains("use 1 of its 2"),
        "{found:?}"
    );
}

#[test]
fn lines_before_the_init_and_without_a_place_find_their_rank() {
    // Before 2.18, the connections come before the only line about the init.
    let old = "n0:5:9 [1] NCCL INFO Ring 00 : 1[1] -> 0[0] via direct shared memory\n\
               n0:5:9 [1] NCCL INFO comm 0x7 rank 1 nranks 2 cudaDev 1 busId 2000 - Init COMPLETE\n";
    let bare = "[1] NCCL INFO comm 0x7 rank 1 nranks 2 cudaDev 1 busId 2000 - Init COMPLETE\n\
                [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct\n";
    for text in [old, bare] {
        let found = of(text);
        assert_eq!(found.communicators[0].routes.len(), 1, "{text}");
        assert_eq!(kinds(&found), ["p2p_unexplained"], "{text}");
    }
}

#[test]
fn a_plugin_that_found_nothing_and_a_card_that_is_not_there_are_named() {
    let sockets = "Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0";
    let none = "NET/IB : No device found.";
    let reason = |says: &[&str]| {
        let found = of(&[rank("n0", 1, 1, says), rank("n1", 2, 0, &[])].concat());
        let reason = found.reasons.into_iter().next().expect("a reason");
        (reason.kind, reason.because)
    };
    let ofi = "NET/OFI No eligible providers were found";
    assert_eq!(reason(&[none, ofi, sockets]).0, "plugin_without_device");
    let (kind, because) = reason(&["NCCL_IB_HCA set to mlx5_9", none, sockets]);
    assert_eq!(kind, "cards_by_setting");
    assert!(because.contains("NCCL_IB_HCA=mlx5_9"), "{because}");
    let both = [
        "NCCL_IB_DISABLE set by environment to 1.",
        "NCCL_NET set by environment to Socket.",
        sockets,
    ];
    let settings = "NCCL_IB_DISABLE=1 and NCCL_NET=Socket are set";
    assert_eq!(reason(&both), ("sockets_by_setting", settings.to_owned()));
}

#[test]
fn every_setting_that_closes_a_way_within_a_host_is_named() {
    let found = of(&[
        rank(
            "n0",
            0,
            0,
            &[
                "NCCL_P2P_DISABLE set by environment to 1.",
                "NCCL_SHM_DISABLE set by environment to 1.",
                "Channel 00/0 : 0[0] -> 1[1] via NET/Socket/0",
            ],
        ),
        rank("n0", 1, 1, &[]),
    ]
    .concat());
    assert_eq!(kinds(&found), ["p2p_by_setting", "shm_by_setting"]);
    let routes = &found.communicators[0].routes;
    assert_eq!(routes[0].reasons, ["p2p_by_setting", "shm_by_setting"]);
}

#[test]
fn through_a_third_gpu_is_not_the_gpus_own_link() {
    let says = ["Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/5[5]/CUMEM"];
    let found = of(&[rank("n0", 0, 0, &says), rank("n0", 1, 1, &[])].concat());
    let route = &found.communicators[0].routes[0];
    assert_eq!((route.is_best, kinds(&found)), (None, vec!["p2p_indirect"]));
    assert!(
        found.reasons[0].because.ends_with("that of rank 5"),
        "{found:?}"
    );
}

#[test]
fn cards_of_a_plugin_that_are_not_used_are_told() {
    let says = [
        "NET/OFI Selected Provider is efa (found 4 nics)",
        "Channel 00/0 : 1[1] -> 2[0] [send] via NET/AWS Libfabric/0/GDRDMA",
    ];
    let beside = ["Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"];
    let ranks = [
        rank("n0", 0, 0, &beside),
        rank("n0", 1, 1, &says),
        rank("n1", 2, 0, &[]),
    ];
    let found = of(&ranks.concat());
    let card = |route: &Route| route.from_card.clone();
    assert!(found.communicators[0]
        .routes
        .iter()
        .any(|route| card(route).as_deref() == Some("efa 0")));
    assert_eq!(kinds(&found), ["few_cards"]);
}

#[test]
fn a_piece_of_a_log_without_an_init_still_has_its_connections() {
    let piece = "n0:1:9 [3] NCCL INFO Channel 00 : 3[3] -> 4[4] via SHM/direct/direct\n\
                 n0:1:8 [4] NCCL INFO Channel 00/1 : 4[4] -> 5[5] via P2P/direct pointer\n\
                 n1:2:7 [0] NCCL INFO Channel 00/0 : 3[3] -> 8[0] [receive] via NET/Socket/0\n";
    let found = of(piece);
    let one = &found.communicators[0];
    assert_eq!((found.communicators.len(), one.nranks), (1, None));
    let seen = one
        .routes
        .iter()
        .map(|r| (r.from, r.to, r.is_within_host()));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [(3, 4, Some(true)), (3, 8, Some(false)), (4, 5, Some(true))]
    );
    // The other ranks of a communicator that a rank's init tells of.
    let beside = "n0:1:9 [1] NCCL INFO Channel 00 : 1[1] -> 2[0] via SHM/direct/direct\n";
    let found = of(&(rank("n0", 0, 0, &[]) + beside));
    assert_eq!(found.communicators[0].nranks, Some(4));
}

#[test]
fn one_name_of_many_hosts_is_none() {
    let socket = "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0";
    let ranks = rank("localhost", 0, 0, &[socket]) + &rank("localhost", 1, 0, &[]);
    let route = of(&ranks).communicators[0].routes[0].clone();
    assert_eq!((route.from_host, route.is_best), (None, None));
    let apart = rank("n0", 0, 0, &[socket]) + &rank("n0", 1, 1, &[]);
    assert_eq!(kinds(&of(&apart)), ["seen_as_other_host"]);
}

#[test]
fn switches_that_reduce_and_single_ranks_are_told() {
    let nvls = "NVLS comm 0x70 headRank 0 nHeads 4 nvlsRanks 4 buffSize 1048576";
    let sharp = "CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA";
    let found = of(&rank("n0", 0, 0, &[nvls, sharp]));
    let one = &found.communicators[0];
    assert_eq!((one.nvls_ranks, one.collnet.as_deref()), (1, Some("SHARP")));
    let single = rank("n0", 0, 0, &[]).replace("nranks 4", "nranks 1");
    let found = of(&single);
    assert_eq!((found.communicators.len(), found.alone), (0, 1));
}

#[test]
fn the_network_is_known_before_ranks_are_connected() {
    let none = "NET/IB : No device found.";
    let found = of(&rank("n0", 0, 0, &[none, "Using network Socket"]));
    assert_eq!(kinds(&found), ["no_rdma_device"]);
    let network = &found.networks[0];
    assert_eq!(
        (network.name.as_str(), &network.hosts[..]),
        ("Socket", &["n0".to_owned()][..])
    );
    let found = of(&rank("n0", 0, 0, &["Assigned NET plugin IB to comm"]));
    assert_eq!(
        (found.networks[0].name.as_str(), found.reasons.len()),
        ("IB", 0)
    );
}

#[test]
fn a_network_within_one_host_is_no_other_host_if_nccl_sees_one() {
    let says = |nodes: u32| format!("comm 0x70 rank 0 nRanks 2 nNodes {nodes} localRanks 2");
    let way = "Channel 00/0 : 1[1] -> 0[0] [receive] via NET/IB/0/GDRDMA";
    let off = "NCCL_P2P_DISABLE set by environment to 1";
    let seen = |says: &[&str]| {
        let two = rank("n0", 0, 0, says) + &rank("n0", 1, 1, &[]);
        kinds(&of(&two.replace("nranks 4", "nranks 2"))).join(" ")
    };
    assert_eq!(seen(&[&says(2), way]), "seen_as_other_host");
    assert_eq!(seen(&[&says(1), way]), "card_is_nearer");
    assert_eq!(seen(&[&says(1), off, way]), "p2p_by_setting");
}
