# Splits and a shrink are proved by NCCL's own hash; a communicator with a hash of its own has no parent that is known.
ranks 4
virtual_time
comm dp name "data parallel"
comm tp split dp every 2 name "tensor parallel"
comm pp split dp stride 2
comm few shrink dp without 3
comm other ranks 0..1 hash 0x1234567890abcdef
all_reduce 1MiB comm=dp x2 ; all_reduce 2MiB comm=tp x2 ; all_reduce 3MiB comm=pp x2
all_reduce 4MiB comm=few x2 ; all_reduce 5MiB comm=other x2
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 34, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p'
Completeness
  34 of 34 announced calls recorded, 34 timed.
--- ncclscope report capture --all | sed -n '/^Communicators/,/^$/p' | sort

  1234567890abcdef      2     1    2 0-1   -               -
  56473c1c653b4cec      2     1    2 0,2   -               8869 (child 2, colour 0)
  6a8aa713136bfab7      2     1    2 2-3   tensor parallel 8869 (child 1, colour 1)
  8869398c7032ecc5      4     1    4 0-3   data parallel   -
  9d8cda5aa69d8b63      2     1    2 0-1   tensor parallel 8869 (child 1, colour 0)
  a44688e3b457aadd      2     1    2 1,3   -               8869 (child 2, colour 1)
  communicator     nranks nodes here ranks name            parent
  e5f263747a3fafb7      3     1    3 0-2   -               8869 (shrunk)
Communicators (by first use; ranks are the launcher's, here: in this capture)
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | sort

  AllReduce 1 MiB float32 8869 RING/LL128      8 54.0 13.5 13.5 13.5 13.5   116     116
  AllReduce 3 MiB float32 5647 RING/SIMPLE     4 41.0 20.5 20.5 20.5 20.5   153     153
  AllReduce 3 MiB float32 a446 RING/SIMPLE     4 41.0 20.5 20.5 20.5 20.5   153     153
  AllReduce 4 MiB float32 e5f2 RING/SIMPLE     6 71.9 24.0 24.0 24.0 24.0   233     233
  AllReduce 5 MiB float32 1234 RING/SIMPLE     4 55.0 27.5 27.5 27.5 27.5   191     191
  On average, a rank makes <n> collectives a second.
  function   size type    comm algorithm   calls  sum mean  p50  p95  max busbw call_bw
  … 2 more operations (--all)
Operations by GPU time (largest sum over ranks first, sum in µs, mean to max in µs, bandwidths in GB/s)
