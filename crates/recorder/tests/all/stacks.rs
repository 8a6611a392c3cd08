//! Who called NCCL: programs in Python and C with known lines, some of which must be told apart.
//!
//! `stacks/nccl.c` stands for libnccl: it calls the plugin as NCCL 2.28 does. Python programs run in every
//! CPython that is found here.

use analyze::notes::Note;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tables::calls::{CallRef, Value, COLUMNS};
use tables::Capture;

/// Where test programs are.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/stacks")
}

/// The plugin that was built last, with this test or before.
fn plugin() -> PathBuf {
    let program = std::env::current_exe().expect("a path");
    // target/debug/deps/stacks-0123
    let folders = program.ancestors().skip(1).take(2);
    let built = folders.map(|folder| folder.join("libnccl_profiler_ncclscope.so"));
    let age = |path: &PathBuf| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    let newest = built.max_by_key(age);
    newest
        .filter(|path| path.exists())
        .expect("the plugin is built with its tests")
}

fn compile(arguments: &[&str]) {
    let built = Command::new("cc").args(arguments).status();
    assert!(built.expect("there is a cc").success());
}

/// A folder with libnccl.so.2, and with the library that programs call.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("made");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let source = sources().join("nccl.c");
    let source = source.to_str().expect("text");
    let library = path("libnccl.so.2");
    let options = ["-shared", "-fPIC", "-O2", "-Wl,-soname,libnccl.so.2", "-o"];
    compile(&[&options[..], &[&library, source, "-lpthread", "-ldl"]].concat());
    std::fs::create_dir(path("site-packages")).expect("made");
    for (from, to) in [
        ("fakedist.py", "site-packages/fakedist.py"),
        ("program.py", "program.py"),
        ("daemon.py", "daemon.py"),
        ("forks.py", "forks.py"),
        ("several.py", "several.py"),
        ("remade.py", "remade.py"),
        ("program.c", "program.c"),
    ] {
        std::fs::copy(sources().join(from), path(to)).expect("copied");
    }
    folder
}

/// Runs a program of the folder with stacks on, and reads what it left.
fn record(folder: &Path, program: &str, arguments: &[&str]) -> Capture {
    record_with_output(folder, program, arguments).0
}

/// The same, with what the program printed.
fn record_with_output(folder: &Path, program: &str, arguments: &[&str]) -> (Capture, String) {
    let out = folder.join("out");
    let _ = std::fs::remove_dir_all(&out);
    let ran = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("FAKE_NCCL", folder.join("libnccl.so.2"))
        .env("NCCL_PROFILER_PLUGIN", plugin())
        .env("NCCLSCOPE_OUT", &out)
        .env("NCCLSCOPE_STACKS", "on")
        .env("NCCLSCOPE_TIMING", "host")
        .env("NCCLSCOPE_QUIET", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("ran");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{program}: {} {said}", ran.status);
    let printed = String::from_utf8(ran.stdout).expect("text");
    (Capture::open(&out).expect("a capture"), printed)
}

fn python(folder: &Path, python: &str, script: &str) -> Capture {
    record(folder, python, &[script, "site-packages"])
}

/// A text column of all calls: how many calls have which value, by their counts.
fn column(capture: &Capture, name: &str) -> BTreeMap<(u64, String), u64> {
    let column = COLUMNS.iter().find(|column| column.name == name);
    let column = column.expect("there is one");
    let mut found = BTreeMap::new();
    for (index, process) in capture.processes.iter().enumerate() {
        for call in &process.calls {
            let shape = &process.shapes[call.shape as usize];
            let call = CallRef {
                capture,
                process,
                index,
                call,
                shape,
                operation: None,
            };
            let Value::Text(text) = (column.value)(&call) else {
                panic!("{name} is null");
            };
            // Since 3.9, the program's own path is absolute.
            let folder = capture.path.parent().expect("a folder");
            let text = text.replace(&format!("{}/", folder.display()), "");
            *found.entry((shape.count, text)).or_insert(0) += 1;
        }
    }
    found
}

fn callers(capture: &Capture) -> BTreeMap<(u64, String), u64> {
    column(capture, "caller")
}

/// The callers of calls with this count.
fn of_count(callers: &BTreeMap<(u64, String), u64>, count: u64) -> Vec<(&str, u64)> {
    let of = callers.iter().filter(|((n, _), _)| *n == count);
    of.map(|((_, caller), calls)| (caller.as_str(), *calls))
        .collect()
}

/// Every CPython here, with its release: those of pyenv, of the system and of `NCCLSCOPE_TEST_PYTHONS`.
fn pythons() -> Vec<(String, (u32, u32))> {
    let mut paths: Vec<String> = Vec::new();
    if let Ok(more) = std::env::var("NCCLSCOPE_TEST_PYTHONS") {
        paths.extend(more.split(':').map(str::to_owned));
    }
    let home = std::env::var("HOME").unwrap_or_default();
    if let Ok(versions) = std::fs::read_dir(format!("{home}/.pyenv/versions")) {
        let each = versions.flatten();
        paths.extend(each.map(|v| v.path().join("bin/python3").display().to_string()));
    }
    paths.extend((6..20).map(|minor| format!("/usr/bin/python3.{minor}")));
    paths.push("python3".to_owned());
    let release = |python: &str| {
        let ask = "import sys, ctypes; print(sys.version_info[0], sys.version_info[1])";
        let said = Command::new(python).args(["-c", ask]).output().ok()?;
        let said = String::from_utf8(said.stdout).ok()?;
        let (major, minor) = said.trim().split_once(' ')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    paths.sort();
    paths.dedup();
    let found = paths.into_iter();
    found
        .filter_map(|python| release(&python).map(|release| (python, release)))
        .filter(|(_, release)| release.0 == 3)
        .collect()
}

/// Those whose frames are known.
fn known() -> Vec<(String, (u32, u32))> {
    let known = pythons()
        .into_iter()
        .filter(|(_, release)| (9..=15).contains(&release.1));
    let known: Vec<_> = known.collect();
    assert!(
        !known.is_empty(),
        "a test needs some CPython of 3.9 to 3.15"
    );
    known
}

/// The line of a program that ends with this comment.
fn line(source: &str, comment: &str) -> usize {
    let text = std::fs::read_to_string(sources().join(source)).expect("read");
    let mut lines = text.lines();
    1 + lines
        .position(|line| line.ends_with(comment))
        .expect("there is one")
}

#[test]
fn every_call_of_a_python_program_has_its_line() {
    let folder = folder();
    let path = |what: &str| format!("program.py:{}", line("program.py", what));
    for (name, release) in known() {
        let capture = python(folder.path(), &name, "program.py");
        let callers = callers(&capture);
        let only = |count: u64, calls: u64, place: String| {
            let of = of_count(&callers, count);
            let [(caller, n)] = of[..] else {
                panic!("{name}: {of:?}");
            };
            assert!(
                caller.starts_with(&place) && n == calls,
                "{name}: {place} {calls}: {of:?}"
            );
            caller.to_owned()
        };
        assert!(only(10, 3, path("# step")).ends_with(" step"));
        let other = line("program.py", "# other");
        // The line in which a call begins counts from 3.8 on.
        only(20, 2, format!("program.py:{other} other"));
        assert!(
            only(30, 5, path("# run")).contains(if release.1 < 12 {
                "listcomp"
            } else {
                "Worker.run"
            }) || release.1 < 11
        );
        only(40, 7, "autograd (C++)".to_owned());
        only(50, 2, "unknown: C or C++ code in thread pool-1".to_owned());
        only(60, 1, path("# generator"));
        only(70, 1, path("# deep"));
        only(80, 4, path("# again"));
        let stacks = column(&capture, "stack");
        let deep = of_count(&stacks, 70)[0].0;
        assert!(
            deep.starts_with("...;") && deep.matches(';').count() == 64,
            "{name}: {deep}"
        );
        let step = of_count(&stacks, 10)[0].0;
        assert!(
            step.starts_with("program.py:") && step.contains("site-packages/fakedist.py:"),
            "{step}"
        );
        assert!(of_count(&stacks, 40)[0]
            .0
            .starts_with("thread pt_autograd_0"));

        let hang = analyze::hang::hang(&capture, &analyze::hang::Conditions::default());
        let newest = hang.communicators[0].ranks[0].entered.as_ref();
        let newest = newest
            .and_then(|call| call.caller.as_deref())
            .expect("known");
        assert!(newest.contains(&path("# again")), "{name}: {newest}");

        let report = analyze::report(&capture);
        let note = Note::WithoutLine {
            calls: 2,
            why: "C or C++ code in thread pool-1".to_owned(),
        };
        assert!(report.notes.contains(&note), "{:?}", report.notes);
        let calls: u64 = report.callers.iter().map(|caller| caller.calls).sum();
        assert_eq!(
            (calls, report.callers.len()),
            (report.functions[0].calls, 8)
        );
        let host: f64 = report
            .callers
            .iter()
            .filter_map(|c| c.host_sum_over_ranks_us)
            .sum();
        let of_functions = report.functions[0].host_sum_over_ranks_us.expect("known");
        assert!((host - of_functions).abs() < 1e-6 * of_functions);
    }
}

#[test]
fn code_that_is_made_again_has_its_own_file_line_and_name() {
    let folder = folder();
    for (name, _) in known() {
        let (capture, printed) =
            record_with_output(folder.path(), &name, &["remade.py", "site-packages"]);
        let callers = callers(&capture);
        let here = format!("{}/", folder.path().display());
        let mut wrong = Vec::new();
        for line in printed.lines() {
            let parts: Vec<&str> = line.split('|').collect();
            let [count, file, number, function] = parts[..] else {
                panic!("{line}");
            };
            let truth = format!("{}:{number} {function}", file.replace(&here, ""));
            let found = of_count(&callers, count.parse().expect("a count"));
            if found != [(truth.as_str(), 1)] {
                wrong.push(format!("{truth}: {found:?}"));
            }
        }
        let calls = printed.lines().count();
        assert_eq!(calls, 160, "{name}");
        assert!(
            wrong.is_empty(),
            "{name}: {} of {calls} wrong: {wrong:#?}",
            wrong.len()
        );
        let again = of_count(&callers, 80);
        assert_eq!(again, [("again.py:1 <module>", 9000)], "{name}");
    }
}

#[test]
fn an_unknown_release_is_named() {
    let folder = folder();
    let unknown = pythons()
        .into_iter()
        .filter(|(_, release)| !(9..=15).contains(&release.1));
    for (name, release) in unknown {
        let callers = callers(&python(folder.path(), &name, "program.py"));
        let said = format!("unknown: Python 3.{}.", release.1);
        assert!(
            callers.keys().all(|(_, caller)| caller.starts_with(&said)),
            "{name}: {callers:?}"
        );
    }
}

#[test]
fn an_interpreter_that_shuts_down_takes_no_call_and_no_process_with_it() {
    let folder = folder();
    // 3.10 crashes now and then when daemon threads call C at its end, without stacks as well: they look at
    // an interpreter that is gone before they take the GIL.
    for (name, _) in known().into_iter().filter(|(_, release)| release.1 != 10) {
        for _ in 0..4 {
            let callers = callers(&python(folder.path(), &name, "daemon.py"));
            let place = format!("daemon.py:{}", line("daemon.py", "# call"));
            for (_, caller) in callers.keys() {
                let is_known = caller.starts_with(&place);
                assert!(
                    is_known || caller.starts_with("unknown: "),
                    "{name}: {caller}"
                );
            }
            assert!(
                callers.keys().any(|(_, caller)| caller.starts_with(&place)),
                "{name}"
            );
        }
    }
}

#[test]
fn a_forked_child_has_its_own_lines() {
    let folder = folder();
    for (name, _) in known() {
        let capture = python(folder.path(), &name, "forks.py");
        assert_eq!(capture.processes.len(), 2, "{name}");
        let callers = callers(&capture);
        for (count, calls, comment) in [
            (10, 2, "# parent"),
            (20, 3, "# child"),
            (30, 4, "# child's thread"),
        ] {
            let place = format!("forks.py:{}", line("forks.py", comment));
            let of = of_count(&callers, count);
            assert!(
                of.len() == 1 && of[0].0.starts_with(&place) && of[0].1 == calls,
                "{name}: {of:?}"
            );
        }
    }
}

#[test]
fn with_several_interpreters_nothing_is_guessed() {
    let folder = folder();
    for (name, _) in known() {
        let callers = callers(&python(folder.path(), &name, "several.py"));
        let place = format!("several.py:{}", line("several.py", "# alone"));
        assert!(
            of_count(&callers, 10)[0].0.starts_with(&place),
            "{name}: {callers:?}"
        );
        let several = "unknown: subinterpreters of Python are not supported";
        assert_eq!(of_count(&callers, 20), [(several, 1)], "{name}");
    }
}

/// Builds the program of C with these options and records it.
fn c_program(folder: &Path, options: &[&str]) -> BTreeMap<(u64, String), u64> {
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let program = path("a_program");
    let (source, folders) = (path("program.c"), format!("-L{}", folder.display()));
    let rpath = format!("-Wl,-rpath,{}", folder.display());
    let rest = ["-o", &program, &source, &folders, "-l:libnccl.so.2", &rpath];
    compile(&[options, &rest].concat());
    callers(&record(folder, &program, &[]))
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_c_program_is_known_by_line_by_function_or_told_to_be_stripped() {
    let folder = folder();
    let lines = |options: &[&str]| {
        let callers = c_program(folder.path(), options);
        let worker = "unknown: C or C++ code in thread worker";
        assert_eq!(of_count(&callers, 30), [(worker, 2)]);
        let one = |count: u64, calls: u64| {
            let of = of_count(&callers, count);
            assert!(of.len() == 1 && of[0].1 == calls, "{options:?}: {of:?}");
            of[0].0.to_owned()
        };
        [one(10, 2), one(20, 3)]
    };
    for options in [
        &["-g", "-O0"][..],
        &["-g", "-O2"],
        &["-g", "-O2", "-fomit-frame-pointer", "-no-pie"],
    ] {
        let [gradients, loss] = lines(options);
        let place = |comment: &str| format!("program.c:{} ", line("program.c", comment));
        assert!(
            gradients == format!("{}gradients", place("// gradients")),
            "{gradients}"
        );
        assert!(loss == format!("{}loss", place("// loss")), "{loss}");
    }
    assert_eq!(
        lines(&["-O2"]),
        ["gradients in a_program", "loss in a_program"]
    );
    for stripped in lines(&["-O2", "-s"]) {
        let is_told = stripped.starts_with("a_program+0x") && stripped.ends_with(" (no symbols)");
        assert!(is_told, "{stripped}");
    }
}
