# NCCL's own estimate of each call stands beside the measurement and the model, if ncclscope's tuner library recorded it. NCCL's choice stays as it is.
ranks 2
virtual_time
choice RING LL x1 ; choice RING SIMPLE x1
all_reduce 1KiB
sync
repeat 20 {
  all_reduce 64KiB time=20us
  all_reduce 1MiB time=40us
  all_reduce 16MiB time=400us
}
--- NCCLSCOPE_COSTS=on NCCLSCOPE_TIMING=stamps ncclscope run -o capture -- fake-nccl play job
announced 122, ABI v5
2| ncclscope: capture in capture: 2 processes, 122 calls; next: ncclscope report capture
--- ncclscope model capture | sed -n '/^AllReduce/,/^$/p'
AllReduce RING/LL over 2 ranks (by size; measured, NCCL's own estimate and model in µs, t = 2(n-1)(α + βS/n))
    size measured model residual_% nccl regime
  64 KiB     20.0  19.6       +1.8 10.7 latency
   1 MiB     40.0  41.5       -3.6 20.5 bandwidth
  16 MiB      400   391       +2.3  178 bandwidth
     400 µs |                                                              .@
            |                                                          ....
            |                                                      ....     n
            |                                                 .....
            |                                             ....
            |                                        .....
            |                                  ......
            |                           .....@.
            |                 ..........
            |@................               n
            |
    10.7 µs |n
            +----------------------------------------------------------------
             64 KiB                                                    16 MiB
             o measured, . model, @ both, n NCCL's own estimate; time over size, both axes in powers
--- ncclscope report capture --json | jq -c '.operations[] | [.bytes, .algorithm, .protocol, .nccl_us]'
[16777216,"RING","LL",177.772]
[1048576,"RING","LL",20.486]
[65536,"RING","LL",10.655]
[1024,"RING","LL",10.01]
--- ncclscope report capture --html page.html >/dev/null 2>&1; grep -o '<title>[^<]*own estimate</title>' page.html
<title>64 KiB: 10.7 µs by NCCL's own estimate</title>
<title>1 MiB: 20.5 µs by NCCL's own estimate</title>
<title>16 MiB: 178 µs by NCCL's own estimate</title>
--- rm -r capture; NCCL_TUNER_PLUGIN=libother.so NCCLSCOPE_COSTS=on NCCLSCOPE_TIMING=stamps ncclscope run -o capture -- true
2| ncclscope: note: NCCL's own estimates are not recorded: NCCL_TUNER_PLUGIN is `libother.so`, and NCCL loads one tuner
2| ncclscope: nothing was recorded, so there is no capture: no process of the program loaded NCCL's profiler plugin. Did it use NCCL, from 2.23 on, on more than one GPU?
2|   next: ncclscope doctor
--- NCCLSCOPE_TIMING=stamps ncclscope run -o capture -- fake-nccl play job
announced 122, ABI v5
2| ncclscope: capture in capture: 2 processes, 122 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c '[.operations[].nccl_us] | unique'; ls capture | grep -c costs
[null]
0
[exit 1]
