//! Makes a recorder: from the environment's settings to the live part and the private tables.

use super::messages::say;
use super::names::Known;
use super::{CommTable, Recorder};
use crate::array;
use crate::callbacks::{self, Callbacks};
use crate::chain::Chain;
use crate::clock::Clock;
use crate::control::Control;
use crate::cuda;
use crate::free_ring::FreeRing;
use crate::gpu_events::{Rings, Switch};
use crate::graphs::Graphs;
use crate::intern::{text_id, Interner};
use crate::mask::Masks;
use crate::mpi::Mpi;
use crate::network::Network;
use crate::place;
use crate::ranges::Ranges;
use crate::round::Round;
use crate::seats::Seats;
use crate::settings::{self, Mode, Settings, Timing};
use crate::stacks::Stacks;
use crate::step_ranges;
use crate::stream_waits::StreamWaits;
use crate::templates::Templates;
use crate::threads::Threads;
use crate::torch_steps;
use crate::watch::Watch;
use capture::live::{Layout, Section, View};
use nccl_abi::names;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, OnceLock};

impl Recorder {
    /// A recorder with a live part of its own, which no callback finds yet. `random` tells it from others;
    /// `watch_driver` makes sure that graphs are seen. On the first try, the user is told which settings
    /// can't be used.
    pub fn make(
        random: u64,
        is_first_try: bool,
        watch_driver: fn(Watch, again: bool),
    ) -> std::io::Result<&'static Recorder> {
        let mut settings = Settings::from_env();
        let nccl = cuda::nccl_version();
        let mask = settings.mask_for(nccl);
        let crashes = settings::crashing(nccl);
        if is_first_try {
            settings
                .complaints
                .iter()
                .for_each(|line| say(format_args!("{line}")));
        }
        let clock = Clock::choose(settings.system_clock);
        let names = place::names(&settings, random);
        let ring = if settings.mode == Mode::Callbacks {
            callbacks::RING
        } else {
            0
        };
        let growing = Layout::growing(settings.memory);
        // Without address space for what may come, or with a limit of file sizes, there is what there is at
        // first.
        let (layout, mapping) = match Self::map(&names, random, growing, ring) {
            Ok(mapping) => (growing, mapping),
            Err(_) => {
                let fixed = growing.fixed();
                (fixed, Self::map(&names, random, fixed, ring)?)
            }
        };
        if let Some(warning) = &mapping.warning {
            say(format_args!("{warning}"));
        }
        // SAFETY: the mapping is new, page aligned, as long as said, zeroed where it is used, and never
        // unmapped.
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
        let threads = Threads::new();
        let chain = settings.chain.clone();
        let chain = chain.and_then(|path| Chain::new(path, live.header(), threads, crashes));
        let (ranges, no_ranges) = Ranges::find(settings.nvtx, settings.scorep, nccl);
        if is_first_try {
            no_ranges
                .iter()
                .for_each(|none| say(format_args!("{}", none.line())));
        }
        let (source, no_steps) = if settings.torch_steps {
            ("torch", torch_steps::missing())
        } else {
            ("nvtx", settings.steps.then(step_ranges::slot).flatten())
        };
        let line = no_steps.as_ref();
        let line = line.map(|why| format!("NCCLSCOPE_STEPS={source} has no effect: {why}"));
        settings.notes.extend(line);
        let odd_size = || std::io::Error::other("the live part has tables of an odd size");
        let no_memory = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let (rows, most_rows) = live.room(Section::Rows);
        // SAFETY: zeros are values of atomic integers.
        let cells: &[AtomicU32] = unsafe { array::zeros(most_rows) }.ok_or_else(no_memory)?;
        let cells = Round::new(cells).ok_or_else(odd_size)?;
        Ok(Box::leak(Box::new(Recorder {
            live,
            header: live.header(),
            clock,
            free: FreeRing::new(cells, layout.rows.into(), AtomicU64::new(0)),
            seats: Seats::new(),
            threads,
            comms: CommTable::new().ok_or_else(no_memory)?,
            comms_used: AtomicU32::new(0),
            generations: Mutex::default(),
            first_rows: layout.rows as usize,
            callbacks,
            chain,
            writer: Control::default(),
            salt: (random >> 32) as u16 | 1,
            pid: std::process::id() as i32,
            // SAFETY: the live part has so many.
            rows: unsafe { Round::of(rows, layout.rows as usize) }.ok_or_else(odd_size)?,
            groups: live.groups().try_into().map_err(|_| odd_size())?,
            templates: Templates::new(),
            graphs: Graphs::new(&live).ok_or_else(no_memory)?,
            capture_query: OnceLock::new(),
            watch_driver,
            network: Network::new(live.net_ops()).ok_or_else(odd_size)?,
            interner: Interner::new(),
            known,
            mask,
            folds_stamps: settings.timing == Timing::Stamps
                || mask & nccl_abi::event::KERNEL_CH as u32 == 0,
            driver: OnceLock::new(),
            rings: Rings::new(clock),
            masks: Masks::new(mask),
            waits: StreamWaits::new(settings.waits),
            mpi: Mpi::new(),
            switch: Switch::new((settings.timing == Timing::Auto).then_some(settings.budget)),
            buffers: settings.mode == Mode::Full,
            stacks: settings.stacks.then(Stacks::new).flatten(),
            ranges,
            no_ranges,
            no_steps,
            next_uid: AtomicU32::new(1),
            comms_alive: AtomicU32::new(0),
            said_hello: AtomicBool::new(false),
            settings,
            names,
            mapping,
        })))
    }

    /// A live part of this layout, which is new.
    fn map(
        names: &place::FileNames,
        random: u64,
        layout: Layout,
        ring: usize,
    ) -> std::io::Result<place::Mapping> {
        place::spare_memory(layout.bytes() + ring)?;
        let used: Vec<(usize, usize)> = layout.used().collect();
        place::live_part(names, random, layout.bytes(), &used)
    }
}
