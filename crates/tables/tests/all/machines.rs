//! Two machines with one host name are two hosts.

use capture::block;
use std::fs;
use std::path::Path;
use tables::Capture;

fn write(trace: &Path, facts: &str, id: u64) {
    fs::create_dir_all(trace.parent().expect("a folder")).expect("made");
    let mut bytes = block::file_header(id).to_vec();
    let start = block::begin(&mut bytes);
    bytes.extend(facts.as_bytes());
    block::finish(&mut bytes, start, block::BlockKind::Process, 0);
    fs::write(trace, bytes).expect("written");
}

#[test]
fn two_machines_with_one_name_are_two_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    for (rank, boot) in [(0, "0a1b2c3d"), (1, "0a1b2c3d"), (2, "9f8e7d6c")] {
        let facts = format!("host=node\nboot_id={boot}\nrank={rank}\npid={rank}\n");
        let name = format!("node/r{rank}-p{rank}-0000000{rank}.trace");
        write(&folder.path().join(name), &facts, 7 + rank);
    }
    let capture = Capture::open(folder.path()).expect("it opens");
    let hosts: Vec<&str> = capture.processes.iter().map(|p| p.host.as_str()).collect();
    assert_eq!(hosts, ["node#0a1b", "node#0a1b", "node#9f8e"]);
    assert_eq!(capture.processes[0].fact("host"), Some("node"));
}
