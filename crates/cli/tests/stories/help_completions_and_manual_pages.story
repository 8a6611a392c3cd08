# A page of help in groups, completions that the shell takes, and a manual page for each verb.
ranks 2
all_reduce 1KiB
--- ncclscope --help | grep -v '^  '
Find the rank, GPU or network link that your distributed job waits for

Usage: ncclscope <VERB>

Record a job:

Read a capture:

Measure:

Set up your shell:

Options:

`ncclscope VERB --help` says more. The manuals are in docs/.
--- ncclscope completions bash > script; bash -n script && grep -c 'ncclscope__subcmd__report\|ncclscope,report' script | sed 's/[1-9][0-9]*/some/'
some
--- ncclscope man -o share/man/man1 2>&1; ls share/man/man1 | head -4; grep -c '^.SH' share/man/man1/ncclscope-run.1 | sed 's/[1-9]/some/'
The manual pages are in share/man/man1; next: man -M share/man/man1/.. ncclscope
ncclscope-attach.1
ncclscope-bench.1
ncclscope-collect.1
ncclscope-completions.1
some
--- ncclscope man run | grep '^.TH' | cut -d' ' -f1,2
.TH ncclscope-run
--- ncclscope man dance
2| error: expected a verb, found `dance`
2|   hint: these are known: run, attach, doctor, collect, plugin-path, report, list, hang, top, serve, startup, paths, memory, topo, diff, history, view, export, merge, mcp, explain, bench, hostbench, model, estimate, tune, judge, completions, man, help
[exit 2]
