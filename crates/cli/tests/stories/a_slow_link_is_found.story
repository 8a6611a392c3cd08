# Two hosts, whose ring has two links: the one from rank 3 to rank 4 takes 8 ms longer than the other.
ranks 8
hosts 2
rank 0..7 drag send_network 4ms
rank 3 drag send_network 12ms
repeat 40 {
  all_reduce 8MiB time=500us
  sync
  sleep 1ms
}
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 320, ABI v5
--- ncclscope report capture | sed -n '/^Findings/,/^$/p' | sed -E 's/[0-9]+(\.[0-9]+)? (%|ms|µs|s)/<n> \2/g; s/(rank [0-9]) on [^ ]+/\1 on <host>/g' | tr -s ' \n' ' ' ; echo
Findings (largest wall time first) The network from rank 3 on <host> to rank 4 on <host> is slow; as fast as the other links of its communicator, the run would take <n> ms less (<n> % of the run). Evidence: <n> % interval <n> ms to <n> ms; in 39 operations of communicator 8474c2f2fa01389c its data was in send_network for <n> ms of <n> ms of transfer on average, and for <n> ms at the median of the other ranks that sent as many bytes in the same operation; waiting for a GPU or for the other side is not in that. Look at the two hosts' NICs and what is between them: speed and errors (ibstat, perfquery, ethtool -S), cable, congestion; and whether the receiving host's CPUs are free for NCCL's proxy thread.
--- ncclscope report capture | sed -n '/^Links/,/^$/p' | awk 'NR > 1 { print $1, $4, $5, $7, $8 }'
rank state peer operations transfer
3 send_network 4 39 487.500
… links (--all)
--- ncclscope report capture --json | jq -c '.findings[] | [.kind, (.wall_us / 1000 / (40 * 8) | . > 0.7 and . < 1.3)]'
["slow_network",true]
