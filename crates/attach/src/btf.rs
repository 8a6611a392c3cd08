//! Where the kernel's structs have their fields, from the kernel's own description of its types (BTF).
//!
//! ```text
//! header  magic u16  version u8  flags u8  length u32  types: at u32, bytes u32   strings: at u32, bytes u32
//! type    name u32   what u32 (bits 24-28 kind, 0-15 number of members)   bytes u32   then by its kind
//! ```
//!
//! Rule: bytes that are not as expected give nothing, and never another field's place.

const MAGIC: u16 = 0xeb9f;
const STRUCT: u32 = 4;
const UNION: u32 = 5;

/// The types of a kernel.
pub struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Bytes behind the first twelve of a type of this kind with so many members.
fn rest(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables, and tags of declarations.
        1 | 14 | 17 => 4,
        // Pointers, forward declarations, other names, qualifiers, functions, floats, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Arrays.
        3 => 12,
        STRUCT | UNION => 12 * members,
        // Enums of 32 and of 64 bits, prototypes, and sections.
        6 | 13 => 8 * members,
        15 | 19 => 12 * members,
        _ => return None,
    })
}

impl<'a> Types<'a> {
    /// The types in the bytes of `/sys/kernel/btf/vmlinux`.
    pub fn of(bytes: &'a [u8]) -> Option<Types<'a>> {
        let magic = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
        let header = u32_at(bytes, 4)? as usize;
        let part = |at: usize| {
            let from = header.checked_add(u32_at(bytes, at)? as usize)?;
            bytes.get(from..from.checked_add(u32_at(bytes, at + 4)? as usize)?)
        };
        (magic == MAGIC).then_some(Types {
            types: part(8)?,
            strings: part(16)?,
        })
    }

    fn name_is(&self, at: u32, name: &str) -> bool {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// Where a struct has a field: bytes from its begin. Fields of a struct without a name within it are not
    /// looked at.
    pub fn field(&self, of: &str, field: &str) -> Option<u32> {
        let mut at = 0;
        while at < self.types.len() {
            let what = u32_at(self.types, at + 4)?;
            let (kind, members) = (what >> 24 & 31, (what & 0xffff) as usize);
            let members_at = at + 12;
            if kind == STRUCT && self.name_is(u32_at(self.types, at)?, of) {
                // With bit 31, a place is 24 bits, and above them is the length of a field of bits.
                let mask = if what >> 31 == 1 { 0xff_ffff } else { u32::MAX };
                return (0..members).find_map(|member| {
                    let member = members_at + 12 * member;
                    let bits = u32_at(self.types, member + 8)? & mask;
                    (self.name_is(u32_at(self.types, member)?, field) && bits % 8 == 0)
                        .then_some(bits / 8)
                });
            }
            at = members_at + rest(kind, members)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `int`; `struct a { int x; int y; }`; `struct b { int y; }`.
    fn example() -> Vec<u8> {
        let strings = b"\0int\0a\0b\0x\0y\0";
        let mut types: Vec<u32> = vec![1, 1 << 24, 4, 32];
        types.extend([5, 4 << 24 | 2, 8, 9, 1, 0, 11, 1, 32]);
        types.extend([7, 4 << 24 | 1, 4, 11, 1, 0]);
        let types: Vec<u8> = types.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let sizes = [24, 0, types.len(), types.len(), strings.len()];
        bytes.extend(sizes.into_iter().flat_map(|n| (n as u32).to_le_bytes()));
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_field_is_where_its_struct_has_it() {
        let bytes = example();
        let types = Types::of(&bytes).expect("types");
        assert_eq!(types.field("a", "x"), Some(0));
        assert_eq!(types.field("a", "y"), Some(4));
        assert_eq!(types.field("b", "y"), Some(0));
        assert_eq!(types.field("b", "x"), None);
        assert_eq!(types.field("int", "x"), None);
        for cut in 0..bytes.len() {
            if let Some(types) = Types::of(&bytes[..cut]) {
                assert_ne!(types.field("a", "y"), Some(0));
            }
        }
    }

    #[test]
    fn the_kernel_s_own_description_has_what_is_needed() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return eprintln!("skipped: this kernel does not describe its types");
        };
        let types = Types::of(&bytes).expect("types");
        assert!(types.field("task_struct", "pid").is_some_and(|at| at > 0));
    }
}
