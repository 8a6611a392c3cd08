//! The programs of `bpf/calls.*.bpf.o`, which are part of this crate's code: one object for each processor.
//!
//! Rule: the programs refer to maps and numbers by name only. A reference is a load of 64 bits. It becomes
//! the descriptor of the map, or the number.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::io;
use std::os::fd::RawFd;

/// Built by `scripts/build-bpf.sh`.
#[cfg(not(target_arch = "aarch64"))]
static CALLS: &[u8] = include_bytes!("../bpf/calls.x86_64.bpf.o");
#[cfg(target_arch = "aarch64")]
static CALLS: &[u8] = include_bytes!("../bpf/calls.aarch64.bpf.o");

/// What a name in the programs becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A map, by its descriptor.
    Map(RawFd),
    /// A number.
    Number(u32),
}

/// The instruction that loads 64 bits, and the mark that these are a map's descriptor.
const LOAD_64: u8 = 0x18;
const IS_MAP: u8 = 1 << 4;

/// The instructions of the program in `section`, with each name's value as `value` says.
///
/// # Errors
/// If the object is not as expected.
pub fn program(section: &str, value: impl Fn(&str) -> Option<Value>) -> io::Result<Vec<u8>> {
    program_of(CALLS, section, value)
}

fn program_of(
    object: &[u8],
    section: &str,
    value: impl Fn(&str) -> Option<Value>,
) -> io::Result<Vec<u8>> {
    let wrong = |what: String| io::Error::other(format!("calls.bpf.o: {what}"));
    let file = object::File::parse(object).map_err(io::Error::other)?;
    let found = file
        .section_by_name(section)
        .ok_or_else(|| wrong(format!("no section {section}")))?;
    let mut code = found.data().map_err(io::Error::other)?.to_vec();
    for (at, relocation) in found.relocations() {
        let RelocationTarget::Symbol(index) = relocation.target() else {
            return Err(wrong("a relocation without a symbol".into()));
        };
        let symbol = file.symbol_by_index(index).map_err(io::Error::other)?;
        let name = symbol.name().map_err(io::Error::other)?;
        let value = value(name).ok_or_else(|| wrong(format!("unknown name {name}")))?;
        let at = at as usize;
        let instruction = code
            .get_mut(at..at + 16)
            .filter(|bytes| bytes[0] == LOAD_64)
            .ok_or_else(|| wrong(format!("{name} is not loaded at {at}")))?;
        let (is_map, value) = match value {
            Value::Map(descriptor) => (IS_MAP, descriptor as u32),
            Value::Number(number) => (0, number),
        };
        instruction[1] = (instruction[1] & 0xf) | is_map;
        instruction[4..8].copy_from_slice(&value.to_le_bytes());
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: [&[u8]; 2] = [
        include_bytes!("../bpf/calls.x86_64.bpf.o"),
        include_bytes!("../bpf/calls.aarch64.bpf.o"),
    ];
    const SECTIONS: [&str; 6] = [
        "entry",
        "return",
        "switch",
        "wakeup",
        "softirq_begin",
        "softirq_end",
    ];

    fn value(name: &str) -> Option<Value> {
        let names = ["events", "lost", "results", "watched", "threads"];
        if name == "place_of_pid" {
            return Some(Value::Number(1234));
        }
        let at = names.iter().position(|known| *known == name)?;
        Some(Value::Map(at as RawFd + 40))
    }

    #[test]
    fn references_become_descriptors_and_numbers() {
        for object in OBJECTS {
            for section in SECTIONS {
                let code = program_of(object, section, value).expect("a program");
                let loads = code.chunks(8).filter(|i| i[0] == LOAD_64);
                let (maps, numbers): (Vec<_>, Vec<_>) = loads.partition(|i| i[1] >> 4 == 1);
                assert!(!maps.is_empty());
                assert!(maps.iter().all(|i| (40..45).contains(&i[4])));
                let has_pid = numbers.iter().any(|i| i[4..6] == 1234u16.to_le_bytes());
                assert_eq!(has_pid, section == "switch" || section == "wakeup");
            }
            assert!(program_of(object, "entry", |_| None).is_err());
        }
    }

    /// Where the programs for a processor read from what the kernel hands them: loads of 64 bits, by offset.
    #[test]
    fn each_processor_s_object_reads_its_own_registers() {
        let offsets = |object: &[u8], section: &str| {
            let code = program_of(object, section, value).expect("a program");
            let loads = code.chunks(8).filter(|i| i[0] == 0x79);
            let at = loads.map(|i| i16::from_le_bytes([i[2], i[3]]));
            // Below 0 is the program's own stack.
            let mut at: Vec<i16> = at.filter(|at| *at >= 0).collect();
            at.sort_unstable();
            at.dedup();
            at
        };
        // struct pt_regs of x86-64: di, si, dx, cx, r8, r9 at 112, 104, 96, 88, 72, 64; sp at 152; ax at 80.
        let entry = offsets(OBJECTS[0], "entry");
        for at in [112, 104, 96, 88, 72, 64, 152] {
            assert!(entry.contains(&at), "{at} of {entry:?}");
        }
        assert!(offsets(OBJECTS[0], "return").contains(&80));
        // struct user_pt_regs of aarch64: x0 to x7 at 0 to 56.
        let entry = offsets(OBJECTS[1], "entry");
        for at in (0..64).step_by(8) {
            assert!(entry.contains(&at), "{at} of {entry:?}");
        }
        assert!(entry.iter().all(|at| *at < 64), "{entry:?}");
        assert!(offsets(OBJECTS[1], "return").contains(&0));
    }
}
