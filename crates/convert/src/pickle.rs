//! Pickles, read without running anything.
//!
//! A pickle is a program for a small stack machine, and may call any function of Python. This reader has the
//! machine and no functions: a call gives its first argument if PyTorch uses it to note a type, and else
//! nothing. Classes are not looked up, and objects are not made.
//!
//! Rule: no content makes it do more than build a [`Tree`] within bounds.

use crate::value::{Id, Node, TooMany, Tree};

/// Values on the stack, and values that are kept for later, at most.
const MOST: usize = 1 << 22;

/// Why a pickle can't be read: the byte, and what was found there.
#[derive(Debug, PartialEq, Eq)]
pub struct Bad {
    /// Byte of the file.
    pub at: usize,
    /// What was found.
    pub found: String,
}

impl From<TooMany> for &'static str {
    fn from(_: TooMany) -> &'static str {
        "more values than are read"
    }
}

/// Whether a file begins as a pickle of protocol 2 or later.
pub fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 2..=5, ..])
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    tree: &'a mut Tree,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: Vec<Option<Id>>,
    /// Names that stand for functions and classes.
    globals: std::collections::HashMap<Id, String>,
}

/// Reads a pickle into `tree`; returns its value.
///
/// # Errors
/// Where and what, if it is no pickle or needs something that this machine does not have.
pub fn read(bytes: &[u8], tree: &mut Tree) -> Result<Id, Bad> {
    let mut machine = Machine {
        bytes,
        at: 0,
        tree,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        globals: std::collections::HashMap::new(),
    };
    loop {
        let at = machine.at;
        match machine.step() {
            Ok(None) => {}
            Ok(Some(value)) => return Ok(value),
            Err(found) => {
                return Err(Bad {
                    at,
                    found: found.to_owned(),
                })
            }
        }
    }
}

type Step<T> = Result<T, &'static str>;

impl<'a> Machine<'a> {
    fn take(&mut self, n: usize) -> Step<&'a [u8]> {
        let end = self
            .at
            .checked_add(n)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or("the end of the file")?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A little-endian number of so many bytes.
    fn number(&mut self, n: usize) -> Step<u64> {
        let bytes = self.take(n)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn length(&mut self, n: usize) -> Step<usize> {
        usize::try_from(self.number(n)?).map_err(|_| "a length that is too large")
    }

    /// To the end of the line.
    fn line(&mut self) -> Step<String> {
        let rest = &self.bytes[self.at..];
        let n = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or("the end of the file")?;
        let line = self.take(n)?;
        self.at += 1;
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    fn push(&mut self, node: Node) -> Step<()> {
        let id = self.tree.add(node)?;
        self.push_id(id)
    }

    fn push_id(&mut self, id: Id) -> Step<()> {
        if self.stack.len() >= MOST {
            return Err("a stack that is too deep");
        }
        self.stack.push(id);
        Ok(())
    }

    fn pop(&mut self) -> Step<Id> {
        // What is before a mark belongs to somebody else.
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() > floor {
            self.stack.pop().ok_or("an empty stack")
        } else {
            Err("an empty stack")
        }
    }

    fn top(&self) -> Step<Id> {
        self.stack.last().copied().ok_or("an empty stack")
    }

    fn since_mark(&mut self) -> Step<Vec<Id>> {
        let mark = self.marks.pop().ok_or("no mark")?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn text(&mut self, n: usize) -> Step<()> {
        let text = String::from_utf8_lossy(self.take(n)?).into_owned();
        self.push(Node::Text(text))
    }

    fn tuple(&mut self, n: usize) -> Step<()> {
        let mut ids = Vec::with_capacity(n);
        for _ in 0..n {
            ids.push(self.pop()?);
        }
        ids.reverse();
        self.push(Node::List(ids))
    }

    fn append(&mut self, more: Vec<Id>) -> Step<()> {
        let to = self.top()?;
        if let Some(Node::List(ids)) = self.tree.get_mut(to) {
            ids.extend(more);
        }
        Ok(())
    }

    fn set(&mut self, more: &[Id]) -> Step<()> {
        let to = self.top()?;
        if let Some(Node::Map(pairs)) = self.tree.get_mut(to) {
            pairs.extend(more.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        }
        Ok(())
    }

    fn remember(&mut self, place: usize) -> Step<()> {
        if place >= MOST {
            return Err("a place that is too large");
        }
        if self.memo.len() <= place {
            self.memo.resize(place + 1, None);
        }
        self.memo[place] = Some(self.top()?);
        Ok(())
    }

    fn recall(&mut self, place: usize) -> Step<()> {
        let id = self
            .memo
            .get(place)
            .copied()
            .flatten()
            .ok_or("a place without a value")?;
        self.push_id(id)
    }

    fn global(&mut self, name: String) -> Step<()> {
        let id = self.tree.add(Node::Null)?;
        self.globals.insert(id, name);
        self.push_id(id)
    }

    /// What a call gives: nothing is called.
    fn call(&mut self) -> Step<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let name = self.globals.get(&function).map_or("", |name| name);
        // Lists of numbers, and values with a note of their type.
        let passes_on = name.starts_with("torch.jit._pickle ") || name == "collections OrderedDict";
        let first = self.tree.list(arguments).first().copied();
        match first.filter(|_| passes_on) {
            Some(value) => self.push_id(value),
            None if name == "collections OrderedDict" => self.push(Node::Map(Vec::new())),
            None => self.push(Node::Null),
        }
    }

    /// Two's complement of any length; what is too long for 64 bits is not known.
    fn long(&mut self, n: usize) -> Step<()> {
        let bytes = self.take(n)?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let fill = if negative { 0xff } else { 0 };
        let mut whole = [fill; 8];
        let is_known = bytes.iter().skip(8).all(|byte| *byte == fill);
        for (to, byte) in whole.iter_mut().zip(bytes) {
            *to = *byte;
        }
        self.push(if is_known {
            Node::Int(i64::from_le_bytes(whole))
        } else {
            Node::Null
        })
    }

    /// One instruction; the value at the last one.
    fn step(&mut self) -> Step<Option<Id>> {
        match self.take(1)?[0] {
            b'.' => return self.pop().map(Some),
            // Protocol and frames.
            0x80 => self.take(1).map(drop)?,
            0x95 => self.take(8).map(drop)?,
            b'(' => {
                if self.marks.len() < MOST {
                    self.marks.push(self.stack.len());
                } else {
                    return Err("too many marks");
                }
            }
            b'0' => {
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.pop()?;
                }
            }
            b'1' => drop(self.since_mark()?),
            b'2' => {
                let top = self.top()?;
                self.push_id(top)?;
            }
            b'N' => self.push(Node::Null)?,
            0x88 => self.push(Node::Bool(true))?,
            0x89 => self.push(Node::Bool(false))?,
            b'K' => {
                let n = self.number(1)?;
                self.push(Node::Int(n as i64))?;
            }
            b'M' => {
                let n = self.number(2)?;
                self.push(Node::Int(n as i64))?;
            }
            b'J' => {
                let n = self.number(4)?;
                self.push(Node::Int((n as u32 as i32).into()))?;
            }
            0x8a => {
                let n = self.length(1)?;
                self.long(n)?;
            }
            0x8b => {
                let n = self.length(4)?;
                self.long(n)?;
            }
            b'I' | b'L' => {
                let line = self.line()?;
                let n = line.trim_end_matches('L').parse();
                self.push(n.map_or(Node::Null, Node::Int))?;
            }
            b'F' => {
                let line = self.line()?;
                self.push(line.parse().map_or(Node::Null, Node::Float))?;
            }
            b'G' => {
                let bytes = self.take(8)?;
                let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| "the end of the file")?;
                self.push(Node::Float(f64::from_be_bytes(bytes)))?;
            }
            // Text and bytes, by the bytes of their length.
            0x8c | b'U' | b'C' => {
                let n = self.length(1)?;
                self.text(n)?;
            }
            b'X' | b'T' | b'B' => {
                let n = self.length(4)?;
                self.text(n)?;
            }
            0x8d | 0x8e | 0x96 => {
                let n = self.length(8)?;
                self.text(n)?;
            }
            b'V' | b'S' => {
                let line = self.line()?;
                self.push(Node::Text(line.trim_matches(['\'', '"']).to_owned()))?;
            }
            b']' | b')' | 0x8f => self.push(Node::List(Vec::new()))?,
            b'}' => self.push(Node::Map(Vec::new()))?,
            b'l' | b't' | 0x91 => {
                let ids = self.since_mark()?;
                self.push(Node::List(ids))?;
            }
            b'd' => {
                let ids = self.since_mark()?;
                self.push(Node::Map(Vec::new()))?;
                self.set(&ids)?;
            }
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b'a' => {
                let value = self.pop()?;
                self.append(vec![value])?;
            }
            b'e' | 0x90 => {
                let ids = self.since_mark()?;
                self.append(ids)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let ids = self.since_mark()?;
                self.set(&ids)?;
            }
            b'q' => {
                let place = self.length(1)?;
                self.remember(place)?;
            }
            b'r' => {
                let place = self.length(4)?;
                self.remember(place)?;
            }
            0x94 => self.remember(self.memo.len())?,
            b'h' => {
                let place = self.length(1)?;
                self.recall(place)?;
            }
            b'j' => {
                let place = self.length(4)?;
                self.recall(place)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(format!("{module} {name}"))?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let text = |id| self.tree.text(id).unwrap_or("").to_owned();
                let name = format!("{} {}", text(module), text(name));
                self.global(name)?;
            }
            // A call, the making of an object, and its state, which is left out.
            b'R' | 0x81 => self.call()?,
            b'b' => drop(self.pop()?),
            _ => return Err("an instruction that is not read"),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(bytes: &[u8]) -> Result<(Tree, Id), Bad> {
        let mut tree = Tree::default();
        let id = read(bytes, &mut tree)?;
        Ok((tree, id))
    }

    #[test]
    fn what_python_writes_comes_back() {
        // pickle.dumps({"a": [1, -2, 300], "b": ("x", None, True)}, 2)
        let two = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01e\
            X\x01\x00\x00\x00bq\x03X\x01\x00\x00\x00xq\x04N\x88\x87q\x05u.";
        let (tree, id) = value(two).expect("sound");
        let list = tree.field(id, "a").expect("there");
        let ints: Vec<Option<i64>> = tree.list(list).iter().map(|id| tree.int(*id)).collect();
        assert_eq!(ints, [Some(1), Some(-2), Some(300)]);
        let tuple = tree.list(tree.field(id, "b").expect("there"));
        assert_eq!(
            (tree.text(tuple[0]), tree.get(tuple[2])),
            (Some("x"), &Node::Bool(true))
        );
    }

    #[test]
    fn nothing_is_run() {
        // os.system("touch /tmp/x"), in the place of a value.
        let evil = b"\x80\x02cos\nsystem\nX\x0c\x00\x00\x00touch /tmp/x\x85R.";
        let (tree, id) = value(evil).unwrap_or_else(|bad| panic!("{bad:?}"));
        assert_eq!(tree.get(id), &Node::Null);
        // What PyTorch notes of types is passed on.
        let typed = b"\x80\x02ctorch.jit._pickle\nbuild_intlist\n](K\x03K\x04e\x85R.";
        let (tree, id) = value(typed).expect("sound");
        assert_eq!(tree.list(id).len(), 2);
    }

    #[test]
    fn what_is_in_itself_ends() {
        // a = []; a.append(a)
        let (tree, id) = value(b"\x80\x02]q\x00h\x00a.").expect("sound");
        assert_eq!(tree.list(id), [id]);
    }

    #[test]
    fn damage_is_an_error() {
        for bytes in [
            &b"\x80\x02"[..],
            b"\x80\x02.",
            b"\x80\x02h\x07.",
            b"\x80\x02X\xff\xff\xff\xffx.",
            b"e.",
            b"\xff",
        ] {
            assert!(value(bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = value(&bytes);
            let with_start: Vec<u8> = [&b"\x80\x02}](X\x01\x00\x00\x00a"[..], &bytes].concat();
            let _ = value(&with_start);
        }
    }
}
