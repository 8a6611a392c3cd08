# What a profiler has of a job's calls, held against what the job made: without stamps NCCL shows no replay of a graph
# to ncclscope, with them it has every call; a plugin that writes elsewhere has none, and says where it writes.
ranks 2
repeat 20 { all_reduce 1KiB; all_gather 4KiB; all_to_all 4KiB }
group { send 1MiB to=+1 ; recv 1MiB from=-1 }
graph step { all_reduce 2KiB x3 }
replay step x4
sync
--- ncclscope judge --script job --pairs 2 --seed 7 --no-callbacks --only --plugin host=,NCCLSCOPE_TIMING=host --plugin stamps=,NCCLSCOPE_TIMING=stamps | sed '/^Resources/,/^$/d; /^Communication/,/^$/d'
Judge: 2 rounds of fake-nccl (seed 7; intervals are 95 % over rounds)

Completeness (calls done against calls in the output; matched + missing = done, the rest was found beside)
  profiler case   done matched missing duplicate foreign admitted recorded_%
  host     script  308     260      48         0       0        0      84.41
  stamps   script  308     308       0         0       0        0     100.00

Incomplete by function and size (in the order of the table above)
  profiler case   of             done missing duplicate foreign
  host     script AllReduce 2KiB   60      48         0       0

Incomplete by rank (in the order of the table above)
  profiler case   of     done missing duplicate foreign
  host     script rank 0  154      24         0       0
  host     script rank 1  154      24         0       0

Recorded by function (percent of the calls done; over all sizes and ranks)
  case   function    host stamps
  script AllGather 100.00 100.00
  script AllReduce  65.71 100.00
  script AlltoAll  100.00 100.00
  script Recv      100.00 100.00
  script Send      100.00 100.00

host recorded 260 of 308 calls (84.41 %). stamps recorded 308 of 308 calls (100.00 %).
--- ncclscope judge --script job --pairs 1 --seed 7 --no-callbacks --only --plugin bare=$PLUGINS/libnccl-profiler.so,NCCLSCOPE_OUT={out}/../elsewhere > report; sed '/^Resources/,/^$/d; /^Communication/,/^$/d; /^bare/,$d' report
Judge: 1 round of fake-nccl (seed 7; intervals are 95 % over rounds)

Completeness (calls done against calls in the output; matched + missing = done, the rest was found beside)
  profiler case   done matched missing duplicate foreign admitted recorded_%
  bare     script  154       0     154         0       0        -       0.00

Incomplete by function and size (in the order of the table above)
  profiler case   of             done missing duplicate foreign
  bare     script AllGather 4KiB   40      40         0       0
  bare     script AllReduce 1KiB   40      40         0       0
  bare     script AllReduce 2KiB   30      30         0       0
  bare     script AlltoAll 4KiB    40      40         0       0
  bare     script Recv 1MiB         2       2         0       0
  bare     script Send 1MiB         2       2         0       0

Incomplete by rank (in the order of the table above)
  profiler case   of     done missing duplicate foreign
  bare     script rank 0   77      77         0       0
  bare     script rank 1   77      77         0       0

Recorded by function (percent of the calls done; over all sizes and ranks)
  case   function  bare
  script AllGather 0.00
  script AllReduce 0.00
  script AlltoAll  0.00
  script Recv      0.00
  script Send      0.00
--- sed -n '/^bare/,$p' report | tr '\n' ' ' | grep -o 'bare recorded.*log: "ncclscope: recording to'; grep -c '/log/1/out/../elsewhere/' report
bare recorded none of 154 calls: it wrote no file, though NCCL loaded it; one more run with NCCL's log: "ncclscope: recording to
2
--- ncclscope judge --script job --pairs 1 --seed 7 --no-callbacks --only --plugin stamps=,NCCLSCOPE_TIMING=stamps --json - | grep -A 12 '"completeness"'
  "completeness": [
    {
      "profiler": "stamps",
      "case": "script",
      "format": "ncclscope capture",
      "done": 154,
      "found": 154,
      "matched": 154,
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
--- ncclscope judge --work fake-nccl --case single
2| error: --case and --check-counter are for --work bench, found --work fake-nccl
[exit 2]
--- ncclscope judge --script job -- true
2| error: --script is for --work fake-nccl, found --work command
[exit 2]
--- ncclscope judge --script none.job --work fake-nccl
2| error: --script: could not read `none.job`: No such file or directory (os error 2)
[exit 2]
--- ncclscope judge -- all_reduce -b 1K
2| error: expected a command after `--`, found `all_reduce`
2|   hint: --work bench takes what `ncclscope bench` takes there; if it is a program, --work command
[exit 2]
--- ncclscope judge --json nowhere/judge.json --work fake-nccl
2| error: `nowhere/judge.json` can't be written: No such file or directory (os error 2)
[exit 2]
--- ncclscope judge --script job --pairs 1 --seed 7 --no-callbacks --only --plugin host=,NCCLSCOPE_TIMING=host --html page.html > text; grep -c '<h2>Recorded calls by function' page.html; grep -c '<script' page.html; grep -o '>[0-9.]* %<' page.html | sort | uniq -c
2
0
      4 >100.00 %<
      1 >65.71 %<
