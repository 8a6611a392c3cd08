# Two hosts, whose ring has two links: the one from rank 3 to rank 4 takes 40 ms longer than the other. Links that are as slow as
# each other, and one that waits for its GPU, are no slow link.
ranks 8
virtual_time
hosts 2
rank 3 drag send_network 40ms
repeat 40 {
  all_reduce 8MiB time=500us
  sync
  sleep 1ms
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 320, ABI v5
--- ncclscope report capture | sed -n '1,/^step/p; /^Evidence/,/^Job/p' | tr -s ' \n' ' ' | sed -E 's/([0-9.]+ to )?[0-9.]+ (ms|µs|s)/<time>/g; s/takes .* times/takes <n> times/; s/[0-9.]+ %/<n> %/g; s/(rank [0-9]) on [^ ]+/\1 on <host>/g'; echo
The network from rank 3 on <host> to rank 4 on <host> costs this job <time> of <time>: its data takes <n> times as long as on the other links<time>tep <time> · in NCCL <n> % of the time (median rank) · waiting <n> % of the time in NCCL · AllReduce of 8 MiB at Evidence In 39 operations of communicator 8474c2f2fa01389c, its data was in send_network for <time> on average, and for <time> at the median of the other ranks that sent as many bytes in the same operation. Waiting for a GPU or for the other side is not in that. A transfer takes <time>. The cost is an estimate, and <time> at most: too few compute kernels were recorded to measure it. <n> % interval: <time>. What to do Look at the two hosts' NICs and what is between them: speed and errors (ibstat, perfquery, ethtool -S), cable, congestion; and whether the receiving host's CPUs are free for NCCL's proxy thread. Gain <time> [<time>], by what-if replay; effort high, risk low. Job capture
--- ncclscope report capture | sed -n '/^Links/,/^$/p' | awk 'NR > 1 && NR < 4 { print $1, $4, $5, $7, $8 }'
rank state peer operations transfer
3 send_network 4 39 1.58
--- ncclscope report capture --json | jq -c '.findings[] | [.kind, (.wall_us / 1000 / (40 * 40) | . > 0.7 and . < 1.3)]'
["slow_network",true]
--- for drag in '' 'rank 0..7 drag send_network 40ms' 'rank 3 drag send_gpu 40ms'; do rm -r capture; sed "s/^rank 3 drag.*/$drag/" job | NCCLSCOPE_TIMING=stamps fake-nccl play - >/dev/null; ncclscope report capture --json | jq -c '[.findings, .recommendations | .[] | (.kind, .rule) | select(. == "slow_network")]'; done
[]
[]
[]
