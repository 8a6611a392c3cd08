# A communicator that is made and never used is named with what it cost. The start of a rank is a tree, in
# which the inits of communicators and NCCL's phases are below the parts of the start.
ranks 2
virtual_time
load_kernels 0,1 2s
comm idle name "never used"
all_reduce 1MiB x20
--- NCCLSCOPE_NCCL_LOG=on ncclscope run -o capture -- fake-nccl play job
announced 40, ABI v5
2| ncclscope: capture in capture: 2 processes, 40 calls; next: ncclscope report capture
--- ncclscope startup capture | head -3 | tr '\n' ' ' | grep -o '1 communicator has .* took [0-9.]* s'
1 communicator has two calls or fewer on each rank in this run, and took 2.00 s
--- ncclscope startup capture | sed -n '/^Communicators with/,/^$/p'
Communicators with two calls or fewer on each rank (the longest to make first, s)
  communicator     name       ranks calls init_s of_inits
  a37d5f01a3151d04 never used     2     0   2.00   50.0 %
  Each takes time at the start, and GPU memory. Make it when it is needed, or not at all.
--- ncclscope startup --json capture | jq -c '.hardly_used[] | del(.communicator)'
{"name":"never used","nranks":2,"calls":0,"time_s":2,"share":0.5}
--- ncclscope startup --json capture | jq -c '.whole.parts[] | select(.inits != []) | .part, (.inits[] | .nranks, .phases[].phase)'
"to_init"
2
"kernels"
"to_first_call"
2
"kernels"
