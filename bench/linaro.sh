#!/usr/bin/env bash
# The tuning experiments of Linaro's post on NCCL in MAP 26.0 (AllReduce of 1 GiB, 8 GPUs of 2 hosts) as one
# command, with one page for all of them:
#
#     bench/linaro.sh OUT [COMMAND...]      # OUT/page.html, and the captures
#
# The baseline is what NCCL chooses by itself. A is the tree with Simple, B the tree with LL, and C is A with
# more settings. COMMAND is the job, for example: srun -n 8 --ntasks-per-node=4 all_reduce_perf -b 1G -e 1G.
# Without one, fake-nccl plays the job with the times of the post (18.7, 10.9 and 50 ms), in virtual time. It
# knows nothing of the other settings of C, which takes as long as A then: 10.8 ms in the post. Needs
# `ncclscope` on PATH, and `fake-nccl` for the play. ROUNDS (4) is how often each setting is tried.
set -euo pipefail
out=$(realpath "${1:?folder to make}")
shift
mkdir -p "$out"
if [ $# -eq 0 ]; then
    cat >"$out/job" <<'JOB'
ranks 8
hosts 2
virtual_time
choice RING LL x1 ; choice TREE SIMPLE x0.583 ; choice TREE LL x2.674
noise 2%
repeat 30 { all_reduce 1GiB time=18.7ms ; sync }
JOB
    # Runs of equal seeds would have equal times.
    cat >"$out/play" <<'PLAY'
#!/bin/sh
cd "$(dirname "$0")" && echo >>runs
FAKE_NCCL_SEED=$(wc -l <runs) exec fake-nccl play job
PLAY
    chmod +x "$out/play"
    set -- "$out/play"
    export NCCLSCOPE_TIMING=stamps
fi
tree='NCCL_ALGO=Tree NCCL_PROTO'
ncclscope tune --rounds "${ROUNDS:-4}" --seed 1 -o "$out/captures" --html "$out/page.html" \
    --setting "$tree=Simple" \
    --setting "$tree=LL" \
    --setting "$tree=Simple NCCL_NET_GDR_LEVEL=SYS NCCL_MIN_CTAS=4 NCCL_BUFFSIZE=8388608" \
    -- "$@"
