//! The process's recorder, made at its first init.

use super::communicators::CommState;
use super::fork_page::{get, publish};
use super::messages::say;
use super::names::Known;
use super::Recorder;
use crate::array::array;
use crate::callbacks::{self, Callbacks};
use crate::clock::{self, Clock};
use crate::control::Control;
use crate::gpu_events::{Rings, Switch};
use crate::intern::{text_id, Interner};
use crate::lock::INIT;
use crate::network::Network;
use crate::place;
use crate::ring::FreeRing;
use crate::round::Round;
use crate::settings::{Mode, Settings, Timing};
use crate::templates::Templates;
use crate::{facts, writer};
use capture::live::{Header, Layout, View, HEADER_BYTES, MAGIC};
use nccl_abi::names;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};
use std::sync::OnceLock;

/// The recorder, made at the process's first init (or a forked child's).
pub fn get_or_make() -> Option<&'static Recorder> {
    if let Some(recorder) = get() {
        return Some(recorder);
    }
    let _guard = INIT.lock();
    if let Some(recorder) = get() {
        return Some(recorder);
    }
    match Recorder::make() {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            say(&format!("recording is off: {error}"));
            None
        }
    }
}

impl Recorder {
    fn make() -> std::io::Result<&'static Recorder> {
        let settings = Settings::from_env();
        for complaint in &settings.complaints {
            say(complaint);
        }
        let clock = Clock::choose();
        let random = random();
        let names = place::names(&settings, random);
        let layout = Layout::for_memory(settings.memory);
        let ring = if settings.mode == Mode::Callbacks {
            callbacks::RING
        } else {
            0
        };
        place::spare_memory(layout.bytes() + ring)?;
        let mapping = place::live_part(&settings, &names, random, layout.bytes())?;
        if let Some(warning) = &mapping.warning {
            say(warning);
        }
        // SAFETY: the mapping is new, zeroed, page aligned, as long as said, and is never unmapped.
        let live: View<'static> = unsafe { View::create(mapping.base, &layout) };
        let preload = |list: &[&str]| {
            list.iter()
                .map(|text| text_id(&live, text.as_bytes()))
                .collect::<Vec<u8>>()
        };
        let known = Known {
            funcs: preload(&names::FUNCS),
            datatypes: names::DATATYPES
                .iter()
                .map(|d| text_id(&live, d.name.as_bytes()))
                .collect(),
            algos: preload(&names::ALGOS),
            protos: preload(&names::PROTOS),
        };
        let callbacks = (settings.mode == Mode::Callbacks)
            .then(Callbacks::new)
            .transpose()?;
        let odd_size = || std::io::Error::other("the live part has tables of an odd size");
        let cells: Box<[AtomicU32]> = (0..layout.rows).map(AtomicU32::new).collect();
        // Leaked like the recorder, which is never dropped.
        let cells: &'static [AtomicU32] = Box::leak(cells);
        let recorder = Box::leak(Box::new(Recorder {
            live,
            header: live.header(),
            clock,
            free: FreeRing::new(Round::new(cells).ok_or_else(odd_size)?, AtomicU64::new(0)),
            comms: array((0..layout.comms).map(|_| CommState::default()).collect()),
            callbacks,
            writer: Control::default(),
            salt: (random >> 32) as u16 | 1,
            pid: std::process::id() as i32,
            rows: Round::new(live.rows()).ok_or_else(odd_size)?,
            groups: live.groups().try_into().map_err(|_| odd_size())?,
            templates: Templates::new(),
            network: Network::new(live.net_ops()).ok_or_else(odd_size)?,
            interner: Interner::new(),
            known,
            mask: settings.mask(),
            driver: OnceLock::new(),
            rings: Rings::new(),
            switch: Switch::new((settings.timing == Timing::Auto).then_some(settings.budget)),
            buffers: settings.mode == Mode::Full,
            next_uid: AtomicU32::new(1),
            comms_alive: AtomicU32::new(0),
            said_hello: AtomicBool::new(false),
            settings,
            names,
            mapping,
        }));
        recorder.fill_in_header(random);
        publish(recorder)?;
        writer::start(recorder);
        Ok(recorder)
    }

    fn fill_in_header(&self, trace_id: u64) {
        let header = self.header();
        header.trace_id.store(trace_id, Relaxed);
        header.pid.store(self.pid as u32, Relaxed);
        header.clock.store(self.clock as u32, Relaxed);
        header.pid_start.store(facts::pid_start(), Relaxed);
        header.pid_namespace.store(facts::pid_namespace(), Relaxed);
        let anchor = self.clock.anchor();
        clock::store(&header.first, &header.anchor_version, anchor);
        clock::store(&header.last, &header.anchor_version, anchor);
        let process = facts::process_lines(self, &self.mapping.place, anchor[2]);
        for (to, from) in header.process.iter().zip(process.bytes()) {
            to.store(from, Relaxed);
        }
        header
            .process_len
            .store(process.len().min(header.process.len()) as u32, Release);
        header.magic.store(MAGIC, Release);
        const { assert!(std::mem::size_of::<Header>() <= HEADER_BYTES) };
    }
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is as long as said.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getrandom,
            bytes.as_mut_ptr(),
            bytes.len(),
            libc::GRND_NONBLOCK,
        )
    };
    let entropy = if got == 8 {
        u64::from_le_bytes(bytes)
    } else {
        0
    };
    entropy ^ clock::nanoseconds(libc::CLOCK_REALTIME) ^ u64::from(std::process::id()) << 32
}
