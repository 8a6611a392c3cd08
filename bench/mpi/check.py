#!/usr/bin/env python3
"""Holds the recorder's table of MPI functions against MPI's headers: bench/mpi/check.py HEADER...

HEADER is a file with prototypes: `mpi_proto.h` of MPICH, `mpi.h` of Open MPI. Each function of the table must
have as many arguments there as in the table. Functions that a header does not have are counted.
"""

import re
import sys
from pathlib import Path

NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen".split()
source = Path(__file__).parents[2] / "crates/recorder/src/mpi/functions.rs"
table = source.read_text().rsplit("functions! {", 1)[1]
ours = {f"MPI_{name}": NUMBERS.index(takes) for name, takes in re.findall(r"(\w+) (\w+);", table)}
wrong = 0
for header in sys.argv[1:]:
    text = re.sub(r"/\*.*?\*/", " ", Path(header).read_text(), flags=re.S)
    theirs = {}
    for begin in re.finditer(r"\bint\s+(MPI_\w+)\s*\(", text):
        # Up to the bracket that closes the arguments.
        depth, arguments = 1, [""]
        for letter in text[begin.end() :]:
            depth += (letter in "([") - (letter in ")]")
            if not depth:
                break
            if letter == "," and depth == 1:
                arguments.append("")
            else:
                arguments[-1] += letter
        none = arguments in (["void"], [""])
        theirs[begin[1]] = 0 if none else len(arguments)
    there = [name for name in ours if name in theirs]
    differ = {name: (ours[name], theirs[name]) for name in there if ours[name] != theirs[name]}
    wrong += len(differ)
    print(f"{header}: {len(there)} of {len(ours)} functions, {len(differ)} with other arguments")
    for name, counts in differ.items():
        print(f"  {name}: {counts[0]} here, {counts[1]} there")
sys.exit(wrong > 0)
