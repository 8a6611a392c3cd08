//! Datatypes and reductions: NCCL's numbers, nccl-tests' names, and how a small whole number is written in
//! each.
//!
//! Rule: every value that the check uses is exact in its datatype, and so is every partial result on the way,
//! in whatever order ranks are reduced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A datatype of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Datatype(u8);

impl From<Datatype> for String {
    fn from(datatype: Datatype) -> String {
        datatype.name().to_owned()
    }
}

impl TryFrom<String> for Datatype {
    type Error = String;

    fn try_from(name: String) -> Result<Datatype, String> {
        Datatype::named(&name).ok_or_else(|| format!("expected one of {}", Datatype::names()))
    }
}

/// nccl-tests' names, in the order of NCCL's numbers.
const NAMES: [&str; 12] = [
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
    "f8e4m3", "f8e5m2",
];

impl Datatype {
    /// All names, for an error that tells them.
    pub fn names() -> String {
        NAMES.join(", ")
    }

    /// By nccl-tests' name or NCCL's (`float`, `ncclFloat32`).
    pub fn named(name: &str) -> Option<Datatype> {
        let number = NAMES.iter().position(|n| *n == name).map(|n| n as u8);
        number
            .or_else(|| nccl_abi::names::datatype_value(name))
            .map(Datatype)
    }

    /// NCCL's number.
    pub fn number(self) -> i32 {
        self.0.into()
    }

    /// nccl-tests' name.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }

    /// NCCL's name, as in a capture.
    pub fn nccl_name(self) -> &'static str {
        nccl_abi::names::datatype(self.0).unwrap_or(nccl_abi::names::UNKNOWN)
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        nccl_abi::names::DATATYPES[usize::from(self.0)].size
    }

    /// All whole numbers up to this one are exact.
    pub fn exact_up_to(self) -> u32 {
        match self.name() {
            "int8" => 127,
            "uint8" => 255,
            "half" => 1 << 11,
            "bfloat16" => 1 << 8,
            "f8e4m3" => 1 << 4,
            "f8e5m2" => 1 << 3,
            _ => 1 << 20,
        }
    }

    /// Writes a whole number that is exact.
    pub fn write(self, value: u32, into: &mut Vec<u8>) {
        let bits = match self.name() {
            "half" => float(value, 5, 10),
            "float" => float(value, 8, 23),
            "double" => float(value, 11, 52),
            "bfloat16" => float(value, 8, 7),
            "f8e4m3" => float(value, 4, 3),
            "f8e5m2" => float(value, 5, 2),
            _ => value.into(),
        };
        into.extend_from_slice(&bits.to_le_bytes()[..self.size()]);
    }
}

/// The bits of a whole number as a float with so many bits of exponent and mantissa.
fn float(value: u32, exponent_bits: u32, mantissa_bits: u32) -> u64 {
    let Some(exponent) = value.checked_ilog2() else {
        return 0;
    };
    // Without its leading 1, at the mantissa's upper end; exact values have no bits beyond the lower one.
    let rest = u64::from(value ^ (1 << exponent));
    let mantissa = match mantissa_bits.checked_sub(exponent) {
        Some(up) => rest << up,
        None => rest >> (exponent - mantissa_bits),
    };
    let bias = (1u64 << (exponent_bits - 1)) - 1;
    ((u64::from(exponent) + bias) << mantissa_bits) | mantissa
}

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub enum Reduction {
    /// ncclSum.
    Sum,
    /// ncclProd.
    Prod,
    /// ncclMax.
    Max,
    /// ncclMin.
    Min,
}

impl Reduction {
    /// All of them, in the order of NCCL's numbers.
    pub const ALL: [Reduction; 4] = [
        Reduction::Sum,
        Reduction::Prod,
        Reduction::Max,
        Reduction::Min,
    ];

    /// NCCL's number.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// nccl-tests' name.
    pub fn name(self) -> &'static str {
        ["sum", "prod", "max", "min"][self as usize]
    }

    /// By nccl-tests' name.
    pub fn named(name: &str) -> Option<Reduction> {
        Reduction::ALL.into_iter().find(|r| r.name() == name)
    }

    /// Of values that are exact together.
    pub fn of(self, values: impl Iterator<Item = u32>) -> u32 {
        match self {
            Reduction::Sum => values.sum(),
            Reduction::Prod => values.product(),
            Reduction::Max => values.max().unwrap_or(0),
            Reduction::Min => values.min().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_with_nccls_numbers() {
        for (number, name) in NAMES.iter().enumerate() {
            let datatype = Datatype::named(name).expect("a name");
            assert_eq!(datatype.number(), number as i32);
            assert_eq!(datatype.name(), *name);
            assert_eq!(Datatype::named(datatype.nccl_name()), Some(datatype));
        }
        assert_eq!(Datatype::named("float32"), None);
        for reduction in Reduction::ALL {
            assert_eq!(Reduction::named(reduction.name()), Some(reduction));
        }
    }

    #[test]
    fn whole_numbers_are_written_as_the_machine_does() {
        for value in [0, 1, 2, 3, 100, 4097, (1 << 20) - 1, 1 << 20] {
            let bytes = |name: &str| {
                let mut bytes = Vec::new();
                Datatype::named(name)
                    .expect("a name")
                    .write(value, &mut bytes);
                bytes
            };
            assert_eq!(bytes("float"), (value as f32).to_le_bytes());
            assert_eq!(bytes("double"), f64::from(value).to_le_bytes());
            assert_eq!(bytes("uint64"), u64::from(value).to_le_bytes());
            assert_eq!(bytes("int32"), value.to_le_bytes());
        }
    }

    #[test]
    fn small_floats_by_hand() {
        // 12 = 1.5 × 2³.
        assert_eq!(float(12, 4, 3), 0b0101_0100);
        assert_eq!(float(6, 5, 2), 0b0100_0110);
        assert_eq!(float(1, 8, 7), 0x3F80);
        assert_eq!(float(2048, 5, 10), 0x6800);
    }
}
