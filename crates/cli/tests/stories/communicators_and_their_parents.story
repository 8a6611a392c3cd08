# Splits and a shrink are proved by NCCL's own hash; a communicator with a hash of its own has no parent that is known.
ranks 4
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
Completeness and trust
  34 of 34 announced calls recorded, 34 timed.
--- ncclscope report capture | sed -n '/^Communicators/,/^$/p' | sort

  1234567890abcdef      2     1    2 0-1   -               -
  56473c1c653b4cec      2     1    2 0,2   -               8869 (child 2, colour 0)
  6a8aa713136bfab7      2     1    2 2-3   tensor parallel 8869 (child 1, colour 1)
  8869398c7032ecc5      4     1    4 0-3   data parallel   -
  9d8cda5aa69d8b63      2     1    2 0-1   tensor parallel 8869 (child 1, colour 0)
  a44688e3b457aadd      2     1    2 1,3   -               8869 (child 2, colour 1)
  communicator     nranks nodes here ranks name            parent
  e5f263747a3fafb7      3     1    3 0-2   -               8869 (shrunk)
Communicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)
--- ncclscope report capture | sed -n '/^Operations/,/^$/p' | sort

  AllReduce  1MiB f32  8869 RING/LL128      8  0.054 13.5 13.5 13.5 13.5   - 13.5  77.6 116.5   116.5
  AllReduce  2MiB f32  6a8a RING/SIMPLE     4  0.034 17.0 17.0 17.0 17.0   - 17.0 123.4 123.4   123.4
  AllReduce  2MiB f32  9d8c RING/SIMPLE     4  0.034 17.0 17.0 17.0 17.0   - 17.0 123.4 123.4   123.4
  AllReduce  3MiB f32  5647 RING/SIMPLE     4  0.041 20.5 20.5 20.5 20.5   - 20.5 153.4 153.4   153.4
  AllReduce  3MiB f32  a446 RING/SIMPLE     4  0.041 20.5 20.5 20.5 20.5   - 20.5 153.4 153.4   153.4
  AllReduce  4MiB f32  e5f2 RING/SIMPLE     6  0.072 24.0 24.0 24.0 24.0   - 24.0 175.0 233.3   233.3
  AllReduce  5MiB f32  1234 RING/SIMPLE     4  0.055 27.5 27.5 27.5 27.5   - 27.5 190.7 190.7   190.7
  function  bytes type comm algorithm   calls sum_ms mean  min  p50  p95 p99  max algbw busbw call_bw
Operations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s)
