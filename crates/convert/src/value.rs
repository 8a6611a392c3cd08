//! A tree of values that was read from JSON or a pickle, within bounds.
//!
//! Values are numbers into one [`Tree`], because a pickle may use one twice, or in itself. Who walks a tree
//! goes to a depth that is known before.

use crate::json::{Fault, Json, Kind};
use std::io::Read;

/// Values of a tree at most.
const MOST: usize = 1 << 23;
/// Bytes of all texts of a tree at most.
const MOST_BYTES: usize = 1 << 28;
/// Lists and maps in each other at most.
const DEEPEST: u32 = 64;

/// A value's number.
pub type Id = u32;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Null, and what stands for an object of a class that is not made.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// Text, or bytes that are some.
    Text(String),
    /// A list or tuple.
    List(Vec<Id>),
    /// Keys and values.
    Map(Vec<(Id, Id)>),
}

/// Values by number.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    bytes: usize,
}

/// There are more values than may be kept.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl Tree {
    /// Adds a value.
    ///
    /// # Errors
    /// If there are too many.
    pub fn add(&mut self, node: Node) -> Result<Id, TooMany> {
        if let Node::Text(text) = &node {
            self.bytes = self.bytes.saturating_add(text.len());
        }
        if self.nodes.len() >= MOST || self.bytes > MOST_BYTES {
            return Err(TooMany);
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as Id - 1)
    }

    /// A value.
    pub fn get(&self, id: Id) -> &Node {
        self.nodes.get(id as usize).unwrap_or(&Node::Null)
    }

    /// A value that may be changed.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Node> {
        self.nodes.get_mut(id as usize)
    }

    /// The value of a key of a map.
    pub fn field(&self, of: Id, key: &str) -> Option<Id> {
        let Node::Map(pairs) = self.get(of) else {
            return None;
        };
        let is_key = |(k, _): &&(Id, Id)| matches!(self.get(*k), Node::Text(text) if text == key);
        pairs.iter().rev().find(is_key).map(|(_, value)| *value)
    }

    /// Text.
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number, also as text.
    pub fn int(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Node::Int(n) => Some(*n),
            Node::Float(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(*x as i64),
            Node::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// The elements of a list; none of anything else.
    pub fn list(&self, id: Id) -> &[Id] {
        match self.get(id) {
            Node::List(ids) => ids,
            _ => &[],
        }
    }

    /// Reads a value from JSON.
    ///
    /// # Errors
    /// If the file can't be read, and if it has too much in it.
    pub fn from_json<R: Read>(&mut self, json: &mut Json<R>) -> Result<Id, Fault> {
        self.json(json, 0)
    }

    fn json<R: Read>(&mut self, json: &mut Json<R>, depth: u32) -> Result<Id, Fault> {
        let too_many = |json: &Json<R>| Fault::Syntax {
            at: json.position(),
            expected: "fewer and less deep values",
        };
        if depth > DEEPEST {
            return Err(too_many(json));
        }
        let mut text = String::new();
        let node = match json.kind()? {
            Kind::Text => {
                json.text(&mut text)?;
                Node::Text(text)
            }
            Kind::Word => {
                json.scalar(&mut text)?;
                match text.as_str() {
                    "true" => Node::Bool(true),
                    "false" => Node::Bool(false),
                    other => match (other.parse(), other.parse()) {
                        (Ok(n), _) => Node::Int(n),
                        (_, Ok(x)) => Node::Float(x),
                        _ => Node::Null,
                    },
                }
            }
            Kind::Array => {
                let (mut first, mut ids) = (true, Vec::new());
                json.enter()?;
                while json.element(&mut first)? {
                    ids.push(self.json(json, depth + 1)?);
                }
                Node::List(ids)
            }
            Kind::Object => {
                let (mut first, mut pairs) = (true, Vec::new());
                json.enter()?;
                while json.key(&mut first, &mut text)? {
                    let key = self.add(Node::Text(text.clone()));
                    let key = key.map_err(|_| too_many(json))?;
                    pairs.push((key, self.json(json, depth + 1)?));
                }
                Node::Map(pairs)
            }
        };
        self.add(node).map_err(|_| too_many(json))
    }
}
