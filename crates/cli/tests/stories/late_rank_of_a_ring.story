# Hosts wait for their GPUs in each step, and ranks that exchange something both wait for a third one. The
# loss is 600 ms; a busy machine adds to the steps of all ranks.
ranks 4
cuda
repeat 200 {
 rank 0,1,3 { compute 2ms }
 rank 2 { compute 5ms }
 group { send 4MiB to=+1 ; recv 4MiB from=-1 }
 join
 sync
}
--- ncclscope run -o capture -- fake-nccl play job 2>/dev/null
announced 1600, ABI v5
--- ncclscope report capture | sed 1q
Rank 2 (GPU 2 on <host>) costs this job <time> of <time>: its GPU is busy with other work before every operation.
--- ncclscope report capture --json | jq -c '.findings[0].wall_us > 300e3 and .findings[0].wall_us < 900e3, .steps.rows[0].calls'
true
1
