"""Did the new image make the step slower? For CI: says so by its exit status.

    python check.py BEFORE AFTER

Exit status: 0 not slower, 1 slower beyond noise, 2 can't be told: too much noise, or a capture lacks calls.
"""

import sys

import ncclscope


def check(before: str, after: str, percent: float = 5) -> "tuple[int, str]":
    """The exit status, and why."""
    runs = {path: ncclscope.open(path) for path in (before, after)}
    for path, run in runs.items():
        done = run.report().completeness
        if done.recorded < done.announced:
            return 2, f"{path}: {done.recorded} of {done.announced} calls recorded"
    changes = ncclscope.diff(runs[before], runs[after], fail_on=[f"slower={percent:g}%"])
    status: int = changes.verdict["exit_status"]
    if status == 0:
        return 0, f"not slower by more than {percent:g} %"
    if status == 2:
        return 2, f"too noisy to tell {percent:g} %: record more steps of both"
    findings = runs[after].report().findings
    why = findings[0].sentence if findings else runs[after].report().verdict
    return status, f"slower by more than {percent:g} %. {why}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(f"usage: python {sys.argv[0]} BEFORE AFTER", file=sys.stderr)
        sys.exit(2)
    status, said = check(*sys.argv[1:3])
    print(said)
    sys.exit(status)
