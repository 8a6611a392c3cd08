#!/usr/bin/env bash
# Does with an installed ncclscope what README says, as somebody who has Python and nothing else: no Rust, no
# GPU, none of the files of this repository.
# usage: try-installed.sh FOLDER_WITH_THE_INSTALLED_COMMANDS
set -euo pipefail
bin=$(realpath -s "${1:?folder of the installed commands}")
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"
clean=(env -i HOME="$work" PATH="$bin:/usr/bin:/bin" NCCLSCOPE_QUIET=1)
run() { "${clean[@]}" "$@"; }
# What a command prints has this line.
says() {
    local line=$1
    shift
    run "$@" >said || { cat said; echo "error: it failed: $*"; exit 1; }
    grep -q -- "$line" said || { cat said; echo "error: expected \`$line\` of: $*"; exit 1; }
}

# It ends with 1 if something fails on this machine, such as a small /dev/shm.
run ncclscope doctor >said || [ $? = 1 ]
tr -s '\n ' ' ' <said | grep -q 'opens and has all 7 profiler symbols' || {
    cat said
    echo "error: doctor does not find the plugin"
    exit 1
}

job='ranks 4\nvirtual_time\nrepeat 60 { rank 2 late %s ; all_reduce 64MiB ; all_gather 16MiB }\n'
# shellcheck disable=SC2059
{ printf "$job" 0ms >job-1; printf "$job" 2ms >job-2; }
for name in 1 2; do
    says '"announced":480' ncclscope run --timing stamps -o "run-$name" -- fake-nccl play "job-$name"
done
says '480 of 480 announced calls recorded, 480 timed' ncclscope report run-1
says '^Rank 2 costs this job' ncclscope report run-2
says '^Rank 2 costs this job' ncclscope report run-2 --html report.html
grep -q '<svg' report.html
says '^run-2$' ncclscope list
says '^run-2 · 4 processes' ncclscope top run-2
says 'all 4 ranks left a trace' ncclscope doctor run-2
says '^No hang' ncclscope hang run-2
says 'because rank 2 is late' ncclscope diff run-1 run-2
run ncclscope export run-2 --to parquet -o calls
run ncclscope export run-2 --to perfetto -o job.pftrace
[ -n "$(find calls -name '*.parquet' -size +0)" ] && [ -s job.pftrace ]
run ncclscope serve run-2 --textfile job.prom --once
grep -q '^ncclscope_calls_total' job.prom

printf 'ranks 2\nall_reduce 1MiB x3\nrank 1 hang\nall_reduce 1MiB\n' >stuck
says '"announced":7' ncclscope run -o run-3 -- fake-nccl play stuck
run ncclscope hang run-3 --after 0s >said && { echo "error: hang ends with 0"; exit 1; }
grep -q '^Rank 1 has not made AllReduce' said || { cat said; exit 1; }

# The viewer's page comes from the command itself.
"${clean[@]}" ncclscope view run-2 2>address &
server=$!
until grep -q '^http://' address; do
    kill -0 "$server"
    sleep 0.1
done
says '<title>ncclscope' python3 -c \
    'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' \
    "$(grep -m1 '^http://' address)"

says '^Rank 2 costs this job' python -c \
    'import ncclscope; print(ncclscope.open("run-2").report().verdict)'
printf 'ranks 2\nall_reduce 1MiB x3\n' >short
says '6 of 6 announced calls' python -c '
import subprocess, ncclscope
with ncclscope.record("run-4") as recording:
    subprocess.run(["fake-nccl", "play", "short"], check=True)
print(recording.open().report())'
echo "$(run ncclscope --version) does what README says"
