#!/usr/bin/env bash
# Puts the Python package together from what cargo has built, ready to be on PYTHONPATH.
# usage: stage-python.sh FOLDER_WITH_THE_BUILT_LIBRARIES FOLDER_TO_MAKE
set -euo pipefail
cd "$(dirname "$0")/.."
built=${1:?folder of the built libraries}
stage=${2:?folder to make}
rm -rf "$stage"
mkdir -p "$stage"
cp -r python/ncclscope "$stage/"
rm -rf "$stage"/ncclscope/{lib,__pycache__}
mkdir "$stage/ncclscope/lib"
cp "$built/libnccl_profiler_ncclscope.so" "$stage/ncclscope/lib/libnccl-profiler-ncclscope.so"
cp "$built/lib_native.so" "$stage/ncclscope/_native.abi3.so"
