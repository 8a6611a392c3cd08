//! `NCCLSCOPE_NVTX` and `NCCLSCOPE_SCOREP`: calls as ranges in other tools, which stubs stand for.

use crate::built;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool that takes NVTX ranges, and Score-P's functions. Each line of the file is written at once.
const TOOLS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(const char *what, const char *text, unsigned long number) {
    char line[300];
    int n = snprintf(line, sizeof line, "%d %s %lu %s\n", (int)syscall(SYS_gettid), what, number, text);
    int file = open(getenv("RANGES"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (write(file, line, n) != n) abort();
    close(file);
}

#ifdef SCOREP
void SCOREP_User_RegionByNameBegin(const char *name, uint32_t type, const char *file, uint32_t line) {
    say("begin", name, type + line);
}
void SCOREP_User_RegionByNameEnd(const char *name) { say("end", name, 0); }
#else
struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
};
static void *create(const char *name) { say("domain", name, 0); return (void *)0x77; }
static int push(void *domain, const struct attributes *a) {
    if (domain != (void *)0x77 || a->version != 3 || a->size != 48) abort();
    if (a->payload_type != 1 || a->message_type != 1) abort();
    say("push", a->message, a->payload);
    return 0;
}
static int pop(void *domain) {
    if (domain != (void *)0x77) abort();
    say("pop", "", 0);
    return 0;
}
struct callbacks { size_t size; int (*table)(uint32_t, void ****, unsigned *); };
int InitializeInjectionNvtx2(const struct callbacks *(*export)(uint32_t)) {
    const struct callbacks *callbacks = export(1);
    void ***table;
    unsigned n;
    /* As tools do, all modules are asked for, and each entry that there is can be written to. */
    for (unsigned module = 1; module < 7; module++) {
        if (!callbacks->table(module, &table, &n) || n < 7) abort();
        for (unsigned i = 1; i < n; i++) *table[i] = 0;
    }
    if (callbacks->table(0, &table, &n) || callbacks->table(99, &table, &n) || export(7)) abort();
    if (!callbacks->table(5, &table, &n) || n != 16) abort();
    *table[4] = (void *)push;
    *table[5] = (void *)pop;
    *table[12] = (void *)create;
    return getenv("REFUSE") == 0;
}
#endif
"#;

/// A folder with the tools, built, and the lines that they wrote.
struct Tools(tempfile::TempDir);

impl Tools {
    fn built() -> Tools {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tools.c"), TOOLS).expect("written");
        for (library, define) in [("nvtx.so", "-DNVTX"), ("scorep.so", "-DSCOREP")] {
            let status = Command::new("cc")
                .args([
                    "-shared", "-fPIC", "-Wall", "-Werror", define, "-o", library, "tools.c",
                ])
                .current_dir(folder.path())
                .status();
            assert!(status.expect("a C compiler").success());
        }
        Tools(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Plays a job. Returns what the recorder and fake-nccl said.
    fn play(&self, what: &[&str], job: &Path, variables: &[(&str, &str)]) -> String {
        let out = Command::new(built::folder().join("fake-nccl"))
            .args(what)
            .arg(job)
            .env("NCCL_PROFILER_PLUGIN", built::plugin())
            .env("NCCLSCOPE_OUT", self.at("capture"))
            .env("NCCLSCOPE_TIMING", "host")
            .env("RANGES", self.at("ranges"))
            .envs(variables.iter().copied())
            .output()
            .expect("`make debug` builds it");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}");
        said
    }

    /// The lines of each thread.
    fn lines(&self) -> BTreeMap<u32, Vec<String>> {
        let text = std::fs::read_to_string(self.at("ranges")).unwrap_or_default();
        let mut lines: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (thread, line) in text.lines().filter_map(|line| line.split_once(' ')) {
            let thread = thread.parse().expect("a number");
            lines.entry(thread).or_default().push(line.to_owned());
        }
        lines
    }
}

/// How many ranges begin, if each ends in its thread.
fn balanced(lines: &BTreeMap<u32, Vec<String>>, (begin, end): (&str, &str)) -> usize {
    let mut all = 0;
    for (thread, lines) in lines {
        let mut open = 0;
        for line in lines {
            if line.starts_with(begin) {
                (open, all) = (open + 1, all + 1);
            } else if line.starts_with(end) {
                assert!(open > 0, "{thread}: {lines:?}");
                open -= 1;
            }
        }
        assert_eq!(open, 0, "{thread}: {lines:?}");
    }
    all
}

fn recorded(name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    data.join(name)
}

#[test]
fn each_call_of_a_recorded_job_is_an_nvtx_range() {
    let tools = Tools::built();
    let tool = tools.at("nvtx.so");
    let tool = tool.to_str().expect("UTF-8");
    let job = recorded("ddp8_two_hosts");
    let nvtx = [("NCCLSCOPE_NVTX", "1"), ("NVTX_INJECTION64_PATH", tool)];
    tools.play(&["replay"], &job, &nvtx);
    let lines = tools.lines();
    // 34 calls on each of 8 ranks.
    assert_eq!(balanced(&lines, ("push", "pop")), 272);
    // Name, bytes, communicator and number are those of the capture.
    let recorded = tables::Capture::open(&tools.at("capture")).expect("it opens");
    let mut expected = Vec::new();
    for process in &recorded.processes {
        for call in &process.calls {
            let shape = &process.shapes[call.shape as usize];
            let function = recorded.names.get(shape.function).expect("a name");
            let datatype = recorded.names.get(shape.datatype).expect("a datatype");
            let bytes = shape.count * nccl_abi::names::datatype_size(datatype) as u64;
            let of = &recorded.communicators[shape.communicator.expect("one") as usize];
            let number = call.seq - 1;
            let of = format!("{:016x}", of.hash);
            expected.push(format!(
                "push {bytes} {function} {bytes} B, communicator {of}, call {number}"
            ));
        }
    }
    let mut found: Vec<String> = lines.into_values().flatten().collect();
    found.retain(|line| line.starts_with("push"));
    found.sort();
    expected.sort();
    assert!(
        found == expected,
        "{:?} {:?}",
        found.first(),
        expected.first()
    );
}

#[test]
fn without_the_setting_no_tool_is_called() {
    let tools = Tools::built();
    let (nvtx, scorep) = (tools.at("nvtx.so"), tools.at("scorep.so"));
    let variables = [
        ("NVTX_INJECTION64_PATH", nvtx.to_str().expect("UTF-8")),
        ("LD_PRELOAD", scorep.to_str().expect("UTF-8")),
    ];
    std::fs::write(tools.at("job"), "ranks 2\nall_reduce 1MiB x3\n").expect("written");
    tools.play(&["play"], &tools.at("job"), &variables);
    assert!(tools.lines().is_empty());
}

#[test]
fn calls_of_a_group_are_nested_and_all_end() {
    let tools = Tools::built();
    let tool = tools.at("nvtx.so");
    let job = "ranks 2\ngroup { send 1MiB to=+1 ; recv 1MiB from=-1 }\nall_reduce 1KiB x2\n";
    std::fs::write(tools.at("job"), job).expect("written");
    let tool = tool.to_str().expect("UTF-8");
    let nvtx = [("NCCLSCOPE_NVTX", "on"), ("NVTX_INJECTION64_PATH", tool)];
    tools.play(&["play"], &tools.at("job"), &nvtx);
    let lines = tools.lines();
    assert_eq!(balanced(&lines, ("push", "pop")), 8);
    let first = lines
        .values()
        .find(|lines| lines.iter().any(|line| line.contains("Send")));
    let kinds = first
        .expect("a rank")
        .iter()
        .filter_map(|line| line.split(' ').next());
    let kinds: Vec<&str> = kinds.filter(|kind| *kind != "domain").collect();
    let expected = ["push", "push", "pop", "pop", "push", "pop", "push", "pop"];
    assert_eq!(kinds, expected);
}

#[test]
fn a_tool_that_is_not_there_costs_nothing_but_a_line() {
    let tools = Tools::built();
    std::fs::write(tools.at("job"), "ranks 1\nall_reduce 1MiB x3\n").expect("written");
    let tool = tools.at("nvtx.so");
    for (variables, why) in [
        (vec![], "NVTX_INJECTION64_PATH is not set"),
        (
            vec![("NVTX_INJECTION64_PATH", "/nowhere.so")],
            "`/nowhere.so` can't be loaded",
        ),
        (
            vec![
                ("NVTX_INJECTION64_PATH", tool.to_str().expect("UTF-8")),
                ("REFUSE", "1"),
            ],
            "refused",
        ),
    ] {
        let variables = [
            vec![("NCCLSCOPE_NVTX", "1"), ("NCCLSCOPE_SCOREP", "1")],
            variables,
        ]
        .concat();
        let said = tools.play(&["play"], &tools.at("job"), &variables);
        assert!(
            said.contains("NCCLSCOPE_NVTX=on has no effect") && said.contains(why),
            "{said}"
        );
        assert!(said.contains("NCCLSCOPE_SCOREP=on has no effect"), "{said}");
    }
}

/// NVTX has the recorder itself, which reads steps. It must not hand ranges to itself.
#[test]
fn the_recorder_is_no_tool_that_takes_its_ranges() {
    let tools = Tools::built();
    let job = "ranks 1\nall_reduce 1MiB x3\n";
    std::fs::write(tools.at("job"), job).expect("written");
    let plugin = built::plugin();
    let variables = [
        ("NCCLSCOPE_NVTX", "1"),
        ("NCCLSCOPE_STEPS", "nvtx"),
        ("NVTX_INJECTION64_PATH", plugin.to_str().expect("UTF-8")),
    ];
    let said = tools.play(&["play"], &tools.at("job"), &variables);
    let line = "NCCLSCOPE_NVTX=on has no effect: NVTX_INJECTION64_PATH is ncclscope's own library";
    assert!(said.contains(line), "{said}");
    assert!(
        !said.contains("NCCLSCOPE_STEPS=nvtx has no effect"),
        "{said}"
    );
}

#[test]
fn each_call_is_a_region_of_score_p() {
    let tools = Tools::built();
    let scorep = tools.at("scorep.so");
    let variables = [
        ("NCCLSCOPE_SCOREP", "1"),
        ("LD_PRELOAD", scorep.to_str().expect("UTF-8")),
    ];
    tools.play(&["replay"], &recorded("ddp8_two_hosts"), &variables);
    let lines = tools.lines();
    assert_eq!(balanced(&lines, ("begin", "end")), 272);
    let all: Vec<&String> = lines.values().flatten().collect();
    assert!(all.iter().any(|line| *line == "begin 0 ncclAllReduce"));
    assert!(all.iter().any(|line| *line == "end 0 ncclAllReduce"));
}
