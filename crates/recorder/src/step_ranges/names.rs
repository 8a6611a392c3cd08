//! Which NVTX range is a step, by its name.
//!
//! `NCCLSCOPE_STEPS=nvtx:NAME` says so; a `*` at the end stands for any rest. Without a name, it is one of
//! [`KNOWN`], which frameworks push. Torch puts more behind a name (`Optimizer.step#SGD.step, op_id = 12`),
//! so a name ends before a comma, too.
//!
//! Rule: a text is read up to the first character that fits no name, and never beyond its end.

use std::ffi::c_char;

/// What a range says of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It is one.
    Step,
    /// It ends one.
    End,
}

/// Ranges of frameworks, from their public source, and those of torch and DeepSpeed as the libraries pushed
/// them. `docs/guides/steps.md` has the list for users; a test holds both together.
pub const KNOWN: [(&str, Bound); 6] = [
    // `torch.profiler.profile.step()`, within `emit_nvtx`.
    ("ProfilerStep#*", Bound::Step),
    // Any optimizer of torch, within `emit_nvtx`.
    ("Optimizer.step#*", Bound::End),
    // DeepSpeed, ZeRO 3. With ZeRO 1 and 2, it has ranges of micro-batches only.
    ("DeepSpeedZeroOptimizer_Stage3.step", Bound::End),
    // Megatron-core, once for all micro-batches of a step, if pipeline stages are interleaved.
    (
        "megatron.core.pipeline_parallel.schedules.forward_backward_pipelining_with_interleaving.warmup",
        Bound::Step,
    ),
    // vLLM, each time that a worker runs the model.
    ("gpu_model_runner: forward", Bound::Step),
    // TensorRT-LLM, the same.
    ("[Executor] _forward_step*", Bound::Step),
];

/// Characters of a name at most; the rest of a longer one is not compared.
const LONGEST: usize = 256;

/// What is a step: `None` if ranges are not to be read, and what may be set if the value is none of that.
///
/// # Errors
/// What the value may be.
pub fn asked(value: &str) -> Result<Option<Names>, &'static str> {
    const EXPECTED: &str = "torch, nvtx, nvtx:NAME, off";
    let value = value.trim();
    let (source, name) = match value.split_once(':') {
        Some((source, name)) => (source, Some(name.trim())),
        None => (value, None),
    };
    let is_other = ["off", "torch"]
        .iter()
        .any(|other| source.eq_ignore_ascii_case(other));
    if is_other && name.is_none() {
        return Ok(None);
    }
    if !source.eq_ignore_ascii_case("nvtx") {
        return Err(EXPECTED);
    }
    match name {
        None => Ok(Some(Names::known())),
        // Each range of the process would be a step.
        Some(name) if name.trim_end_matches('*').is_empty() => Err(EXPECTED),
        Some(name) => Ok(Some(Names::new(vec![Name::new(name, Bound::Step, false)]))),
    }
}

/// The name of [`KNOWN`] at a place.
pub fn known(place: usize) -> Option<&'static str> {
    // A name of the user's has the place behind them.
    KNOWN.get(place).map(|(name, _)| *name)
}

/// Names of ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    list: Vec<Name>,
    /// A bit for each byte with which one of them begins: all that most ranges are compared with.
    firsts: [u64; 4],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    text: Vec<u8>,
    /// Any rest fits.
    is_open: bool,
    bound: Bound,
    /// Its place in [`KNOWN`], or the one behind them.
    place: u8,
}

impl Name {
    fn new(name: &str, bound: Bound, is_known: bool) -> Name {
        let place = KNOWN
            .iter()
            .position(|(known, _)| is_known && *known == name);
        let text = name.strip_suffix('*');
        let is_open = text.is_some();
        let text = text.unwrap_or(name).bytes().take(LONGEST).collect();
        Name {
            text,
            is_open,
            bound,
            place: place.unwrap_or(KNOWN.len()) as u8,
        }
    }
}

/// A range with one of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name's place.
    place: u8,
    pub bound: Bound,
    /// Of an optimizer, a hash of what stands for the `*`: a loop may have several, and one of them is
    /// enough to tell steps.
    which: u32,
}

impl Found {
    /// What tells it from other names; not 0.
    pub fn identity(self) -> u32 {
        (self.which & 0x00ff_ffff) << 8 | u32::from(self.place + 1)
    }

    /// As a handle, which NVTX hands back. It is no address, and not null.
    pub fn handle(self) -> usize {
        let bound = usize::from(self.bound == Bound::End);
        1 << 62 | bound << 61 | (self.identity() as usize)
    }

    /// What [`Found::handle`] made; `None` for any other number.
    pub fn of_handle(handle: usize) -> Option<Found> {
        let identity = handle as u32;
        let rest = handle & !(1 << 61) & !(u32::MAX as usize);
        let place = (identity as u8).checked_sub(1)?;
        let is_ours = rest == 1 << 62 && usize::from(place) <= KNOWN.len();
        is_ours.then_some(Found {
            place,
            bound: if handle >> 61 & 1 == 1 {
                Bound::End
            } else {
                Bound::Step
            },
            which: identity >> 8,
        })
    }
}

/// A character of a text that ends in 0: C's `char` or `wchar_t`.
pub trait Unit: Copy {
    fn code(self) -> u32;
}

impl Unit for c_char {
    fn code(self) -> u32 {
        u32::from(self as u8)
    }
}

/// `wchar_t` of Linux.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Wide(pub u32);

impl Unit for Wide {
    fn code(self) -> u32 {
        self.0
    }
}

impl Names {
    fn known() -> Names {
        let of = |(name, bound): &(&str, Bound)| Name::new(name, *bound, true);
        Names::new(KNOWN.iter().map(of).collect())
    }

    fn new(list: Vec<Name>) -> Names {
        let mut firsts = [0; 4];
        for first in list.iter().filter_map(|name| name.text.first()) {
            firsts[usize::from(*first >> 6)] |= 1 << (first & 63);
        }
        Names { list, firsts }
    }

    /// Which of these names a text is.
    ///
    /// # Safety
    /// `text` is null or ends in 0.
    #[inline]
    pub unsafe fn find<T: Unit>(&self, text: *const T) -> Option<Found> {
        if text.is_null() {
            return None;
        }
        // SAFETY: the first character is there, if only as the end.
        let first = unsafe { *text }.code();
        let bits = self.firsts.get((first >> 6) as usize)?;
        if bits >> (first & 63) & 1 == 0 {
            return None;
        }
        // SAFETY: as the caller promises.
        self.list.iter().find_map(|name| unsafe { name.of(text) })
    }
}

impl Name {
    /// # Safety
    /// `text` ends in 0.
    #[inline(never)]
    unsafe fn of<T: Unit>(&self, text: *const T) -> Option<Found> {
        for (at, byte) in self.text.iter().enumerate() {
            // SAFETY: all characters before fit, so none of them was the end.
            if unsafe { *text.add(at) }.code() != u32::from(*byte) {
                return None;
            }
        }
        let is_end = |code: u32| code == 0 || code == u32::from(b',');
        let mut which = 0;
        if self.is_open && self.bound == Bound::End {
            which = 0x811c_9dc5;
            for at in self.text.len()..LONGEST {
                // SAFETY: as above; the loop stops at the end.
                let code = unsafe { *text.add(at) }.code();
                if is_end(code) {
                    break;
                }
                which = (which ^ code).wrapping_mul(0x0100_0193);
            }
        } else if !self.is_open {
            // SAFETY: as above.
            let next = unsafe { *text.add(self.text.len()) }.code();
            if !is_end(next) {
                return None;
            }
        }
        Some(Found {
            place: self.place,
            bound: self.bound,
            which: which & 0x00ff_ffff,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn find(names: &Names, text: &str) -> Option<Found> {
        let wide: Vec<Wide> = text.chars().chain(['\0']).map(|c| Wide(c as u32)).collect();
        let text = CString::new(text).expect("no zero byte");
        // SAFETY: both end in 0.
        let (plain, wide) = unsafe { (names.find(text.as_ptr()), names.find(wide.as_ptr())) };
        assert_eq!(plain, wide, "{text:?}");
        let back = plain.and_then(|found| Found::of_handle(found.handle()));
        assert_eq!(back, plain);
        plain
    }

    fn named(value: &str) -> Names {
        asked(value).expect("sound").expect("on")
    }

    #[test]
    fn a_name_is_whole_unless_it_ends_in_a_star() {
        let whole = named("nvtx:train");
        for (text, is_one) in [
            ("train", true),
            ("train, seq = 4", true),
            ("trainer", false),
            ("trai", false),
            ("", false),
            ("Train", false),
        ] {
            assert_eq!(find(&whole, text).is_some(), is_one, "{text}");
        }
        let open = named("NVTX: iteration* ");
        for text in ["iteration", "iteration12", "iteration 12, of 90"] {
            assert_eq!(
                find(&open, text).map(|found| found.bound),
                Some(Bound::Step)
            );
        }
        assert_eq!(find(&open, "iteratio"), None);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { open.find(std::ptr::null::<c_char>()) }, None);
        // All numbers are steps of one name.
        let identity = |text| find(&open, text).map(Found::identity);
        assert_eq!(identity("iteration1"), identity("iteration2"));
    }

    #[test]
    fn frameworks_ranges_are_known_by_name() {
        let known = named("nvtx");
        let bound = |text: &str| find(&known, text).map(|found| found.bound);
        assert_eq!(bound("ProfilerStep#12"), Some(Bound::Step));
        assert_eq!(bound("Optimizer.step#AdamW.step"), Some(Bound::End));
        assert_eq!(
            bound("DeepSpeedZeroOptimizer_Stage3.step"),
            Some(Bound::End)
        );
        let forward = "[Executor] _forward_step 7: 0 ctx reqs, 0 ctx tokens, 32 gen reqs";
        assert_eq!(bound(forward), Some(Bound::Step));
        for other in [
            "Optimizer.zero_grad#AdamW.zero_grad",
            "DeepSpeedEngine.forward",
            "aten::mm, seq = 12, op_id = 3",
            "Iteration 0",
        ] {
            assert_eq!(bound(other), None, "{other}");
        }
        // One optimizer of several, whatever torch puts behind its name.
        let identity = |text: &str| find(&known, text).map(Found::identity);
        let adam = "Optimizer.step#AdamW.step";
        assert_eq!(identity(adam), identity(&format!("{adam}, op_id = 17")));
        assert_ne!(identity(adam), identity("Optimizer.step#Muon.step"));
        assert_eq!(super::known(1), Some("Optimizer.step#*"));
        assert_eq!(super::known(KNOWN.len()), None);
    }

    #[test]
    fn what_can_be_set() {
        for off in ["off", " OFF ", "torch"] {
            assert_eq!(asked(off), Ok(None));
        }
        for wrong in ["nvtx:", "nvtx:*", "nvtx: ", "jax", "on", "off:x", "1"] {
            assert_eq!(asked(wrong), Err("torch, nvtx, nvtx:NAME, off"), "{wrong}");
        }
        assert_eq!(named("nvtx"), Names::known());
        // A name of the list that the user gives is a step itself, as any name of the user's.
        let own = named("nvtx:Optimizer.step#*");
        let found = find(&own, "Optimizer.step#SGD.step").expect("it fits");
        assert_eq!((found.bound, found.place), (Bound::Step, KNOWN.len() as u8));
    }

    #[test]
    fn a_handle_of_another_is_no_step() {
        for handle in [0, 1, 8, usize::MAX, 1 << 62, 1 << 63 | 1, 0x7fff_1234_5678] {
            assert_eq!(Found::of_handle(handle), None, "{handle:x}");
        }
    }

    #[test]
    fn the_guide_has_all_names_in_this_order() {
        let page = include_str!("../../../../docs/guides/steps.md");
        let table = page.split_once("| range | ").expect("a table").1;
        let rows = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let rows: Vec<(&str, Bound)> = rows
            .map(|row| {
                let mut cells = row.split('|').map(str::trim).skip(1);
                let name = cells.next().expect("a name").trim_matches('`');
                let is_end = cells.nth(1).expect("what it is").starts_with("the end");
                (name, if is_end { Bound::End } else { Bound::Step })
            })
            .collect();
        assert_eq!(rows, KNOWN);
    }
}
