# Far below what a benchmark of this machine reaches: what that costs the job, as far as GPUs stood still for it, and what may be the reason. What other work hides costs nothing.
ranks 2
cuda
all_reduce 1KiB
repeat 40 {
  all_reduce 64MiB time=4ms
  join
  compute 1ms
  all_reduce 2MiB time=150us
  join
  compute 1ms
}
sleep 500ms
sync
--- NCCL_MAX_NCHANNELS=2 NCCLSCOPE_WINDOWS=off fake-nccl play job
announced 162, ABI v5
--- printf '# Rank %s Group 0 Pid 1 on host device 0 [0000:04:00] NVIDIA H200\n' 0 1 > bench.txt; echo '# Collective test starting: all_reduce_perf' >> bench.txt; echo '67108864 16777216 float sum -1 1500.0 44.74 44.74 0 1600.0 41.9 41.9 0' >> bench.txt

--- ncclscope report capture --ceiling bench.txt --json | jq -c '.findings[] | .kind, .function, .bytes, .method, .candidates, (.figures.compared > 16), (.wall_us / 1e3 | . > 80 and . <= 100)'
"below_ceiling"
"AllReduce"
67108864
"ceiling"
["channels"]
true
true
--- ncclscope report capture --ceiling bench.txt | sed -n '1,2p; /^Evidence/,/^$/p' | sed 's/costs this job about [0-9.]* ms of [0-9.]* ms/costs this job <some> of <all>/; s/In [0-9]* operations/In <n> operations/; s/GPUs stood still for [0-9]* ms/GPUs stood still for <ms>/; s/cost: [0-9.]* to [0-9]* ms/cost: <interval>/' | tr -s ' \n' ' ' | sed 's/ $/\n/'
AllReduce of 64 MiB over 2 ranks costs this job <time> of <time>: it reaches 16.8 GB/s, 37.5 % of the 44.7 GB/s in bench.txt. Evidence In <n> operations that were timed on all ranks, the shortest rank took 4.00 ms at the median, and would take 1.50 ms at this ceiling. Waiting for late ranks is not in that. GPUs stood still for <ms> of 160 ms of such transfers, and no more can be gained. Interval of the cost: <interval>. Possible reasons: NCCL_MAX_NCHANNELS=2 is set.
--- ncclscope report capture --ceiling bench.txt --json | jq -c '.recommendations[] | select(.rule == "below_ceiling") | .subject, .gain_source'
"AllReduce of 64 MiB over 2 ranks"
"ceiling"
--- ncclscope report capture --json | jq -c '[.findings[] | select(.kind == "below_ceiling")]'
[]
--- ncclscope report capture --ceiling 18GB/s --json | jq -c '[.findings[] | select(.kind == "below_ceiling")]'
[]
--- rm -r capture; sed 's/time=4ms/time=4ms ; compute 6ms/' job | NCCLSCOPE_WINDOWS=off fake-nccl play -
announced 162, ABI v5
--- ncclscope report capture --ceiling bench.txt --json | jq -c '[.findings[] | select(.kind == "below_ceiling")]'
[]
