//! The two programs of `bpf/calls.bpf.o`, which is part of this crate's code.
//!
//! Rule: the programs refer to maps by name only. A reference is a load of 64 bits, and becomes the
//! descriptor of the map.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::io;
use std::os::fd::RawFd;

/// Built by `scripts/build-bpf.sh`.
static CALLS: &[u8] = include_bytes!("../bpf/calls.bpf.o");

/// The instruction that loads 64 bits, and the mark that these are a map's descriptor.
const LOAD_64: u8 = 0x18;
const IS_MAP: u8 = 1 << 4;

/// The instructions of the program in `section`, with each map's descriptor as `descriptor` says.
///
/// # Errors
/// If the object is not as expected.
pub fn program(section: &str, descriptor: impl Fn(&str) -> Option<RawFd>) -> io::Result<Vec<u8>> {
    let wrong = |what: String| io::Error::other(format!("calls.bpf.o: {what}"));
    let file = object::File::parse(CALLS).map_err(io::Error::other)?;
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
        let map = descriptor(name).ok_or_else(|| wrong(format!("unknown map {name}")))?;
        let at = at as usize;
        let instruction = code
            .get_mut(at..at + 16)
            .filter(|bytes| bytes[0] == LOAD_64)
            .ok_or_else(|| wrong(format!("{name} is not loaded at {at}")))?;
        instruction[1] = (instruction[1] & 0xf) | IS_MAP;
        instruction[4..8].copy_from_slice(&map.to_le_bytes());
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_maps_become_descriptors() {
        let names = ["events", "lost", "results", "watched"];
        let number = |name: &str| {
            names
                .iter()
                .position(|n| *n == name)
                .map(|i| i as RawFd + 40)
        };
        for section in ["entry", "return"] {
            let code = program(section, number).expect("a program");
            let loads = code.chunks(8).filter(|i| i[0] == LOAD_64);
            let maps: Vec<u8> = loads.filter(|i| i[1] >> 4 == 1).map(|i| i[4]).collect();
            assert!(maps.len() >= 4 && maps.iter().all(|fd| (40..44).contains(fd)));
        }
        assert!(program("entry", |_| None).is_err());
    }
}
