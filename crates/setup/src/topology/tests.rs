//! What is read of matrices and files, and what is said about them.

use super::*;

/// Written for this test, in the form that nvidia-smi prints.
const MATRIX: &str = "\t\u{1b}[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\t\
    GPU NUMA ID\u{1b}[0m\n\
    GPU0\t X \tNV18\tNV18\tPIX\t0-47\t0\t\tN/A\n\
    GPU1\tNV18\t X \tSYS\tSYS\t48-95\t1\t\tN/A\n\
    GPU2\tNV18\tSYS\t X \tSYS\t48-95\t1\t\tN/A\n\
    NIC0\tPIX\tSYS\tSYS\t X \t\t\t\n\n\
    Legend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n";

const XML: &str = r#"<system version="1">
  <cpu host_hash="0x1" numaid="0" arch="x86_64">
    <pci busid="0000:10:00.0" class="0x060400">
      <pci busid="0000:18:00.0" class="0x030200">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:05:00.0" count="10" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="8" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:2a:00.0" class="0x020700">
      <nic><net name="mlx5_1" dev="1" speed="400000" port="1"/></nic>
    </pci>
  </cpu>
  <cpu numaid="1">
    <pci busid="0000:98:00.0" class="0x030200">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:05:00.0" count="18" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"#;

#[test]
fn the_matrix_of_nvidia_smi_is_read() {
    let topology = Topology::read(MATRIX).expect("a matrix");
    let names: Vec<String> = topology.devices.iter().map(Device::title).collect();
    assert_eq!(names, ["GPU0", "GPU1", "GPU2", "NIC0 (mlx5_0)"]);
    assert_eq!(topology.link("GPU0", "GPU1"), Some("NV18"));
    assert_eq!(topology.link("NIC0", "GPU0"), Some("PIX"));
    let first = &topology.devices[1];
    assert_eq!(
        (first.numa, first.cpus.as_deref()),
        (Some(1), Some("48-95"))
    );
}

#[test]
fn matrices_of_other_machines_and_drivers_are_read() {
    // Pasted, so with blanks. Two GPUs and a bond; GPUs with memory that is a NUMA node.
    let pasted = "        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID\n\
        GPU0     X      NV6     SYS     0-71    0               4\n\
        GPU1    NV6      X      PHB     72-143    1               12\n\
        NIC0    SYS     PHB      X\n\n\
        NIC Legend:\n\n  NIC0: mlx5_bond_0\n";
    let topology = Topology::read(pasted).expect("a matrix");
    assert_eq!(topology.link("GPU1", "NIC0"), Some("PHB"));
    let places: Vec<_> = topology
        .devices
        .iter()
        .map(|d| (d.numa, d.cpus.as_deref()))
        .collect();
    assert_eq!(
        places,
        [
            (Some(0), Some("0-71")),
            (Some(1), Some("72-143")),
            (None, None)
        ]
    );
    assert_eq!(topology.devices[2].title(), "NIC0 (mlx5_bond_0)");
    // An old driver has the cards' own names, and no NUMA nodes. `SOC` was `SYS`.
    let old = "        GPU0    GPU1    mlx5_0  mlx5_1  CPU Affinity\n\
        GPU0     X      SOC     PIX     SOC     0-9,20-29\n\
        GPU1    SOC      X      SOC     PXB     10-19,30-39\n\
        mlx5_0  PIX     SOC      X      SOC\n\
        mlx5_1  SOC     PXB     SOC      X\n";
    let topology = Topology::read(old).expect("a matrix");
    assert_eq!(topology.link("GPU1", "NIC1"), Some("PXB"));
    assert_eq!(topology.devices[3].title(), "NIC1 (mlx5_1)");
    assert_eq!(topology.devices[1].cpus.as_deref(), Some("10-19,30-39"));
    // One GPU, as in a container, and one with unknown CPUs, as in a virtual machine.
    let one = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-15\t0-1\t\tN/A\n";
    let topology = Topology::read(one).expect("a matrix");
    assert_eq!(
        (topology.devices.len(), topology.devices[0].numa),
        (1, None)
    );
    assert_eq!(topology.devices[0].cpus.as_deref(), Some("0-15"));
    let unknown = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t\tN/A\n\
        GPU1\tPHB\t X \t\tN/A\n";
    let topology = Topology::read(unknown).expect("a matrix");
    assert_eq!(
        (topology.devices[0].numa, &topology.devices[0].cpus),
        (None, &None)
    );
    // Without the tab before the heading, indented, and the rows of GPUs alone.
    let cut = "  GPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n  \
        GPU0\t X \tSYS\tPIX\t0,2,4,6\t0\t\tN/A\n  GPU1\tSYS\t X \tSYS\t1,3,5,7\t1\t\tN/A\n";
    let topology = Topology::read(cut).expect("a matrix");
    let second = &topology.devices[1];
    assert_eq!(
        (second.numa, second.cpus.as_deref()),
        (Some(1), Some("1,3,5,7"))
    );
    assert_eq!(topology.link("NIC0", "GPU0"), Some("PIX"));
    assert_eq!(topology.link("NIC0", "NIC0"), Some("X"));
    // What can be done over a link is no link, and may stand behind the matrix.
    let possible = " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n";
    assert!(Topology::read(possible).is_ok_and(|read| read.is_of_p2p()));
    let both = Topology::read(&format!("{unknown}\n{possible}"));
    assert_eq!(
        both.as_ref().ok().and_then(|t| t.link("GPU0", "GPU1")),
        Some("PHB")
    );
}

#[test]
fn a_file_of_several_hosts_keeps_their_devices_apart() {
    let host = |hash: &str, ranks: [u32; 2]| {
        let gpu = |dev: usize| {
            format!(
                "<pci busid=\"0000:0{dev}:00.0\"><gpu dev=\"{dev}\" sm=\"100\" rank=\"{}\"><nvlink \
                 target=\"ffff:ff:ff\" count=\"18\" tclass=\"0x068000\"/><c2c bw=\"45000\" count=\"10\"/>\
                 </gpu></pci>",
                ranks[dev]
            )
        };
        format!(
            "<cpu host_hash=\"{hash}\" numaid=\"0\">{}{}<nic><net name=\"mlx5_0\" \
             dev=\"0\"/></nic></cpu>",
            gpu(0),
            gpu(1)
        )
    };
    let text = format!(
        "<system version=\"1\">{}{}</system>",
        host("0xa", [0, 1]),
        host("0xb", [2, 3])
    );
    let topology = Topology::read(&text).expect("XML");
    let names: Vec<&str> = topology.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["GPU0", "GPU1", "GPU2", "GPU3", "NIC0", "NIC1"]);
    assert_eq!(topology.link("GPU0", "GPU3"), Some("NV18"));
    assert_eq!(topology.link("GPU0", "NIC0"), Some("PHB"));
    assert_eq!(topology.link("GPU0", "NIC1"), Some("-"));
    assert!(remarks(&topology).is_empty(), "{:?}", remarks(&topology));
}

#[test]
fn an_nvlink_to_a_power_cpu_is_none_between_gpus() {
    let gpu = |dev: u32| {
        format!(
            "<pci busid=\"000{dev}:01:00.0\"><gpu dev=\"{dev}\" sm=\"70\"><nvlink target=\"CPU\" \
             count=\"3\" tclass=\"0x068001\"/></gpu></pci>"
        )
    };
    let text = format!(
        "<system><cpu numaid=\"0\">{}{}</cpu></system>",
        gpu(0),
        gpu(1)
    );
    let topology = Topology::read(&text).expect("XML");
    assert_eq!(topology.link("GPU0", "GPU1"), Some("PHB"));
}

#[test]
fn nccl_s_file_gives_the_same_kinds_of_links() {
    let topology = Topology::read(XML).expect("XML");
    let names: Vec<String> = topology.devices.iter().map(Device::title).collect();
    assert_eq!(
        names,
        [
            "GPU0 (0000:18:00.0)",
            "GPU1 (0000:98:00.0)",
            "NIC0 (mlx5_0)",
            "NIC1 (mlx5_1)"
        ]
    );
    let links = [
        ("GPU0", "GPU1", "NV18"),
        ("GPU0", "NIC0", "PIX"),
        ("GPU0", "NIC1", "PHB"),
    ];
    for (from, to, link) in links {
        assert_eq!(topology.link(from, to), Some(link), "{from} {to}");
    }
    assert_eq!(topology.link("GPU1", "NIC0"), Some("SYS"));
    assert_eq!(topology.devices[1].numa, Some(1));
}

#[test]
fn a_link_that_changed_is_named_once() {
    let a = Topology::read(MATRIX).expect("a matrix");
    let b = Topology::read(
        &MATRIX
            .replace("NV18\tNV18", "NV18\tPHB")
            .replace("GPU2\tNV18", "GPU2\tPHB"),
    );
    let changes = compare(&a, &b.expect("a matrix"));
    let [change] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!((change.from.as_str(), change.to.as_str()), ("GPU0", "GPU2"));
    assert_eq!(
        (change.a.as_deref(), change.b.as_deref()),
        (Some("NV18"), Some("PHB"))
    );
    assert!(compare(&a, &a).is_empty());
}

#[test]
fn what_costs_bandwidth_is_said() {
    let said = remarks(&Topology::read(MATRIX).expect("a matrix"));
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0]
        .sentence
        .starts_with("GPU1 and GPU2 have no NVLink and are connected by SYS"));
    assert!(said[1]
        .sentence
        .starts_with("GPU1 reaches every network card across sockets"));
}

/// A matrix of GPUs alone.
fn gpus(rows: &[&[&str]]) -> Topology {
    let device = |at| Device {
        name: format!("GPU{at}"),
        ..Device::default()
    };
    Topology {
        devices: (0..rows.len()).map(device).collect(),
        links: rows
            .iter()
            .map(|row| row.iter().map(|link| (*link).to_owned()).collect())
            .collect(),
    }
}

#[test]
fn pairs_without_nvlink_by_design_are_no_loss() {
    // Two GPUs with a bridge each: NVLink in pairs.
    let pairs: [&[&str]; 4] = [
        &["X", "NV12", "SYS", "SYS"],
        &["NV12", "X", "SYS", "SYS"],
        &["SYS", "SYS", "X", "NV12"],
        &["SYS", "SYS", "NV12", "X"],
    ];
    assert!(remarks(&gpus(&pairs)).is_empty());
    // Three GPUs: one has no partner, or its partner is hidden from the container.
    let odd: [&[&str]; 3] = [
        &["X", "NV12", "SYS"],
        &["NV12", "X", "SYS"],
        &["SYS", "SYS", "X"],
    ];
    assert!(remarks(&gpus(&odd)).is_empty());
    // One of four behind a switch has lost all of its links.
    let lost: [&[&str]; 4] = [
        &["X", "NV18", "NV18", "SYS"],
        &["NV18", "X", "NV18", "SYS"],
        &["NV18", "NV18", "X", "SYS"],
        &["SYS", "SYS", "SYS", "X"],
    ];
    let said = remarks(&gpus(&lost));
    let sentence = "GPU3 has no NVLink, unlike others of this host, and reaches GPU0 by SYS.";
    assert_eq!((said.len(), said[0].sentence.as_str()), (1, sentence));
    // Two links of one of them are down.
    let fewer: [&[&str]; 4] = [
        &["X", "NV18", "NV16", "NV18"],
        &["NV18", "X", "NV16", "NV18"],
        &["NV16", "NV16", "X", "NV16"],
        &["NV18", "NV18", "NV16", "X"],
    ];
    let said = remarks(&gpus(&fewer));
    let sentence = "GPU2 has 16 NVLinks, and others of this host have 18.";
    assert_eq!((said.len(), said[0].sentence.as_str()), (1, sentence));
    // Some GPUs of a mesh without a switch: what is hidden is among the links that NVML counts.
    let mesh: [&[&str]; 3] = [
        &["X", "NV1", "NV2"],
        &["NV1", "X", "SYS"],
        &["NV2", "SYS", "X"],
    ];
    let mut mesh = gpus(&mesh);
    mesh.devices
        .iter_mut()
        .for_each(|gpu| gpu.rates.nvlinks = Some(6));
    assert!(remarks(&mesh).is_empty());
    mesh.devices[2].rates.nvlinks = Some(4);
    let said = remarks(&mesh);
    let sentence = "GPU2 has 4 NVLinks, and others of this host have 6.";
    assert_eq!((said.len(), said[0].sentence.as_str()), (1, sentence));
    // The second bridge is gone.
    let mut broken = gpus(&pairs);
    broken.links[2][3] = "PHB".to_owned();
    broken.links[3][2] = "PHB".to_owned();
    let said = remarks(&broken);
    assert!(said.iter().all(|remark| remark.kind == MISSING_NVLINK));
    assert!(said
        .iter()
        .any(|r| r.sentence.starts_with("GPU2 and GPU3 have no NVLink")));
}

#[test]
fn real_files_of_two_h200_are_read() {
    let of_nvidia_smi = Topology::read(include_str!("../../tests/two_h200.topo.txt"));
    let of_nccl = Topology::read(include_str!("../../tests/two_h200.xml"));
    for topology in [of_nvidia_smi, of_nccl] {
        let topology = topology.expect("a topology");
        assert_eq!(topology.link("GPU0", "GPU1"), Some("NV18"));
        assert!(remarks(&topology).is_empty());
    }
    let graphs = graphs(include_str!("../../tests/two_h200.graphs.xml"));
    let ring = &graphs[0];
    assert_eq!(
        (ring.name.as_str(), ring.gb_per_s, ring.channels.len()),
        ("ring", Some(30.0), 12)
    );
    assert_eq!(ring.channels[0], ["GPU0", "GPU1"]);
}

const GRAPHS: &str = "<graphs version=\"1\"><graph id=\"0\" speedintra=\"30\" typeintra=\"NVL\">\
    <channel><net dev=\"1\"/><gpu dev=\"0\"/><gpu dev=\"0x1\"/><net dev=\"1\"/></channel>\
    </graph></graphs>";

#[test]
fn a_card_across_sockets_is_named_if_a_nearer_one_is_there() {
    // NIC0 and NIC1 are on GPU0's socket; GPU1 has none on its own.
    let mut topology = Topology::read(XML).expect("XML");
    let graphs = graphs(GRAPHS);
    assert!(far_cards(&topology, &graphs).is_empty());
    let at = |name: &str| topology.devices.iter().position(|d| d.name == name);
    let (gpu, card) = (at("GPU1").expect("a GPU"), at("NIC0").expect("a card"));
    topology.links[gpu][card] = "PIX".to_owned();
    topology.links[card][gpu] = "PIX".to_owned();
    let said = far_cards(&topology, &graphs);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        said[0].sentence,
        "NCCL uses NIC1 (mlx5_1) beside GPU1, across sockets (SYS), although NIC0 (mlx5_0) is nearer."
    );
}

#[test]
fn other_texts_are_neither() {
    for text in ["", "hello", "GPU0\nno row", "\tGPU0\nGPU0", "GPU0 is hot\n"] {
        assert!(Topology::read(text).is_err(), "{text}");
    }
    assert_eq!(Topology::read("hello"), Err(Unreadable::Other));
    for text in ["<system", "<a></a>", &XML[..XML.len() / 2]] {
        assert_eq!(Topology::read(text), Err(Unreadable::Xml), "{text}");
    }
    assert_eq!(Topology::read(GRAPHS), Err(Unreadable::Graphs));
}

#[test]
fn a_matrix_that_is_cut_or_wrapped_is_not_read_as_another() {
    // Behind the second row; within it; and the third has lost a cell.
    let behind = MATRIX.find("GPU2\tNV18").expect("there");
    let no_row = Unreadable::NoRow {
        device: "GPU2".to_owned(),
    };
    assert_eq!(Topology::read(&MATRIX[..behind]), Err(no_row));
    let row = |device: &str, found: usize| Unreadable::Row {
        device: device.to_owned(),
        found,
        expected: 4,
    };
    let within = MATRIX.find("\tSYS\tSYS\t48").expect("there");
    assert_eq!(Topology::read(&MATRIX[..within]), Err(row("GPU1", 2)));
    let shifted = MATRIX.replace("GPU2\tNV18\tSYS", "GPU2\tNV18");
    assert_eq!(Topology::read(&shifted), Err(row("GPU2", 3)));
    // A terminal put the columns of cards into a second part, and the legend has more of them.
    let wrapped = MATRIX.replace("NIC0: mlx5_0\n", "NIC0: mlx5_0\n  NIC1: mlx5_1\n");
    let legend = Unreadable::Legend {
        card: "NIC1".to_owned(),
    };
    assert_eq!(Topology::read(&wrapped), Err(legend));
    // Rows of cards alone may be missing: their links are in those of the GPUs.
    assert!(Topology::read(&MATRIX.replace("NIC0\tPIX\tSYS", "")).is_ok());
}

#[test]
fn ends_of_a_link_that_contradict_each_other_are_named_as_they_are() {
    // Three GPUs have all of their links, and one end of a link of two others has none.
    for (from, to) in [(3, 4), (4, 3)] {
        let row = |at: usize| {
            (0..5)
                .map(|to| if to == at { "X" } else { "NV18" })
                .collect()
        };
        let mut rows: Vec<Vec<&str>> = (0..5).map(row).collect();
        rows[from][to] = "SYS";
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        let said = remarks(&gpus(&rows));
        let said: Vec<&str> = said.iter().map(|r| r.sentence.as_str()).collect();
        let sentence =
            "GPU3 and GPU4 have no NVLink and are connected by SYS, unlike others of this host.";
        assert_eq!(said, [sentence]);
    }
}

#[test]
fn a_gpu_without_nvlink_is_one_remark_if_others_differ_too() {
    let rows: [&[&str]; 5] = [
        &["X", "NV18", "SYS", "NV17", "NV18"],
        &["NV18", "X", "SYS", "NV18", "NV18"],
        &["SYS", "SYS", "X", "SYS", "SYS"],
        &["NV18", "NV17", "SYS", "X", "NV18"],
        &["NV18", "NV17", "SYS", "NV18", "X"],
    ];
    let said = remarks(&gpus(&rows));
    let said: Vec<&str> = said.iter().map(|r| r.sentence.as_str()).collect();
    let of_gpu_2 = said.iter().filter(|sentence| sentence.contains("GPU2"));
    assert_eq!(of_gpu_2.count(), 1, "{said:?}");
    assert!(
        said.iter()
            .any(|s| s.starts_with("GPU2 has no NVLink, unlike")),
        "{said:?}"
    );
    let ends = "GPU0-GPU3 (NV17 and NV18), GPU1-GPU3 (NV18 and NV17), GPU1-GPU4 (NV18 and NV17)";
    assert!(said[0].contains(ends), "{said:?}");
}

#[test]
fn what_is_possible_between_gpus_is_read_and_said() {
    let text = " \tGPU0\tGPU1\tGPU2\n GPU0\tX\tCNS\tOK\n GPU1\tCNS\tX\tNS\n GPU2\tOK\tNS\tX\n\n\
                Legend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n";
    let all = Topology::read_all(text).expect("a matrix");
    let (tag, read) = &all[0];
    assert_eq!((all.len(), tag), (1, &None));
    assert!(read.is_of_p2p());
    let said: Vec<String> = remarks(read).into_iter().map(|r| r.sentence).collect();
    let of = |word: &str, pair: &str| {
        format!("1 of 3 pairs of GPUs can't reach each other's memory ({word}): {pair}.")
    };
    let expected = [
        of("CNS: the chipset does not support it", "GPU0-GPU1"),
        of("NS: not supported", "GPU1-GPU2"),
    ];
    assert_eq!(said, expected);
    assert!(facts(read).is_empty());
}

#[test]
fn a_device_with_a_number_that_is_none_stays() {
    let text = XML.replacen("<gpu dev=\"0\"", "<gpu dev=\"99999999999999999999\"", 1);
    assert_ne!(text, XML);
    let (whole, read) = (Topology::read(XML), Topology::read(&text));
    let (whole, read) = (whole.expect("a topology"), read.expect("a topology"));
    assert_eq!(read.links, whole.links);
    let label = read.devices[0].label.as_deref().unwrap_or_default();
    assert!(label.ends_with("(dev is no number)"), "{label}");
}
