#!/usr/bin/env bash
# Plays jobs, all items of `fake-nccl check` and the recorder's tests, everything built with a sanitizer by
# `build-sanitized.sh`; fails when it reports anything, and also when it does not find the faults of a plugin
# that has them.
#
#     scripts/sanitize.sh address|thread FOLDER               all tasks, one at once for each processor
#     scripts/sanitize.sh address|thread FOLDER tasks         their names, the long ones first
#     scripts/sanitize.sh address|thread FOLDER task NAME...  one of them
#
# A task says one line on stdout; one that fails says on stderr what its processes said. It may take
# TASK_SECONDS (300). No toolchain is needed; the tests want the repository where it was when they were built.
set -euo pipefail
sanitizer=$1 folder=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
plugin=$folder/libnccl_profiler_ncclscope.so

# What can't be played under a sanitizer.
left_out() {
    case "$sanitizer $*" in
    # Its own locks may be held when one of several threads forks, and the child then begins threads and loads
    # libraries.
    "thread "*line_10_* | "thread check fork") ;;
    # The model is of loom's own atomics; the pins are of what is shipped.
    *" test all model::"* | *" test all pins::"*) ;;
    # It makes system calls where none is allowed, and its shadow of all memory is more than what these allow.
    *line_25_* | *a_process_near_its_memory_limit_* | *a_job_killed_for_want_of_memory_*) ;;
    *) return 1 ;;
    esac
}

# Where the test's own verdict counts for nothing, only the sanitizer's: memory, waits, sizes and the pace of
# the process are measured, and the sanitizer has its part in each.
measures() {
    case $* in
    *line_24_* | "check unstopped" | *a_thousand_loads_* | *a_long_job_* | *a_neighbour_that_writes_*) ;;
    *line_01_* | *what_a_step_of_the_gpus_clock_*) ;;
    *) return 1 ;;
    esac
}

tasks() {
    {
        echo "broken plugin"
        local test item mode timing job
        for test in "$folder"/deps/*; do
            [[ $test != *.so ]] || continue
            comm -23 <("$test" --list --format terse | sort) \
                <("$test" --list --format terse --ignored | sort) |
                sed -n "s/^\(.*\): test$/test ${test##*/} \1/p"
        done
        # The error names them all.
        for item in $({ "$folder/fake-nccl" check --plugin "$plugin" --item '?' 2>&1 || true; } |
            sed -n 's/.*expected one of //p' | tr -d ,); do
            echo "check $item"
        done
        for mode in trace profile full callbacks; do
            for timing in host stamps; do
                for job in threads hosts; do echo "play $job $mode $timing"; done
            done
        done
    } | while read -r name; do left_out "$name" || echo "$name"; done
}

# Two jobs: communicators of four threads that come, go, group and are captured; and two hosts.
job() {
    case $1 in
    threads)
        cat <<'JOB'
ranks 4
per_process 4
comm pair split world every 2
repeat 200 { all_reduce 1KiB x5 ; all_reduce 64KiB comm=pair ; group { send 1MiB to=+1 ; recv 1MiB from=-1 } }
graph step { all_reduce 1KiB x4 }
replay step x20
destroy pair
all_reduce 1KiB x10
JOB
        ;;
    hosts)
        cat <<'JOB'
ranks 4
hosts 2
per_process 4
repeat 100 { all_reduce 1MiB x3 }
JOB
        ;;
    esac
}

play() { # JOB PLUGIN
    job "$1" > "$work/job"
    "$folder/fake-nccl" play "$work/job" --fast --plugin "$2"
}

# What the task's words mean, in a process of its own.
steps() {
    export TMPDIR=$work NCCLSCOPE_KILLS=20
    # A process that the sanitizer has reported something of ends with 66, and the report is a file, whatever
    # became of its stderr. A child that was forked from several threads may begin threads of its own: data
    # loaders do. A test calls exit() in a signal handler, as trainers do, with a thread of its own that has
    # ended.
    export TSAN_OPTIONS=exitcode=66:die_after_fork=0:report_signal_unsafe=0:report_thread_leaks=0
    TSAN_OPTIONS+=:atexit_sleep_ms=50:log_path=$work/report
    export ASAN_OPTIONS=exitcode=66:detect_leaks=0:log_path=$work/report
    unset NCCLSCOPE_PLUGIN
    if [ "$1" = test ]; then
        cd "$work"
        "$folder/deps/$2" --exact "$3" --nocapture --test-threads=1
        return
    fi
    export NCCLSCOPE_OUT=$work/capture NCCLSCOPE_QUIET=1 NCCLSCOPE_FLUSH=0.05 NCCLSCOPE_MEMORY=1MiB \
        NCCLSCOPE_MAX_SIZE=64KiB
    case $1 in
    broken) play threads "$folder/libbroken.so" ;;
    play) NCCLSCOPE_MODE=$3 NCCLSCOPE_TIMING=$4 play "$2" "$plugin" ;;
    check) cd "$work" && "$folder/fake-nccl" check --plugin "$plugin" --item "$2" ;;
    esac
}

task() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    local began=$SECONDS status=0 reports
    export -f job play steps
    export work folder plugin
    timeout -k 5 "${TASK_SECONDS:-300}" bash -euo pipefail -c 'steps "$@"' - "$@" > "$work/said" 2>&1 ||
        status=$?
    reports=$(find "$work" -maxdepth 1 -name 'report.*')
    if [ "$1" = broken ]; then
        [ -z "$reports" ] || status=0
        [ -n "$reports" ] || status="the faults of broken_plugin were not found, so nothing would be"
    elif [ -n "$reports" ]; then
        status="the sanitizer reports"
    elif [ "$status" != 124 ] && measures "$@"; then
        status=0
    elif [ "$status" = 124 ]; then
        status="took too long"
    fi
    if [ "$status" = 0 ]; then
        echo "ok $((SECONDS - began)) s $sanitizer $*"
    else
        echo "FAILED ($status) $((SECONDS - began)) s $sanitizer $*"
        # shellcheck disable=SC2086
        { cut -c1-400 "$work/said" | grep -v '^pass' | tail -n 60 || true; cat $reports /dev/null |
            head -n 150; } >&2
        return 1
    fi
}

case ${1:-all} in
tasks) tasks ;;
task) shift && task "$@" ;;
all)
    tasks | xargs -P "$(nproc)" -L 1 scripts/sanitize.sh "$sanitizer" "$folder" task
    echo "$sanitizer: $(tasks | wc -l) tasks, nothing found"
    ;;
esac
