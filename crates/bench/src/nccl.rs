//! NCCL, as far as its benchmark needs it.
//!
//! Rule: each function checks NCCL's answer, and an error has NCCL's own words for it.

use crate::cuda::{Address, Stream};
use crate::datatype::{Datatype, Reduction};
use crate::function::{Function, Shape};
use crate::library::{functions, open_nccl, text};
use anyhow::{bail, Context, Result};
use std::ffi::{c_char, c_int, c_void, OsStr};
use std::ptr::null_mut;

type Comm = *mut c_void;
type Buffer = *mut c_void;
/// ncclUniqueId, passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

const IN_PROGRESS: c_int = 7;

functions! {
    /// libnccl's functions.
    Functions {
        version = "ncclGetVersion" (*mut c_int);
        unique_id = "ncclGetUniqueId" (*mut UniqueId);
        init = "ncclCommInitRank" (*mut Comm, c_int, UniqueId, c_int);
        async_error = "ncclCommGetAsyncError" (Comm, *mut c_int);
        destroy = "ncclCommDestroy" (Comm);
        group_start = "ncclGroupStart" ();
        group_end = "ncclGroupEnd" ();
        all_reduce = "ncclAllReduce" (Buffer, Buffer, usize, c_int, c_int, Comm, *mut c_void);
        reduce_scatter = "ncclReduceScatter" (Buffer, Buffer, usize, c_int, c_int, Comm, *mut c_void);
        reduce = "ncclReduce" (Buffer, Buffer, usize, c_int, c_int, c_int, Comm, *mut c_void);
        broadcast = "ncclBroadcast" (Buffer, Buffer, usize, c_int, c_int, Comm, *mut c_void);
        all_gather = "ncclAllGather" (Buffer, Buffer, usize, c_int, Comm, *mut c_void);
        send = "ncclSend" (Buffer, usize, c_int, c_int, Comm, *mut c_void);
        recv = "ncclRecv" (Buffer, usize, c_int, c_int, Comm, *mut c_void);
    }
    optional {
        allocate = "ncclMemAlloc" (*mut *mut c_void, usize);
        all_to_all = "ncclAlltoAll" (Buffer, Buffer, usize, c_int, Comm, *mut c_void);
        gather = "ncclGather" (Buffer, Buffer, usize, c_int, c_int, Comm, *mut c_void);
        scatter = "ncclScatter" (Buffer, Buffer, usize, c_int, c_int, Comm, *mut c_void);
    }
}

/// The library.
pub struct Nccl {
    functions: Functions,
    error_text: unsafe extern "C" fn(c_int) -> *const c_char,
    /// From 2.13 on.
    last_error: Option<unsafe extern "C" fn(Comm) -> *const c_char>,
    /// As ncclGetVersion gives it.
    pub version: u32,
}

/// One rank of a communicator.
pub struct Communicator<'a> {
    nccl: &'a Nccl,
    comm: Comm,
    rank: u32,
}

/// Everything a call needs but the buffers' addresses.
#[derive(Clone, Copy)]
pub struct Call {
    /// Function, count, root.
    pub shape: Shape,
    /// Of the elements.
    pub datatype: Datatype,
    /// Used by functions that reduce.
    pub reduction: Reduction,
    /// Where it runs.
    pub stream: Stream,
}

/// Calls a function of NCCL's and checks its answer.
macro_rules! call {
    ($nccl:expr, $comm:expr, $function:ident($($arg:expr),*)) => {
        // SAFETY: the communicator and stream are live handles of NCCL and CUDA, other pointers are places
        // for results, and buffers are GPU memory at least as long as the shape says: `Worker` allocates for
        // the largest one.
        $nccl.check(stringify!($function), $comm, unsafe { ($nccl.functions.$function)($($arg),*) })
    };
}

impl Nccl {
    /// Opens NCCL.
    ///
    /// # Errors
    /// When it can't be opened, or is older than 2.7, which brought ncclSend.
    pub fn open(path: &OsStr) -> Result<Nccl> {
        let library = open_nccl(path)?;
        let named = || format!("NCCL at `{}`", path.to_string_lossy());
        // SAFETY: as in nccl.h.
        let (error_text, last_error) = unsafe {
            let error_text = library.get(b"ncclGetErrorString\0").with_context(named)?;
            (
                *error_text,
                library.get(b"ncclGetLastError\0").ok().map(|f| *f),
            )
        };
        let functions = Functions::load(library).with_context(named)?;
        let mut nccl = Nccl {
            functions,
            error_text,
            last_error,
            version: 0,
        };
        let mut version = 0;
        call!(nccl, null_mut(), version(&mut version))?;
        nccl.version = version as u32;
        Ok(nccl)
    }

    fn check(&self, function: &str, comm: Comm, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: both return NULL or strings of NCCL's that stay until this thread's next call.
        let (said, last) = unsafe {
            let last = self.last_error.map(|last| text(last(comm)));
            (text((self.error_text)(code)), last.unwrap_or_default())
        };
        let last = last.lines().last().unwrap_or_default();
        let last = if last.is_empty() {
            String::new()
        } else {
            format!(": {last}")
        };
        bail!("NCCL's {function} failed with {code} ({said}){last}")
    }

    /// An id for a new communicator.
    ///
    /// # Errors
    /// As NCCL says; it opens a socket for it.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; 128]);
        call!(self, null_mut(), unique_id(&mut id))?;
        Ok(id)
    }

    /// Makes this thread's GPU a rank of a communicator. Returns once all ranks have called it.
    ///
    /// # Errors
    /// As NCCL says.
    pub fn init(&self, id: UniqueId, rank: u32, ranks: u32) -> Result<Communicator<'_>> {
        let mut comm = null_mut();
        call!(
            self,
            null_mut(),
            init(&mut comm, ranks as c_int, id, rank as c_int)
        )?;
        Ok(Communicator {
            nccl: self,
            comm,
            rank,
        })
    }

    /// GPU memory as NCCL likes it best; it is given back when the process ends. Nothing before 2.19, which
    /// has no say in it.
    ///
    /// # Errors
    /// Mostly that there is not enough.
    pub fn allocate(&self, bytes: usize) -> Result<Option<Address>> {
        let Some(allocate) = self.functions.allocate else {
            return Ok(None);
        };
        let mut address = null_mut();
        // SAFETY: `address` is a place for the result.
        let code = unsafe { allocate(&mut address, bytes.max(16)) };
        self.check("MemAlloc", null_mut(), code)?;
        Ok(Some(address as Address))
    }

    /// Whether the function is one call of this release, and not a group of sends and receives.
    pub fn has(&self, function: Function) -> bool {
        match function {
            Function::AlltoAll => self.functions.all_to_all.is_some(),
            Function::Gather => self.functions.gather.is_some(),
            Function::Scatter => self.functions.scatter.is_some(),
            Function::SendRecv | Function::SendRecvPairs => false,
            _ => true,
        }
    }
}

impl Communicator<'_> {
    /// Whether NCCL has met an error since.
    ///
    /// # Errors
    /// That error.
    pub fn check_async(&self) -> Result<()> {
        let mut state = 0;
        call!(self.nccl, self.comm, async_error(self.comm, &mut state))?;
        if state == IN_PROGRESS {
            return Ok(());
        }
        self.nccl.check("communicator", self.comm, state)
    }

    /// Makes `calls` in one group.
    ///
    /// # Errors
    /// As NCCL says.
    pub fn group(&self, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        call!(self.nccl, self.comm, group_start())?;
        let made = calls();
        let ended = call!(self.nccl, self.comm, group_end());
        made.and(ended)
    }

    /// Makes one call.
    ///
    /// # Errors
    /// As NCCL says.
    pub fn call(&self, call: &Call, send: Address, recv: Address) -> Result<()> {
        let (nccl, comm, rank) = (self.nccl, self.comm, self.rank);
        let Call {
            shape, datatype, ..
        } = *call;
        let (count, ranks) = (shape.count, shape.ranks);
        let part = (count * datatype.size()) as Address;
        let (kind, reduction) = (datatype.number(), call.reduction.number());
        let (root, stream) = (shape.root as c_int, call.stream.0);
        let buffer = |address: Address| address as Buffer;
        let (from, to) = (buffer(send), buffer(recv));
        let send_part = |block: u32, to: u32| {
            let from = buffer(send + Address::from(block) * part);
            call!(
                nccl,
                comm,
                send(from, count, kind, to as c_int, comm, stream)
            )
        };
        let recv_part = |block: u32, from: u32| {
            let to = buffer(recv + Address::from(block) * part);
            call!(
                nccl,
                comm,
                recv(to, count, kind, from as c_int, comm, stream)
            )
        };
        let f = &nccl.functions;
        match shape.function {
            Function::AllReduce => {
                call!(
                    nccl,
                    comm,
                    all_reduce(from, to, count, kind, reduction, comm, stream)
                )
            }
            Function::ReduceScatter => {
                call!(
                    nccl,
                    comm,
                    reduce_scatter(from, to, count, kind, reduction, comm, stream)
                )
            }
            Function::Reduce => {
                call!(
                    nccl,
                    comm,
                    reduce(from, to, count, kind, reduction, root, comm, stream)
                )
            }
            Function::Broadcast => {
                call!(
                    nccl,
                    comm,
                    broadcast(from, to, count, kind, root, comm, stream)
                )
            }
            Function::AllGather => {
                call!(nccl, comm, all_gather(from, to, count, kind, comm, stream))
            }
            Function::SendRecv | Function::SendRecvPairs => {
                let (next, previous) = shape.function.peers(rank, ranks);
                self.group(|| send_part(0, next).and_then(|()| recv_part(0, previous)))
            }
            Function::AlltoAll => match f.all_to_all {
                // SAFETY: as for `call!`.
                Some(all) => nccl.check("all_to_all", comm, unsafe {
                    all(from, to, count, kind, comm, stream)
                }),
                None => self.group(|| {
                    (0..ranks).try_for_each(|r| send_part(r, r).and_then(|()| recv_part(r, r)))
                }),
            },
            Function::Gather => match f.gather {
                // SAFETY: as for `call!`.
                Some(gather) => nccl.check("gather", comm, unsafe {
                    gather(from, to, count, kind, root, comm, stream)
                }),
                None => self.group(|| {
                    send_part(0, shape.root)?;
                    let receives = if rank == shape.root { ranks } else { 0 };
                    (0..receives).try_for_each(|r| recv_part(r, r))
                }),
            },
            Function::Scatter => match f.scatter {
                // SAFETY: as for `call!`.
                Some(scatter) => nccl.check("scatter", comm, unsafe {
                    scatter(from, to, count, kind, root, comm, stream)
                }),
                None => self.group(|| {
                    let sends = if rank == shape.root { ranks } else { 0 };
                    (0..sends).try_for_each(|r| send_part(r, r))?;
                    recv_part(0, shape.root)
                }),
            },
        }
    }

    /// Ends it. Returns once NCCL has let all its resources go.
    ///
    /// # Errors
    /// As NCCL says.
    pub fn destroy(self) -> Result<()> {
        call!(self.nccl, null_mut(), destroy(self.comm))
    }
}
