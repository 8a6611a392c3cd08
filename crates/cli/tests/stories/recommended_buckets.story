# Many small calls in a step that a bucket could join: the gain is the model's latency. A few calls, or large ones, are left alone. After a diff, it is done.
ranks 2
virtual_time
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
--- ncclscope report before --json | jq -c '.recommendations[] | [.rule, .subject, .gain_source, .effort, .risk, .status, (.gain_us | . > 95000 and . < 115000), (.gain_interval_us[0] <= .gain_us)]'
["many_small_calls","AllReduce over 2 ranks","model","medium","medium","open",true,true]
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
--- ncclscope diff before after | sed -n '/recommends/,/^$/p' | head -2 | cut -c1-60
What the report on A recommends, and what became of it in B
  done: Join small AllReduce calls into buckets of up to 25
--- ncclscope report before --html page.html >/dev/null 2>&1; grep -c '<svg class="model"' page.html; grep -c '<circle cx=' page.html; grep -o '<figcaption>AllReduce.*' page.html
1
4
<figcaption>AllReduce RING/LL over 2 ranks: latency 200 µs, 6.53 GB/s, half of the bandwidth at 1.24 MiB. Residuals: median 0.1 %, largest 0.1 %.</figcaption>
