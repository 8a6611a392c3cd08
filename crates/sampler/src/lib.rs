//! Samples a node while a job runs: power and energy of its GPUs, CPU time, memory, disks and networks.
//!
//! A [`Sampler`] is a thread of `ncclscope run`, outside of the job's processes. It wakes ten times a second
//! and reads NVML ([`gpus`]), the node ([`node`]), the job's processes ([`processes`]) and when their threads
//! were off their CPUs ([`switches`]). Each source has a [`pace`] that bounds its cost. What is read goes
//! into a [`file`] of the capture.
//!
//! If a node has several runs of one job, one of them samples. They agree by a name that only one process of
//! a node can have; if that process ends, another one takes over.
//!
//! Rule: the job never waits for the sampler, and never fails because of it. All sources together take less
//! than 1 % of one core.

pub mod file;
pub mod gpus;
pub mod links;
mod name;
pub mod node;
pub mod pace;
pub mod processes;
pub mod switches;

use capture::left::Here;
use capture::switches::Off;
use file::SamplesFile;
use gpus::{Gpus, Readings};
use name::Claim;
use node::Node;
use pace::{thread_cpu, Pace};
use processes::{writers, Processes};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use switches::Switches;

/// Between two ticks.
pub const PERIOD: Duration = Duration::from_millis(100);
/// CPU time in advance, to read the GPUs' memory. Communicators are made at the start of a job, and what they
/// take is only seen if memory is read just before and after that. That is 20 s of eight GPUs at 30 us each.
const MEMORY_CREDIT: Duration = Duration::from_millis(40);
/// Ticks of a block.
const TICKS_A_BLOCK: usize = 10;
/// Between two attempts to be the node's sampler.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The end of the thread is waited for so long: a driver that hangs must not keep the run.
const PATIENCE: Duration = Duration::from_secs(2);

/// The share of one core that each source may take. Their sum is below 1 %.
mod share {
    pub const GPU_ENERGY: f64 = 0.003;
    pub const GPU_MEMORY: f64 = 0.0005;
    pub const GPU_OTHERS: f64 = 0.0005;
    pub const GPU_LINKS: f64 = 0.0005;
    pub const NODE: f64 = 0.0005;
    pub const DEVICES: f64 = 0.0005;
    pub const WATCHED: f64 = 0.0015;
    pub const PROCESSES: f64 = 0.0005;
    pub const THREADS: f64 = 0.0008;
    pub const FIND: f64 = 0.0008;
    pub const CHILDREN: f64 = 0.0003;
    pub const SWITCHES: f64 = 0.0005;
}

/// What is sampled, besides the node and its processes.
pub struct Settings {
    /// NVML, if it is not the driver's.
    pub nvml: Option<OsString>,
    /// Whether the kernel is asked for records of context switches.
    pub switches: bool,
}

/// How sampling ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Why this node was not sampled, if neither this sampler nor another of the same user could do it.
    pub missing: Option<String>,
    /// The file of samples, relative to the capture, and how many blocks it has, if all were written.
    pub written: Option<(PathBuf, u32)>,
}

/// The thread.
pub struct Sampler {
    ended: Sender<()>,
    done: Receiver<Ended>,
}

impl Sampler {
    /// Begins to sample this node for the capture in `folder`, unless another run on this node does.
    pub fn start(folder: &Path, settings: Settings) -> Sampler {
        let (ended, program) = channel();
        let (finished, done) = channel();
        let folder = folder.to_owned();
        // Without a thread, nothing is sampled, and the report says so.
        let _ = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(move || {
                let _ = finished.send(sample(&folder, settings, &program));
            });
        Sampler { ended, done }
    }

    /// Ends sampling, and waits until everything is written. `None` if that takes too long, or panicked.
    pub fn finish(self) -> Option<Ended> {
        drop(self.ended);
        self.done.recv_timeout(PATIENCE).ok()
    }
}

fn sample(folder: &Path, settings: Settings, program: &Receiver<()>) -> Ended {
    let mut ended = Ended::default();
    let name = loop {
        match name::claim(folder) {
            Claim::Ours(name) => break name,
            Claim::Held => ended.missing = None,
            Claim::Refused(why) => ended.missing = Some(why),
        }
        if program.recv_timeout(ATTEMPT) != Err(RecvTimeoutError::Timeout) {
            return ended;
        }
    };
    // SAFETY: lowers the priority of this thread alone; 0 stands for it.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
    let here = Here::ask();
    let gpus = Gpus::open(settings.nvml);
    let switches = if settings.switches {
        Switches::new()
    } else {
        Err("records of context switches were off (`NCCLSCOPE_SWITCHES=off`)".to_owned())
    };
    let mut facts = facts(&here, &gpus);
    if let Err(why) = &switches {
        facts += &format!("switches_missing={why}\n");
    }
    let file = match SamplesFile::new(folder, &here, &facts) {
        Ok(file) => file,
        Err(error) => {
            ended.missing = Some(error.to_string());
            return ended;
        }
    };
    ended.missing = None;
    let mut sources = Sources::new(gpus.ok(), switches.ok(), file, folder.to_owned());
    let begin = Instant::now();
    let mut ticks = 0u32;
    loop {
        ticks += 1;
        sources.tick(false);
        name.answer();
        let late = begin.elapsed().as_nanos() / PERIOD.as_nanos();
        let late = u32::try_from(late)
            .unwrap_or(u32::MAX)
            .saturating_sub(ticks);
        // A tick that took too long is not made up for.
        sources.late_ticks += u64::from(late);
        ticks = ticks.saturating_add(late);
        let due = begin + PERIOD * ticks;
        let wait = due.saturating_duration_since(Instant::now());
        if program.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    // The last values, whatever is due.
    sources.tick(true);
    ended.written = sources.file.written();
    ended
}

/// Who samples, and what: `key=value` lines.
fn facts(here: &Here, gpus: &Result<Gpus, String>) -> String {
    let mut facts = format!(
        "ncclscope={}\nhost={}\nboot_id={}\npid={}\npid_namespace={}\nperiod_ms={}\n",
        env!("CARGO_PKG_VERSION"),
        here.host,
        here.boot_id,
        std::process::id(),
        here.pid_namespace,
        PERIOD.as_millis(),
    );
    if let Ok(cpus) = std::thread::available_parallelism() {
        facts += &format!("cpus={cpus}\n");
    }
    match gpus {
        Ok(gpus) => {
            if let Some(driver) = gpus.driver() {
                facts += &format!("driver_version={driver}\n");
            }
            for (index, gpu) in gpus.gpus().iter().enumerate() {
                facts += &format!("gpu.{index}={} {}\n", gpu.uuid, gpu.name);
                if let Some(bytes) = gpu.memory {
                    facts += &format!("gpu_memory.{index}={bytes}\n");
                }
            }
            facts += &links::facts(gpus, Path::new("/sys"));
        }
        Err(why) => facts += &format!("nvml_missing={}\n", why.replace('\n', " ")),
    }
    facts
}

/// Everything that is read, and how often.
struct Sources {
    gpus: Option<Gpus>,
    node: Node,
    processes: Processes,
    switches: Option<Switches>,
    file: SamplesFile,
    capture: PathBuf,
    paces: Paces,
    late_ticks: u64,
    in_nvml: Duration,
}

struct Paces {
    gpu_energy: Pace,
    gpu_memory: Pace,
    gpu_others: Pace,
    gpu_links: Pace,
    node: Pace,
    devices: Pace,
    watched: Pace,
    processes: Pace,
    threads: Pace,
    find: Pace,
    children: Pace,
    switches: Pace,
}

impl Paces {
    fn new(now: Instant) -> Paces {
        let second = Duration::from_secs(1);
        Paces {
            gpu_energy: Pace::new(PERIOD, share::GPU_ENERGY, now),
            gpu_memory: Pace::new(PERIOD, share::GPU_MEMORY, now).with_credit(MEMORY_CREDIT),
            gpu_others: Pace::new(PERIOD, share::GPU_OTHERS, now),
            gpu_links: Pace::new(second, share::GPU_LINKS, now),
            node: Pace::new(PERIOD, share::NODE, now),
            devices: Pace::new(PERIOD, share::DEVICES, now),
            watched: Pace::new(PERIOD, share::WATCHED, now),
            processes: Pace::new(PERIOD, share::PROCESSES, now),
            threads: Pace::new(second, share::THREADS, now),
            find: Pace::new(second, share::FIND, now),
            children: Pace::new(PERIOD * 5, share::CHILDREN, now),
            switches: Pace::new(PERIOD, share::SWITCHES, now),
        }
    }
}

impl Sources {
    fn new(
        gpus: Option<Gpus>,
        switches: Option<Switches>,
        file: SamplesFile,
        capture: PathBuf,
    ) -> Sources {
        Sources {
            gpus,
            node: Node::new(),
            processes: Processes::new(),
            switches,
            file,
            capture,
            paces: Paces::new(Instant::now()),
            late_ticks: 0,
            in_nvml: Duration::ZERO,
        }
    }

    /// Reads all that is due, and at the end everything.
    fn tick(&mut self, is_end: bool) {
        let now = Instant::now();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        self.file
            .tick(since.map_or(0, |since| since.as_nanos() as u64));
        if is_end {
            self.paces = Paces::new(now);
        }
        let Sources {
            gpus,
            node,
            processes,
            switches,
            file,
            capture,
            paces,
            ..
        } = self;
        // Before anything else: threads that ended are forgotten below.
        if let Some(switches) = switches.as_mut() {
            let each =
                |thread: &str, span: (u64, u64), off: &[Off]| file.put_span(thread, span, off);
            paces.switches.run(now, || switches.read(each));
        }
        let mut each = |name: &'static str, of: &str, value: u64| file.put(name, of, value);
        // GPUs next: their times are those of the tick.
        if let Some(gpus) = gpus {
            let began = Instant::now();
            paces
                .gpu_energy
                .run(now, || gpus.read(Readings::Energy, &mut each));
            paces
                .gpu_memory
                .run(now, || gpus.read(Readings::Memory, &mut each));
            paces
                .gpu_others
                .run(now, || gpus.read(Readings::Others, &mut each));
            paces.gpu_links.run(now, || gpus.read_links(&mut each));
            self.in_nvml += began.elapsed();
        }
        paces.node.run(now, || node.read(&mut each));
        paces.devices.run(now, || node.read_devices(&mut each));
        paces.watched.run(now, || processes.read_watched(&mut each));
        paces.processes.run(now, || processes.read(&mut each));
        paces.threads.run(now, || {
            processes.read_threads(&mut each);
            if let Some(switches) = switches {
                switches.watch(processes.watched());
            }
        });
        // At the end, most processes are gone. What was known of them is kept as it is.
        if !is_end {
            let folder = capture.join(file.folder());
            let root = std::process::id();
            paces
                .find
                .run(now, || processes.find(root, &writers(&folder)));
            paces.children.run(now, || processes.find_children(root));
        }
        if self.file.ticks() >= TICKS_A_BLOCK || is_end {
            let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            self.file.put("sampler_cpu_us", "", micros(thread_cpu()));
            self.file.put("sampler_late_ticks", "", self.late_ticks);
            self.file.put("sampler_gpu_us", "", micros(self.in_nvml));
            self.file.flush(is_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sources_together_stay_below_one_percent() {
        use share::*;
        let shares = [
            GPU_ENERGY, GPU_MEMORY, GPU_OTHERS, NODE, DEVICES, WATCHED, PROCESSES, THREADS, FIND,
            CHILDREN, SWITCHES,
        ];
        assert!(shares.iter().sum::<f64>() < 0.0095);
    }
}
