# A straggler by its GPU and one by its host: each has its own advice, and the gain is what the script plants. Ranks that are as
# slow as each other, that are late in turn, or that one pause held up are no stragglers.
ranks 4
cuda
all_reduce 1KiB
repeat 40 {
  all_reduce 1MiB time=500us
  join
  rank 1 { compute 15ms }
  compute 2ms
}
sleep 300ms
sync
--- NCCLSCOPE_WINDOWS=off fake-nccl play job
announced 164, ABI v5
--- ncclscope report capture --json | jq -c '.recommendations[] | select(.rule == "late_rank") | (.subject | .[:6]), (.action | .[:33]), .gain_source, (.gain_us | . > 450e3 and . < 650e3)'
"Rank 1"
"Compare its GPU with another's: e"
"what_if"
true
--- rm -r capture; sed 's/rank 1 { compute 15ms }/compute 15ms/' job | NCCLSCOPE_WINDOWS=off fake-nccl play -
announced 164, ABI v5
--- ncclscope report capture --json | jq -c '[.recommendations[] | .rule | select(. == "late_rank")]'
[]
--- rm -r capture; printf 'ranks 4\nvirtual_time\nall_reduce 1KiB\nrepeat 40 {\nrank 2 late 6ms\nall_reduce 1MiB time=500us\nsync\n}\n' > host; NCCLSCOPE_CLOCK=system NCCLSCOPE_TIMING=stamps fake-nccl play host
announced 164, ABI v5
--- ncclscope report capture --json | jq -c '.recommendations[] | .rule, .subject, (.action | .[:41]), .gain_source, .gain_us / 1000'
"late_rank"
"Rank 2"
"Look at what its process does before the "
"what_if"
240
--- rm -r capture; sed 's/^rank 2.*//; s/^repeat/rank 2 late 6ms\n&/' host | NCCLSCOPE_CLOCK=system NCCLSCOPE_TIMING=stamps fake-nccl play -
announced 164, ABI v5
--- ncclscope report capture --json | jq -c '[.recommendations[] | .rule | select(. == "late_rank")]'
[]
--- rm -r capture; (printf 'ranks 4\nvirtual_time\nall_reduce 1KiB\nrepeat 10 {\n'; for rank in 0 1 2 3; do printf "rank $rank late 6ms\nall_reduce 1MiB time=500us\nsync\n"; done; echo '}') > turns; NCCLSCOPE_CLOCK=system NCCLSCOPE_TIMING=stamps fake-nccl play turns
announced 164, ABI v5
--- ncclscope report capture --json | jq -c .recommendations
[]
