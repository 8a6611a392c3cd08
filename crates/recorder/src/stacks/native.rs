//! Return addresses of a thread without Python frames, and the programs and libraries that they are in.
use capture::stacks::DEPTH;

/// A program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub path: Vec<u8>,
    pub build_id: Vec<u8>,
    /// Where it is loaded, and the end of that.
    pub base: u64,
    pub end: u64,
}

/// See the module.
pub struct Modules;

impl Modules {
    pub fn new() -> Modules {
        Modules
    }
    pub fn refresh(&self) {}
    pub fn walk<'a>(&self, into: &'a mut [usize; DEPTH]) -> (&'a [usize], bool) {
        (&into[..0], false)
    }
}
pub fn loaded() -> Vec<Loaded> {
    Vec::new()
}
