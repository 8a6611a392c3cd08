# Five questions about recorded jobs, each answered by the first screen of one command.
ranks 1
--- : Which rank is slow?; ncclscope report data/slow_host | head -3
Rank 0 (GPU 0 on <host>) costs this job <time> of <time>: its host launches every collective late.
step 247 ms · in NCCL <n> % of the time (median rank) · waiting 99.2 % of the time in NCCL · AllReduce of 25.0 MiB at
83.8 GB/s (busbw)
--- : Is my NCCL_ALGO used?; NCCL_ALGO=TREE fake-nccl replay data/ddp4 >replayed && ncclscope report capture | sed -n '1,40p' | sed -n '/^Settings/,/^$/p'; rm -r capture
Settings
  NCCL_ALGO=TREE asked; 0 of 4 AllGather calls used it, 4 used RING (AllGather has RING, COLLNET_DIRECT, NVLS, PAT
    only).
  NCCL_ALGO=TREE asked; 0 of 88 AllReduce calls used it, 88 used RING; why, NCCL does not tell.
  NCCL_ALGO=TREE asked; 0 of 84 Broadcast calls used it, 84 used RING (Broadcast has RING only).
--- : Did the new image make it slower?; ncclscope diff data/slow_plain data/slow_host | head -2
The step went from 170 ms to 247 ms (+45.8 %) because rank 0 (GPU 0 on <host>) is late: its host launches every collective
late.
--- : Does it hang?; ncclscope hang data/killed_228 | head -2
Rank 1 is dead and has not made AllReduce of 1 KiB, call 1001 on communicator 984dc5f508e7c7f3, which ranks 0,2-3 wait
in for 2.70 s.
--- : What do I lose to communication?; ncclscope report data/ddp_slow_gpu | head -3
Rank 1 (GPU 1 on <host>) costs this job <time> of <time>: its GPU runs nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT
9.61 times as often as rank 0.
step 31.0 ms · exposed communication 0.4 to 28.9 % of the time across ranks · waiting for late ranks 0.0 to 24.0 % of
