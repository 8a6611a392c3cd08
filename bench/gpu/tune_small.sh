#!/usr/bin/env bash
# Is there a setting that beats NCCL's own choice for small AllReduces? Algorithms, protocols and numbers of
# channels, tried within one run for each size, on all GPUs:
#
#     bench/gpu/tune_small.sh OUT       # tables on stdout; OUT/SIZE.txt, .json and .html
#
# The largest gain is then tried again, alone and in another order: what won among many by luck does not win
# twice. A step is 100 equal AllReduces in a row and two sums that the host waits for. SIZES are bytes, STEPS
# the steps of a run. Needs python3, NCCL and `make` first (or NCCLSCOPE=target/debug/ncclscope); 100 s.
set -u
cd "$(dirname "$0")/../.."
out=${1:?folder for the captures}
scope=${NCCLSCOPE:-target/release/ncclscope}
mkdir -p "$out"

# tune NAME BYTES SEED OPTIONS...
tune() {
    local name=$1 bytes=$2 seed=$3 begin=$SECONDS
    shift 3
    rm -rf "${out:?}/$name"
    "$scope" tune --within --block 1000 --function all_reduce --bytes "$bytes..$bytes" --seed "$seed" \
        --timeout 40 --json --html "$out/$name.html" -o "$out/$name" "$@" -- \
        python3 bench/gpu/nccl_calls.py steps --bytes "$bytes" --steps "${STEPS:-4000}" \
        --timeout 30 ${RANKS:+--ranks "$RANKS"} >"$out/$name.json"
    echo "== $name: exit status $?, $((SECONDS - begin)) s"
    # Captures are large; what the program printed and the tuner's file stay.
    rm -rf "${out:?}/$name/capture"
    python3 - "$out/$name.json" <<'PRINT' | tee "$out/$name.txt"
import json, sys

with open(sys.argv[1]) as file:
    answer = json.load(file)
print(answer["summary"])
for of in answer["settings"]:
    against = of["against"] or {"ratio": 1, "low": 1, "high": 1}
    change = [100 * (against[key] - 1) for key in ("ratio", "low", "high")]
    print(f'{of["name"]:46} {(of["mean_us"] or 0) / 1e3:7.3f} ms {of["trials"]:4} blocks '
          + "%+6.1f %% [%+.1f, %+.1f]" % tuple(change), of["standing"], of["left_out"] or "")
print(*answer["notes"], sep="\n")
PRINT
}

sizes=${SIZES:-4096 32768 131072 262144 1048576}
for size in $sizes; do
    tune "$size" "$size" 1 --try NCCL_ALGO=Ring,Tree --try NCCL_PROTO=LL,LL128,Simple \
        --setting NCCL_MAX_NCHANNELS=4 --setting NCCL_MAX_NCHANNELS=16 --setting NCCL_MAX_NCHANNELS=32 \
        --setting 'NCCL_PROTO=LL NCCL_MAX_NCHANNELS=16' --setting 'NCCL_PROTO=LL128 NCCL_MAX_NCHANNELS=16' \
        --setting 'NCCL_PROTO=LL128 NCCL_MAX_NCHANNELS=32'
done
# The size and the setting with the largest gain that is sure.
best=$(python3 - "$out" $sizes <<'BEST'
import json, sys

gains = []
for size in sys.argv[2:]:
    try:
        with open(f"{sys.argv[1]}/{size}.json") as file:
            answer = json.load(file)
    except ValueError:
        continue
    winners = [of for of in answer["settings"] if of["arm"] == answer["winner"] and of["against"]]
    gains += [(of["against"]["high"], size, of["name"]) for of in winners]
print(*(min(gains)[1:] if gains else []))
BEST
)
echo "largest gain: ${best:-none}"
[ -n "$best" ] && tune again "${best%% *}" 2 --setting "${best#* }"
exit 0
