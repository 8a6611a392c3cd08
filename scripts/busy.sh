#!/usr/bin/env bash
# Plays the tests in Rust on a machine that is busy with other things, as users' machines are, and says which
# fail, how often. Build first: `make tests-built`.
# usage: busy.sh RUNS LOAD [ARGUMENTS OF CARGO TEST]
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:?how often}
load=${2:?how many busy processes}
shift 2
[ $# -gt 0 ] || set -- --workspace --lib --bins --tests
work=$(mktemp -d)
busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
cargo test --quiet --no-run "$@"
for _ in $(seq "$load"); do
    while :; do :; done &
    busy+=($!)
done
for run in $(seq "$runs"); do
    echo "run $run of $runs, at a load of $load: cargo test $*"
    cargo test --no-fail-fast "$@" >"$work/$run" 2>&1 && continue
    # What each failed test said, and their names.
    sed -n '/^failures:$/,/^test result/p; /^error/p' "$work/$run"
    sed -n '/^failures:$/,$ s/^    \([a-z0-9_:]*\)$/\1/p' "$work/$run" | sort -u >>"$work/failed"
    [ -s "$work/failed" ] || tail -20 "$work/$run" | tee -a "$work/failed"
done
if [ -s "$work/failed" ]; then
    echo "failed, and how often in $runs runs:"
    sort "$work/failed" | uniq -c | sort -rn
    exit 1
fi
echo "no test failed in $runs runs"
