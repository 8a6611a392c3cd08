//! The recorder's own thread: where it may run.

use crate::job::{until, Driver, Job};
use std::os::unix::process::CommandExt;

/// The calling thread's CPUs.
fn cpus() -> Vec<usize> {
    // SAFETY: a set that is filled in.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .collect()
    }
}

/// Ties the calling thread to these CPUs.
fn tie_to(cpus: &[usize]) {
    // SAFETY: a set that was filled in.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

fn list(cpus: &[usize]) -> String {
    format!("{cpus:?}")
}

#[test]
#[ignore = "played by the test below"]
fn job_on_some_cpus() {
    let tied = std::env::var("CALLER").expect("set");
    tie_to(&[tied.parse().expect("a number")]);
    let comm = Driver::new(1);
    let mut found = None;
    until(|| {
        let tasks = std::fs::read_dir("/proc/self/task").expect("listed");
        let mut tasks = tasks.flatten().map(|task| task.path());
        let ours = |name: String| name.trim() == "ncclscope";
        found = tasks.find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(ours));
        found.is_some()
    });
    let task = found.and_then(|task| task.file_name()?.to_str()?.parse().ok());
    let task: libc::pid_t = task.expect("a thread's number");
    let wanted = std::env::var("WANTED").expect("set");
    until(|| {
        // SAFETY: a set that is filled in.
        let cpus: Vec<usize> = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(task, size_of_val(&set), &mut set);
            let all = 0..libc::CPU_SETSIZE as usize;
            all.filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
        };
        list(&cpus) == wanted
    });
    comm.finalize();
}

#[test]
fn the_recorders_thread_may_run_where_the_process_may_and_nowhere_else() {
    let all = cpus();
    // The thread that calls NCCL is tied to one CPU, as trainers do. That is no limit for ours.
    let mut processes = vec![all.clone()];
    // The whole process is, as by taskset or a launcher.
    processes.extend(all.len().checked_sub(1).map(|_| vec![all[0]]));
    for process in processes {
        let mut job = Job::new(module_path!(), "job_on_some_cpus")
            .env("CALLER", &process[0].to_string())
            .env("WANTED", &list(&process));
        let mask = process.clone();
        // SAFETY: a system call on memory that was made before the fork.
        unsafe {
            job.command().pre_exec(move || {
                tie_to(&mask);
                Ok(())
            })
        };
        assert!(job.run().success(), "{process:?}");
    }
}
