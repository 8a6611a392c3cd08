# Two hosts, of which one looks functions up slowly and has no GPU; and what hostbench says of wrong files.
ranks 1
--- echo '{"schema":"ncclscope.hostbench/1","version":"0.1.0","host":"n17","starts":10,"facts":[{"name":"CPU","value":"EPYC 9554"}],"items":[{"name":"dlsym","group":"G","what":"address of a function of libc","unit":"ns","less_is_better":true,"median":100.0,"interval":null,"values":[100.0,101.0,102.0,103.0,100.0,101.0,102.0,103.0,100.0,101.0],"not_applicable":null},{"name":"memory_read","group":"G","what":"one thread reads 256M","unit":"GB/s","less_is_better":false,"median":20.0,"interval":null,"values":[20.0,20.2,20.4,20.6,20.0,20.2,20.4,20.6,20.0,20.2],"not_applicable":null},{"name":"gpu_launch","group":"G","what":"launch of an empty kernel, on the host","unit":"us","less_is_better":true,"median":2.5,"interval":null,"values":[2.5,2.52,2.55,2.58,2.5,2.52,2.55,2.58,2.5,2.52],"not_applicable":null}]}' > a.json; echo '{"schema":"ncclscope.hostbench/1","version":"0.1.0","host":"n18","starts":10,"facts":[{"name":"CPU","value":"EPYC 9654"}],"items":[{"name":"dlsym","group":"G","what":"address of a function of libc","unit":"ns","less_is_better":true,"median":320.0,"interval":null,"values":[320.0,323.2,326.4,329.6,320.0,323.2,326.4,329.6,320.0,323.2],"not_applicable":null},{"name":"memory_read","group":"G","what":"one thread reads 256M","unit":"GB/s","less_is_better":false,"median":20.0,"interval":null,"values":[20.0,20.2,20.4,20.6,20.0,20.2,20.4,20.6,20.0,20.2],"not_applicable":null},{"name":"gpu_launch","group":"G","what":"launch of an empty kernel, on the host","unit":"us","less_is_better":true,"median":null,"interval":null,"values":[],"not_applicable":"no GPU"}]}' > b.json; ncclscope hostbench diff a.json b.json
1 of 2 items differs by more than 25 % between a.json (A) and b.json (B). At most 5 of 100 comparisons of equal hosts
name any item.

Items that differ (largest difference first; medians over starts)
  item    a   b unit  b/a better what
  dlsym 100 320 ns   3.20 A      address of a function of libc

Items of one host only
  gpu_launch: on A; not applicable on B: no GPU

What else differs
  CPU: EPYC 9554 -> EPYC 9654
[exit 1]
--- ncclscope hostbench diff a.json a.json
None of 3 items differs by more than 25 % between a.json (A) and a.json (B).
--- ncclscope hostbench diff a.json b.json --json --limit 4
{
  "schema": "ncclscope.hostbench-diff/1",
  "host_a": "n17",
  "host_b": "n18",
  "limit_ratio": 4.0,
  "compared": 2,
  "busy_share_a": null,
  "busy_share_b": null,
  "can_tell": true,
  "differs": [],
  "on_one_host": [
    {
      "name": "gpu_launch",
      "on": "a",
      "why": "no GPU"
    }
  ],
  "items": [
    {
      "name": "dlsym",
      "group": "G",
      "what": "address of a function of libc",
      "unit": "ns",
      "median_a": 100.0,
      "interval_a": null,
      "median_b": 320.0,
      "interval_b": null,
      "ratio": 3.2,
      "better_on": "a"
    },
    {
      "name": "memory_read",
      "group": "G",
      "what": "one thread reads 256M",
      "unit": "GB/s",
      "median_a": 20.0,
      "interval_a": null,
      "median_b": 20.0,
      "interval_b": null,
      "ratio": 1.0,
      "better_on": null
    },
    {
      "name": "gpu_launch",
      "group": "G",
      "what": "launch of an empty kernel, on the host",
      "unit": "us",
      "median_a": 2.5,
      "interval_a": null,
      "median_b": null,
      "interval_b": null,
      "ratio": null,
      "better_on": null
    }
  ],
  "facts": [
    {
      "name": "CPU",
      "a": "EPYC 9554",
      "b": "EPYC 9654"
    }
  ]
}
[exit 1]
--- ncclscope hostbench diff a.json nothing.json
2| error: `nothing.json` can't be read: No such file or directory (os error 2)
[exit 2]
--- ncclscope hostbench --starts 0
2| error: invalid value '0' for '--starts <N>': 0 is not in 1..=50
2| 
2| For more information, try 'ncclscope hostbench --help'.
[exit 2]
--- ncclscope hostbench --starts 1 --only gpu --cuda nowhere.so | sed '1,/^GPU/d'
  Not applicable (no CUDA driver): gpu_launch, gpu_launch_wait, gpu_event_record, gpu_event_query, gpu_synchronize,
    gpu_event_pair, gpu_allocate, gpu_allocate_host, gpu_register_host, gpu_ipc_get, gpu_ipc_open, gpu_copy_from_host,
    gpu_copy_to_host, gpu_copy_within.

Between GPUs
  Not applicable (no CUDA driver): gpu_copy_0_to_1, gpu_latency_0_to_1.

NVML
  Not applicable (no NVML): n<host>l_init, n<host>l_handle, n<host>l_link, n<host>l_p2p, n<host>l_power.
