//! Memory of a GPU in the hands of another process: what its handle and opening it cost.
//!
//! NCCL's ranks give each other handles of their buffers when they connect, and open those of the others. A
//! process can't open a handle of its own, so a second process of this program lends its memory
//! ([`lend`]): it prints the handle, and keeps the memory until its input ends.

use super::{Gpu, Gpus, BATCHES, COPIED};
use crate::library::{ask, functions};
use crate::timing::median;
use std::ffi::{c_int, c_uint, c_void};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Bytes of a handle.
const HANDLE: usize = 64;

/// A handle, as CUDA declares it.
#[repr(C)]
#[derive(Clone, Copy)]
struct IpcHandle([u8; HANDLE]);

functions! { Ipc of "the CUDA driver" {
    get = "cuIpcGetMemHandle" (*mut IpcHandle, u64);
    open = "cuIpcOpenMemHandle_v2" (*mut u64, IpcHandle, c_uint);
    close = "cuIpcCloseMemHandle" (u64);
} }

functions! { Registering of "the CUDA driver" {
    register = "cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
    unregister = "cuMemHostUnregister" (*mut c_void);
} }

/// Memory of another GPU is made reachable, which is the only value that opening takes.
const LAZY_PEER_ACCESS: c_uint = 1;

impl Gpus {
    /// µs for a handle of the GPU's memory.
    pub(super) fn handle_cost(&self, gpu: &Gpu) -> Result<f64, String> {
        let ipc = Ipc::load(self.library)?;
        let mut handle = IpcHandle([0; HANDLE]);
        self.host_cost(gpu, || ask!(Ipc, ipc, get(&mut handle, gpu.memory)))
    }

    /// µs for opening the memory of GPU `lender` that a process of `program` lends.
    pub(super) fn open_cost(
        &self,
        program: &Path,
        cuda: Option<&Path>,
        lender: usize,
    ) -> Result<f64, String> {
        let ipc = Ipc::load(self.library)?;
        let partner = Partner::start(program, cuda, lender)?;
        let mut failed = Ok(());
        let took = median(BATCHES, || {
            let mut memory = 0;
            let start = Instant::now();
            let done = ask!(
                Ipc,
                ipc,
                open(&mut memory, partner.handle, LAZY_PEER_ACCESS)
            );
            let took = start.elapsed().as_nanos() as f64 / 1e3;
            let done = done.and_then(|()| ask!(Ipc, ipc, close(memory)));
            failed = failed.clone().and(done);
            took
        });
        failed.map(|()| took)
    }

    /// µs for registering memory of the host that is in use, and for giving it up.
    pub(super) fn register_cost(&self, _: &Gpu) -> Result<f64, String> {
        let of = Registering::load(self.library)?;
        let mut memory = vec![1u8; COPIED];
        let at: *mut c_void = memory.as_mut_ptr().cast();
        let mut failed = Ok(());
        let took = median(BATCHES, || {
            let start = Instant::now();
            let done = ask!(Registering, of, register(at, COPIED, 0));
            let done = done.and_then(|()| ask!(Registering, of, unregister(at)));
            failed = failed.clone().and(done);
            start.elapsed().as_nanos() as f64 / 1e3
        });
        failed.map(|()| took)
    }
}

/// The process that lends memory. It ends when this is dropped.
struct Partner {
    child: Child,
    handle: IpcHandle,
}

impl Partner {
    fn start(program: &Path, cuda: Option<&Path>, gpu: usize) -> Result<Partner, String> {
        let mut command = Command::new(program);
        command.args(["hostbench", "--lend-memory", &gpu.to_string()]);
        if let Some(cuda) = cuda {
            command.arg("--cuda").arg(cuda);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let child = child.map_err(|error| format!("a second process: {error}"))?;
        let mut partner = Partner {
            child,
            handle: IpcHandle([0; HANDLE]),
        };
        let mut line = String::new();
        if let Some(said) = partner.child.stdout.take() {
            // Without a line there is no handle.
            let _ = BufReader::new(said).read_line(&mut line);
        }
        partner.handle = parsed(line.trim())?;
        Ok(partner)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // Its input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The handle that a partner printed, or why it has none.
fn parsed(line: &str) -> Result<IpcHandle, String> {
    let mut handle = IpcHandle([0; HANDLE]);
    let digits = line.as_bytes();
    if digits.len() != 2 * HANDLE {
        let why = if line.is_empty() {
            "it said nothing"
        } else {
            line
        };
        return Err(format!("a second process: {why}"));
    }
    for (byte, digits) in handle.0.iter_mut().zip(digits.chunks(2)) {
        let text = std::str::from_utf8(digits).unwrap_or("");
        *byte =
            u8::from_str_radix(text, 16).map_err(|_| "a second process: no handle".to_owned())?;
    }
    Ok(handle)
}

/// Lends memory of a GPU: writes its handle, or why there is none, and keeps the memory until `input` ends.
///
/// # Errors
/// Those of `out`.
pub fn lend(
    cuda: Option<&Path>,
    gpu: usize,
    mut input: impl Read,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let lent = || {
        let facts = &mut Vec::new();
        let (mut gpus, count) = Gpus::driver(cuda, facts)?;
        if gpu >= count as usize {
            return Err("no GPU".to_owned());
        }
        let ipc = Ipc::load(gpus.library)?;
        // The GPU is the current one from here on.
        let own = gpus.gpu(gpu as c_int, facts)?;
        let mut handle = IpcHandle([0; HANDLE]);
        ask!(Ipc, ipc, get(&mut handle, own.memory))?;
        gpus.all.push(own);
        Ok((gpus, handle))
    };
    let handle: Result<(Gpus, IpcHandle), String> = lent();
    match &handle {
        Ok((_, handle)) => {
            let digits = handle.0.iter().map(|byte| format!("{byte:02x}"));
            writeln!(out, "{}", digits.collect::<String>())?;
        }
        Err(why) => writeln!(out, "{why}")?,
    }
    out.flush()?;
    input.read_to_end(&mut Vec::new()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_as_it_was_written_and_anything_else_is_the_reason() {
        let line: String = (0..HANDLE).map(|byte| format!("{byte:02x}")).collect();
        let handle = parsed(&line).expect("a handle");
        assert_eq!(handle.0[63], 63);
        let why = |line: &str| parsed(line).map(|_| ()).expect_err("no handle");
        assert_eq!(why("no GPU"), "a second process: no GPU");
        assert_eq!(why(""), "a second process: it said nothing");
        assert_eq!(why(&"xy".repeat(HANDLE)), "a second process: no handle");
    }
}
