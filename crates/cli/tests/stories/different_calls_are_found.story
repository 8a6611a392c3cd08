# Ranks make different calls at the same place: another root, another datatype, another order. Who did what stands in the report, too.
ranks 4
linger 700ms
comm pair split world every 2 name "tensor parallel"
all_reduce 1MiB x20
all_reduce 2MiB comm=pair x5
rank 0 { sleep 100ms ; broadcast 1MiB root=0 comm=pair }
rank 1 { sleep 100ms ; broadcast 1MiB root=1 comm=pair }
rank 2 { all_gather 1MiB comm=pair ; all_reduce 4MiB comm=pair }
rank 3 { all_reduce 4MiB comm=pair ; all_gather 1MiB comm=pair }
rank 0,1,2 { all_reduce 1MiB }
rank 3 { all_reduce 1MiB bf16 }
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 110, ABI v5
--- ncclscope report capture --all | sed -n '1,/^Job/p' | sed -E 's/(last|call) [0-9.]+ m?s/\1 <time>/'
Rank 3 made AllReduce of 4 MiB before AllGather of 1 MiB, call 6 on communicator 6a8aa713136bfab7 (tensor parallel),
which rank 2 made first.
in NCCL <n> % of the time (median rank) · waiting 0.0 % of the time in NCCL · AllReduce of 1 MiB at 116 GB/s (busbw)

Evidence
  Some of them made a call <time> before the newest evidence, so whether the job hangs can't be told from it.

Also: Rank 3 made AllReduce of 1 MiB where rank 0 made AllReduce of 1 MiB: call 21 on communicator 8869398c7032ecc5.
They differ in datatype bfloat16 and float32.
  Evidence: It is the only place of that communicator where ranks differ.

Also: Rank 1 made Broadcast of 1 MiB where rank 0 made Broadcast of 1 MiB: call 6 on communicator 9d8cda5aa69d8b63
(tensor parallel). They differ in root 1 and 0.
  Evidence: It is the only place of that communicator where ranks differ.

What to do (largest gain first)
  1. Make the same calls in the same order on all ranks: what these do is not defined, and they may hang. Effort medium,
     risk low.
  2. Make the same calls in the same order on all ranks: what these do is not defined, and they may hang. Effort medium,
     risk low.

Job capture
