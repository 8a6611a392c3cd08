//! Why a profiler has no record of any call: what it left, and what NCCL says of it.
//!
//! [`what_was_left`] compares its records with the calls. If it left no record, [`asks_nccl`] runs the work
//! once more with NCCL's log on, and [`in_log`] looks there for the plugin. Only the log says that NCCL could
//! not open a plugin.
//!
//! Rule: the run with the log gives no figure, because a log costs time.

use crate::records::Records;
use crate::truth::Truth;
use render::layout::plural;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Lines of a log that are quoted.
const QUOTED: usize = 3;

/// What records that match no call are of, or none if there are no records.
pub(crate) fn what_was_left(truth: &Truth, records: &Records) -> Option<String> {
    let rows = &records.rows;
    if rows.is_empty() {
        let files = records.foreign_files.len() as u64;
        let unreadable = match records.unreadable {
            0 => String::new(),
            n => format!(", {} that can't be read", plural(n, "row", "rows")),
        };
        return match records.foreign_files.first() {
            Some(file) => Some(format!(
                "it left {} in no format that is read here, such as `{}`{unreadable}",
                plural(files, "file", "files"),
                file.file_name().unwrap_or_default().to_string_lossy()
            )),
            None if records.format != "none" => Some(format!(
                "its output ({}) has no record of a call{unreadable}",
                records.format
            )),
            None => None,
        };
    }
    let named = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    let done: BTreeSet<&str> = truth.calls.keys().map(|key| &*key.function).collect();
    let found: BTreeSet<&str> = rows.iter().map(|row| &*row.function).collect();
    let left = plural(rows.len() as u64, "record", "records");
    let left = format!("it left {left} ({})", records.format);
    if rows.iter().all(|row| truth.rank_of(row).is_none()) {
        return Some(format!(
            "{left}, and none of them names a rank or a process of the work"
        ));
    }
    if found.is_disjoint(&done) {
        return Some(format!(
            "{left} of {}, and the work called {}",
            named(found),
            named(done)
        ));
    }
    let ranks = |of: BTreeSet<u32>| of.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let had: BTreeSet<u32> = truth.calls.keys().map(|key| key.rank).collect();
    let said: BTreeSet<u32> = rows.iter().filter_map(|row| truth.rank_of(row)).collect();
    if said.is_disjoint(&had) {
        return Some(format!(
            "{left} of rank {}, and the work has rank {}",
            ranks(said),
            ranks(had)
        ));
    }
    Some(format!(
        "{left} of the functions and ranks of the work, with other sizes or sequence numbers"
    ))
}

/// Has NCCL write its log of this run into `folder`, one file for each process.
pub(crate) fn with_log(command: &mut Command, folder: &Path) {
    command
        .env("NCCL_DEBUG", "INFO")
        // All but what is said of each call or connection: a plugin's own lines may have any other mark.
        .env(
            "NCCL_DEBUG_SUBSYS",
            "^COLL,P2P,SHM,NET,GRAPH,TUNING,ALLOC,CALL,PROXY,NVLS,REG",
        )
        .env("NCCL_DEBUG_FILE", folder.join("nccl-%h-%p.log"));
}

/// What NCCL's log and the work's stderr in `folder` say of the plugin.
pub(crate) fn asks_nccl(folder: &Path, name: &str, plugin: &str) -> String {
    let mut logs = String::new();
    let mut text = String::new();
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = files.map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let is_log = file.extension().is_some_and(|end| end == "log");
        let bytes = if is_log || file.ends_with("stderr") {
            std::fs::read(&file).unwrap_or_default()
        } else {
            continue;
        };
        let of = if is_log { &mut logs } else { &mut text };
        of.push_str(&String::from_utf8_lossy(&bytes));
        of.push('\n');
    }
    in_log(&logs, &text, name, plugin)
}

/// What NCCL's log says of a plugin that left nothing, and what it printed itself.
fn in_log(log: &str, stderr: &str, name: &str, plugin: &str) -> String {
    let nothing = "it wrote no file";
    let said: Vec<&str> = log
        .lines()
        .filter_map(|line| Some(line.split_once(" NCCL ")?.1.split_once(' ')?.1.trim()))
        .collect();
    // As `PROFILER/Plugin: Loaded Inspector (v5)`: the name by which the plugin's own lines are known.
    let loaded = said
        .iter()
        .find_map(|line| line.strip_prefix("PROFILER/Plugin: ")?.split_once("oaded "))
        .and_then(|(_, name)| name.split_whitespace().next());
    let file = Path::new(plugin).file_name().unwrap_or_default();
    let words = [name, loaded.unwrap_or(name), &file.to_string_lossy()].map(str::to_lowercase);
    let is_of_it = |line: &str| {
        let line = line.to_lowercase();
        line.contains("profiler") || words.iter().any(|word| line.contains(word.as_str()))
    };
    // That it was loaded, its settings, and the variables that NCCL read.
    const KNOWN: [&str; 5] = [
        "oaded ",
        "Closing",
        " = ",
        "set by env",
        "Environment Variables",
    ];
    let mut lines: Vec<&str> = Vec::new();
    for line in said.into_iter().chain(stderr.lines().map(str::trim)) {
        let is_known = KNOWN.iter().any(|word| line.contains(word));
        // Older releases look for every version of the interface, newest first.
        let is_search = loaded.is_some() && line.contains("failed to find");
        if is_of_it(line) && !is_known && !is_search && !lines.contains(&line) {
            lines.push(line);
        }
    }
    // What went wrong first.
    const TROUBLE: [&str; 9] = [
        "could not",
        "cannot",
        "can't",
        "fail",
        "error",
        "unsupported",
        "disabled",
        "undefined",
        "not ",
    ];
    let is_trouble = |line: &&str| {
        let line = line.to_lowercase();
        !TROUBLE.iter().any(|word| line.contains(word))
    };
    lines.sort_by_key(is_trouble);
    lines.truncate(QUOTED);
    let said = lines.iter().map(|line| format!("\"{line}\""));
    let said = said.collect::<Vec<_>>().join(", ");
    match (loaded.is_some(), said.is_empty()) {
        (true, true) => format!("{nothing}, though NCCL loaded it; neither says why"),
        (true, false) => {
            format!("{nothing}, though NCCL loaded it; one more run with NCCL's log: {said}")
        }
        (false, false) => format!("{nothing}; one more run with NCCL's log: {said}"),
        (false, true) => format!("{nothing}, and NCCL's log does not name it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Record;
    use crate::truth::Key;

    #[test]
    fn the_log_says_why_a_plugin_was_not_opened() {
        let head = "host:41:41 [0] NCCL INFO";
        let log = format!(
            "{head} NCCL_PROFILER_PLUGIN set by environment to /p/libx.so\n\
             {head} NET/Plugin: Could not find: libnccl-net.so\n\
             {head} PROFILER/Plugin: /p/libx.so: libcudart.so.12: cannot open shared object file\n\
             {head} comm 0x1 rank 0 nranks 2 - Init COMPLETE\n\
             host:42:42 [1] NCCL INFO PROFILER/Plugin: /p/libx.so: libcudart.so.12: cannot open shared \
             object file\n"
        );
        let why = in_log(&log, "", "inspector", "/p/libx.so");
        assert_eq!(
            why,
            "it wrote no file; one more run with NCCL's log: \"PROFILER/Plugin: /p/libx.so: \
             libcudart.so.12: cannot open shared object file\""
        );
    }

    #[test]
    fn a_plugin_that_was_loaded_is_quoted_with_its_trouble_first() {
        let head = "host:41:41 [0] NCCL INFO";
        let log = format!(
            "{head} Successfully loaded external profiler plugin /p/libinspector.so\n\
             {head} NCCL Inspector Plugin - Version: 1\n\
             {head} PROFILER/Plugin: Loaded Inspector (v5)\n\
             {head}   NCCL_INSPECTOR_ENABLE = 1\n\
             {head} NCCL Inspector Environment Variables:\n\
             {head} Inspector Init Failed\n"
        );
        let why = in_log(&log, "inspector: no room\n", "mine", "/p/libx.so");
        assert_eq!(
            why,
            "it wrote no file, though NCCL loaded it; one more run with NCCL's log: \"Inspector Init \
             Failed\", \"NCCL Inspector Plugin - Version: 1\", \"inspector: no room\""
        );
        let log = format!("{head} PROFILER/Plugin: loaded ncclProfiler_v2.\n");
        let why = in_log(&log, "", "x", "/p/libx.so");
        assert_eq!(
            why,
            "it wrote no file, though NCCL loaded it; neither says why"
        );
        let why = in_log("", "", "x", "/p/libx.so");
        assert_eq!(why, "it wrote no file, and NCCL's log does not name it");
    }

    #[test]
    fn records_that_match_nothing_are_told_by_what_they_lack() {
        let mut truth = Truth::default();
        truth.add(Key::new("AllReduce", 1024, 0), 3);
        let row = |function: &str, rank| Record {
            function: function.into(),
            rank,
            number: 3,
            ..Record::default()
        };
        let left = |rows| {
            let records = Records {
                format: "ncclsee CSV".into(),
                rows,
                ..Records::default()
            };
            what_was_left(&truth, &records)
        };
        let why = left(vec![row("AllReduce", None)]).expect("a reason");
        assert!(
            why.ends_with("names a rank or a process of the work"),
            "{why}"
        );
        let why = left(vec![row("Reduce", Some(0))]).expect("a reason");
        assert!(
            why.ends_with("of Reduce, and the work called AllReduce"),
            "{why}"
        );
        let why = left(vec![row("AllReduce", Some(7))]).expect("a reason");
        assert!(why.ends_with("of rank 7, and the work has rank 0"), "{why}");
        assert!(left(vec![row("AllReduce", Some(0))]).is_some());
        // An output with a head and nothing else is one; without any there is none.
        assert!(left(Vec::new()).is_some());
        assert_eq!(
            what_was_left(
                &truth,
                &Records {
                    format: "none".into(),
                    ..Records::default()
                }
            ),
            None
        );
        let foreign = Records {
            format: "none".into(),
            foreign_files: vec!["/out/x.bin".into()],
            ..Records::default()
        };
        let why = what_was_left(&truth, &foreign).expect("a reason");
        assert!(why.contains("`x.bin`"), "{why}");
    }
}
