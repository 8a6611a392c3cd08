#!/usr/bin/env bash
# Slow ranks and hangs of a real training job, of which the truth is known: what `report` and `hang` say of
# them.
#
#   bench/gpu/waits.sh OUT            # needs GPUs, cc, python3 with torch and torchvision, and `make` first
#
# RANKS is the number of GPUs, or of processes that share them. Runs alternate slowed and unslowed (TURNS), so
# that what the slow rank costs is known as the difference of their times. BATCH is of pictures per GPU: a
# step of few is bound by its host, one of 256 by its GPU. HOSTS_LIST has 1, and more for simulated hosts,
# between which NCCL uses sockets: there one rank's way out is slowed too, to LINK_MBPS megabytes a second.
# Jobs that hang are asked SETTLE seconds after they went wrong, then killed; HANGS names them, and with
# HANG_HOSTS above 1 one is among them in which nothing leaves a rank after STOP_MB.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU')}
steps=${STEPS:-60}; slow=${SLOW_MS:-40}; batch=${BATCH:-32}
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=8
train="python3 -m torch.distributed.run --nnodes 1 --master-addr 127.0.0.1 --master-port 29511"
train+=" --nproc-per-node $ranks bench/gpu/ddp_densenet.py --batch $batch"
mkdir -p "$out"
link=$(realpath "$out")/slow_link.so
cc -O2 -shared -fPIC -o "$link" bench/gpu/slow_link.c -ldl -lpthread

job() { # NAME OPTIONS…: a run, and its report
    local name=$1; shift
    timeout "${LIMIT:-60}" "$scope" run -o "$out/$name" -- $train --steps "$steps" "$@" >"$out/$name.out" \
        2>"$out/$name.err" </dev/null
    "$scope" report "$out/$name" >"$out/$name.report" 2>&1
    "$scope" report "$out/$name" --json >"$out/$name.json"
}
hang() { # NAME OPTIONS…: what `hang` says of the job some time after it went wrong, and of the killed one
    local name=$1 waited=0; shift
    "$scope" run -o "$out/$name" -- $train --steps 100000 --hosts "${HANG_HOSTS:-1}" "$@" >"$out/$name.out" \
        2>"$out/$name.err" </dev/null &
    local job=$!
    until grep -q "goes wrong now" "$out/$name.err" || [ $((waited += 1)) -gt "${LIMIT:-60}" ]; do
        sleep 1
    done
    sleep "${SETTLE:-10}"
    echo "== $name, $(pgrep -fc ddp_densenet.py) processes alive, ${SETTLE:-10} s after it went wrong"
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
        [ "$hosts" = 1 ] || SLOW_LINK_MBPS=${LINK_MBPS:-500} job "link.$hosts.$turn" --hosts "$hosts" \
            --slow-link "$link" --link-rank $last
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
    for kind, rank in ("host", 0), ("gpu", last), ("link", last):
        name = f"{kind}.{hosts}.{turn}"
        if not os.path.exists(f"{out}/{name}.out"):
            continue
        slowed = wall(name)
        try:
            report = json.load(open(f"{out}/{name}.json"))
        except (ValueError, OSError):
            report = {}
        found = (report.get("arrivals") or {}).get("links" if kind == "link" else "ranks", [])
        told = [r for r in found if r["loss_wall_us"] is not None]
        interval = lambda r: [round(x / 1e6, 3) for x in r["loss_interval_us"] or []]
        text = ", ".join(f"rank {r['rank']} {r['loss_wall_us'] / 1e6:.3f} s {interval(r)}" for r in told)
        if plain is None or slowed is None:
            print(f"{name}: no figure")
            continue
        right = next((r["loss_wall_us"] / 1e6 for r in told if r["rank"] == rank), None)
        error = f"{100 * (right / (slowed - plain) - 1):+.1f} %" if right else "not told"
        print(f"{name}: {plain:.3f} s, slowed rank {rank} {slowed:.3f} s, truth {slowed - plain:.3f} s; "
              f"told: {text or 'nobody'}: {error}")
        for finding in report.get("findings", [])[:2]:
            print("   ", finding["sentence"], finding["evidence"])
P
for name in ${HANGS-skip order dead link}; do
    case $name in
    skip | order) hang $name --wrong-rank $last --wrong-step "${WRONG_STEP:-60}" --wrong $name ;;
    dead) hang $name --kill-rank $last --kill-step "${WRONG_STEP:-60}" ;;
    link) [ "${HANG_HOSTS:-1}" = 1 ] || SLOW_LINK_STOP_MB=${STOP_MB:-500} hang $name --slow-link "$link" \
        --link-rank $last ;;
    esac
done
