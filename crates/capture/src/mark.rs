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
    format!("{body}{MEMBER}{}{END}", digits(body.as_bytes()))
}

/// The checksum of what stands before the member.
fn digits(body: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(body))
}

/// Whether the text is as it was written; `None` if it has no checksum.
pub fn is_sound(text: &str) -> Option<bool> {
    // What is written last has its place, whatever else is damaged.
    let body_at = text.len().saturating_sub(MEMBER.len() + DIGITS + END.len());
    let (body, rest) = text.as_bytes().split_at(body_at);
    let digits = digits(body);
    let behind_member = rest.get(MEMBER.len()..).unwrap_or_default();
    // Words of the command stand deeper, and no string has a line break.
    let has_one = behind_member.starts_with(digits.as_bytes()) || text.contains(NAME);
    has_one.then(|| rest == format!("{MEMBER}{digits}{END}").as_bytes())
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
