//! The topologies that `ncclscope run` had NCCL write into a capture.

use setup::topology::Topology;
use std::path::Path;

/// How the names of these files begin and end; the host is between.
pub const TOPOLOGY_FILE: (&str, &str) = ("topology-", ".xml");

/// By host, in order. What can't be read is left out: NCCL may have been ended while it wrote.
pub fn topologies(capture: &Path) -> Vec<(String, Topology)> {
    let entries = std::fs::read_dir(capture).into_iter().flatten().flatten();
    let read = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let host = name
            .strip_prefix(TOPOLOGY_FILE.0)?
            .strip_suffix(TOPOLOGY_FILE.1)?;
        let text = crate::files::text(&entry.path()).ok()?;
        Some((host.to_owned(), Topology::read(&text)?))
    };
    let mut found: Vec<(String, Topology)> = entries.filter_map(read).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_ends_early_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("topology-n2.xml", "<system version=\"1\"></system>");
        write("topology-n1.xml", "<system version=\"1\"><cpu");
        write("topology-n3.txt", "<system version=\"1\"></system>");
        let hosts: Vec<String> = topologies(folder.path())
            .into_iter()
            .map(|(host, _)| host)
            .collect();
        assert_eq!(hosts, ["n2"]);
    }
}
