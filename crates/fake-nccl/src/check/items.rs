//! What is checked beside the faults: each item has a function.

use crate::bench::resident_bytes;
use crate::event::offsets::pointers;
use crate::event::samples::samples;
use crate::event::{Descr, Event, Handle};
use crate::hash::mix;
use crate::plugin::{Identity, Loader, PluginContext};
use nccl_abi::{event, state};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

pub(super) const ABSENT: &str = "absent: ";

/// What an item does with a freshly loaded plugin; `Err` says what was wrong.
pub(super) type Play = fn(&Loader) -> Result<(), String>;

/// One item beside the faults.
pub struct Item {
    /// Its word.
    pub word: &'static str,
    /// What it does.
    pub what: &'static str,
    pub(super) play: Play,
}

/// Every item beside the faults.
pub const ITEMS: [Item; 14] = [
    Item {
        word: "load",
        what: "loads with RTLD_NOW and RTLD_LOCAL, and gives a context",
        play: load,
    },
    Item {
        word: "reload",
        what: "is unloaded and loaded again three times, and stays mapped",
        play: reload,
    },
    Item {
        word: "poor_environment",
        what: "starts without HOME, with TMPDIR and working folder of no use",
        play: poor_environment,
    },
    Item {
        word: "name",
        what: "takes a null communicator name, and copies one that goes away",
        play: name,
    },
    Item {
        word: "parallel_init",
        what: "eight threads begin and end communicators at once",
        play: parallel_init,
    },
    Item {
        word: "late_callbacks",
        what: "events move, stop and start after their communicator's finalize",
        play: late_callbacks,
    },
    Item {
        word: "exit",
        what: "exit() without finalize, with threads that go on calling",
        play: exit,
    },
    Item {
        word: "fork",
        what: "a forked child calls and exits, and the parent goes on",
        play: fork,
    },
    Item {
        word: "handles",
        what: "every start gives a handle that is not null",
        play: handles,
    },
    Item {
        word: "every_byte",
        what: "random descriptors: any type, any bytes but texts",
        play: every_byte,
    },
    Item {
        word: "threads",
        what: "four threads on one communicator, stops on another thread than starts",
        play: threads,
    },
    Item {
        word: "unstopped",
        what: "200 000 events that never stop take less than 64 MiB",
        play: unstopped,
    },
    Item {
        word: "many_communicators",
        what: "2000 communicators begin and end, 300 of them at a time",
        play: many_communicators,
    },
    Item {
        word: "net_plugin",
        what: "events of unknown network plugins, with data that may not be read",
        play: net_plugin,
    },
];

fn identity(rank: i32) -> Identity {
    Identity {
        name: None,
        hash: mix(7, rank as u64),
        nodes: 1,
        ranks: 4096,
        rank,
    }
}

pub(super) fn comm(loader: &Loader, rank: i32) -> Result<PluginContext, String> {
    init(loader, &identity(rank))
}

fn init(loader: &Loader, of: &Identity) -> Result<PluginContext, String> {
    let profiler = loader.init(of);
    let abi = loader.abi();
    match (profiler, abi) {
        (Some(profiler), Ok(_)) if profiler.context == Handle::NULL => {
            Err("init gave a null context or an error".into())
        }
        (Some(profiler), Ok(abi)) if abi == profiler.table.seat.native => Ok(profiler),
        (Some(profiler), Ok(abi)) => Err(format!(
            "{ABSENT}no v{}, next is v{abi}",
            profiler.table.seat.native
        )),
        (None, Ok(_)) => Err("init returned an error".into()),
        (_, Err(why)) => Err(format!("{ABSENT}{why}")),
    }
}

/// A few whole events of each type.
fn exercise(profiler: &PluginContext) {
    let abi = profiler.table.seat.abi;
    let mut parent = Handle::NULL;
    for event in samples(abi, c"AllReduce") {
        let mut handle = Handle::GARBAGE;
        profiler.start(&event, parent, 0, &mut handle);
        profiler.table.stop(handle);
        parent = handle;
    }
}

fn load(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    exercise(&profiler);
    loader.finalize(profiler);
    Ok(())
}

fn reload(loader: &Loader) -> Result<(), String> {
    for _ in 0..3 {
        let profiler = comm(loader, 0)?;
        exercise(&profiler);
        let entry = profiler.table.start_address();
        loader.finalize(profiler);
        // A thread of NCCL may be on its way into the plugin when the last communicator goes.
        if !mapped(entry) {
            return Err("the library was unmapped at dlclose; link it with -z nodelete".into());
        }
    }
    Ok(())
}

fn mapped(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let range = line.split(' ').next().and_then(|r| r.split_once('-'));
        let hex = |t: &str| usize::from_str_radix(t, 16).unwrap_or(0);
        range.is_some_and(|(from, to)| (hex(from)..hex(to)).contains(&address))
    })
}

fn poor_environment(loader: &Loader) -> Result<(), String> {
    // SAFETY: this process has one thread so far.
    unsafe {
        std::env::remove_var("HOME");
        for name in ["TMPDIR", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"] {
            std::env::set_var(name, "/proc/nowhere");
        }
    }
    // Nothing can be created here. A relative plugin name has been resolved by then only if it's on the
    // search path.
    let absolute = std::env::var("NCCL_PROFILER_PLUGIN").is_ok_and(|p| p.starts_with('/'));
    if absolute && std::env::set_current_dir("/proc").is_err() {
        return Err("no /proc here".into());
    }
    let profiler = comm(loader, 0)?;
    exercise(&profiler);
    loader.finalize(profiler);
    Ok(())
}

fn name(loader: &Loader) -> Result<(), String> {
    let mut named = identity(0);
    named.name = CString::new("a name that goes away").ok();
    let first = init(loader, &named)?;
    if let Some(name) = named.name.take() {
        // Overwritten, then freed, as the caller's memory may be.
        name.into_bytes_with_nul().fill(0xA5);
    }
    named.name = CString::new(vec![b'x'; 100_000]).ok();
    let second = init(loader, &named)?;
    exercise(&first);
    exercise(&second);
    loader.finalize(first);
    loader.finalize(second);
    Ok(())
}

fn parallel_init(loader: &Loader) -> Result<(), String> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|rank| {
                scope.spawn(move || {
                    for _ in 0..20 {
                        let profiler = comm(loader, rank)?;
                        exercise(&profiler);
                        loader.finalize(profiler);
                    }
                    Ok(())
                })
            })
            .collect();
        let mut results = threads.into_iter().map(|t| t.join());
        results.try_for_each(|one| one.unwrap_or(Err("a thread panicked".into())))
    })
}

fn late_callbacks(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    let keep = comm(loader, 1)?;
    let mut handles = Vec::new();
    for event in samples(profiler.table.seat.abi, c"AllReduce") {
        let mut handle = Handle::GARBAGE;
        profiler.start(&event, Handle::NULL, 0, &mut handle);
        handles.push(handle);
    }
    let late = profiler.clone();
    loader.finalize(profiler);
    for handle in handles {
        for value in 0..32 {
            late.table.state_raw(handle, value, None);
        }
        late.table.stop(handle);
    }
    exercise(&late);
    late.table.finalize(late.context);
    exercise(&keep);
    loader.finalize(keep);
    Ok(())
}

fn exit(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    for _ in 0..2 {
        let profiler = profiler.clone();
        std::thread::spawn(move || loop {
            exercise(&profiler);
        });
    }
    std::thread::sleep(Duration::from_millis(50));
    // SAFETY: the very thing under test: handlers run while threads call the plugin.
    unsafe { libc::exit(0) }
}

fn fork(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let busy = profiler.clone();
        let going = &going;
        scope.spawn(move || {
            while going.load(Relaxed) {
                exercise(&busy);
            }
        });
        let mut result = Ok(());
        for _ in 0..10 {
            // SAFETY: the child calls the plugin, which is the thing under test, and leaves by `exit`.
            let status = unsafe {
                match libc::fork() {
                    0 => {
                        exercise(&profiler);
                        libc::exit(0);
                    }
                    child => {
                        let mut status = 0;
                        libc::waitpid(child, &mut status, 0);
                        status
                    }
                }
            };
            if status != 0 {
                result = Err(format!(
                    "the forked child ended with wait status {status:#x}"
                ));
            }
        }
        going.store(false, Relaxed);
        result
    })?;
    exercise(&profiler);
    loader.finalize(profiler);
    Ok(())
}

fn handles(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    for event in samples(profiler.table.seat.abi, c"AllReduce") {
        let mut handle = Handle::GARBAGE;
        profiler.start(&event, Handle::NULL, 0, &mut handle);
        if handle == Handle::NULL {
            return Err(format!(
                "a null handle for {}",
                event::name(event.bit()).unwrap_or("?")
            ));
        }
        profiler.table.stop(handle);
    }
    loader.finalize(profiler);
    Ok(())
}

fn every_byte(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    let (table, seat) = (&profiler.table, profiler.table.seat);
    let mut random = 1;
    let mut next = || {
        random = mix(random, 1);
        random
    };
    for event in samples(seat.abi, c"AllReduce") {
        let (texts, _) = pointers(seat.abi, event.bit());
        for _ in 0..2000 {
            let mut descr = Descr::default();
            for word in descr.0.chunks_exact_mut(8) {
                word.copy_from_slice(&next().to_ne_bytes());
            }
            let width = if seat.abi < 5 { 1 } else { 8 };
            descr.0[..width].copy_from_slice(&event.bit().to_le_bytes()[..width]);
            for at in texts {
                let text = [c"AllReduce", c"Unknown", c""][next() as usize % 3].as_ptr() as usize;
                descr.0[*at..*at + 8].copy_from_slice(&text.to_ne_bytes());
            }
            let mut handle = Handle::GARBAGE;
            table.start_raw(profiler.context, &mut handle, &mut descr);
            table.stop(handle);
        }
    }
    loader.finalize(profiler);
    Ok(())
}

fn threads(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (sender, receiver) = std::sync::mpsc::sync_channel(64);
            let (starter, stopper) = (profiler.clone(), profiler.clone());
            scope.spawn(move || {
                let samples = samples(starter.table.seat.abi, c"AllReduce");
                let mut parent = Handle::NULL;
                for i in 0..20_000 {
                    let mut handle = Handle::GARBAGE;
                    starter.start(&samples[i % samples.len()], parent, 0, &mut handle);
                    parent = handle;
                    if sender.send(handle).is_err() {
                        return;
                    }
                }
            });
            scope.spawn(move || {
                for handle in receiver {
                    stopper
                        .table
                        .state_raw(handle, state::KERNEL_CH_STOP, Some(&mut [0; 2]));
                    stopper.table.stop(handle);
                }
            });
        }
    });
    loader.finalize(profiler);
    Ok(())
}

fn unstopped(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    let samples = samples(profiler.table.seat.abi, c"AllReduce");
    let before = resident_bytes();
    for i in 0..200_000 {
        let mut handle = Handle::GARBAGE;
        profiler.start(&samples[i % samples.len()], Handle::NULL, 0, &mut handle);
    }
    let grown = resident_bytes().saturating_sub(before);
    if grown > 64 << 20 {
        return Err(format!("{} MiB more are resident", grown >> 20));
    }
    loader.finalize(profiler);
    Ok(())
}

fn many_communicators(loader: &Loader) -> Result<(), String> {
    let mut open = std::collections::VecDeque::new();
    for rank in 0..2000 {
        let profiler = comm(loader, rank)?;
        exercise(&profiler);
        open.push_back(profiler);
        if open.len() > 300 {
            open.pop_front()
                .into_iter()
                .for_each(|p| loader.finalize(p));
        }
    }
    open.into_iter().for_each(|p| loader.finalize(p));
    Ok(())
}

fn net_plugin(loader: &Loader) -> Result<(), String> {
    let profiler = comm(loader, 0)?;
    if profiler.table.seat.abi >= 3 {
        for id in [0, -1, i64::MAX, 0x7fff_0001, 0x3_0001] {
            let mut handle = Handle::GARBAGE;
            let event = Event::NetPlugin { id, data: 8 };
            profiler.start(&event, Handle::NULL, 0, &mut handle);
            profiler.table.stop(handle);
            // The core can stop the same one twice.
            profiler.table.stop(handle);
        }
    }
    loader.finalize(profiler);
    Ok(())
}
