#!/usr/bin/env bash
# The long runs behind docs/reference/reliability.md, on a machine with many cores, from what
# `carry-reliability.sh` packed:
#
#     bench/gpu/reliability.sh OUT [FOLDER]
#
# FOLDER has binaries.tar.xz and root; it is .gpu/sanitize unless given.
# Needs no GPU, toolchain or network; glibc as new as where it was built. Prints a table; OUT/failures.txt has
# what failed said. Takes RUN_SECONDS (460) in all; RATE_SECONDS (60), KILLS (320), SOAK_CALLS (100 million),
# STOP_SECONDS (60) and DAMAGE_CPU_SECONDS (3600) may be less for a try, and SANITIZERS fewer. DAMAGE_SEED is
# the first seed of the random damage.
#
# The rate is measured first, alone. Then every core takes the next task from one list: kills, soak and stop,
# the tests under both sanitizers, and when there is none left, damage until the processor time that is wanted
# is used.
set -euo pipefail
out=$(realpath -m "${1:?folder for the results}")
cd "$(dirname "$0")/../.."
folder=$(realpath "${2:-.gpu/sanitize}")
deadline=$((SECONDS + ${RUN_SECONDS:-460}))
rate_seconds=${RATE_SECONDS:-60} wanted=${DAMAGE_CPU_SECONDS:-3600}
sanitizers=${SANITIZERS-thread address} ranks=8
mkdir -p "$out"
work=$(mktemp -d)
quick=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work" "$quick"' EXIT
bin=$work/bin
mkdir "$bin"
tar -C "$bin" -xJf "$folder/binaries.tar.xz"
# Where the tests were built is where they look for the repository's data.
root=$(cat "$folder/root")
if [ ! -e "$root" ]; then
    mkdir -p "$(dirname "$root")"
    ln -s "$PWD" "$root"
fi
[ -d "$root/fuzz/corpus" ] || { echo "$root: expected this repository, where the tests were built" >&2; exit \
    1; }

row() { printf '%-34s %s\n' "$@" | tee -a "$out/reliability.txt"; }
: > "$out/reliability.txt"
: > "$out/failures.txt"
row "machine" "$(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), kernel $(uname -r)"

rate() {
    NCCLSCOPE_OUT=$work/rate NCCLSCOPE_TIMING=host "$bin/release/fake-nccl" bench --json --no-kernel-ch \
        --rate 10000 --ranks $ranks \
        --channels 1 --calls 20000 --seconds "$rate_seconds" --plugin \
        "$bin/release/libnccl_profiler_ncclscope.so" \
        > "$work/rate.json" 2> "$work/rate.said" &&
        "$bin/fast/ncclscope" report --json "$work/rate" > "$work/rate.report.json" 2>> "$work/rate.said" ||
        { echo FAILED; cat "$work/rate.said" >> "$out/failures.txt"; return; }
    python3 - "$work/rate.json" "$work/rate.report.json" <<'P'
import json, sys
cases = [json.loads(line) for line in open(sys.argv[1])]
done = json.load(open(sys.argv[2]))["completeness"]
calls = [case["steady_calls"] / case["steady_seconds"] for case in cases]
span = lambda key: "%.4g to %.4g" % (min(case[key] for case in cases), max(case[key] for case in cases))
print(f"{sum(case['announced'] for case in cases)} calls made, {done['announced']} announced, "
      f"{done['recorded']} recorded, lost {done['lost']}; "
      f"{min(calls):.0f} to {max(calls):.0f} calls/s a rank; {span('call_ns')} ns a call; "
      f"recorder's thread {span('own_cpu_percent')} % of a core; "
      f"longest callback {span('max_us')} us (empty plugin {span('empty_max_us')})")
P
}
row "$ranks ranks x 10 000 calls/s, $rate_seconds s" "$(rate)"

# Tasks by line; the first ones take long without much processor time.
{
    echo kills
    echo stop
    echo soak
    for sanitizer in $sanitizers; do
        scripts/sanitize.sh $sanitizer "$bin/$sanitizer" tasks | sed "s/^/sanitize $sanitizer /"
    done
} > "$work/tasks"
echo 0 > "$work/taken"
: > "$work/sanitized"

next_of() { # FILE: raises the number in it, and prints what it was
    (
        flock 9
        local n
        n=$(cat "$1")
        echo $((n + 1)) > "$1"
        echo "$n"
    ) 9> "$1.lock"
}

ends() { # NAME ENV...: a test of the recorder's `ends`, and its last words
    local name=$1
    shift
    env TMPDIR="$work" NCCLSCOPE_PLUGIN="$bin/release/libnccl_profiler_ncclscope.so" "$@" \
        timeout $((deadline - SECONDS)) "$bin/fast/recorder" --exact "ends::$name" --nocapture \
        > "$work/$name" 2>&1 ||
        { echo "FAILED $name"; tail -n 30 "$work/$name" >> "$out/failures.txt"; return; }
    grep -oE '[0-9]+ (kills,|calls in) .*' "$work/$name" || grep -o 'test result: ok' "$work/$name"
}

play() { # a task of the list
    case $1 in
    kills) ends killed_at_any_moment_keeps_every_completed_call NCCLSCOPE_KILLS="${KILLS:-320}" > \
        "$work/row.kills" ;;
    stop) ends a_stopped_process_can_be_read_and_goes_on NCCLSCOPE_STOP_SECONDS="${STOP_SECONDS:-60}" > \
        "$work/row.stop" ;;
    soak)
        ends a_long_job_takes_no_more_memory_than_a_short_one_and_no_more_disk_than_it_may \
            NCCLSCOPE_SOAK="${SOAK_CALLS:-100000000}" > "$work/row.soak"
        ;;
    sanitize)
        TASK_SECONDS=$((deadline - SECONDS < 200 ? deadline - SECONDS : 200)) scripts/sanitize.sh "$2" \
            "$bin/$2" task "${@:3}" \
            >> "$work/sanitized" 2>> "$out/failures.txt" || true
        ;;
    esac
}

# WORKER: inputs until there are enough, by turns of random damage and of the fuzzer. Each turn prints a line:
# inputs, CPU seconds, status.
damage() {
    local worker=$1 turn seed inputs status run
    TIMEFORMAT='%U %S'
    for ((turn = 0; ; turn++)); do
        local left=$((deadline - SECONDS - 15))
        local used
        used=$(awk '{ used += $3 + $4 } END { print int(used) }' "$work"/damage.* 2> /dev/null || echo 0)
        [ $left -gt 5 ] && [ "$used" -lt "$wanted" ] || return 0
        status=0
        run=$work/run.$worker
        mkdir -p "$quick/$worker"
        if [ $((turn % 2)) = 0 ]; then
            seed=$((${DAMAGE_SEED:-20000000} + 300 * $(next_of "$work/seeds")))
            { time TMPDIR=$quick/$worker NCCLSCOPE_DAMAGE_SEED=$seed NCCLSCOPE_DAMAGE_CASES=${CHUNK:-300} \
                timeout $((left + 14)) "$bin/fast/render" --exact \
                damage::damage_of_any_kind_is_read_in_bounded_time_without_a_panic \
                --nocapture > "$run" 2>&1 || status=$?; } 2> "$run.time"
            inputs=$(grep -oE '[0-9]+ damaged captures' "$run" | cut -d ' ' -f 1 || true)
            echo "random ${inputs:-0} $(cat "$run.time") $status" >> "$work/damage.$worker"
        else
            mkdir -p "$work/corpus.$worker"
            { time TMPDIR=$quick/$worker timeout $((left + 14)) "$bin/fuzz/damaged" "$work/corpus.$worker" \
                fuzz/corpus/damaged \
                -max_total_time=$((left < 30 ? left : 30)) -max_len=16384 -timeout=30 -detect_leaks=0 \
                -print_final_stats=1 \
                -artifact_prefix="$work/found.$worker." > "$run" 2>&1 || status=$?; } 2> "$run.time"
            inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$run")
            echo "fuzzed ${inputs:-0} $(cat "$run.time") $status" >> "$work/damage.$worker"
        fi
        [ $status = 0 ] || tail -n 60 "$run" >> "$out/failures.txt"
    done
}

callbacks() { # WORKER: random callback programs for what is left of the time, at most a minute
    local left=$((deadline - SECONDS - 15)) status=0
    [ $left -gt 5 ] || return 0
    mkdir -p "$work/programs.$1"
    TMPDIR=$quick "$bin/fuzz/callbacks" "$work/programs.$1" fuzz/corpus/callbacks -max_total_time=$((left < \
        60 ? left : 60)) \
        -max_len=16384 -timeout=30 -detect_leaks=0 -print_final_stats=1 -artifact_prefix="$work/found.$1." \
        > "$work/callbacks.$1" 2>&1 || status=$?
    [ $status = 0 ] || tail -n 60 "$work/callbacks.$1" >> "$out/failures.txt"
    echo "programs $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/callbacks.$1") $status" >> \
        "$work/programs"
}

worker() {
    local n task
    while [ $SECONDS -lt $((deadline - 10)) ]; do
        n=$(next_of "$work/taken")
        task=$(sed -n "$((n + 1))p" "$work/tasks")
        [ -n "$task" ] || break
        # shellcheck disable=SC2086
        play $task
    done
    damage "$1"
    callbacks "$1"
}

echo 0 > "$work/seeds"
for ((w = 0; w < $(nproc); w++)); do worker $w & done
wait

row "SIGKILL at random moments" "$(cat "$work/row.kills" 2> /dev/null || echo 'not run')"
row "SIGSTOP, read, and on" "$(cat "$work/row.stop" 2> /dev/null || echo 'not run')"
row "soak" "$(cat "$work/row.soak" 2> /dev/null || echo 'not run')"
for sanitizer in $sanitizers; do
    all=$(grep -c "^sanitize $sanitizer " "$work/tasks" || true)
    ok=$(grep -c "^ok .* $sanitizer " "$work/sanitized" || true)
    failed=$(grep -c "^FAILED .* $sanitizer " "$work/sanitized" || true)
    row "$sanitizer sanitizer" \
        "$all tasks: $ok without a report, $failed failed, $((all - ok - failed)) not run"
done
sed 's/^/  /' <(grep '^FAILED' "$work/sanitized" || true) | tee -a "$out/reliability.txt"
for kind in random fuzzed; do
    row "damaged captures, $kind" "$(cat "$work"/damage.* 2> /dev/null | awk -v kind=$kind '
        $1 == kind { inputs += $2; cpu += $3 + $4; failed += $5 != 0 }
        END { printf "%d inputs, %d CPU seconds, %d failures", inputs, cpu, failed }')"
done
row "callback programs, fuzzed" "$(cat "$work/programs" 2> /dev/null | awk '
    { inputs += $2; failed += $3 != 0 }
    END { printf "%d inputs, %d failures", inputs, failed }')"
row "seconds in all" "$SECONDS"
if compgen -G "$work/found.*" > /dev/null; then
    tar -C "$work" -cf "$out/found.tar" $(cd "$work" && ls found.*)
fi
[ -s "$out/failures.txt" ] || rm -f "$out/failures.txt"
! grep -qE 'FAILED|[1-9][0-9]* fail' "$out/reliability.txt"
