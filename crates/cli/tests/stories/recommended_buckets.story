# Many small calls in a step that a bucket could join: the gain is the model's latency. A few calls, or large ones, are left alone. After a diff, it is done.
ranks 2
all_reduce 1KiB
sync
repeat 20 {
  repeat 24 { all_reduce 4KiB algo=RING proto=LL time=200us }
  all_reduce 64KiB algo=RING proto=LL time=210us
  all_reduce 512KiB algo=RING proto=LL time=280us
  all_reduce 1MiB algo=RING proto=LL time=360us
  sleep 2ms
}
--- NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=before fake-nccl play job
announced 1082, ABI v5
--- ncclscope report before | sed -n '/^What to do/,/^$/p' 
What to do
  Join small AllReduce calls into buckets of up to 25 MB: a larger DDP bucket, FSDP units of more layers, or one flat
    buffer. Only calls that do not wait for each other can be joined. 540 AllReduce calls of 62.8 KiB on average in the
    run. By the model of these calls, 200 µs of each is latency (median residual 0.1 %). Gain 107 ms [107 to 108 ms], by
    a model; effort medium, risk medium.
--- sed 's/repeat 24 .*/all_reduce 96KiB algo=RING proto=LL time=220us/' job | NCCLSCOPE_TIMING=stamps NCCLSCOPE_OUT=after fake-nccl play -
announced 162, ABI v5
--- ncclscope report after --json | jq -c .recommendations
[]
--- ncclscope diff before after --json | jq -c '.recommendations[] | .rule, .status'
"many_small_calls"
"done"
--- ncclscope diff before before --json | jq -c '.recommendations[] | .rule, .status'
"many_small_calls"
"unchanged"
--- ncclscope diff before after | sed -n '/recommends/,/^$/p' | cut -c1-60
What the report on A recommends, and what became of it in B
  done: Join small AllReduce calls into buckets of up to 25 
    flat buffer. Only calls that do not wait for each other 
    108 ms], by a model; effort medium, risk medium.
