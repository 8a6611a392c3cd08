//! `ncclscope collect --pack`: packed captures say what plain ones say, and no kill loses a file.

use crate::run::adoption::in_shared_memory;
use crate::run::client::{bytes, image, shared_memory, write_snapshot, write_trace};
use crate::run::collect::killed_alone;
use crate::run::place::{stderr, stdout, RunFolder};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tables::Capture;

fn run(place: &RunFolder, args: &[&str]) -> Output {
    place.ncclscope(args).output().expect("started")
}

/// The names of all files in a folder and below, in order.
fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("listed").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        if entry.path().is_dir() {
            let below = names(&entry.path());
            found.extend(below.into_iter().map(|below| format!("{name}/{below}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// Puts a recorded capture into `to`, as its recorder left it: nothing is compressed.
fn put(name: &str, to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(name);
    fs::create_dir_all(to).expect("made");
    for name in names(&from) {
        let bytes = fs::read(from.join(&name)).expect("read");
        let (name, bytes) = match name.strip_suffix(".zst") {
            Some(name) => (name, zstd::decode_all(&bytes[..]).expect("sound")),
            None => (name.as_str(), bytes),
        };
        let to = to.join(name);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::write(to, bytes).expect("written");
    }
}

/// What is in all processes of a capture: their files, facts, calls, and what is said of damage.
fn told(capture: &Path) -> String {
    let capture = Capture::open(capture).expect("a capture");
    let mut text = format!("{:?}\n", capture.problems);
    for process in &capture.processes {
        let found = (&process.file, &process.facts, &process.calls, process.live);
        text += &format!("{found:?}\n");
    }
    text
}

#[test]
fn packed_captures_say_what_plain_ones_say() {
    for (name, hosts) in [
        ("killed_228", &["vm"][..]),
        ("restarted_228", &["restart-1/vm", "vm"]),
        ("mix_two_hosts_228", &[]),
        ("everything_228", &[]),
    ] {
        let place = RunFolder::new();
        put(name, &place.path().join("c"));
        let verbs: [&[&str]; 7] = [
            &["report", "c"],
            &["report", "c", "--json"],
            &["hang", "c"],
            &["diff", "c", "c", "--json"],
            &["export", "c", "--to", "csv", "-o", "-"],
            &["export", "c", "--to", "perfetto", "-o", "-"],
            &["list"],
        ];
        let say = || {
            verbs
                .map(|args| run(&place, args))
                .map(|of| (of.status.code(), of.stdout))
        };
        let plain = say();
        let packed = run(&place, &["collect", "c", "--pack"]);
        assert_eq!(packed.status.code(), Some(0), "{name}: {}", stderr(&packed));
        let left = names(&place.path().join("c"));
        for name in &left {
            assert!(
                !name.ends_with("trace") && !name.ends_with("snap"),
                "{left:?}"
            );
        }
        for host in hosts {
            assert!(left.contains(&format!("{host}/pack-1.zip")), "{left:?}");
        }
        for ((args, plain), packed) in verbs.iter().zip(plain).zip(say()) {
            assert!(plain == packed, "{name}: {args:?}");
        }
        // Nothing is left to do.
        let again = run(&place, &["collect", "c", "--pack"]);
        let said = (again.status.code(), stdout(&again));
        assert_eq!(said, (Some(0), String::new()));
        assert!(
            stderr(&again).contains(", 0 files packed;"),
            "{}",
            stderr(&again)
        );
        assert_eq!(names(&place.path().join("c")), left);
        if let [host, ..] = hosts {
            let pack = format!("c/{host}/pack-1.zip");
            let hint = format!("hint: it is a pack; give the folder that it is in: `c/{host}`");
            assert!(stderr(&run(&place, &["report", &pack])).contains(&hint));
        }
    }
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let place = RunFolder::new();
    let capture = place.path().join("c");
    put("everything_228", &capture);
    put("killed_228", &place.path().join("other"));
    fs::rename(place.path().join("other/vm"), capture.join("other")).expect("moved");
    fs::rename(
        place.path().join("other/capture.json"),
        capture.join("capture.json"),
    )
    .expect("moved");
    let plain = told(&capture);
    let files = names(&capture).len();
    let (mut kills, mut seen) = (0, Vec::new());
    for delay in (0..).step_by(8) {
        let mut packing = place.ncclscope(&["collect", "c", "--pack"]);
        let packing = packing.stdout(Stdio::null()).stderr(Stdio::null());
        let mut packing = packing.spawn().expect("started");
        std::thread::sleep(Duration::from_millis(delay));
        if packing.try_wait().expect("asked").is_some() {
            break;
        }
        packing.kill().expect("killed");
        packing.wait().expect("ended");
        kills += 1;
        assert_eq!(told(&capture), plain, "killed after {delay} ms");
        let left = names(&capture).len();
        if seen.last() != Some(&left) {
            seen.push(left);
        }
    }
    // It was killed before it had packed, while it did, and after.
    assert!(
        kills > 3 && seen.contains(&files) && seen.len() > 1,
        "{kills} {seen:?}"
    );
    let done = run(&place, &["collect", "c", "--pack"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(told(&capture), plain);
    let left = names(&capture);
    let packs = ["pack-1.zip", "pack-2.zip", "pack-3.zip", "capture.json"];
    let is_known = |name: &String| packs.iter().any(|known| name.ends_with(known));
    assert!(left.len() == 3 && left.iter().all(is_known), "{left:?}");
}

#[test]
fn several_may_pack_one_folder() {
    let place = RunFolder::new();
    let capture = place.path().join("c");
    put("everything_228", &capture);
    let plain = told(&capture);
    let packing: Vec<_> = (0..4)
        .map(|_| {
            let mut one = place.ncclscope(&["collect", "c", "--pack"]);
            one.stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("started")
        })
        .collect();
    for mut one in packing {
        one.wait().expect("ended");
    }
    assert_eq!(told(&capture), plain);
    run(&place, &["collect", "c", "--pack"]);
    assert_eq!(told(&capture), plain);
    assert_eq!(names(&capture).len(), 2, "{:?}", names(&capture));
}

#[test]
fn what_comes_later_joins_the_pack_and_what_differs_is_left_alone() {
    let place = RunFolder::new();
    let host = place.path().join("c/vm");
    put("killed_228", &place.path().join("c"));
    let plain = told(&place.path().join("c"));
    let first = names(&host)
        .into_iter()
        .find(|name| name.ends_with(".trace"))
        .expect("one");
    let later = host.join(&first);
    let (kept, bytes) = (place.path().join("kept"), fs::read(&later).expect("read"));
    fs::rename(&later, &kept).expect("moved");
    fs::set_permissions(
        host.join(first.replace(".trace", ".snap")),
        fs::Permissions::from_mode(0o640),
    )
    .expect("set");
    let pack = || run(&place, &["collect", "c", "--pack"]);
    assert!(stderr(&pack()).contains(" 11 files packed ("));
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!(
        (mode(&kept), mode(&host.join("pack-1.zip"))),
        (0o644, 0o640)
    );
    fs::rename(&kept, &later).expect("moved");
    assert!(stderr(&pack()).contains(" 1 files packed ("));
    assert_eq!(names(&host), ["pack-2.zip"]);
    assert_eq!(told(&place.path().join("c")), plain);

    // As after a kill before it was removed.
    fs::write(&later, &bytes).expect("written");
    assert_eq!(pack().status.code(), Some(0));
    assert_eq!(names(&host), ["pack-2.zip"]);

    fs::write(&later, &bytes[..bytes.len() - 8]).expect("written");
    let refused = pack();
    assert_eq!(refused.status.code(), Some(1));
    let why = format!("`c/vm/pack-2.zip` has another `{first}.zst`; left alone");
    assert!(stderr(&refused).contains(&why), "{}", stderr(&refused));
    assert_eq!(names(&host), ["pack-2.zip", &first]);
}

#[test]
fn files_of_a_process_that_runs_stay() {
    let place = RunFolder::new();
    put("killed_228", &place.path().join("c"));
    let trace = place.path().join("c/vm/r0-p1-aa.trace");
    write_trace(&trace);
    // This test's own process is the writer.
    let image = image(&trace, false);
    write_snapshot(&image, &trace.with_extension("snap"));
    let mut folder = fs::DirBuilder::new();
    folder
        .recursive(true)
        .mode(0o700)
        .create(shared_memory())
        .expect("made");
    let live = shared_memory().join(format!("r0-p{}-packing.live", std::process::id()));
    fs::write(&live, bytes(&image)).expect("written");
    let done = run(&place, &["collect", "c", "--pack"]);
    fs::remove_file(live).expect("left alone");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(stderr(&done).contains("1 alive") && stderr(&done).contains("12 files packed"));
    assert_eq!(
        names(&place.path().join("c/vm")),
        ["pack-1.zip", "r0-p1-aa.snap", "r0-p1-aa.trace"]
    );
}

#[test]
fn files_of_a_process_that_may_run_elsewhere_stay_unless_they_are_copied() {
    let place = RunFolder::new();
    let capture = place.path().join("c");
    put("killed_228", &capture);
    fs::remove_file(capture.join("capture.json")).expect("removed");
    let live: Vec<String> = names(&capture)
        .into_iter()
        .filter(|n| n.ends_with(".live"))
        .collect();
    for name in &live[1..] {
        fs::remove_file(capture.join(name)).expect("removed");
    }
    let plain = told(&capture);
    let done = run(&place, &["collect", "c", "--pack"]);
    // The one with an adopted live part is over, because nothing is adopted of what runs.
    let said = stderr(&done);
    assert!(said.contains("3 elsewhere, 3 files packed ("), "{said}");
    assert_eq!(names(&capture).len(), 1 + 6);
    assert_eq!(told(&capture), plain);
    let copied = run(&place, &["collect", "c", "--into", "d", "--pack"]);
    assert_eq!(copied.status.code(), Some(0), "{}", stderr(&copied));
    assert_eq!(names(&place.path().join("d")), ["vm/pack-1.zip"]);
}

#[test]
fn a_live_part_is_adopted_into_a_packed_capture() {
    let place = RunFolder::new();
    killed_alone(&place);
    let [left] = &in_shared_memory(&place)[..] else {
        panic!("no live part");
    };
    let image = fs::read(left).expect("read");
    let adopted = run(&place, &["collect", "c"]);
    assert_eq!(adopted.status.code(), Some(0), "{}", stderr(&adopted));
    let whole = told(&place.path().join("c"));
    // As if it had been packed before its live part was found.
    fs::remove_file(&place.files("live")[0]).expect("removed");
    fs::write(place.path().join("c/capture.json"), r#"{"ended": "now"}"#).expect("written");
    let gone = run(&place, &["collect", "c", "--pack"]);
    assert_eq!(gone.status.code(), Some(1), "{}", stderr(&gone));
    fs::write(left, image).expect("written");
    let adopted = run(&place, &["collect", "c", "--pack"]);
    assert!(
        stderr(&adopted).contains("1 adopted"),
        "{}",
        stderr(&adopted)
    );
    assert_eq!(
        names(&place.path().join("c")),
        ["capture.json", "host0/pack-2.zip"]
    );
    assert_eq!(told(&place.path().join("c")), whole);
}

#[test]
fn damaged_packs_are_told_with_what_they_cost() {
    let place = RunFolder::new();
    let capture = place.path().join("c");
    put("killed_228", &capture);
    run(&place, &["collect", "c", "--pack"]);
    let pack = capture.join("vm/pack-1.zip");
    let whole = fs::read(&pack).expect("read");
    let problems = |bytes: &[u8]| -> (usize, Vec<String>) {
        let mut file = fs::File::create(&pack).expect("made");
        file.write_all(bytes).expect("written");
        let capture = Capture::open(&capture).expect("a capture");
        let calls = capture.processes.iter().map(|p| p.calls.len()).sum();
        (
            calls,
            capture.problems.iter().map(ToString::to_string).collect(),
        )
    };
    let (all, none) = problems(&whole);
    assert_eq!(none, [] as [&str; 0]);
    // Its end is gone, and with it the list.
    let (calls, said) = problems(&whole[..whole.len() - 40]);
    assert_eq!((calls, said.len()), (all, 1), "{said:?}");
    assert!(said[0].starts_with("vm/pack-1.zip, its list of files: expected a whole zip archive"));
    assert!(
        said[0].ends_with("12 files were found without the list"),
        "{said:?}"
    );
    // And much of its content.
    let (calls, said) = problems(&whole[..whole.len() / 2]);
    assert!(
        calls > 0 && calls < all && said.len() > 1,
        "{calls} of {all}: {said:?}"
    );
    // A byte in the middle of a file.
    let mut flipped = whole.clone();
    let middle = flipped.len() / 3;
    flipped[middle] ^= 1;
    let (calls, said) = problems(&flipped);
    assert!(calls <= all && !said.is_empty(), "{calls} of {all}");
    assert!(
        said[0].starts_with("vm/pack-1.zip/r") && said[0].contains(".zst, byte "),
        "{said:?}"
    );
    let told = run(&place, &["report", "c"]);
    assert!(stdout(&told).contains("pack-1.zip"), "{}", stdout(&told));
}

/// Whatever the bytes of a pack are, something is read or said, and nothing panics.
#[test]
fn no_bytes_of_a_pack_make_it_panic() {
    let place = RunFolder::new();
    let capture = place.path().join("c");
    put("killed_228", &capture);
    run(&place, &["collect", "c", "--pack"]);
    let pack = capture.join("vm/pack-1.zip");
    let whole = fs::read(&pack).expect("read");
    let central = whole
        .windows(4)
        .position(|at| at == b"PK\x01\x02")
        .expect("a list");
    let places: Vec<usize> = (0..30).chain(central..whole.len()).collect();
    for at in places.into_iter().step_by(31) {
        for value in [0, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            fs::write(&pack, bytes).expect("written");
            let _ = Capture::open(&capture);
        }
    }
}

#[test]
fn names_in_a_pack_lead_nowhere_else() {
    let place = RunFolder::new();
    let host = place.path().join("c/vm");
    fs::create_dir_all(&host).expect("made");
    let bytes = {
        let trace = place.path().join("outside/r0-p1-aa.trace");
        write_trace(&trace);
        fs::read(trace).expect("read")
    };
    let mut pack = zip::ZipWriter::new(fs::File::create(host.join("pack-1.zip")).expect("made"));
    let options = zip::write::SimpleFileOptions::default();
    let options = options.compression_method(zip::CompressionMethod::Stored);
    for name in [
        "../up.trace",
        "a/down.trace",
        "/root.trace",
        ".hidden.trace",
        "r0-p1-aa.trace",
    ] {
        pack.start_file(name, options).expect("begun");
        pack.write_all(&bytes).expect("written");
    }
    pack.finish().expect("written");
    let found = Capture::open(&place.path().join("c")).expect("a capture");
    let files: Vec<PathBuf> = found.processes.iter().map(|p| p.file.clone()).collect();
    assert_eq!(files, [Path::new("vm/r0-p1-aa.trace")]);
}

/// A member that unpacks to far more than a recorder writes is read up to a bound, and a pack that is no file
/// is not read. What is sound beside them is.
#[test]
fn a_pack_can_fill_no_memory() {
    let place = RunFolder::new();
    let host = place.path().join("c/vm");
    fs::create_dir_all(&host).expect("made");
    let trace = place.path().join("outside/r0-p1-aa.trace");
    write_trace(&trace);
    let bomb = {
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
        encoder
            .write_all(&fs::read(&trace).expect("read"))
            .expect("written");
        for _ in 0..1 << 10 {
            encoder.write_all(&[0; 1 << 20]).expect("written");
        }
        encoder.finish().expect("written")
    };
    assert!(bomb.len() < 1 << 20);
    let mut pack = zip::ZipWriter::new(fs::File::create(host.join("pack-1.zip")).expect("made"));
    let options = zip::write::SimpleFileOptions::default();
    let options = options.compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in [
        ("r0-p1-aa.trace", fs::read(&trace).expect("read")),
        ("r1-p2-bb.trace.zst", bomb),
    ] {
        pack.start_file(name, options).expect("begun");
        pack.write_all(&bytes).expect("written");
    }
    pack.finish().expect("written");
    std::os::unix::fs::symlink("/dev/zero", host.join("pack-2.zip")).expect("linked");
    // 1 GiB does not fit.
    let limited = "ulimit -v 1000000; exec \"$0\" report c";
    let mut report = place.ncclscope(&["report", "c"]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_ncclscope")]);
    shell.current_dir(place.path());
    let limited = shell.output().expect("started");
    assert!(limited.status.success(), "{}", stderr(&limited));
    let whole = report.output().expect("started");
    assert_eq!(stdout(&limited), stdout(&whole));
    let found = Capture::open(&place.path().join("c")).expect("a capture");
    assert_eq!(found.processes[0].file, Path::new("vm/r0-p1-aa.trace"));
    let said: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    let has = |start: &str, end: &str| {
        said.iter()
            .any(|s| s.starts_with(start) && s.ends_with(end))
    };
    assert!(has("vm/pack-2.zip", "no regular file"), "{said:?}");
    assert!(
        has(
            "vm/pack-1.zip/r1-p2-bb.trace.zst, byte ",
            "more; it was not read"
        ),
        "{said:?}"
    );
}
