# Two hosts whose clocks are 3 s apart: operations bound by how much, an offset file is held against that, and an export is on one clock.
# The scripted GPUs run 200 ms behind their hosts, so that no stamp is too early on a busy machine: bounds are as wide.
ranks 4
virtual_time
hosts 2
host_clock 1 3s
lead 200ms
repeat 40 { all_reduce 1MiB time=1ms ; sleep 5ms }
sync
--- NCCLSCOPE_TIMING=stamps fake-nccl play job
announced 160, ABI v5
--- ncclscope report capture --all | sed -n '/^Clocks/,/^$/p' | awk 'NR < 3 || NF < 1 {print; next} {print $1, $5, $6, $7}'
Clocks of the hosts (µs against fake-host-0; bounds hold within 1 s, if clocks run apart by 50 ppm at most)
  host           offset       low      high from        operations windows drift_ppm_low drift_ppm_high
fake-host-1 common ends 39
--- ncclscope report capture --json | jq -c '.clocks | .reference, (.hosts[] | [.host, .source, .low_us < 3e6 and 3e6 < .high_us, (.high_us - .low_us) < 1e6, .operations, .contradicted])'
"fake-host-0"
["fake-host-1","common ends",true,true,39,null]
--- ncclscope report capture --json | jq -c '.arrivals.ranks[] | [.last_over_hosts, .last_proved]' | sort | uniq -c | sed 's/^ *//'
4 [0,null]
--- printf 'host,offset_ns,error_ns\nfake-host-0,0,1000\nfake-host-1,3000000000,1000\n' >right.csv; ncclscope report capture --offsets right.csv --json | jq -c '.clocks.hosts[] | [.host, .source, .offset_us, .given_error_us, .contradicted]'
["fake-host-1","given",3000000,2,false]
--- ncclscope report capture --offsets within=1ms --json | jq -c '.clocks.hosts[] | [.host, .source, .offset_us, .given_error_us, .contradicted]'
["fake-host-1","given",0,1000,true]
--- ncclscope report capture --offsets within=1ms | grep -A1 'offset given' | sed 's/[0-9] of [0-9] windows/N of N windows/'
  The offset given for fake-host-1, 0.0 ± 1000.0 µs against fake-host-0, contradicts the operations of N of N windows:
    it is not believed in these.
--- ncclscope export capture --to chrome -o trace.json --offsets right.csv 2>/dev/null; jq -c '.otherData.host_clocks' trace.json
{"reference":"fake-host-0","hosts":[{"host":"fake-host-1","offset_us":3000000,"error_us":2,"source":"given","contradicted":false}]}
--- jq -c '[.traceEvents[] | select(.cat == "cpu_op") | .ts] | (max - min) < 2e6' trace.json
true
--- echo 'fake-host-0;0' >odd.csv; ncclscope report capture --offsets odd.csv
2| error: `odd.csv`: line 1: expected `host,offset_ns,error_ns` with whole numbers, found `fake-host-0;0`
2|   hint: `host,offset_ns,error_ns` in CSV or JSON; see docs/concepts/clocks.md
[exit 2]
--- ncclscope report capture --offsets not-there
2| error: `not-there` can't be read: No such file or directory (os error 2)
2|   hint: name a file of host, offset_ns and error_ns, or say `within=100us`
[exit 2]
--- ncclscope export capture --to parquet -o calls --offsets right.csv
2| error: expected `--offsets` with a time line, found it with a table of times as they were recorded
2|   hint: `--to perfetto` and `--to chrome` move the times of all hosts onto one clock
[exit 2]
