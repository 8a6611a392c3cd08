#!/usr/bin/env python3
"""What reports say that a late rank cost, beside the truth: bench/losses.py RESULTS CAPTURES [NCCLSCOPE]

RESULTS has the lines that `bench/gpu/jobs.py --plan` printed, and CAPTURES a folder for each of its jobs, by
its name, or by what follows `all_` in it. The truth of a slowed job NAME_WHAT is what its steps took longer
than those of NAME_plain, times all of its steps: those of the warm-up are slow and recorded, too. An unslowed
job should have no finding; if it has one, CUDA events of the whole run say whether the others waited for that
rank.
"""

import json
import os
import subprocess
import sys

# Steps before those that `jobs.py` measures.
WARM_UP = 5

VERDICTS = {
    "within": "within 15 %",
    "inside": "inside the interval, of ±{:.0f} %",
    "outside": "outside",
    "quiet": "no finding",
    "none": "no finding, and it lost that",
    "found": "a finding, and it was not slowed",
    "other": "another rank",
}


def jobs(path):
    for line in open(path):
        name, _, result = line.partition(" ")
        try:
            yield name, json.loads(result)
        except ValueError:
            continue


def told(scope, capture):
    """The finding of a late rank, or nothing."""
    report = subprocess.run([scope, "report", "--json", capture], capture_output=True, text=True, check=True)
    found = json.loads(report.stdout)["findings"]
    return next((f for f in found if f["kind"] == "late_rank"), None)


def verdict(truth, slow_rank, found):
    if found is None:
        return VERDICTS["quiet" if truth is None or truth <= 0 else "none"]
    if truth is None:
        return VERDICTS["found"]
    if found["rank"] != int(slow_rank):
        return VERDICTS["other"]
    loss = found["wall_us"] / 1e6
    low, high = (us / 1e6 for us in found["wall_interval_us"])
    if abs(loss - truth) <= 0.15 * truth:
        return VERDICTS["within"]
    if low <= truth <= high:
        return VERDICTS["inside"].format(100 * (high - low) / 2 / loss)
    return VERDICTS["outside"]


def main():
    results, captures = sys.argv[1:3]
    scope = sys.argv[3] if len(sys.argv) > 3 else "target/release/ncclscope"
    by_name = dict(jobs(results))
    print("| job | truth | told | verdict |\n|---|---|---|---|")
    for name, result in by_name.items():
        places = [os.path.join(captures, folder) for folder in (name, name.removeprefix("all_"))]
        capture = next((place for place in places if os.path.isdir(place)), None)
        if capture is None:
            continue
        truth = None
        if result["slow_rank"] is not None:
            twin = by_name.get(name.rpartition("_")[0] + "_plain")
            if twin is None:
                print(f"| {name} | its unslowed run is missing | | |")
                continue
            truth = (result["step_ms"] - twin["step_ms"]) * (result["steps"] + WARM_UP) / 1e3
        found = told(scope, capture)
        loss = "nothing"
        if found:
            low, high = (us / 1e6 for us in found["wall_interval_us"])
            loss = f"{found['wall_us'] / 1e6:.2f} s [{low:.2f}, {high:.2f}]"
        said = verdict(truth, result["slow_rank"], found)
        lost = "nothing" if truth is None else f"{truth:.2f} s"
        print(f"| {name} | {lost} | {loss} | {said} |", flush=True)


if __name__ == "__main__":
    main()
