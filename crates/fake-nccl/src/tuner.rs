//! The tuner plugin of a process, called as NCCL calls it.
//!
//! A [`Tuner`] is loaded from `NCCL_TUNER_PLUGIN`, by the newest version that the release knows. Before each
//! collective it gets the table of costs. In it the script's first `choice` costs 10 µs and 100 GB/s, the
//! second twice that, and so on; everything else is ignored. [`Tuner::choose`] takes the cheapest entry that
//! the tuner leaves.
//!
//! Rule: a tuner that has an ignored entry taken ends the process, as such a call could not run.

use crate::event::Text;
use crate::script::{Choice, Op};
use core::ffi::{c_int, c_void};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nccl_abi::names;
use nccl_abi::tuner::{
    ChooseV3, ChooseV4, End, InitLong, InitShort, IGNORE, SYMBOLS, V3, V4, V5, V6,
};

const ALGORITHMS: usize = names::ALGOS.len();
const PROTOCOLS: usize = names::PROTOS.len();

/// With this variable, all buffers are registered.
const REGISTERED: &str = "FAKE_NCCL_REGISTERED";
/// What the first choice costs: this latency,
const LATENCY_US: f32 = 10.0;
/// and 100 GB/s.
const BYTES_A_US: f32 = 1e5;

/// A loaded tuner.
pub struct Tuner {
    init: Init,
    choose: Choose,
    end: End,
    /// Whether NCCL says that buffers are registered.
    registered: c_int,
    /// Its code.
    _library: Library,
}

#[derive(Clone, Copy)]
enum Init {
    Short(InitShort),
    Long(InitLong),
}

#[derive(Clone, Copy)]
enum Choose {
    V3(ChooseV3),
    V4(ChooseV4),
}

/// What a tuner gave for a communicator.
#[derive(Clone, Copy)]
pub struct Context(*mut c_void);

impl Tuner {
    /// The plugin of the variable, if there is one; says why if it can't be used.
    pub fn load(release: u32) -> Option<Tuner> {
        let path = std::env::var_os("NCCL_TUNER_PLUGIN").filter(|path| !path.is_empty())?;
        // SAFETY: loading a library runs its initialisers; that is what we are asked to do.
        let library = match unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => library,
            Err(error) => {
                tell!("fake-nccl: no tuner: {error}");
                return None;
            }
        };
        for version in (3..=newest(release)).rev() {
            let symbol = SYMBOLS[version - 2].as_bytes();
            // SAFETY: the symbol is read as the struct that its name promises, and the library stays open.
            let found = unsafe {
                match version {
                    3 => library.get::<*const V3>(symbol).ok().map(|of| {
                        let of = **of;
                        (
                            of.init.map(Init::Short),
                            of.get_coll_info.map(Choose::V3),
                            of.end,
                        )
                    }),
                    4 => library.get::<*const V4>(symbol).ok().map(|of| {
                        let of = **of;
                        (
                            of.init.map(Init::Short),
                            of.get_coll_info.map(Choose::V4),
                            of.end,
                        )
                    }),
                    5 => library.get::<*const V5>(symbol).ok().map(|of| {
                        let of = **of;
                        (
                            of.init.map(Init::Long),
                            of.get_coll_info.map(Choose::V4),
                            of.end,
                        )
                    }),
                    // The seventh is the sixth.
                    _ => library.get::<*const V6>(symbol).ok().map(|of| {
                        let of = **of;
                        (
                            of.init.map(Init::Long),
                            of.get_coll_info.map(Choose::V4),
                            of.end,
                        )
                    }),
                }
            };
            if let Some((Some(init), Some(choose), Some(end))) = found {
                return Some(Tuner {
                    init,
                    choose,
                    end,
                    registered: std::env::var_os(REGISTERED).is_some().into(),
                    _library: library,
                });
            }
        }
        tell!(
            "fake-nccl: no tuner: `{}` has no version that is known",
            path.to_string_lossy()
        );
        None
    }

    /// A communicator begins.
    pub fn begin(&self, id: u64, ranks: usize, nodes: usize) -> Context {
        let mut context = std::ptr::null_mut();
        let null = std::ptr::null_mut();
        // SAFETY: as NCCL calls it; what it may leave alone is null.
        unsafe {
            match self.init {
                Init::Short(init) => init(ranks, nodes, None, &mut context),
                Init::Long(init) => init(&mut context, id, ranks, nodes, None, null, null),
            }
        };
        Context(context)
    }

    /// The index of the choice that a collective gets.
    pub fn choose(
        &self,
        context: Context,
        op: Op,
        bytes: u64,
        choices: &[Choice],
        left: &[bool],
    ) -> Option<usize> {
        let number = |names: &[&str], of: Text| {
            names
                .iter()
                .position(|name| name.as_bytes() == of.to_bytes())
        };
        let entry = |choice: &Choice| {
            let (row, column) = (
                number(&names::ALGOS, choice.algo)?,
                number(&names::PROTOS, choice.proto)?,
            );
            Some(row * PROTOCOLS + column)
        };
        let mut costs = [IGNORE; ALGORITHMS * PROTOCOLS];
        let offered = choices.iter().zip(left).filter(|(_, left)| **left);
        let estimate = LATENCY_US + bytes as f32 / BYTES_A_US;
        for (cost, (choice, _)) in offered.enumerate() {
            costs[entry(choice)?] = (1.0 + cost as f32) * estimate;
        }
        let before = costs;
        let function = number(&names::FUNCS, op.func())? as c_int;
        let (table, mut channels) = (costs.as_mut_ptr(), 0);
        let (rows, columns) = (ALGORITHMS as c_int, PROTOCOLS as c_int);
        let bytes = bytes as usize;
        // SAFETY: as NCCL calls it, with a table of so many rows and columns.
        unsafe {
            match self.choose {
                Choose::V3(choose) => choose(
                    context.0,
                    function,
                    bytes,
                    1,
                    table,
                    rows,
                    columns,
                    &mut channels,
                ),
                Choose::V4(choose) => choose(
                    context.0,
                    function,
                    bytes,
                    1,
                    table,
                    rows,
                    columns,
                    self.registered,
                    &mut channels,
                ),
            }
        };
        let places = (0..costs.len()).filter(|place| costs[*place] != IGNORE);
        let taken = places.min_by(|a, b| costs[*a].total_cmp(&costs[*b]))?;
        if before[taken] == IGNORE {
            tell!("fake-nccl: the tuner chose what can't run here");
            std::process::abort();
        }
        choices
            .iter()
            .position(|choice| entry(choice) == Some(taken))
    }

    /// A communicator ends.
    pub fn end(&self, context: Context) {
        // SAFETY: the context is what `begin` gave, and is not used again.
        unsafe { (self.end)(context.0) };
    }
}

/// The newest version that a release knows.
fn newest(release: u32) -> usize {
    match release {
        0..22400 => 3,
        22400..22800 => 4,
        22800..23000 => 5,
        _ => 6,
    }
}
