//! A forked child that uses NCCL by itself: what it records is its own.

use crate::job::{Driver, Job};
use capture::callback::EntryPoint;
use std::collections::BTreeMap;

#[test]
#[ignore = "played by the test below"]
fn job_that_forks_in_callbacks_mode() {
    let comm = Driver::new(0xa);
    let second = comm.beside();
    std::thread::spawn(move || {
        let mut comm = second;
        comm.all_reduce(1);
        // SAFETY: the child calls the plugin and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut own = Driver::new(0xc);
            for count in 2..5 {
                let mut comm = own.beside();
                let call = move || comm.all_reduce(count);
                std::thread::spawn(call).join().expect("no panic");
            }
            own.all_reduce(5);
            own.finalize();
            // SAFETY: the handlers run, the plugin's too.
            unsafe { libc::exit(0) };
        }
        let mut status = 0;
        // SAFETY: our child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
    })
    .join()
    .expect("no panic");
    comm.finalize();
}

#[test]
fn a_child_numbers_its_threads_anew() {
    let mut job = Job::new(module_path!(), "job_that_forks_in_callbacks_mode")
        .env("NCCLSCOPE_MODE", "callbacks");
    assert!(job.run().success());
    let capture = job.capture();
    // By process: the starts of each thread.
    let mut starts: BTreeMap<u32, BTreeMap<u32, usize>> = BTreeMap::new();
    let counted = capture.callbacks(|process, callback| {
        if callback.what == EntryPoint::Start {
            let threads = starts.entry(process.pid).or_default();
            *threads.entry(callback.thread).or_insert(0) += 1;
        }
        Ok::<(), ()>(())
    });
    assert!(counted.is_ok());
    // Five starts to a call: GroupApi, CollApi, KernelLaunch, Group and Coll.
    let threads: Vec<Vec<usize>> = starts
        .into_values()
        .map(|threads| threads.into_values().collect())
        .collect();
    assert_eq!(threads.len(), 2);
    assert!(threads.contains(&vec![5]), "the parent: {threads:?}");
    assert!(threads.contains(&vec![5; 4]), "the child: {threads:?}");
}
