#!/usr/bin/env bash
# Puts what a release publishes beside the wheels in dist/: source distribution, conda packages, SBOMs, site,
# notes and checksums. Then tries the packages from an index on this machine, with pip, uvx and pipx, and the
# conda package with the Python of CONDA_CHANNEL. Publishes nothing.
# usage: release-files.sh [CONDA_CHANNEL]     # after `make wheel`; or: make release-check
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$PWD/dist
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
ls "$dist"/ncclscope-"$version"-*.whl >/dev/null
rm -rf "$dist"/*.tar.gz "$dist"/*.conda "$dist"/*.cdx.json "$dist"/notes.md "$dist"/SHA256SUMS
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
scripts/sdist.sh .tools/venv "$dist" >/dev/null
# In a copy, because the tool writes into the folder of each crate.
tar -xzf "$dist/ncclscope-$version.tar.gz" -C "$work"
for crate in cli python recorder fake-nccl empty-plugin preload tuner; do
    (cd "$work/ncclscope-$version" && "$OLDPWD/.tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json \
        --spec-version 1.5 --override-filename bom --manifest-path "crates/$crate/Cargo.toml")
    cp "$work/ncclscope-$version/crates/$crate/bom.json" "$dist/$crate.cdx.json"
done
.tools/venv/bin/python scripts/conda.py "$dist" "$@"
.tools/python/bin/python scripts/docs_site.py "$work/site"
tar -czf "$dist/site.tar.gz" -C "$work" site
# This version's part of the changes.
awk -v version="$version" '/^## / { of = index($0, version) } of' CHANGELOG.md >"$dist/notes.md"
[ -s "$dist/notes.md" ] || { echo "error: CHANGELOG.md has no heading with $version"; exit 1; }
(cd "$dist" && sha256sum ./*.whl ./*.tar.gz ./*.conda ./*.cdx.json >SHA256SUMS)

# An index as PyPI's: one page with links.
mkdir -p "$work/index/simple/ncclscope"
cp "$dist"/*.whl "$dist/ncclscope-$version.tar.gz" "$work/index/simple/ncclscope/"
(cd "$work/index/simple/ncclscope" && for file in *; do echo "<a href=\"$file\">$file</a>"; done >index.html)
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$work/index" >"$work/served" 2>&1 &
server=$!
until port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$work/served") && [ -n "$port" ]; do sleep 0.1; done
index=http://127.0.0.1:$port/simple/
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --index-url "$index" "ncclscope==$version"
said="ncclscope $version"
[ "$("$work/venv/bin/ncclscope" --version)" = "$said" ]
tool() { env -i HOME="$work" PATH="$PATH" XDG_CACHE_HOME="$work/cache" PIPX_HOME="$work/pipx" "$@"; }
[ "$(tool .tools/venv/bin/uvx --quiet --index-url "$index" --python "$(command -v python3)" \
    "ncclscope@$version" --version)" = "$said" ]
[ "$(tool .tools/venv/bin/pipx run --quiet --index-url "$index" \
    --spec "ncclscope==$version" ncclscope --version)" = "$said" ]
grep -q 'GET /simple/ncclscope/ncclscope-.*whl' "$work/served"
cat "$dist/SHA256SUMS"
echo "$said can be published: $(du -sh "$dist" | cut -f1) in dist/"
