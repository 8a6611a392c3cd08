//! JSON read piece by piece, from files of any size.
//!
//! A [`Json`] hands out one token after the other and keeps none. What nobody wants is skipped without a
//! copy.
//! Tools write what is not quite JSON (control characters in strings, `NaN`, escapes that there are not), so
//! such things are taken as they are.
//!
//! Rule: memory is bounded by [`MOST_TEXT`], whatever the file has in it, and nothing recurses.

use std::io::Read;

/// Bytes of a string or number that are kept. What follows is left out.
pub const MOST_TEXT: usize = 1 << 16;
/// Objects and arrays in each other that are skipped.
const DEEPEST: u32 = 10_000;

/// Why reading can't go on.
#[derive(Debug)]
pub enum Fault {
    /// The file can't be read.
    Io(std::io::Error),
    /// It ends before its last value does.
    Truncated,
    /// It has something else in this place.
    Syntax {
        /// Byte of the (unpacked) file.
        at: u64,
        /// What should be there.
        expected: &'static str,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Io(error) => error.fmt(f),
            Fault::Truncated => f.write_str("the end of the file"),
            Fault::Syntax { at, expected } => write!(f, "at byte {at} no {expected}"),
        }
    }
}

impl std::error::Error for Fault {}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    Text,
    /// A number, `true`, `null` and the like.
    Word,
}

/// Reads JSON.
pub struct Json<R> {
    input: R,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
    /// Bytes before the buffer.
    before: u64,
}

impl<R: Read> Json<R> {
    /// Of what `input` hands out.
    pub fn new(input: R) -> Json<R> {
        Json {
            input,
            buffer: vec![0; 1 << 16].into_boxed_slice(),
            at: 0,
            filled: 0,
            before: 0,
        }
    }

    /// The byte of the file that is read next.
    pub fn position(&self) -> u64 {
        self.before + self.at as u64
    }

    /// The fault that something else is here.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn fail<T>(&self, expected: &'static str) -> Result<T, Fault> {
        Err(Fault::Syntax {
            at: self.position(),
            expected,
        })
    }

    /// Fills the buffer if it is used up; false at the end of the file.
    fn fill(&mut self) -> Result<bool, Fault> {
        if self.at < self.filled {
            return Ok(true);
        }
        self.before += self.filled as u64;
        (self.at, self.filled) = (0, 0);
        loop {
            match self.input.read(&mut self.buffer) {
                Ok(n) => {
                    self.filled = n.min(self.buffer.len());
                    return Ok(n != 0);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // A packed file that was cut off.
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    return Ok(false);
                }
                Err(error) => return Err(Fault::Io(error)),
            }
        }
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        if self.fill()? {
            Ok(self.buffer[self.at])
        } else {
            Err(Fault::Truncated)
        }
    }

    fn blank(&mut self) -> Result<u8, Fault> {
        loop {
            match self.byte()? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                other => return Ok(other),
            }
        }
    }

    /// Whether nothing but blanks comes.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn is_at_end(&mut self) -> Result<bool, Fault> {
        match self.blank() {
            Ok(_) => Ok(false),
            Err(Fault::Truncated) => Ok(true),
            Err(fault) => Err(fault),
        }
    }

    /// Goes on behind the next end of a line.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn next_line(&mut self) -> Result<(), Fault> {
        while self.fill()? {
            let rest = &self.buffer[self.at..self.filled];
            match rest.iter().position(|b| *b == b'\n') {
                Some(n) => {
                    self.at += n + 1;
                    break;
                }
                None => self.at = self.filled,
            }
        }
        Ok(())
    }

    /// What comes next.
    ///
    /// # Errors
    /// If no value does.
    pub fn kind(&mut self) -> Result<Kind, Fault> {
        Ok(match self.blank()? {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::Text,
            b'}' | b']' | b',' | b':' => return self.fail("a value"),
            _ => Kind::Word,
        })
    }

    /// Whether nothing but white space is left.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn is_over(&mut self) -> Result<bool, Fault> {
        match self.blank() {
            Ok(_) => Ok(false),
            Err(Fault::Truncated) => Ok(true),
            Err(other) => Err(other),
        }
    }

    /// Goes into an object or array.
    ///
    /// # Errors
    /// If the next value is none.
    pub fn enter(&mut self) -> Result<(), Fault> {
        match self.blank()? {
            b'{' | b'[' => self.at += 1,
            _ => return self.fail("an object or an array"),
        }
        Ok(())
    }

    /// Goes to the next element of the array that was entered; false after the last one, which leaves it.
    /// `first` is true before the first.
    ///
    /// # Errors
    /// If something else is there.
    pub fn element(&mut self, first: &mut bool) -> Result<bool, Fault> {
        loop {
            match self.blank()? {
                b']' | b'}' => {
                    self.at += 1;
                    return Ok(false);
                }
                b',' if !*first => {
                    self.at += 1;
                    *first = true;
                }
                _ if *first => {
                    *first = false;
                    return Ok(true);
                }
                _ => return self.fail("`,` or the end of the list"),
            }
        }
    }

    /// As [`Json::element`], of an object; `key` is the next one's.
    ///
    /// # Errors
    /// As there.
    pub fn key(&mut self, first: &mut bool, key: &mut String) -> Result<bool, Fault> {
        if !self.element(first)? {
            return Ok(false);
        }
        self.text(key)?;
        match self.blank()? {
            b':' => self.at += 1,
            _ => return self.fail("`:`"),
        }
        Ok(true)
    }

    /// A string.
    ///
    /// # Errors
    /// If the next value is none.
    pub fn text(&mut self, into: &mut String) -> Result<(), Fault> {
        into.clear();
        if self.blank()? != b'"' {
            return self.fail("a string");
        }
        self.at += 1;
        let mut bytes = std::mem::take(into).into_bytes();
        let read = self.text_bytes(&mut bytes);
        *into = String::from_utf8(bytes)
            .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
        read
    }

    fn text_bytes(&mut self, bytes: &mut Vec<u8>) -> Result<(), Fault> {
        loop {
            self.byte()?;
            let rest = &self.buffer[self.at..self.filled];
            let n = rest.iter().position(|b| matches!(b, b'"' | b'\\'));
            let taken = n.unwrap_or(rest.len());
            let room = MOST_TEXT.saturating_sub(bytes.len());
            bytes.extend_from_slice(&rest[..taken.min(room)]);
            self.at += taken;
            if n.is_none() {
                continue;
            }
            let is_end = self.byte()? == b'"';
            self.at += 1;
            if is_end {
                return Ok(());
            }
            let escaped = self.byte()?;
            self.at += 1;
            let plain = match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 8,
                b'f' => 12,
                b'u' => {
                    let code = self.hex()?;
                    let text = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                    if bytes.len() < MOST_TEXT {
                        bytes.extend_from_slice(text.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                    continue;
                }
                other => other,
            };
            if bytes.len() < MOST_TEXT {
                bytes.push(plain);
            }
        }
    }

    /// The four digits of an escape, as far as they are some.
    fn hex(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.byte()?).to_digit(16) else {
                break;
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// A string, number or word, as text.
    ///
    /// # Errors
    /// If the next value is an object or an array.
    pub fn scalar(&mut self, into: &mut String) -> Result<(), Fault> {
        match self.kind()? {
            Kind::Text => self.text(into),
            Kind::Word => self.word(into),
            _ => self.fail("a string or a number"),
        }
    }

    fn word(&mut self, into: &mut String) -> Result<(), Fault> {
        into.clear();
        while self.fill()? {
            let byte = self.buffer[self.at];
            if matches!(byte, b',' | b'}' | b']' | b':' | b'"' | b'{' | b'[')
                || byte.is_ascii_whitespace()
            {
                break;
            }
            if into.len() < MOST_TEXT {
                into.push(char::from(byte));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// As [`Json::scalar`], or nothing of an object or array, which is skipped.
    ///
    /// # Errors
    /// If no value is there.
    pub fn scalar_or_skip(&mut self, into: &mut String) -> Result<bool, Fault> {
        match self.kind()? {
            Kind::Text | Kind::Word => self.scalar(into).map(|()| true),
            _ => self.skip().map(|()| false),
        }
    }

    /// Leaves out the next value.
    ///
    /// # Errors
    /// If none is there.
    pub fn skip(&mut self) -> Result<(), Fault> {
        match self.kind()? {
            Kind::Text => {
                self.at += 1;
                return self.skip_text();
            }
            Kind::Word => return self.word(&mut String::new()),
            _ => {}
        }
        let mut depth = 0;
        loop {
            let byte = self.byte()?;
            self.at += 1;
            match byte {
                b'"' => self.skip_text()?,
                b'{' | b'[' => {
                    depth += 1;
                    if depth > DEEPEST {
                        return self.fail("objects and arrays that are less deep");
                    }
                }
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    }

    /// To the end of a string.
    fn skip_text(&mut self) -> Result<(), Fault> {
        loop {
            self.byte()?;
            let rest = &self.buffer[self.at..self.filled];
            let Some(n) = rest.iter().position(|b| matches!(b, b'"' | b'\\')) else {
                self.at = self.filled;
                continue;
            };
            self.at += n + 1;
            if rest[n] == b'"' {
                return Ok(());
            }
            self.byte()?;
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Result<Vec<(String, String)>, Fault> {
        let mut json = Json::new(text.as_bytes());
        let (mut key, mut value, mut found, mut first) =
            (String::new(), String::new(), Vec::new(), true);
        json.enter()?;
        while json.key(&mut first, &mut key)? {
            let value = if json.scalar_or_skip(&mut value)? {
                value.clone()
            } else {
                "-".to_owned()
            };
            found.push((key.clone(), value));
        }
        Ok(found)
    }

    #[test]
    fn values_come_one_after_the_other() {
        let text = r#" {"a": 1.5e3,"b" :"x\"\u00e9\n", "c":[{"d":"]"},2], "e":null , "f":NaN}"#;
        let found = all(text).expect("sound");
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        let expected = [
            ("a", "1.5e3"),
            ("b", "x\"é\n"),
            ("c", "-"),
            ("e", "null"),
            ("f", "NaN"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_cut_off_is_said_to_be() {
        for text in ["{", "{\"a\"", "{\"a\": [1, {", "{\"a\": \"x\\", ""] {
            assert!(matches!(all(text), Err(Fault::Truncated)), "{text}");
        }
        for text in [
            "{\"a\" 1}",
            "{1: 2}",
            "{\"a\": }",
            "{\"a\": 1 \"b\": 2}",
            "7",
        ] {
            assert!(matches!(all(text), Err(Fault::Syntax { .. })), "{text}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = format!("{{\"a\": {}", "[".repeat(1 << 20));
        assert!(matches!(all(&deep), Err(Fault::Syntax { .. })));
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20));
        assert_eq!(all(&long).expect("sound")[0].1.len(), MOST_TEXT);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[\\[\\]{}:,\"\\\\a-c0-9. nu]{0,80}") {
            let _ = all(&text);
            let _ = Json::new(text.as_bytes()).skip();
        }
    }
}
