# One rank is late before every other call. The cost to the others and the saving are the script's, and the host's late launch is why.
ranks 4
all_reduce 1MiB time=1ms
repeat 20 {
  all_reduce 1MiB time=1ms
  rank 2 late 5ms
  all_reduce 1MiB time=1ms
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 164, ABI v5
--- ncclscope report capture --all | sed -n '/^Waiting/,/^$/p; /^Arrivals/,/^$/p' | sed -E 's,( +[0-9.]+){2}$,,; s,^( +[0-9]+ [^ ]+ +[0-9]+ +[0-9]+ +[0-9.]+ +)[0-9.]+ ,\1T ,'
Waiting for the last rank (shortest GPU time of each operation; assumes common ends)
  53 % of the GPU time in 40 matched operations was waiting: 181.200 rank-ms; transfer took 40.000 ms of the wall.

Arrivals by rank (largest saving first; wall: ms of the wall, rank: ms summed over ranks; the run loses loses_wall)
  rank host operations last saves_wall loses_wall cost_rank inherited_rank waited_rank late_launch_wall busy_gpu_wall
     2 <host>           40   20     60.400     T   181.200          0.000       0.000
     0 <host>           40    0      0.000          -     0.000          0.000      60.400
     1 <host>           40    0      0.000          -     0.000          0.000      60.400
     3 <host>           40    0      0.000          -     0.000          0.000      60.400
--- ncclscope report capture --json | jq -r '.findings[] | (.sentence | split(";")[0]), (.evidence | split("; ")[3]), (.wall_us > 54000 and .wall_us < 66500)'
Rank 2 arrived last in 50 % of 40 operations
its launches came late from the host
true
