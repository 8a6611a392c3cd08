# What a profiler has of a job's calls, held against what the job made: every call of ncclscope's, and none of a library
# that records nothing.
ranks 2
repeat 20 { all_reduce 1KiB; all_gather 4KiB; all_to_all 4KiB }
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
graph step { all_reduce 2KiB x3 }
replay step x4
sync
--- ncclscope judge --script job --pairs 2 --seed 7 --no-callbacks --only --plugin ncclscope= --plugin stamps=,NCCLSCOPE_TIMING=stamps | sed '/^Resources/,/^$/d'
Judge: 2 rounds of fake-nccl (seed 7; intervals are 95 % over rounds)

Completeness (calls done against calls in the output; matched + missing = done, the rest was found beside)
  profiler  case   done matched missing duplicate foreign admitted recorded_%
  ncclscope script  260     260       0         0       0        0     100.00
  stamps    script  260     260       0         0      48        0     100.00

Incomplete by function and size (in the order of the table above)
  profiler case   of             done missing duplicate foreign
  stamps   script AllReduce 2KiB   12       0         0      48

Incomplete by rank (in the order of the table above)
  profiler case   of     done missing duplicate foreign
  stamps   script rank 0  130       0         0      24
  stamps   script rank 1  130       0         0      24

ncclscope recorded 260 of 260 calls (100.00 %). stamps recorded 260 of 260 calls (100.00 %), 48 that never were.
--- ncclscope judge --script job --pairs 1 --seed 7 --no-callbacks --only --plugin bare=$PLUGINS/libnccl-profiler.so,NCCLSCOPE_OUT=elsewhere | sed '/^Resources/,/^$/d'
Judge: 1 round of fake-nccl (seed 7; intervals are 95 % over rounds)

Completeness (calls done against calls in the output; matched + missing = done, the rest was found beside)
  profiler case   done matched missing duplicate foreign admitted recorded_%
  bare     script  130       0     130         0       0        -       0.00

Incomplete by function and size (in the order of the table above)
  profiler case   of             done missing duplicate foreign
  bare     script AllGather 4KiB   40      40         0       0
  bare     script AllReduce 1KiB   40      40         0       0
  bare     script AllReduce 2KiB    6       6         0       0
  bare     script AlltoAll 4KiB    40      40         0       0
  bare     script Recv 1MiB         2       2         0       0
  bare     script Send 1MiB         2       2         0       0

Incomplete by rank (in the order of the table above)
  profiler case   of     done missing duplicate foreign
  bare     script rank 0   65      65         0       0
  bare     script rank 1   65      65         0       0

bare recorded 0 of 130 calls (0.00 %).
--- ncclscope judge --script job --pairs 1 --seed 7 --no-callbacks --only --plugin ncclscope= --json - | grep -A 12 '"completeness"'
  "completeness": [
    {
      "profiler": "ncclscope",
      "case": "script",
      "format": "ncclscope capture",
      "done": 130,
      "found": 130,
      "matched": 130,
      "missing": 0,
      "duplicate": 0,
      "foreign": 0,
      "recorded_percent": 100.0,
      "admitted": 0,
--- ncclscope judge --only
2| error: --only: expected a --plugin, found none
[exit 2]
--- ncclscope judge --plugin mine
2| error: expected NAME=PATH[,ENV=VALUE...], found `mine`
[exit 2]
--- ncclscope judge --plugin mine=/nowhere/plugin.so
2| error: `mine=/nowhere/plugin.so`: expected a plugin at `/nowhere/plugin.so`, found no file
[exit 2]
--- ncclscope judge --work command
2| error: --work command: expected a command after `--`, found none
[exit 2]
--- ncclscope judge --limit 0
2| error: --limit: expected a ratio above 0 like 1.02, found `0`
[exit 2]
