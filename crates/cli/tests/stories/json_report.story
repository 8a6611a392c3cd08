# The report as JSON: the names of the tables, null for what is not known.
ranks 2
virtual_time
all_reduce 1MiB x3
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 6, ABI v5
--- ncclscope report capture --json | jq -c '.schema, .completeness, (.communicators[] | del(.members)), .network, .notes, .problems'
"ncclscope.report/1"
{"announced":6,"recorded":6,"timed":6,"lost":{},"absent":[],"missing_at_least":0,"announced_is_lower_bound":false,"adds_up":true,"untimed":{},"graph_launches":0,"in_graphs":0,"unseen":{},"odd":{},"ranks":[],"remedies":{}}
{"communicator":"a37d5f01a3151d04","name":null,"nranks":2,"nnodes":1,"parent":null,"parent_evidence":null,"ranks":"0-1","nccl_gpu_bytes":null}
[]
[]
[]
--- ncclscope report capture --json | jq '.operations[0] | .host_us = (.host_us != null) | .blind_share = (.blind_share != null)'
{
  "communicator": "a37d5f01a3151d04",
  "nranks": 2,
  "function": "AllReduce",
  "datatype": "ncclFloat32",
  "bytes": 1048576,
  "algorithm": "RING",
  "protocol": "LL128",
  "calls": 6,
  "timed": 6,
  "warmup": 2,
  "time_us": {
    "n": 4,
    "sum": 53.952,
    "mean": 13.488,
    "min": 13.472,
    "p50": 13.488,
    "p95": 13.504,
    "p99": null,
    "max": 13.504
  },
  "time_source": "stamps",
  "sampled": null,
  "host_us": true,
  "matched": 2,
  "shortest_us": {
    "n": 2,
    "sum": 26.976,
    "mean": 13.488,
    "min": 13.472,
    "p50": 13.488,
    "p95": 13.504,
    "p99": null,
    "max": 13.504
  },
  "blind_share": true,
  "nccl_us": null,
  "algbw_gb_per_s": 77.74139976275207,
  "busbw_gb_per_s": 77.74139976275207,
  "call_busbw_gb_per_s": 77.74139976275207,
  "bandwidth_refused": null,
  "untimed": {},
  "captured": 0,
  "replays": 0,
  "percentile_error": 0,
  "on_idle_stream": 0
}
