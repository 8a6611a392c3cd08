# LL at sizes at which it halves the bandwidth: the gain is measured where another protocol ran at such a size, else bounded. LL at small sizes is as it should be.
ranks 4
virtual_time
all_reduce 1KiB
sync
repeat 20 { all_reduce 1GiB algo=RING proto=LL time=9ms ; all_reduce 1KiB algo=RING proto=LL time=10us }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 164, ABI v5
--- ncclscope report capture | sed -n '/^What to do/,/^$/p' | tr -s ' \n' ' ' | sed 's/ $/\n/'
What to do NCCL chose LL for AllReduce at 1 GiB by itself. Measure the others: `ncclscope tune -- <folder>/fake-nccl rank-process`. 80 calls of 1 GiB used LL, which sends a flag with every four bytes of data, so half of what it moves is flags. Effort low, risk low.
--- ncclscope report capture --json | jq -c '.recommendations[] | {rule, subject, gain_us, gain_at_most_us, gain_source, effort, risk, status}'
{"rule":"slow_protocol","subject":"AllReduce of 1 GiB","gain_us":null,"gain_at_most_us":null,"gain_source":null,"effort":"low","risk":"low","status":"open"}
--- rm -r capture; sed 's/^repeat 20 {/repeat 20 { all_reduce 1GiB algo=RING proto=SIMPLE time=4ms ;/' job | NCCLSCOPE_TIMING=stamps fake-nccl play -
announced 244, ABI v5
--- ncclscope report capture | sed -n '/^What to do/,/^$/p' | tr -s ' \n' ' ' | sed 's/ $/\n/'
What to do NCCL chose LL for AllReduce at 1 GiB by itself. Measure the others: `ncclscope tune -- <folder>/fake-nccl rank-process`. 80 calls of 1 GiB used LL, which sends a flag with every four bytes of data, so half of what it moves is flags. It reached 179 GB/s, and another protocol 403 GB/s. Gain 100 ms, measured; effort low, risk low.
--- rm -r capture; sed 's/1GiB algo=RING proto=LL/1GiB algo=RING proto=SIMPLE/' job | NCCLSCOPE_TIMING=stamps fake-nccl play -
announced 164, ABI v5
--- ncclscope report capture --json | jq -c .recommendations
[]
