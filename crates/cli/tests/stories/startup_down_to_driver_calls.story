# The start of a process down to calls of the CUDA driver, in text, in JSON and in the page. What NCCL asks for before it
# loads the recorder is not seen. NCCL is linked into the program here, so nobody knows who called.
ranks 2
cuda
all_reduce 1MiB x10 algo=RING
all_reduce 1KiB x10 algo=TREE
all_to_all 64KiB x3
sleep 100ms
sync
--- NCCLSCOPE_NCCL_LOG=on ncclscope run -o capture -- fake-nccl play job
announced 64, ABI v5
2| ncclscope: capture in capture: 2 processes, 64 calls; next: ncclscope report capture
--- ncclscope startup --all capture | sed -n '/^Start of/,/^Processes/p' | grep -o '^ .*' | sed -n 's/ *[0-9.]* *[0-9.]* %$//p' | grep -v kernels | sort -u
      1 host allocation, 1 MiB
      12 memory mappings, 12 MiB
      2 GPU allocations, 8 MiB
      2 IPC opens
      4 memory mappings, 8 MiB
      6 GPU allocations, 12 MiB
      8 memory mappings, 16 MiB
      connections
    first AllReduce RING LL128
    first AllReduce TREE LL
    first AlltoAll
    init of a37d5f01a3151d04 (2 ranks)
  first uses, beyond later calls
  from there to the first call
  total
  until NCCL's first init
--- ncclscope startup capture | grep -A3 'are known from'
  Calls of the CUDA driver are known from the moment at which NCCL's first init loaded the recorder: behind the phase
    `graphs`. What is left of a part is calls before that, the host's own work, and waits for other ranks.
  Whether NCCL or the program called the driver is not known, because NCCL is no library of its own here.
--- ncclscope startup --json capture | jq -c '.whole.parts[] | (.inits, (.first_uses | sort_by(.algorithm, .function)))[] | [.function, .algorithm, (.driver_calls | map([.caller, .counter, .calls, .bytes]) | sort)]'
[null,null,[[null,"gpu_allocations",6,12582912],[null,"host_allocations",1,1048576],[null,"mappings",12,12582912]]]
["AlltoAll",null,[[null,"ipc_opens",2,null],[null,"mappings",4,8388608]]]
["AllReduce","RING",[[null,"gpu_allocations",2,8388608],[null,"ipc_opens",2,null],[null,"mappings",8,16777216]]]
["AllReduce","TREE",[[null,"gpu_allocations",2,8388608],[null,"ipc_opens",2,null],[null,"mappings",8,16777216]]]
--- ncclscope report capture --html page.html >/dev/null 2>&1; sed -n '/class="tree"/,/^<p/p' page.html | grep -o '<summary><span>[^<]*\|<div class="leaf"><span>[^<]*' | sed 's/.*>//' | grep -v kernels | sort -u
1 host allocation, 1 MiB
12 memory mappings, 12 MiB
2 GPU allocations, 8 MiB
2 IPC opens
4 memory mappings, 8 MiB
6 GPU allocations, 12 MiB
8 memory mappings, 16 MiB
connections
first AllReduce RING LL128
first AllReduce TREE LL
first AlltoAll
first uses, beyond later calls
from there to the first call
init of a37d5f01a3151d04 (2 ranks)
until NCCL&#39;s first init
