//! CUDA graphs: launches are counted whichever way the program calls the driver, with a driver of our own
//! (`fake-cuda`) that counts the same.

use crate::job::cuda::{built, capture, Cuda, OTHER, STREAM};
use crate::job::{Driver, Job};
use std::path::{Path, PathBuf};
use tables::graphs::Unseen;
use tables::{Graphs, Process};

/// Runs the ignored test `name` without GPU times and reads what it left.
fn played(name: &str) -> (Process, u64) {
    played_with(name, "host")
}

fn played_with(name: &str, timing: &str) -> (Process, u64) {
    let mut job = Job::new(module_path!(), name)
        .env("NCCLSCOPE_TIMING", timing)
        .env("NCCLSCOPE_FLUSH", "0.2");
    assert!(job.run().success());
    let truth = std::fs::read_to_string(truth_file(&job.folder)).expect("the job wrote it");
    let _ = std::fs::remove_file(truth_file(&job.folder));
    let mut capture = job.capture();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    (
        capture.processes.remove(0),
        truth.parse().expect("a number"),
    )
}

fn truth_file(folder: &Path) -> PathBuf {
    folder.with_extension("truth")
}

/// What the driver executed, for the parent.
fn tell(cuda: &Cuda) {
    let executed = cuda.number("executed");
    std::fs::write(truth_file(&crate::job::out()), executed.to_string()).expect("written");
}

/// Calls that ran in graphs, by their number of elements.
fn by_count(process: &Process) -> Vec<(u64, u64)> {
    let executions = process.graphs.executions();
    let mut by_count: Vec<(u64, u64)> = executions
        .into_iter()
        .map(|(shape, calls)| (process.shapes[shape as usize].count, calls))
        .collect();
    by_count.sort_unstable();
    by_count
}

fn all(graphs: &Graphs) -> u64 {
    graphs.executions().values().sum()
}

#[test]
#[ignore = "played by the test below"]
fn job_decode() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let graph = cuda.graph(|| capture(&cuda, &mut comm, 32_768, 80));
    let exec = cuda.instantiated(graph);
    cuda.destroy(graph);
    cuda.launch(exec, 1000);
    tell(&cuda);
}

#[test]
fn each_replay_of_a_captured_call_counts() {
    let (process, executed) = played("job_decode");
    let graphs = &process.graphs;
    assert_eq!(
        (by_count(&process), executed),
        (vec![(32_768, 80_000)], 80_000)
    );
    assert_eq!(graphs.unseen, []);
    let [graph] = &graphs.executables[..] else {
        panic!("{graphs:?}");
    };
    assert_eq!(
        (graph.number, graph.launches, graph.stream),
        (1, 1000, STREAM)
    );
    assert!(!graph.launching && graph.destroyed.is_none());
    assert_eq!(graphs.contents[0].runs, [(0, 80)]);
    assert_eq!(graphs.launches.len() as u64 + graphs.untimed, 1000);
    assert!(graphs
        .launches
        .windows(2)
        .all(|pair| pair[0].at <= pair[1].at));
    // The captured calls themselves have rows, and are no replays.
    assert_eq!(process.calls.len(), 80);
}

#[test]
#[ignore = "played by the test below"]
fn job_all_kinds() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    // Updated: the same executable graph has other contents, then the first ones again.
    let first = cuda.graph(|| capture(&cuda, &mut comm, 1, 2));
    let second = cuda.graph(|| capture(&cuda, &mut comm, 2, 3));
    let exec = cuda.instantiated(first);
    cuda.launch(exec, 10);
    cuda.update(exec, second, std::ptr::null_mut());
    cuda.launch(exec, 10);
    cuda.update(exec, first, std::ptr::null_mut());
    cuda.update(exec, first, std::ptr::null_mut());
    cuda.launch(exec, 1);
    // Instantiated again, and destroyed.
    let again = cuda.instantiated(first);
    cuda.launch(again, 5);
    cuda.destroy_exec(again);
    // Nested: twice as a child, once by a launch into a capture.
    let (mut parent, mut node) = (0, 0);
    cuda.create(&mut parent, 0);
    let inner = cuda.graph(|| capture(&cuda, &mut comm, 100, 1));
    cuda.add_child(&mut node, parent, std::ptr::null(), 0, inner);
    let mut parameters = [0; 32];
    (parameters[0], parameters[2]) = (4, inner);
    cuda.add_node(&mut node, parent, std::ptr::null(), 0, &mut parameters);
    let nested = cuda.instantiated(parent);
    cuda.launch(nested, 7);
    let outer = cuda.graph(|| cuda.launch(nested, 1));
    let outer = cuda.instantiated(outer);
    cuda.launch(outer, 3);
    // Copied, on another stream, by another thread.
    let original = cuda.graph(|| capture(&cuda, &mut comm, 1000, 4));
    let mut copy = 0;
    cuda.copy(&mut copy, original);
    cuda.destroy(original);
    let copied = cuda.instantiated(copy);
    std::thread::scope(|scope| {
        for stream in [STREAM, OTHER] {
            let cuda = &cuda;
            scope.spawn(move || (0..500).for_each(|_| cuda.launch_on(copied, stream)));
        }
    });
    // Captured and thrown away: not told apart from one that was instantiated out of sight.
    cuda.destroy(cuda.graph(|| capture(&cuda, &mut comm, 5, 1)));
    tell(&cuda);
}

#[test]
fn graphs_that_are_updated_made_again_nested_and_copied_are_counted() {
    let (process, executed) = played("job_all_kinds");
    let expected = [
        (1, 2 * (10 + 1 + 5)),
        (2, 3 * 10),
        (100, 2 * 7 + 2 * 3),
        (1000, 4 * 1000),
    ];
    assert_eq!(by_count(&process), expected);
    assert_eq!(all(&process.graphs), executed);
    assert_eq!(process.graphs.unseen, [Unseen::Unplaced(1)]);
    let streams: std::collections::BTreeSet<u64> =
        process.graphs.launches.iter().map(|l| l.stream).collect();
    assert!(process.graphs.untimed > 0 || streams.contains(&OTHER));
}

#[test]
#[ignore = "played by the test below"]
fn job_a_graph_for_each_step() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    for step in 0..5000 {
        let graph = cuda.graph(|| capture(&cuda, &mut comm, 64, 2));
        let exec = cuda.instantiated(graph);
        cuda.destroy(graph);
        cuda.launch(exec, 1);
        cuda.destroy_exec(exec);
        if step % 1000 == 999 {
            std::thread::sleep(std::time::Duration::from_millis(1200));
        }
    }
    tell(&cuda);
}

#[test]
fn a_program_that_makes_graphs_all_the_time_is_counted() {
    let (process, executed) = played("job_a_graph_for_each_step");
    assert_eq!((by_count(&process), executed), (vec![(64, 10_000)], 10_000));
    assert_eq!(process.graphs.unseen, []);
    assert_eq!(process.graphs.contents.len(), 1);
    assert!(
        process.graphs.executables.len() <= 4000,
        "the old ones are folded"
    );
}

#[test]
#[ignore = "played by the test below"]
fn job_conditional() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let (mut graph, mut node) = (0, 0);
    cuda.create(&mut graph, 0);
    let mut parameters = [0; 32];
    (parameters[0], parameters[3]) = (13, 1 << 32);
    cuda.add_node(&mut node, graph, std::ptr::null(), 0, &mut parameters);
    // SAFETY: the driver stored where the graphs of the node's bodies are.
    let body = unsafe { *(parameters[4] as *const u64) };
    let inner = cuda.graph(|| capture(&cuda, &mut comm, 9, 3));
    cuda.add_child(&mut node, body, std::ptr::null(), 0, inner);
    let exec = cuda.instantiated(graph);
    cuda.launch(exec, 20);
    tell(&cuda);
}

#[test]
fn what_the_gpu_decides_is_said_and_not_counted() {
    let (process, _) = played("job_conditional");
    assert_eq!(all(&process.graphs), 0);
    assert_eq!(process.graphs.unseen, [Unseen::Uncountable(20)]);
}

#[test]
#[ignore = "played by the test below"]
fn job_killed() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let graph = cuda.graph(|| capture(&cuda, &mut comm, 8, 10));
    let exec = cuda.instantiated(graph);
    cuda.launch(exec, 100);
    // What it executes must be in a block; the counts are in the live part at once.
    std::thread::sleep(std::time::Duration::from_millis(300));
    cuda.launch(exec, 900);
    tell(&cuda);
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn a_killed_process_leaves_every_launch() {
    let mut job = Job::new(module_path!(), "job_killed").env("NCCLSCOPE_TIMING", "host");
    assert!(!job.run().success());
    let _ = std::fs::remove_file(truth_file(&job.folder));
    let capture = job.capture();
    let process = &capture.processes[0];
    assert_eq!(by_count(process), [(8, 10_000)]);
    assert_eq!(process.graphs.unseen, []);
}

#[test]
#[ignore = "played by the tests below"]
fn job_pointers_out_of_sight() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    // The program has an address where nobody looks: on its heap.
    let get = |name: &[u8]| {
        // SAFETY: fake-cuda has these functions.
        let symbol = unsafe { cuda.driver.get::<*mut std::ffi::c_void>(name) };
        Box::new(*symbol.expect("is there"))
    };
    let graph = cuda.graph(|| capture(&cuda, &mut comm, 8, 10));
    type Make = unsafe extern "C" fn(*mut u64, u64, u64) -> i32;
    type Launch = unsafe extern "C" fn(u64, u64) -> i32;
    // SAFETY: fake-cuda's signatures.
    unsafe {
        let make: Make = std::mem::transmute(*get(b"cuGraphInstantiateWithFlags"));
        let launch: Launch = std::mem::transmute(*get(b"cuGraphLaunch"));
        let mut exec = 0;
        assert_eq!(make(&mut exec, graph, 0), 0);
        for _ in 0..50 {
            assert_eq!(launch(exec, STREAM), 0);
        }
    }
    tell(&cuda);
}

#[test]
fn launches_out_of_sight_are_said_to_be_unseen() {
    let (process, executed) = played("job_pointers_out_of_sight");
    assert_eq!(executed, 500);
    assert_eq!(all(&process.graphs), 0);
    assert_eq!(process.graphs.unseen, [Unseen::Unplaced(1)]);
}

/// As torch does it: the graph is destroyed as soon as an executable one was made of it. Here that is made
/// through an address on the program's heap, where nobody looks.
#[test]
#[ignore = "played by the test below"]
fn job_destroyed_in_sight() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    type Make = unsafe extern "C" fn(*mut u64, u64, u64) -> i32;
    let make: Box<Make> = Box::new(cuda.asked("cuGraphInstantiateWithFlags"));
    let graph = cuda.graph(|| capture(&cuda, &mut comm, 8, 10));
    let mut exec = 0;
    // SAFETY: the driver's function.
    unsafe { assert_eq!(make(&mut exec, graph, 0), 0) };
    cuda.destroy(graph);
    cuda.launch(exec, 50);
    // Graphs that are seen, which may have the handle of the first one, say nothing of it.
    for calls in 1..4 {
        let graph = cuda.graph(|| capture(&cuda, &mut comm, 9, calls));
        let seen = cuda.instantiated(graph);
        cuda.destroy(graph);
        cuda.launch(seen, 1);
    }
    tell(&cuda);
}

#[test]
fn a_graph_that_is_destroyed_and_was_not_seen_instantiated_is_not_told_as_zero() {
    let (process, executed) = played("job_destroyed_in_sight");
    assert_eq!((executed, by_count(&process)), (506, vec![(9, 6)]));
    assert_eq!(process.graphs.unseen, [Unseen::Unplaced(1)]);
}

#[test]
#[ignore = "played by the test below"]
fn job_launches_out_of_sight() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let graph = cuda.graph(|| capture(&cuda, &mut comm, 8, 10));
    let exec = cuda.instantiated(graph);
    // The address is on the program's heap, where nobody looks.
    type Launch = unsafe extern "C" fn(u64, u64) -> i32;
    let launch: Box<Launch> = Box::new(cuda.asked("cuGraphLaunch"));
    // SAFETY: the driver's function.
    (0..50).for_each(|_| unsafe { assert_eq!(launch(exec, STREAM), 0) });
    tell(&cuda);
}

#[test]
fn a_graph_that_was_never_seen_launched_is_not_told_as_zero() {
    let (process, executed) = played("job_launches_out_of_sight");
    assert_eq!((executed, all(&process.graphs)), (500, 0));
    assert_eq!(process.graphs.unseen, [Unseen::NeverLaunched(1)]);
}

/// An executable graph with ten calls, and a library that was loaded after that, to launch it.
fn with_a_later_library() -> (Cuda, u64, Cuda) {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let graph = cuda.graph(|| capture(&cuda, &mut comm, 8, 10));
    let exec = cuda.instantiated(graph);
    let copy = crate::job::out().with_extension("so");
    std::fs::copy(built(&["examples/libfake_cudart.so"]), &copy).expect("copied");
    let later = Cuda::with_runtime(&copy);
    std::fs::remove_file(copy).expect("removed");
    (cuda, exec, later)
}

/// Launches by a library until the recorder's thread, which looks for libraries that were loaded, has found
/// it, and so many calls are seen.
fn launch_until_seen(later: &Cuda, exec: u64, calls: u64) {
    crate::job::until(|| {
        later.launch(exec, 1);
        let capture = tables::Capture::open(&crate::job::out());
        let seen = |capture: &tables::Capture| all(&capture.processes[0].graphs) >= calls;
        capture.is_ok_and(|capture| !capture.processes.is_empty() && seen(&capture))
    });
}

#[test]
#[ignore = "played by the test below"]
fn job_launched_by_a_later_library() {
    let (cuda, exec, later) = with_a_later_library();
    later.launch(exec, 20);
    launch_until_seen(&later, exec, 1);
    tell(&cuda);
}

#[test]
fn launches_by_a_library_that_was_loaded_later_are_found_and_the_earlier_ones_are_not_known() {
    let (process, executed) = played("job_launched_by_a_later_library");
    let seen = all(&process.graphs);
    assert!(seen > 0 && seen < executed, "{seen} of {executed}");
    assert_eq!(process.graphs.unseen, [Unseen::FoundLate]);
}

#[test]
#[ignore = "played by the test below"]
fn job_launched_in_sight_and_by_a_later_library() {
    let (cuda, exec, later) = with_a_later_library();
    cuda.launch(exec, 1);
    later.launch(exec, 20);
    // The first ten are those of the launch in sight.
    launch_until_seen(&later, exec, 11);
    // A graph that is made now has been launched by nobody.
    let mut comm = Driver::new(1);
    let newer = cuda.graph(|| capture(&cuda, &mut comm, 9, 10));
    later.launch(cuda.instantiated(newer), 1);
    tell(&cuda);
}

#[test]
fn a_launch_in_sight_does_not_hide_those_of_a_library_that_was_found_later() {
    let (process, executed) = played("job_launched_in_sight_and_by_a_later_library");
    let seen = all(&process.graphs);
    assert!(seen > 10 && seen < executed, "{seen} of {executed}");
    assert_eq!(process.graphs.unseen, [Unseen::FoundLate]);
}

#[test]
#[ignore = "played by the test below"]
fn job_launched_by_a_library_that_was_found_in_time() {
    let (cuda, exec, later) = with_a_later_library();
    cuda.launch(exec, 1);
    // Another communicator: its init searches what was loaded.
    let mut comm = Driver::new(2);
    let newer = cuda.graph(|| capture(&cuda, &mut comm, 9, 10));
    later.launch(cuda.instantiated(newer), 50);
    tell(&cuda);
}

#[test]
fn a_library_that_was_found_before_a_graph_was_made_makes_nothing_unknown() {
    let (process, executed) = played("job_launched_by_a_library_that_was_found_in_time");
    assert_eq!(
        (executed, by_count(&process)),
        (510, vec![(8, 10), (9, 500)])
    );
    assert_eq!(process.graphs.unseen, []);
}

#[test]
#[ignore = "played by the test below"]
fn job_launched_without_a_pause_by_a_later_library() {
    let (cuda, exec, later) = with_a_later_library();
    // Also in the moment in which the recorder's thread finds the library: after some 0.3 s.
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(2) {
        later.launch(exec, 1);
    }
    tell(&cuda);
}

#[test]
fn a_launch_that_is_seen_at_once_does_not_hide_that_earlier_ones_were_not() {
    let (process, executed) = played("job_launched_without_a_pause_by_a_later_library");
    let seen = all(&process.graphs);
    assert!(seen > 0 && seen < executed, "{seen} of {executed}");
    assert_eq!(process.graphs.unseen, [Unseen::FoundLate]);
}

#[test]
#[ignore = "played by the test below"]
fn job_of_many_graphs_at_once() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let execs: Vec<u64> = (0..5000)
        .map(|i| {
            let graph = cuda.graph(|| capture(&cuda, &mut comm, 1 + i, 1));
            let exec = cuda.instantiated(graph);
            cuda.destroy(graph);
            exec
        })
        .collect();
    for exec in &execs {
        cuda.launch(*exec, 3);
    }
    tell(&cuda);
}

#[test]
fn each_of_five_thousand_graphs_that_are_there_together_is_counted() {
    let (process, executed) = played("job_of_many_graphs_at_once");
    assert_eq!((executed, all(&process.graphs)), (15_000, 15_000));
    assert!(by_count(&process)
        .into_iter()
        .eq((1..=5000).map(|n| (n, 3))));
    assert_eq!(process.graphs.unseen, []);
}

/// More graphs than have a place in the live part, all with different contents.
const VERY_MANY: u64 = 66_000;

/// Makes these graphs and launches each once; some are destroyed, and others made in their place.
fn very_many_graphs(cuda: &Cuda) -> (Vec<u64>, Driver) {
    let mut comm = Driver::new(1);
    let mut made = |i: u64| {
        let graph = cuda.graph(|| capture(cuda, &mut comm, 1 + i as usize, 1));
        let exec = cuda.instantiated(graph);
        cuda.destroy(graph);
        cuda.launch(exec, 1);
        exec
    };
    let mut execs: Vec<u64> = (0..VERY_MANY).map(&mut made).collect();
    // The recorder's thread frees entries of graphs that are gone when it has written them.
    for exec in execs.drain(VERY_MANY as usize - 100..) {
        cuda.destroy_exec(exec);
    }
    std::thread::sleep(std::time::Duration::from_millis(600));
    execs.extend((VERY_MANY..VERY_MANY + 100).map(&mut made));
    (execs, comm)
}

#[test]
#[ignore = "played by the test below"]
fn job_of_very_many_graphs_at_once() {
    let cuda = Cuda::runtime();
    let (execs, comm) = very_many_graphs(&cuda);
    let launch_all = || execs.iter().for_each(|exec| cuda.launch(*exec, 1));
    launch_all();
    // The last finalize is an end, and the program goes on.
    comm.finalize();
    launch_all();
    tell(&cuda);
}

#[test]
fn each_graph_is_counted_however_many_are_there_together() {
    let (process, executed) = played("job_of_very_many_graphs_at_once");
    let expected = 3 * VERY_MANY + 100;
    assert_eq!((executed, all(&process.graphs)), (expected, expected));
    assert_eq!(process.graphs.unseen, []);
}

#[test]
#[ignore = "played by the test below"]
fn job_of_very_many_graphs_that_is_killed() {
    let cuda = Cuda::runtime();
    let (execs, _comm) = very_many_graphs(&cuda);
    std::thread::sleep(std::time::Duration::from_millis(600));
    for exec in &execs {
        cuda.launch(*exec, 1);
    }
    tell(&cuda);
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn a_killed_process_with_very_many_graphs_says_of_how_many_the_newest_launches_are_not_known() {
    let name = "job_of_very_many_graphs_that_is_killed";
    let mut job = Job::new(module_path!(), name)
        .env("NCCLSCOPE_TIMING", "host")
        .env("NCCLSCOPE_FLUSH", "0.2");
    assert!(!job.run().success());
    let _ = std::fs::remove_file(truth_file(&job.folder));
    let capture = job.capture();
    let process = &capture.processes[0];
    let beyond = VERY_MANY - u64::from(capture::live::MOST_GRAPHS);
    assert_eq!(process.graphs.unseen, [Unseen::Full(beyond)]);
    // Those in the live part have each launch, the others those before the last flush.
    let (seen, executed) = (all(&process.graphs), 2 * VERY_MANY + 100);
    assert!((executed - beyond..=executed).contains(&seen), "{seen}");
}

#[test]
fn graphs_that_are_not_to_be_counted_are_said_to_be_unseen() {
    let mut job = Job::new(module_path!(), "job_decode")
        .env("NCCLSCOPE_TIMING", "host")
        .env("NCCLSCOPE_GRAPHS", "off");
    assert!(job.run().success());
    let _ = std::fs::remove_file(truth_file(&job.folder));
    let capture = job.capture();
    let unseen = &capture.processes[0].graphs.unseen;
    assert_eq!(unseen[..], [Unseen::NotWatched, Unseen::Unplaced(1)]);
}

#[test]
#[ignore = "played by the test below"]
fn job_timed() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    // A kernel takes 1 us.
    let short = cuda.instantiated(cuda.graph(|| capture(&cuda, &mut comm, 8, 80)));
    let long = cuda.instantiated(cuda.graph(|| capture(&cuda, &mut comm, 8, 900)));
    // The first launch makes the events.
    cuda.launch(short, 1);
    for _ in 0..40 {
        // Without this work before it, the first event would come before the launch is made.
        cuda.tell("kernel", STREAM, 500_000);
        cuda.launch(short, 1);
        cuda.launch(long, 1);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    comm.finalize();
    tell(&cuda);
}

#[test]
fn launches_have_the_times_of_the_gpu() {
    let (process, executed) = played_with("job_timed", "events");
    let graphs = &process.graphs;
    assert_eq!((all(graphs), executed), (40 * 980 + 80, 40 * 980 + 80));
    assert_eq!(graphs.launches.len(), 81);
    let (mut ended, mut longer) = (0, Vec::new());
    for launch in &graphs.launches[1..] {
        let (start, ns) = launch.gpu.expect("all are timed");
        let truth = if launch.graph == 1 { 80_000 } else { 900_000 };
        assert!(ns >= truth && start >= ended - 20_000, "{launch:?}");
        ended = start + ns as i64;
        longer.push(ns - truth);
    }
    // Events begin and end a little outside of what they time. On a busy machine, the stream may have nothing
    // to do until the launch is made.
    longer.sort_unstable();
    assert!(longer[longer.len() / 2] < 20_000, "{longer:?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_of_threads() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let exec = cuda.instantiated(cuda.graph(|| capture(&cuda, &mut comm, 8, 10)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                cuda.set_device(0);
                cuda.launch(exec, 500);
            });
        }
    });
    // The threads may be done before the recorder has tied the GPU's clock to the host's.
    cuda.set_device(0);
    for _ in 0..50 {
        cuda.launch(exec, 1);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    comm.finalize();
    tell(&cuda);
}

#[test]
fn threads_that_launch_at_the_same_time_lose_times_and_no_launch() {
    let (process, executed) = played_with("job_of_threads", "events");
    assert_eq!((all(&process.graphs), executed), (20_500, 20_500));
    let timed = process.graphs.launches.iter().filter_map(|of| of.gpu);
    let mut n = 0;
    for (_, ns) in timed {
        // What another thread launches meanwhile may be between the events.
        assert!(ns >= 10_000, "{ns}");
        n += 1;
    }
    assert!(n > 0, "{:?}", &process.graphs.launches[..9]);
}

#[test]
#[ignore = "played by the test below"]
fn job_without_a_communicator() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let exec = cuda.instantiated(cuda.graph(|| capture(&cuda, &mut comm, 8, 10)));
    cuda.launch(exec, 20);
    comm.finalize();
    cuda.launch(exec, 30);
    let _next = Driver::new(1);
    cuda.launch(exec, 40);
    tell(&cuda);
}

#[test]
fn launches_without_a_communicator_count_too() {
    let (process, executed) = played_with("job_without_a_communicator", "events");
    assert_eq!((all(&process.graphs), executed), (900, 900));
    // Then the context may be gone at any time.
    let without = &process.graphs.launches[20..50];
    assert!(without.iter().all(|launch| launch.gpu.is_none()));
}
