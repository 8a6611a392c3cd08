//! CUDA without a GPU: `fake-cuda` as the driver, and a library that calls it as CUDA's runtime does.

use super::Driver;
use nccl_abi::{event, state};
use std::ffi::c_char;
use std::path::{Path, PathBuf};

/// The first of these files in `target/PROFILE`.
pub fn built(names: &[&str]) -> PathBuf {
    let exe = std::env::current_exe().expect("known");
    let folder = exe.ancestors().nth(2).expect("target/PROFILE");
    let places = names.iter().map(|name| folder.join(name));
    let path = places.into_iter().find(|path| path.is_file());
    path.unwrap_or_else(|| panic!("`make debug` and `cargo test` build {names:?}"))
}

fn load(path: &Path) -> libloading::Library {
    // SAFETY: libraries of ours without initialisers.
    unsafe { libloading::Library::new(path) }.expect("loads")
}

/// A way to call the driver: where its functions are found, and what their names begin with.
pub struct Cuda {
    /// Loaded first, so that the recorder and the runtime find it as libcuda.so.1.
    pub driver: libloading::Library,
    pub caller: libloading::Library,
    /// Whether the caller has the runtime's names.
    runtime: bool,
}

pub const STREAM: u64 = 0x57;
pub const OTHER: u64 = 0x58;

macro_rules! functions {
    ($($name:ident = $runtime:literal $driver:literal ($($arg:ident: $type:ty),*);)*) => {
        impl Cuda {
            $(#[allow(clippy::too_many_arguments)]
            pub fn $name(&self, $($arg: $type),*) {
                let name = if self.runtime { $runtime } else { $driver };
                // SAFETY: fake-cuda's signatures.
                let result = unsafe {
                    let function: libloading::Symbol<unsafe extern "C" fn($($type),*) -> i32> =
                        self.caller.get(name.as_bytes()).expect(name);
                    function($($arg),*)
                };
                assert_eq!(result, 0, "{name}");
            })*
        }
    };
}

functions! {
    begin = "cudaStreamBeginCapture" "begin" (stream: u64, mode: i32);
    end = "cudaStreamEndCapture" "end" (stream: u64, graph: *mut u64);
    create = "cudaGraphCreate" "create" (graph: *mut u64, flags: u32);
    copy = "cudaGraphClone" "copy" (clone: *mut u64, original: u64);
    add_child = "cudaGraphAddChildGraphNode" "add_child"
        (node: *mut u64, graph: u64, dependencies: *const u64, n: usize, child: u64);
    add_node = "cudaGraphAddNode" "add_node"
        (node: *mut u64, graph: u64, dependencies: *const u64, n: usize, parameters: *mut [u64; 32]);
    make = "cudaGraphInstantiate" "make" (exec: *mut u64, graph: u64, flags: u64);
    update = "cudaGraphExecUpdate" "update" (exec: u64, graph: u64, result: *mut u8);
    launch_on = "cudaGraphLaunch" "launch" (exec: u64, stream: u64);
    destroy_exec = "cudaGraphExecDestroy" "destroy_exec" (exec: u64);
    destroy = "cudaGraphDestroy" "destroy" (graph: u64);
    launch_kernel = "cudaLaunchKernel" "launch_kernel"
        (function: *const (u64, *const c_char), x: u32, y: u32, z: u32, block_x: u32, block_y: u32,
            block_z: u32, shared: u32, stream: u64, parameters: *mut u8, extra: *mut u8);
    copy_on = "cudaMemcpyAsync" "copy_on" (to: u64, from: u64, bytes: usize, stream: u64);
    fill_on = "cudaMemsetAsync" "fill_on" (to: u64, value: u8, bytes: usize, stream: u64);
    make_event = "cudaEventCreate" "make_event" (event: *mut u64, flags: u32);
    destroy_event = "cudaEventDestroy" "destroy_event" (event: u64);
    record = "cudaEventRecord" "record" (event: u64, stream: u64);
    record_with = "cudaEventRecordWithFlags" "record_with" (event: u64, stream: u64, flags: u32);
    wait = "cudaStreamWaitEvent" "wait" (stream: u64, event: u64, flags: u32);
    record_own = "cudaEventRecord_ptsz" "record_own" (event: u64, stream: u64);
    wait_own = "cudaStreamWaitEvent_ptsz" "wait_own" (stream: u64, event: u64, flags: u32);
}

impl Cuda {
    /// As torch does: the runtime has looked the driver up before NCCL is initialised.
    pub fn runtime() -> Cuda {
        Cuda::with_runtime(&built(&["examples/libfake_cudart.so"]))
    }

    /// The same with the runtime at this place.
    pub fn with_runtime(runtime: &Path) -> Cuda {
        let driver = load(&built(&["libfake_cuda.so", "deps/libfake_cuda.so"]));
        let caller = load(runtime);
        // SAFETY: it has this function.
        unsafe {
            caller
                .get::<extern "C" fn()>(b"fake_cudart_initialise")
                .expect("is there")()
        };
        Cuda::found(driver, caller)
    }

    /// With a runtime that has not looked the driver up yet.
    pub fn found(driver: libloading::Library, caller: libloading::Library) -> Cuda {
        Cuda {
            driver,
            caller,
            runtime: true,
        }
    }

    pub fn graph(&self, fill: impl FnOnce()) -> u64 {
        let mut graph = 0;
        self.begin(STREAM, 2);
        fill();
        self.end(STREAM, &mut graph);
        graph
    }

    pub fn instantiated(&self, graph: u64) -> u64 {
        let mut exec = 0;
        self.make(&mut exec, graph, 0);
        exec
    }

    pub fn launch(&self, exec: u64, times: u64) {
        for _ in 0..times {
            self.launch_on(exec, STREAM);
        }
    }

    pub fn number(&self, name: &str) -> u64 {
        // SAFETY: fake-cuda has these functions.
        unsafe {
            let name = format!("fake_cuda_{name}");
            self.driver
                .get::<extern "C" fn() -> u64>(name.as_bytes())
                .expect("is there")()
        }
    }

    /// Calls one of fake-cuda's own functions with a number or two.
    pub fn tell(&self, name: &str, first: u64, second: u64) -> u64 {
        // SAFETY: fake-cuda has these functions, and none takes more.
        unsafe {
            let name = format!("fake_cuda_{name}");
            self.driver
                .get::<extern "C" fn(u64, u64) -> u64>(name.as_bytes())
                .expect("is there")(first, second)
        }
    }

    /// What the driver itself answers.
    pub fn asked<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the caller knows the function's signature.
        unsafe { *self.driver.get::<T>(name.as_bytes()).expect("is there") }
    }

    /// The calling thread launches on this device from now on.
    pub fn set_device(&self, device: u64) {
        // SAFETY: the driver's function.
        unsafe {
            let set = self
                .driver
                .get::<extern "C" fn(u64) -> i32>(b"cuCtxSetCurrent");
            assert_eq!(set.expect("is there")(device + 1), 0);
        }
    }

    /// The calling thread's newest launch: its number, then from when to when it runs, ns of CLOCK_MONOTONIC.
    pub fn newest(&self) -> [u64; 3] {
        let mut newest = [0; 3];
        // SAFETY: fake-cuda's function.
        unsafe {
            let get = self
                .driver
                .get::<extern "C" fn(*mut [u64; 3])>(b"fake_cuda_newest");
            get.expect("is there")(&mut newest);
        }
        newest
    }

    /// A kernel of NCCL's is launched on a stream.
    pub fn kernel(&self, stream: u64) {
        // SAFETY: fake-cuda has this function.
        unsafe {
            let name = b"fake_cuda_kernel";
            self.driver
                .get::<extern "C" fn(u64, u64)>(name)
                .expect("is there")(stream, 1000);
        }
    }
}

/// Captured AllReduces of `count` elements, one group each, with their kernels.
pub fn capture(cuda: &Cuda, comm: &mut Driver, count: usize, calls: usize) {
    for _ in 0..calls {
        let group = comm.group(true);
        comm.coll_api_on(group, count, true, STREAM);
        comm.state(group, state::GROUP_END_API_START, None);
        let launch = comm.start(event::KERNEL_LAUNCH, group, |u| {
            u.kernel_launch.stream = STREAM as *mut _;
        });
        cuda.kernel(STREAM);
        comm.stop(launch);
        comm.stop(group);
    }
}
