# Which setting makes the step shorter, within one run: the tuner plugin switches by blocks of calls.
ranks 2
virtual_time
choice RING SIMPLE x1 ; choice RING LL x3 ; choice TREE SIMPLE x0.1 ; noise 3%
repeat 500 { sleep 1ms ; all_reduce 4MiB time=6ms ; all_gather 1MiB time=500us ; all_reduce 1KiB time=10us; sync }
--- ncclscope tune --within --block 24 -o t --try NCCL_ALGO=Tree,NVLS --try NCCL_PROTO=Simple --setting NCCL_PROTO=LL -- fake-nccl play job >out

--- sed '1s/ makes.*/ wins/; /^[^eNt]/d' out | head -5
NCCL_ALGO=Tree NCCL_PROTO=Simple wins

export NCCL_ALGO=Tree
export NCCL_PROTO=Simple
--- grep ':' out | grep -E 'LL:|Simple:'
  NCCL_ALGO=NVLS NCCL_PROTO=Simple: NCCL can't run it here, or NCCL_ALGO or NCCL_PROTO forbids it.
--- cat t/nccl_tuner.conf; ls t | sed 's/^.*-[0-9]*[.]/PROCESS./' | sort | uniq -c
# written by ncclscope tune --within
allreduce,0,9223372036854775807,tree,simple,-1,1,2,-1,-1
      2 PROCESS.blocks
      1 capture
      1 nccl_tuner.conf
      1 output.txt
--- for f in t/*.blocks; do od -A n -t u2 -j 4096 -N 1600 -w32 $f | awk '$7 == 2 {printf "%s ", $8}'; echo; done | sort -u | wc -l
1
--- NCCL_ALGO=Ring ncclscope tune --within --block 24 -o forced --try NCCL_ALGO=Tree -- fake-nccl play job | tail -5
Asked but not used, or not judged
  NCCL_ALGO=Tree: NCCL can't run it here, or NCCL_ALGO or NCCL_PROTO forbids it.

Notes
  NCCL_ALGO or NCCL_PROTO is set, and beats the tuner: unset it to try more.
--- printf 'ranks 2\nvirtual_time\nchoice RING SIMPLE x1 ; choice TREE SIMPLE x0.5\ngraph g { all_reduce 4MiB time=3ms }\nrepeat 20 { replay g ; sync }\n' > graphs; ncclscope tune --within -o graphed --try NCCL_ALGO=Tree -- fake-nccl play graphs
2| error: the capture has no steps, and blocks are compared by nothing else
2|   hint: Calls in CUDA graphs keep the setting of the block in which they were captured.
2|   hint: leave --within out; then whole runs are compared
[exit 2]
--- ncclscope tune --within -o other --try NCCL_NTHREADS=64 -- true
2| error: --within can't try NCCL_NTHREADS: NCCL reads it once, when the job starts
2|   hint: leave --within out; it can try NCCL_ALGO, NCCL_PROTO and NCCL_MAX_NCHANNELS
[exit 2]
--- NCCL_TUNER_PLUGIN=x ncclscope tune --within -o other --try NCCL_ALGO=Ring -- true
2| error: NCCL_TUNER_PLUGIN is `x`, and NCCL loads one tuner
2|   hint: unset it, or leave --within out
[exit 2]
--- sed 's/repeat.*/all_reduce 1MiB x30/' job >short; ncclscope tune --within -o short-run --try NCCL_ALGO=Tree -- fake-nccl play short
2| error: the capture has no steps, and blocks are compared by nothing else
2|   hint: leave --within out; then whole runs are compared
[exit 2]
--- sed 's/choice [^;]* ;//g; s/choice [^;]*;//; s/; noise 3%//; s/noise 3%//' job >untuned; ncclscope tune --within -o untuned-run --try NCCL_ALGO=Tree -- fake-nccl play untuned 2>&1 | cut -d: -f1,2 | sed 's/(.*)//'
error: there is no log of blocks 
  hint: NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,TUNING says why; across hosts, -o needs a folder that all of them share
--- ncclscope tune --within --block 24 -o paged --html page.html --try NCCL_ALGO=Tree --try NCCL_PROTO=Simple -- fake-nccl play job >out; grep -oE '<h1 class="lead">[^ ]* [^ ]* makes|<figcaption>[^<]*|<td class="t">NCCL[^<]*' page.html
<h1 class="lead">NCCL_ALGO=Tree NCCL_PROTO=Simple makes
<figcaption>below 1: faster than the default
<figcaption>median step of a block; a line at each mean
<td class="t">NCCL_ALGO=Tree NCCL_PROTO=Simple
--- ncclscope tune --html no/page.html -o other --try NCCL_ALGO=Tree -- touch ran; ls ran
2| error: `no/page.html` can't be written: No such file or directory (os error 2)
2| ls: cannot access 'ran': No such file or directory
[exit 2]
