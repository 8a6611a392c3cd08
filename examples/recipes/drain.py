"""Which node should be drained? Names the host and GPU of what costs the run most, if it is worth it.

    python drain.py CAPTURE

Exit status: 0 nothing to drain, 1 a node is named, 2 no capture is given. Only faults of a node count: a
GPU that is busier or slower than the others, a slow link, and missing NVLinks.
"""

import sys
from typing import Optional

import ncclscope

LEAST_SHARE = 0.05
"""Of the run: a smaller loss is not worth a node."""


def node_to_drain(capture: "ncclscope.Capture") -> "Optional[dict[str, object]]":
    """Host, GPU and why; nothing if no node costs enough."""
    report = capture.report()
    wall = report.ranks.wall_us
    for finding in report.findings:
        by_hardware = finding.cause == "gpu" or finding.kind in ("slow_network", "missing_nvlink")
        worth = finding.kind == "missing_nvlink" or (
            wall is not None and (finding.wall_us or 0) >= LEAST_SHARE * wall.max
        )
        if by_hardware and worth and finding.host is not None:
            return {
                "host": finding.host,
                "gpu": finding.gpu,
                "rank": finding.rank,
                "kind": finding.kind,
                "loses_s": (finding.wall_us or 0) / 1e6,
            }
    return None


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(f"usage: python {sys.argv[0]} CAPTURE", file=sys.stderr)
        sys.exit(2)
    node = node_to_drain(ncclscope.open(sys.argv[1]))
    if node is None:
        print("no node to drain")
        sys.exit(0)
    print(" ".join(f"{name}={value}" for name, value in node.items()))
    sys.exit(1)
