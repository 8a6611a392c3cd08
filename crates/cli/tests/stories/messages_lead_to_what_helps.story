# Each message ends with a command that helps: it can be copied, and it works.
ranks 2
virtual_time
all_reduce 1KiB x10
--- NCCLSCOPE_MODE=profile fake-nccl play job
announced 20, ABI v5
--- ncclscope report capture | tail -n 1
Next: ncclscope report capture --all
--- ncclscope report capture | tail -n 1 | sed 's/^Next: //' | sh >/dev/null

--- cp -r capture "a b"; ncclscope report "a b" | tail -n 1
Next: ncclscope report 'a b' --all
--- mkdir empty; ncclscope report empty
2| error: `empty`: expected a capture with a readable trace file, found no trace file
2|   hint: `ncclscope doctor empty` says why; a trace file appears with the first communicator of a process
[exit 2]
--- ncclscope collect empty
2| <host>: 0 adopted, 0 alive, 0 elsewhere; next: ncclscope doctor empty
--- ncclscope doctor empty | tail -n 1
Next: ncclscope doctor, in the job's environment
--- ncclscope run -o job -- true
2| ncclscope: note: `job` is no folder, so this capture is in `job-2`
2| ncclscope: nothing was recorded, so there is no capture: no process of the program loaded NCCL's profiler plugin. Did it use NCCL, from 2.23 on, on more than one GPU?
2|   next: ncclscope doctor
--- ncclscope run -o none -- true; test ! -e none
2| ncclscope: nothing was recorded, so there is no capture: no process of the program loaded NCCL's profiler plugin. Did it use NCCL, from 2.23 on, on more than one GPU?
2|   next: ncclscope doctor
--- mkdir none; cd none; ncclscope report
2| error: there is no capture in this folder or below
2|   hint: name a capture folder; `ncclscope run -- COMMAND` records one
[exit 2]
--- ncclscope repot capture
2| error: unrecognized subcommand 'repot'
2| 
2|   tip: some similar subcommands exist: 'export', 'report'
2| 
2| Usage: ncclscope <VERB>
2| 
2| For more information, try 'ncclscope --help'.
[exit 2]
--- ncclscope report capture --colour
2| error: unexpected argument '--colour' found
2| 
2|   tip: a similar argument exists: '--color'
2| 
2| Usage: ncclscope report --color <WHEN> <DIR>
2| 
2| For more information, try 'ncclscope report --help'.
[exit 2]
--- ncclscope explain no_stmp
2| error: expected a word of a report, found `no_stmp`
2|   hint: `ncclscope explain no_stamp`
[exit 2]
--- ncclscope report capture --html nowhere/page.html
2| error: `nowhere/page.html` can't be written: its folder is not there
2|   hint: name a file in a folder that is there and can be written
[exit 2]
