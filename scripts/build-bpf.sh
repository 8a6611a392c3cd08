#!/bin/sh
# Builds crates/attach/bpf/calls.*.bpf.o from calls.bpf.c: scripts/build-bpf.sh [--check]
#
# There is one object for each processor: they read different registers. The objects are in the repository,
# so that nobody needs a compiler for BPF. With --check, they are built anew and compared byte by byte. The
# compiler is zig of the package ziglang in one fixed version, so that the bytes are the same everywhere. ZIG
# names another command, for example "python3 -m ziglang".
set -eu
cd "$(dirname "$0")/../crates/attach/bpf"
zig=${ZIG:-../../../.tools/venv/bin/python -m ziglang}
wanted=0.17.0
found=$($zig version 2>/dev/null || true)
if [ "$found" != "$wanted" ]; then
    echo "build-bpf: needs zig $wanted, found '${found:-none}'" >&2
    echo "  hint: pip install ziglang==$wanted, then ZIG='python -m ziglang' $0" >&2
    exit 2
fi
object=$(mktemp)
trap 'rm -f "$object"' EXIT
# The same name as seen from the same folder: the object holds both.
for processor in x86_64 aarch64; do
    define=-D$(echo $processor | tr '[:lower:]' '[:upper:]')
    $zig cc -target bpfel-freestanding -O2 -g0 -fno-stack-protector -fno-asynchronous-unwind-tables \
        -fno-unwind-tables -Wall -Werror "$define" -c calls.bpf.c -o "$object"
    if [ "${1:-}" = --check ]; then
        cmp "$object" calls.$processor.bpf.o && echo "calls.$processor.bpf.o is what calls.bpf.c gives"
    else
        cp "$object" calls.$processor.bpf.o
    fi
done
