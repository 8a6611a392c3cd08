//! Names and lines of return addresses, from the files of programs and libraries.

/// A program or library of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Module {
    /// Its file.
    pub path: String,
    /// Its build id; empty without one.
    pub build_id: Vec<u8>,
}

impl Module {
    /// Its file's name.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether it is a shared library by its name.
    pub fn is_library(&self) -> bool {
        let name = self.name();
        name.ends_with(".so") || name.contains(".so.")
    }

    /// Whether it is NCCL or this recorder.
    pub fn is_nccl(&self) -> bool {
        let name = self.name();
        name.starts_with("libnccl.so")
            || name.contains("nccl-profiler")
            || name.contains("nccl_profiler")
    }
}

/// Files that were opened.
#[derive(Default)]
pub struct Symbols;

impl Symbols {
    /// What is at an offset of a module, innermost first.
    pub fn at(&mut self, module: &Module, _before: u64, offset: u64) -> Vec<String> {
        vec![format!("{}+{offset:#x}", module.name())]
    }
}
