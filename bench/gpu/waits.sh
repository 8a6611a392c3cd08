#!/usr/bin/env bash
# Slow ranks and hangs of a real training job, of which the truth is known: what `report` and `hang` say of them.
#
#   bench/gpu/waits.sh OUT            # needs GPUs, python3 with torch and torchvision, and `make` first
#
# RANKS is the number of GPUs. Runs alternate slowed and unslowed (TURNS), so that what the slow rank costs is known as the difference of
# their times. Hanging jobs are asked while they hang, then killed. HOSTS_LIST has 1, and 2 for simulated hosts; HANGS empty for none.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
steps=${STEPS:-60}; slow=${SLOW_MS:-40}
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=8
train="python3 -m torch.distributed.run --nnodes 1 --master-addr 127.0.0.1 --master-port 29511 --nproc-per-node $ranks bench/gpu/ddp_densenet.py"
mkdir -p "$out"

job() { # NAME OPTIONS…: a run, and its report
    local name=$1; shift
    timeout "${LIMIT:-60}" "$scope" run -o "$out/$name" -- $train --steps "$steps" "$@" >"$out/$name.out" 2>"$out/$name.err" </dev/null
    "$scope" report "$out/$name" >"$out/$name.report" 2>&1
    "$scope" report "$out/$name" --json >"$out/$name.json"
}
hang() { # NAME OPTIONS…: what `hang` says of the job 15 s after it went wrong, and of the killed one
    local name=$1; shift
    "$scope" run -o "$out/$name" -- $train --steps 100000 "$@" >"$out/$name.out" 2>"$out/$name.err" </dev/null &
    local job=$!
    sleep "${AFTER:-35}"
    echo "== $name, $(pgrep -fc ddp_densenet.py) processes alive"
    timeout 20 "$scope" hang "$out/$name" --after 8s; echo "exit status $?"
    pkill -KILL -f ddp_densenet.py; wait $job
    echo "-- after kill -9 of all"
    timeout 20 "$scope" hang "$out/$name" | head -3
}

last=$((ranks - 1))
for hosts in ${HOSTS_LIST-1}; do
    for turn in $(seq "${TURNS:-3}"); do
        job "plain.$hosts.$turn" --hosts "$hosts"
        job "host.$hosts.$turn" --hosts "$hosts" --slow-rank 0 --slow-ms "$slow" --slow-on host
        job "gpu.$hosts.$turn" --hosts "$hosts" --slow-rank $last --slow-ms "$slow" --slow-on gpu
    done
done
python3 - "$out" "$steps" "$last" <<'P'
import glob, json, os, re, sys
out, steps, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# The first five steps are not in the job's own figure; the report has all.
def wall(name):
    found = re.search(r"([0-9.]+) s in all of them", open(f"{out}/{name}.out").read())
    return found and float(found.group(1)) * steps / (steps - 5)
for file in sorted(glob.glob(out + "/plain.*.out")):
    _, hosts, turn, _ = os.path.basename(file).split(".")
    plain = wall(f"plain.{hosts}.{turn}")
    for kind, rank in ("host", 0), ("gpu", last):
        name = f"{kind}.{hosts}.{turn}"
        slowed = wall(name)
        try:
            report = json.load(open(f"{out}/{name}.json"))
        except ValueError:
            report = {}
        arrivals = (report.get("arrivals") or {}).get("ranks", [])
        told = [r for r in arrivals if r["loss_wall_us"] is not None]
        text = ", ".join(f"rank {r['rank']} {r['loss_wall_us'] / 1e6:.3f} s {[round(x / 1e6, 3) for x in r['loss_interval_us'] or []]}" for r in told)
        if plain is None or slowed is None:
            print(f"{name}: no figure")
            continue
        right = next((r["loss_wall_us"] / 1e6 for r in told if r["rank"] == rank), None)
        error = f"{100 * (right / (slowed - plain) - 1):+.1f} %" if right else "not told"
        print(f"{name}: {plain:.3f} s, slowed rank {rank} {slowed:.3f} s, truth {slowed - plain:.3f} s; told: {text or 'nobody'}: {error}")
        print("   ", "\n    ".join(f["text"] if isinstance(f, dict) and "text" in f else str(f) for f in report.get("findings", [])[:2]))
P
[ -n "${HANGS-1}" ] || exit 0
hang skip --wrong-rank $last --wrong-step 60 --wrong skip
hang order --wrong-rank $last --wrong-step 60 --wrong order
hang dead --kill-rank $last --kill-step 60
