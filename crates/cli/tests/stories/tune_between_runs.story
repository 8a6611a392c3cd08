# Which setting makes the step shorter: rounds of runs, ranked, with what NCCL did not obey left out.
ranks 2
virtual_time
choice RING SIMPLE x1 ; choice RING LL x3 ; choice TREE SIMPLE x0.1 ; noise 3%
repeat 16 { sleep 2ms ; all_reduce 4MiB time=25ms ; all_gather 1MiB time=1ms ; all_reduce 1KiB time=10us; sync }
--- ncclscope tune -o t --try NCCL_ALGO=Ring,Tree --try NCCL_PROTO=LL,Simple --rounds 5 --seed 3 --html page.html -- fake-nccl play job >out 2>err

--- sed '1s/ makes.*/ wins/; /^[^eN]/d; /^Settings/q' out
NCCL_ALGO=Tree NCCL_PROTO=Simple wins

export NCCL_ALGO=Tree
export NCCL_PROTO=Simple



Next: ncclscope diff t/00-default/round-* t/04-Tree-Simple/round-* t/01-Ring-LL/round-*
--- grep -E 'faster$|not judged$' out | awk '{print $NF, $1, $2, $3}' | sort
faster NCCL_ALGO=Tree NCCL_PROTO=Simple 5
judged Asked but not
judged NCCL_ALGO=Ring NCCL_PROTO=Simple 1
judged NCCL_ALGO=Tree NCCL_PROTO=LL 1
--- grep -oE "Simple: NCCL_ALGO=Tree asked; 0 of 32 AllGather calls used it|LL: Asked but not used|Ring .*by itself" out | sort; tail -1 out
LL: Asked but not used
Ring NCCL_PROTO=Simple: NCCL chooses the same by itself
Simple: NCCL_ALGO=Tree asked; 0 of 32 AllGather calls used it
Next: ncclscope diff t/00-default/round-* t/04-Tree-Simple/round-* t/01-Ring-LL/round-*
--- wc -l <err; head -1 err | cut -d, -f1
17
ncclscope: round 1 of 5
--- $(tail -1 out | cut -d: -f2) | grep -c '^[ABC] t/'
3
--- ncclscope tune -o nvls --try NCCL_ALGO=NVLS --rounds 4 -- fake-nccl play job 2>/dev/null | sed -n '1p; /^Asked/,$p'
Nothing can be told: no setting differs from the default and has a time.
Asked but not used, or not judged
  NCCL_ALGO=NVLS: Asked but not used. NCCL_ALGO=NVLS asked; 0 of 32 AllGather calls used it, 32 used RING; why, NCCL
    does not tell. NCCL_ALGO=NVLS asked; 0 of 64 AllReduce calls used it, 64 used RING; why, NCCL does not tell.
--- ncclscope tune -o nvls2 --try NCCL_ALGO=NVLS --rounds 4 -- fake-nccl play job >/dev/null 2>&1
[exit 2]
--- ncclscope tune -o bad --setting WORKS=no --rounds 4 -- sh -c 'test "$WORKS" != no && exec fake-nccl play job' 2>/dev/null | grep failed
  WORKS=no: It failed: exit status 1 (`bad/01-no/output-01.txt`).
--- ncclscope tune -o bad --try A=1 -- true
2| error: `bad` is not empty
2|   hint: name a new folder with -o
[exit 2]
--- ncclscope tune -o never --seed 1 --try A=1 -- sh -c 'echo broken; exit 7'
2| ncclscope: round 1 of 5, default: exit status 7
2| error: without any setting, the program failed: It failed: exit status 7 (`never/00-default/output-01.txt`).
2|   hint: see that it runs by itself
[exit 2]
--- head -1 never/00-default/output-01.txt
broken
--- ncclscope tune -o nothing -- true
2| error: expected something to try
2|   hint: --try NCCL_ALGO=Ring,Tree
[exit 2]
--- ncclscope tune -o wrong --try NCCL_ALGO -- true 2>&1 | head -1
error: invalid value 'NCCL_ALGO' for '--try <NAME=VALUE,...>': expected NAME=VALUE, like NCCL_ALGO=Ring
--- grep -oE '4194304</td><td[^>]*>[A-Z/]*' page.html | sed 's/<[^>]*>/ /g' | sort -u
4194304  RING/LL
4194304  RING/SIMPLE
4194304  TREE/SIMPLE
