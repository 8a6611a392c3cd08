//! The checksum of `capture.json`.
//!
//! It is the last member of the object: `"crc32"`, 8 hex digits of the CRC-32 of all bytes before the line
//! that has it. So the file is JSON as before, and whoever knows nothing of the checksum reads it as before.
//!
//! Rule: a file without a checksum is one of an older version, and nothing is said against it.

/// The folder of a capture in which each run that joined it has a file, empty before its end and sealed then.
pub const MEMBERS: &str = ".members";

/// How the last line but one begins.
const MEMBER: &str = ",\n  \"crc32\": \"";
/// How the line of the member begins, whatever else is damaged.
const NAME: &str = "\n  \"crc32\":";
/// Digits of the checksum.
const DIGITS: usize = 8;
/// What comes behind the digits.
const END: &str = "\"\n}\n";

/// The text of an object that is printed over several lines, with its checksum.
pub fn sealed(object: &str) -> String {
    let body = object.trim_end();
    let body = body.strip_suffix('}').unwrap_or(body).trim_end();
    format!(
        "{body}{MEMBER}{:08x}{END}",
        crc32fast::hash(body.as_bytes())
    )
}

/// Whether the text is as it was written; `None` if it has no checksum.
pub fn is_sound(text: &str) -> Option<bool> {
    let bytes = text.as_bytes();
    // What is written last has its place, whatever else is damaged.
    let digits_at = bytes.len().checked_sub(END.len() + DIGITS)?;
    let body_at = digits_at.checked_sub(MEMBER.len());
    let of_body = body_at.map(|end| format!("{:08x}", crc32fast::hash(&bytes[..end])));
    let fits = of_body.is_some_and(|crc| bytes[digits_at..].starts_with(crc.as_bytes()));
    // Words of the command stand deeper, and no string has a line break.
    if !fits && !text.contains(NAME) {
        return None;
    }
    let around = [
        body_at.unwrap_or(0)..digits_at,
        digits_at + DIGITS..bytes.len(),
    ];
    Some(fits && around.map(|range| &bytes[range]) == [MEMBER.as_bytes(), END.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flip_is_seen() {
        let object = "{\n  \"command\": [\n    \"crc32\"\n  ],\n  \"ended\": \"x\"\n}";
        for short in [object, "", "{\n}\n", "{\n  \"ended\": \"é\"\n}\n"] {
            assert_eq!(is_sound(short), None);
        }
        let text = sealed(object);
        assert_eq!(is_sound(&text), Some(true));
        assert!(text.ends_with("\"\n}\n"));
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).expect("ASCII");
                assert_eq!(is_sound(&flipped), Some(false), "{at} {bit}");
            }
        }
        let from = text.len() - END.len() - DIGITS - MEMBER.len();
        // Cut, or with something behind.
        for at in from + MEMBER.len()..text.len() {
            assert_eq!(is_sound(&text[..at]), Some(false), "{at}");
        }
        assert_eq!(is_sound(&(text + " ")), Some(false));
    }
}
