//! The rules of `.eh_frame`: where the caller's frame begins, for each address.
//!
//! An [`UnwindTable`] is the index that the linker writes (`.eh_frame_hdr`): sorted addresses of functions,
//! each with its entry. An entry and what it shares with others are small programs that say, from the
//! function's first address on, how the rule changes. [`UnwindTable::rule`] runs them up to an address. The
//! DWARF standard (6.4) and the Linux Standard Base describe them.
//!
//! Rule: nothing outside of the module is read, and each program runs for a bounded number of steps.

/// Where the caller's frame begins, and what is known of its frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// From the frame pointer; else from the stack pointer.
    pub from_bp: bool,
    /// How far above that.
    pub cfa: isize,
    pub bp: Saved,
    /// There is no caller.
    pub is_outermost: bool,
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Still in the register.
    Same,
    /// This far from the beginning of the caller's frame.
    At(isize),
}

/// Bits of an offset, in words.
const OFFSET_BITS: u32 = 12;

impl Rule {
    /// In so many bits, never 0; nothing if it does not fit.
    pub fn pack(self, bits: u32) -> Option<u64> {
        debug_assert!(bits >= 2 * OFFSET_BITS + 4);
        let words = |offset: isize| {
            let words = offset / 8;
            let fits = offset % 8 == 0 && words.unsigned_abs() < 1 << (OFFSET_BITS - 1);
            fits.then_some(words as u64 & ((1 << OFFSET_BITS) - 1))
        };
        let (is_saved, saved) = match self.bp {
            Saved::Same => (0, 0),
            Saved::At(offset) => (1, words(offset)?),
        };
        let flags =
            1 | u64::from(self.from_bp) << 1 | is_saved << 2 | u64::from(self.is_outermost) << 3;
        Some(flags | words(self.cfa)? << 4 | saved << (4 + OFFSET_BITS))
    }

    /// Undoes [`Rule::pack`].
    pub fn unpack(packed: u64) -> Option<Rule> {
        let words = |shift: u32| {
            let words = (packed >> shift) & ((1 << OFFSET_BITS) - 1);
            let shift = 64 - OFFSET_BITS;
            ((words << shift) as i64 >> shift) as isize * 8
        };
        (packed & 1 != 0).then(|| Rule {
            from_bp: packed & 2 != 0,
            cfa: words(4),
            bp: if packed & 4 != 0 {
                Saved::At(words(4 + OFFSET_BITS))
            } else {
                Saved::Same
            },
            is_outermost: packed & 8 != 0,
        })
    }
}

/// Registers by DWARF's numbers on x86-64.
const BP: u64 = 6;
const SP: u64 = 7;
const RETURN: u64 = 16;
/// Instructions of a program that are run.
const STEPS: usize = 512;
/// States that a program may remember.
const REMEMBERED: usize = 4;

/// The index of a module.
#[derive(Clone, Copy, Debug)]
pub struct UnwindTable {
    /// Where it begins: addresses in it are relative to that.
    at: usize,
    /// Its first pair, and how many there are.
    pairs: usize,
    count: usize,
    /// The module.
    start: usize,
    end: usize,
}

/// Bytes of a module.
#[derive(Clone, Copy)]
struct Bytes {
    at: usize,
    end: usize,
}

impl Bytes {
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.end.checked_sub(self.at)? < N {
            return None;
        }
        // SAFETY: within the module, which is loaded: it has a frame on the stack, or is being listed.
        let bytes = unsafe { std::ptr::read(self.at as *const [u8; N]) };
        self.at += N;
        Some(bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    /// Base 128, low bits first.
    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let mut value = 0i64;
        for shift in (0..63).step_by(7) {
            let byte = self.u8()?;
            value |= i64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let unused = 64 - shift - 7;
                return Some(if unused > 0 {
                    value << unused >> unused
                } else {
                    value
                });
            }
        }
        None
    }

    fn skip(&mut self, n: u64) -> Option<()> {
        let at = self.at.checked_add(usize::try_from(n).ok()?)?;
        (at <= self.end).then(|| self.at = at)
    }

    /// An address in one of the encodings that compilers use.
    fn address(&mut self, encoding: u8) -> Option<usize> {
        let from = match encoding & 0x70 {
            0 => 0,
            0x10 => self.at,
            _ => return None,
        };
        let value = match encoding & 0x0f {
            0 | 4 | 12 => u64::from_le_bytes(self.fixed()?) as isize,
            3 => self.u32()? as isize,
            11 => self.u32()? as i32 as isize,
            _ => return None,
        };
        (encoding & 0x80 == 0).then(|| from.wrapping_add_signed(value))
    }
}

/// What an entry says.
struct Entry {
    /// The function.
    begin: usize,
    end: usize,
    code_factor: u64,
    data_factor: i64,
    /// The program that it shares with others, and its own.
    programs: [Bytes; 2],
    /// A frame that the kernel made for a signal.
    is_signal: bool,
}

/// The state of a program.
#[derive(Clone, Copy)]
struct UnwindState {
    from: u64,
    cfa: i64,
    bp: Option<Saved>,
    has_return: bool,
}

impl UnwindTable {
    /// The index at an address, if it is of the kind that linkers write.
    ///
    /// # Safety
    /// The module from `start` to `end` is loaded.
    pub unsafe fn at(at: usize, start: usize, end: usize) -> Option<UnwindTable> {
        let mut bytes = Bytes { at, end };
        let [version, frame, count, pairs] = bytes.fixed()?;
        // Sorted pairs of four bytes, relative to the index.
        if version != 1 || pairs != 0x3b || at < start {
            return None;
        }
        bytes.address(frame)?;
        let count = match count {
            3 => bytes.u32()? as usize,
            _ => return None,
        };
        let pairs = bytes.at;
        (pairs.checked_add(count.checked_mul(8)?)? <= end).then_some(UnwindTable {
            at,
            pairs,
            count,
            start,
            end,
        })
    }

    fn pair(&self, index: usize) -> Option<(usize, usize)> {
        let mut bytes = Bytes {
            at: self.pairs + 8 * index,
            end: self.end,
        };
        let mut relative = || Some(self.at.wrapping_add_signed(bytes.u32()? as i32 as isize));
        Some((relative()?, relative()?))
    }

    /// The rule at an address.
    pub fn rule(&self, address: usize) -> Option<Rule> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.pair(middle)?.0 <= address {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let entry = self.entry(self.pair(low.checked_sub(1)?)?.1)?;
        if !(entry.begin..entry.end).contains(&address) || entry.is_signal {
            return None;
        }
        run(&entry, address)
    }

    fn bytes(&self, at: usize) -> Option<Bytes> {
        (self.start..self.end)
            .contains(&at)
            .then_some(Bytes { at, end: self.end })
    }

    /// An entry and what it shares with others.
    fn entry(&self, at: usize) -> Option<Entry> {
        let mut own = self.bytes(at)?;
        let length = own.u32()? as usize;
        // 64-bit entries do not occur.
        if length == 0 || length >= 0xffff_fff0 {
            return None;
        }
        own.end = own.at.checked_add(length).filter(|end| *end <= self.end)?;
        let here = own.at;
        let back = own.u32()? as usize;
        let mut shared = self.bytes(here.checked_sub(back)?)?;
        let length = shared.u32()? as usize;
        shared.end = shared
            .at
            .checked_add(length)
            .filter(|end| *end <= self.end)?;
        let id = shared.u32()?;
        let version = shared.u8()?;
        if id != 0 || version != 1 {
            return None;
        }
        let mut augmentation = [0; 8];
        let mut n = 0;
        loop {
            match shared.u8()? {
                0 => break,
                letter => *augmentation.get_mut(n)? = letter,
            }
            n += 1;
        }
        let code_factor = shared.unsigned()?;
        let data_factor = shared.signed()?;
        if u64::from(shared.u8()?) != RETURN {
            return None;
        }
        let (mut encoding, mut is_signal) = (0, false);
        if let [b'z', letters @ ..] = &augmentation[..n] {
            let length = shared.unsigned()?;
            let after = shared.at.checked_add(usize::try_from(length).ok()?)?;
            for letter in letters {
                match letter {
                    b'R' => encoding = shared.u8()?,
                    b'P' => {
                        let personality = shared.u8()?;
                        // Only its length counts: it may be indirect.
                        shared.address(personality & 0x7f)?;
                    }
                    b'L' => {
                        shared.u8()?;
                    }
                    b'S' => is_signal = true,
                    _ => return None,
                }
            }
            shared.at = after;
        } else if n != 0 {
            return None;
        }
        let begin = own.address(encoding)?;
        let length = own.address(encoding & 0x0f)?;
        if n != 0 {
            let length = own.unsigned()?;
            own.skip(length)?;
        }
        (shared.at <= shared.end).then_some(Entry {
            begin,
            end: begin.checked_add(length)?,
            code_factor,
            data_factor,
            programs: [shared, own],
            is_signal,
        })
    }
}

/// Runs the programs of an entry up to an address.
fn run(entry: &Entry, address: usize) -> Option<Rule> {
    let mut state = UnwindState {
        from: SP,
        cfa: 0,
        bp: Some(Saved::Same),
        has_return: true,
    };
    let mut first = state;
    let mut remembered = [state; REMEMBERED];
    let (mut n, mut at, mut steps) = (0, entry.begin, 0);
    'programs: for (number, program) in entry.programs.into_iter().enumerate() {
        let mut bytes = program;
        if number == 1 {
            first = state;
        }
        while bytes.at < bytes.end {
            steps += 1;
            if steps > STEPS {
                return None;
            }
            let code = bytes.u8()?;
            let factored = |value: u64| (value as i64).wrapping_mul(entry.data_factor);
            let low = u64::from(code & 0x3f);
            let mut step = 0;
            match (code >> 6, code) {
                // advance_loc, offset, restore: the operand is in the code.
                (1, _) => step = low,
                (2, _) => {
                    let offset = factored(bytes.unsigned()?);
                    save(&mut state, low, Some(Saved::At(offset as isize)));
                }
                (3, _) => restore(&mut state, &first, low),
                // nop, set_loc, advance_loc1, 2 and 4.
                (_, 0x00) => {}
                (_, 0x02) => step = bytes.u8()?.into(),
                (_, 0x03) => step = u16::from_le_bytes(bytes.fixed()?).into(),
                (_, 0x04) => step = bytes.u32()?.into(),
                // offset_extended, restore_extended, undefined, same_value, register.
                (_, 0x05) => {
                    let register = bytes.unsigned()?;
                    let offset = factored(bytes.unsigned()?);
                    save(&mut state, register, Some(Saved::At(offset as isize)));
                }
                (_, 0x06) => restore(&mut state, &first, bytes.unsigned()?),
                (_, 0x07) => {
                    let register = bytes.unsigned()?;
                    state.has_return &= register != RETURN;
                    save(&mut state, register, None);
                }
                (_, 0x08) => save(&mut state, bytes.unsigned()?, Some(Saved::Same)),
                (_, 0x09) => {
                    let register = bytes.unsigned()?;
                    bytes.unsigned()?;
                    save(&mut state, register, None);
                }
                // remember_state, restore_state.
                (_, 0x0a) => {
                    *remembered.get_mut(n)? = state;
                    n += 1;
                }
                (_, 0x0b) => {
                    n = n.checked_sub(1)?;
                    state = remembered[n];
                }
                // def_cfa, def_cfa_register, def_cfa_offset, and with signed factored offsets.
                (_, 0x0c) => {
                    state.from = bytes.unsigned()?;
                    state.cfa = bytes.unsigned()? as i64;
                }
                (_, 0x0d) => state.from = bytes.unsigned()?,
                (_, 0x0e) => state.cfa = bytes.unsigned()? as i64,
                (_, 0x12) => {
                    state.from = bytes.unsigned()?;
                    state.cfa = bytes.signed()?.wrapping_mul(entry.data_factor);
                }
                (_, 0x13) => state.cfa = bytes.signed()?.wrapping_mul(entry.data_factor),
                // def_cfa_expression: a register that no rule knows.
                (_, 0x0f) => {
                    let length = bytes.unsigned()?;
                    bytes.skip(length)?;
                    state.from = u64::MAX;
                }
                // expression, val_expression: of the register.
                (_, 0x10 | 0x16) => {
                    let register = bytes.unsigned()?;
                    let length = bytes.unsigned()?;
                    bytes.skip(length)?;
                    save(&mut state, register, None);
                }
                // offset_extended_sf, val_offset, val_offset_sf.
                (_, 0x11) => {
                    let register = bytes.unsigned()?;
                    let offset = bytes.signed()?.wrapping_mul(entry.data_factor);
                    save(&mut state, register, Some(Saved::At(offset as isize)));
                }
                (_, 0x14 | 0x15) => {
                    let register = bytes.unsigned()?;
                    bytes.unsigned()?;
                    save(&mut state, register, None);
                }
                // GNU_args_size.
                (_, 0x2e) => {
                    bytes.unsigned()?;
                }
                _ => return None,
            }
            at = at.checked_add(usize::try_from(step.checked_mul(entry.code_factor)?).ok()?)?;
            if at > address {
                break 'programs;
            }
        }
    }
    if !state.has_return {
        return Some(Rule {
            from_bp: false,
            cfa: 8,
            bp: Saved::Same,
            is_outermost: true,
        });
    }
    let from_bp = match state.from {
        BP => true,
        SP => false,
        _ => return None,
    };
    Some(Rule {
        from_bp,
        cfa: isize::try_from(state.cfa).ok()?,
        bp: state.bp?,
        is_outermost: false,
    })
}

fn save(state: &mut UnwindState, register: u64, saved: Option<Saved>) {
    if register == BP {
        state.bp = saved;
    }
    if register == RETURN && saved != Some(Saved::At(-8)) {
        state.has_return = false;
    }
}

fn restore(state: &mut UnwindState, first: &UnwindState, register: u64) {
    if register == BP {
        state.bp = first.bp;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_what_it_was_packed_from() {
        for from_bp in [false, true] {
            for cfa in [8, 16, 16_376] {
                for bp in [Saved::Same, Saved::At(-16), Saved::At(-16_376)] {
                    let rule = Rule {
                        from_bp,
                        cfa,
                        bp,
                        is_outermost: false,
                    };
                    let packed = rule.pack(29).expect("fits");
                    assert!(packed < 1 << 28);
                    assert_eq!(Rule::unpack(packed), Some(rule));
                }
            }
        }
        let wide = Rule {
            from_bp: false,
            cfa: 16_384,
            bp: Saved::Same,
            is_outermost: false,
        };
        assert_eq!(wide.pack(29), None);
        assert_eq!(Rule::unpack(0), None);
    }

    #[test]
    fn any_bytes_are_no_table_or_end() {
        let mut bytes = vec![0u8; 4096];
        for seed in 0..4000u32 {
            for (i, byte) in bytes.iter_mut().enumerate() {
                let i = i as u32 ^ seed.wrapping_mul(2_654_435_761);
                *byte = (i.wrapping_mul(i).wrapping_mul(2_246_822_519) >> 13) as u8;
            }
            bytes[..4].copy_from_slice(&[1, 0x1b, 3, 0x3b]);
            bytes[8..12].copy_from_slice(&(seed % 400).to_le_bytes());
            let at = bytes.as_ptr() as usize;
            // SAFETY: the bytes are there.
            let table = unsafe { UnwindTable::at(at, at, at + bytes.len()) };
            let Some(table) = table else { continue };
            for offset in (0..4096).step_by(64) {
                let _ = table.rule(at + offset);
                let _ = table.entry(at + offset);
            }
        }
    }
}
