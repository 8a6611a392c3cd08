# Splits and a shrink are proved by NCCL's own hash; a communicator with a hash of its own has no parent that is known.
ranks 4
comm dp name "data parallel"
comm tp split dp every 2 name "tensor parallel"
comm pp split dp stride 2
comm few shrink dp without 3
comm other ranks 0..1 hash 0x1234567890abcdef
all_reduce 1MiB comm=dp ; all_reduce 2MiB comm=tp ; all_reduce 3MiB comm=pp
all_reduce 4MiB comm=few ; all_reduce 5MiB comm=other
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 17, ABI v5
--- ncclscope report capture | sed -n '/^Completeness/,/^$/p'
Completeness
  17 of 17 announced calls recorded, 17 timed.
--- ncclscope report capture | sed -n '/^Communicators/,/^$/p' | sort

  1234567890abcdef      2     1    2 -               -
  56473c1c653b4cec      2     1    2 -               8869398c (child 2, colour 0)
  6a8aa713136bfab7      2     1    2 tensor parallel 8869398c (child 1, colour 1)
  8869398c7032ecc5      4     1    4 data parallel   -
  9d8cda5aa69d8b63      2     1    2 tensor parallel 8869398c (child 1, colour 0)
  a44688e3b457aadd      2     1    2 -               8869398c (child 2, colour 1)
  communicator     nranks nodes here name            parent
  e5f263747a3fafb7      3     1    3 -               8869398c (shrunk)
Communicators (by first use; `here` counts the ranks that this capture holds)
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | sort

  AllReduce 1 MiB Float32  8869398c     RING/LL128      4     4 gpu   0.054   13.5   13.5      -   13.5
  AllReduce 2 MiB Float32  6a8aa713     RING/SIMPLE     2     2 gpu   0.034   17.0   17.0      -   17.0
  AllReduce 2 MiB Float32  9d8cda5a     RING/SIMPLE     2     2 gpu   0.034   17.0   17.0      -   17.0
  AllReduce 3 MiB Float32  56473c1c     RING/SIMPLE     2     2 gpu   0.041   20.5   20.5      -   20.5
  AllReduce 3 MiB Float32  a44688e3     RING/SIMPLE     2     2 gpu   0.041   20.5   20.5      -   20.5
  AllReduce 4 MiB Float32  e5f26374     RING/SIMPLE     3     3 gpu   0.072   24.0   24.0      -   24.0
  AllReduce 5 MiB Float32  12345678     RING/SIMPLE     2     2 gpu   0.055   27.5   27.5      -   27.5
  function  bytes datatype communicator algorithm   calls timed time sum_ms p50_us p95_us p99_us max_us
Operations (largest total time first)
