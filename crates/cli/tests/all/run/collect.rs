//! `ncclscope collect`: what no `ncclscope run` was there for, or could put into the folder.

use crate::run::adoption::{assert_adopted, in_shared_memory};
use crate::run::client::{bytes, image, shared_memory, write_snapshot, write_trace, CLIENT};
use crate::run::place::{stderr, stdout, RunFolder};
use capture::block;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Command;

/// A process that no `ncclscope run` watched, killed.
pub fn killed_alone(place: &RunFolder) {
    let mut client = Command::new(std::env::current_exe().expect("known"));
    client
        .args(["--exact", CLIENT, "--ignored"])
        .env("PLAY", "killed");
    client
        .env("NCCLSCOPE_OUT", place.path().join("c"))
        .output()
        .expect("started");
}

/// A trace file in `c/FOLDER` that has nothing but what is known of its process.
fn trace_of_a_process(place: &RunFolder, folder: &str, facts: &str) {
    let trace = place
        .path()
        .join("c")
        .join(folder)
        .join("r1-p1-00000000.trace");
    fs::create_dir_all(trace.parent().expect("a folder")).expect("made");
    let mut bytes = block::file_header(5).to_vec();
    let start = block::begin(&mut bytes);
    bytes.extend(facts.as_bytes());
    block::finish(&mut bytes, start, block::BlockKind::Process, 0);
    fs::write(&trace, bytes).expect("written");
}

#[test]
fn collect_adopts_what_no_run_was_there_for() {
    let place = RunFolder::new();
    killed_alone(&place);
    assert_eq!(
        (place.files("live").len(), in_shared_memory(&place).len()),
        (0, 1)
    );
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(
        stdout(&done).starts_with("adopted    host0  ") && stdout(&done).ends_with(".live\n"),
        "{}",
        stdout(&done)
    );
    assert_adopted(&place, 1);
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
    let again = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!(
        (again.status.code(), stdout(&again).as_str()),
        (Some(0), "")
    );
}

#[test]
fn collect_names_the_host_that_has_the_rest() {
    let place = RunFolder::new();
    let facts = "host=far\nboot_id=other\nlive=/dev/shm/ncclscope-1/x.live\n";
    trace_of_a_process(&place, "host0", facts);
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    let line = "elsewhere  far  c/host0/r1-p1-00000000.trace  /dev/shm/ncclscope-1/x.live\n";
    assert_eq!(
        (done.status.code(), stdout(&done).as_str()),
        (Some(0), line)
    );
}

#[test]
fn what_a_container_had_in_its_memory_is_elsewhere() {
    let place = RunFolder::new();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    let facts = format!(
        "host=box\nboot_id={}\npid=1\npid_namespace=1\nlive=/dev/shm/ncclscope-1/x.live\n",
        boot.trim()
    );
    trace_of_a_process(&place, "box", &facts);
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    let line = "elsewhere  box  c/box/r1-p1-00000000.trace  /dev/shm/ncclscope-1/x.live\n";
    assert_eq!(stdout(&done), line);
}

#[test]
fn collect_copies_into_a_shared_folder_and_over_nothing() {
    let place = RunFolder::new();
    killed_alone(&place);
    let collect = || {
        place
            .ncclscope(&["collect", "c", "--into", "shared"])
            .output()
            .expect("started")
    };
    let done = collect();
    assert!(
        stderr(&done).contains("1 adopted") && stderr(&done).contains("2 files copied"),
        "{}",
        stderr(&done)
    );
    let trace = &place.files("trace")[0];
    let copy = place
        .path()
        .join("shared/host0")
        .join(trace.file_name().expect("named"));
    assert_eq!(
        fs::read(trace).expect("there"),
        fs::read(&copy).expect("there")
    );
    assert!(copy.with_extension("live").exists());
    assert!(stderr(&collect()).contains("0 files copied"));
    fs::write(&copy, "other").expect("written");
    let refused = collect();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("other content"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(fs::read(&copy).expect("there"), b"other");
}

#[test]
fn another_machine_of_this_name_is_elsewhere() {
    let place = RunFolder::new();
    let name = nix::unistd::gethostname().expect("a name");
    let name = name.to_string_lossy();
    let facts = format!("host={name}\nboot_id=other\nlive=memfd\n");
    trace_of_a_process(&place, "host0", &facts);
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    let line = format!("elsewhere  {name}  c/host0/r1-p1-00000000.trace  memfd\n");
    assert_eq!((done.status.code(), stdout(&done)), (Some(0), line));
}

#[test]
fn collect_names_a_process_that_runs_once() {
    let place = RunFolder::new();
    let trace = place.path().join("c/host0/r0-p1-aa.trace");
    write_trace(&trace);
    // This test's own process is the writer.
    let image = image(&trace, false);
    write_snapshot(&image, &trace.with_extension("snap"));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(shared_memory())
        .expect("made");
    let live = shared_memory().join(format!("r0-p{}-once.live", std::process::id()));
    fs::write(&live, bytes(&image)).expect("written");
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    fs::remove_file(live).expect("left alone");
    let line = format!("alive      host0  {}\n", trace.display());
    assert_eq!(
        (done.status.code(), stdout(&done)),
        (Some(0), line),
        "{}",
        stderr(&done)
    );
    assert!(stderr(&done).contains("0 adopted, 1 alive"));
}

#[test]
fn what_a_folder_cannot_take_is_said_once_and_collected_into_another() {
    let place = RunFolder::new();
    killed_alone(&place);
    let trace = &place.files("trace")[0];
    // Nobody, root neither, can put a file in the place of a folder.
    let taken = trace.with_extension("live");
    fs::create_dir_all(taken.join("in the way")).expect("made");
    let collect = |args: &[&str]| place.ncclscope(args).output().expect("started");
    let refused = collect(&["collect", "c"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    assert_eq!(said.matches("can't be adopted").count(), 1, "{said}");
    assert!(said.contains("1 failed"), "{said}");
    assert_eq!(in_shared_memory(&place).len(), 1);

    let done = collect(&["collect", "c", "--into", "shared"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(stderr(&done).contains("1 adopted"), "{}", stderr(&done));
    let name = taken.file_name().expect("named");
    assert!(place.path().join("shared/host0").join(name).is_file());
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}

#[test]
fn what_cannot_be_printed_stops_nothing() {
    let place = RunFolder::new();
    killed_alone(&place);
    let full = || {
        File::options()
            .write(true)
            .open("/dev/full")
            .expect("there")
    };
    let run = |args: &[&str]| {
        let mut command = place.ncclscope(args);
        command.stdout(full()).output().expect("started")
    };
    for args in [&["collect", "c"][..], &["plugin-path"]] {
        let done = run(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {}", stderr(&done));
        assert!(
            stderr(&done).contains("error: writing the output: No space left"),
            "{args:?}: {}",
            stderr(&done)
        );
    }
    assert_adopted(&place, 1);
}

#[test]
fn last_calls_that_are_gone_are_an_error_and_the_report_begins_with_them() {
    let place = RunFolder::new();
    killed_alone(&place);
    for part in in_shared_memory(&place) {
        fs::remove_file(part).expect("removed");
    }
    let run = |args: &[&str]| place.ncclscope(args).output().expect("started");
    let done = run(&["collect", "c"]);
    assert_eq!(done.status.code(), Some(1), "{}", stderr(&done));
    assert!(stdout(&done).starts_with("gone "), "{}", stdout(&done));
    assert!(stderr(&done).contains("1 gone"), "{}", stderr(&done));
    // A part that was adopted and is damaged is not gone.
    let live = place.files("trace")[0].with_extension("live");
    fs::write(&live, "damaged").expect("written");
    let done = run(&["collect", "c"]);
    let said = stderr(&done);
    assert_eq!(
        (done.status.code(), &*stdout(&done)),
        (Some(1), ""),
        "{said}"
    );
    assert!(
        said.contains("can't be read (it is no live part)"),
        "{said}"
    );
}

#[test]
fn names_in_a_shared_folder_cannot_command_the_terminal() {
    let place = RunFolder::new();
    let trace = place.path().join("c/host0/\u{1b}[31mr1.trace");
    write_trace(&trace);
    let done = place
        .ncclscope(&["collect", "c"])
        .output()
        .expect("started");
    assert_eq!(
        stdout(&done),
        "gone       host0  c/host0/\\u{1b}[31mr1.trace\n"
    );
}

#[test]
fn live_parts_without_a_capture_folder_are_named_and_stay() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: no shared memory of its own is permitted here");
        return;
    }
    let place = RunFolder::new();
    let script = format!(
        "\"$CLIENT\" --exact {CLIENT} --ignored >/dev/null 2>&1; rm -r c; \
         \"$0\" collect --all; mkdir -p c/host0; \"$0\" collect; \"$0\" collect --all"
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script, env!("CARGO_BIN_EXE_ncclscope")])
        .current_dir(place.path());
    shell
        .env("CLIENT", std::env::current_exe().expect("known"))
        .env("PLAY", "killed")
        .env("TMPDIR", place.path())
        .env("NCCLSCOPE_OUT", place.path().join("c"));
    // What others have in shared memory is not to be collected here.
    let alone = || {
        let check = |result: i32| match result {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        let (none, shm) = (c"none".as_ptr(), c"/dev/shm".as_ptr());
        let (null, private) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
        // SAFETY: system calls on constants.
        unsafe {
            check(libc::unshare(libc::CLONE_NEWNS))?;
            check(libc::mount(none, c"/".as_ptr(), null, private, null.cast()))?;
            check(libc::mount(none, shm, c"tmpfs".as_ptr(), 0, null.cast()))
        }
    };
    // SAFETY: as above, and nothing is allocated.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut shell, alone) };
    let Ok(done) = shell.output() else {
        eprintln!("skipped: no shared memory of its own is permitted here");
        return;
    };
    let (out, said) = (stdout(&done), stderr(&done));
    let lines: Vec<&str> = out.lines().collect();
    let [stray, waiting, adopted] = lines[..] else {
        panic!("{out}{said}")
    };
    let folder = place.path().join("c");
    let way_out = format!("run `ncclscope collect {}`", folder.display());
    assert!(
        stray.starts_with("stray      host0  /dev/shm/ncclscope-0/r0-p"),
        "{stray}"
    );
    assert!(stray.contains(&way_out), "{stray}");
    assert!(said.contains("0 elsewhere, 1 stray"), "{said}");
    // Without --all, nothing is changed.
    assert!(waiting.starts_with("waiting    host0  "), "{waiting}");
    assert!(
        said.contains("0 adopted, 0 alive, 0 elsewhere, 1 waiting"),
        "{said}"
    );
    assert!(adopted.starts_with("adopted    host0  "), "{adopted}");
}
