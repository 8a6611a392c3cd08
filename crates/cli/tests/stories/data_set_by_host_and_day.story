# Parquet as a data set, in folders by host and day. Nothing is overwritten, and what does not fit says why.
ranks 4
virtual_time
hosts 2
host_clock 1 3s
all_reduce 1MiB x3
--- fake-nccl play job
announced 12, ABI v5
--- ncclscope export capture --to parquet --partition host,day -o calls
2| 12 calls written to calls
--- find calls -type f | sed 's/day=[0-9-]*/day=DAY/' | sort -u
calls/host=fake-host-0/day=DAY/part-0.parquet
calls/host=fake-host-1/day=DAY/part-0.parquet
--- ncclscope export capture --to parquet --partition host -o calls
2| error: `calls`: expected a new or an empty folder, found an earlier export
2|   hint: name another one with `-o FOLDER`, or replace the files with `--force`
[exit 2]
--- ncclscope export capture --to parquet --partition communicator,host,hour -o calls --force
2| 12 calls written to calls
--- find calls -type f | sed 's/communicator=[0-9a-f]*/communicator=ID/; s/hour=[0-9-]*T[0-9]*/hour=HOUR/' | sort -u
calls/communicator=ID/host=fake-host-0/hour=HOUR/part-0.parquet
calls/communicator=ID/host=fake-host-1/hour=HOUR/part-0.parquet
--- ncclscope export capture --table all --partition host,day -o all 2>/dev/null; find all -type f | sed 's/day=[0-9-]*/day=DAY/' | sort -u
all/calls/host=fake-host-0/day=DAY/part-0.parquet
all/calls/host=fake-host-1/day=DAY/part-0.parquet
all/operations.parquet
all/ranks/host=fake-host-0/part-0.parquet
all/ranks/host=fake-host-1/part-0.parquet
--- ncclscope export capture --to parquet --table ranks --partition host,day -o ranks
2| error: `--partition`: expected what the table of ranks can be divided by (`host`), found `day`
[exit 2]
--- ncclscope export capture --table all --partition host,host -o twice
2| error: `--partition`: expected each column once, found `host` twice
[exit 2]
--- ncclscope export capture --partition host -o calls.parquet
2| error: expected a folder with `--partition`, found `calls.parquet`, which is one file
2|   hint: name a folder with `-o FOLDER`
[exit 2]
--- ncclscope export capture --partition host -o calls.csv
2| error: expected `--partition` with `--to parquet`, found it with `csv`
[exit 2]
