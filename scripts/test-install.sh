#!/usr/bin/env bash
# Installs a fresh checkout into an empty environment, as `pip install .` of README does, then a source
# distribution into another one, then a conda package, and tries what they bring. Compiles nothing: pip,
# python/build_backend.py and maturin run as for a user, and ask a `cargo` that answers with what is built
# already.
# usage: test-install.sh FOLDER_WITH_THE_BUILT_PROGRAMS
set -euo pipefail
cd "$(dirname "$0")/.."
built=$(realpath "${1:?folder of the built programs}")
if ! git rev-parse --git-dir >/dev/null 2>&1; then
    echo "skipped: the installation of a fresh checkout (this is no git repository)"
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/checkout" "$work/bin" "$work/target"
# What git knows of this checkout, changes included, and no file more.
tree=$(git stash create)
git archive "${tree:-HEAD}" | tar -x -C "$work/checkout"
# Without debug information, as a release build. Packing that takes minutes.
mkdir "$work/target/release"
for file in "$built"/{ncclscope,fake-nccl,lib*.so}; do
    strip --strip-debug -o "$work/target/release/$(basename "$file")" "$file"
done
cat >"$work/bin/cargo" <<'END'
#!/usr/bin/env bash
set -euo pipefail
case $1 in
build) ;;
rustc)
    package=$("$REAL_CARGO" pkgid --offline --manifest-path crates/python/Cargo.toml)
    target='"kind": ["cdylib"], "crate_types": ["cdylib"], "name": "_native", "edition": "2021"'
    profile='"opt_level": "0", "debug_assertions": true, "overflow_checks": true, "test": false'
    printf '%s' '{"reason": "compiler-artifact", "package_id": "'"$package"'", "manifest_path": ' \
        "\"$PWD/crates/python/Cargo.toml\", \"filenames\": [\"$CARGO_TARGET_DIR/lib_native.so\"]," \
        "\"target\": {$target, \"src_path\": \"$PWD/crates/python/src/lib.rs\"}, \"profile\": {$profile}," \
        '"features": [], "executable": null, "fresh": true}'
    printf '\n{"reason": "build-finished", "success": true}\n'
    ;;
*) exec "$REAL_CARGO" "$@" ;;
esac
END
chmod +x "$work/bin/cargo"
mv "$work/target/release/lib_native.so" "$work/target/"
run() { env -i HOME="$work" NCCLSCOPE_QUIET=1 "$@"; }

# pip of the environment $1, which finds the `cargo` above.
pip() {
    REAL_CARGO=$(command -v cargo) CARGO_TARGET_DIR="$work/target" PATH="$work/bin:$PATH" \
        "$work/$1/bin/pip" "${@:2}" >"$work/log" 2>&1 || {
        cat "$work/log"
        echo "error: pip ${*:2}"
        exit 1
    }
}

# Installs $1 into an empty environment $2, and tries it by its path alone, from elsewhere.
try() {
    python3 -m venv "$work/$2"
    pip "$2" install --no-deps "$1"
    (
        cd "$work"
        version=$(run "$2/bin/ncclscope" --version)
        module=$(run "$2/bin/python" -c "import ncclscope; print(ncclscope.__version__)")
        [ "ncclscope $module" = "$version" ]
        [ "$(run "$2/bin/python" -m ncclscope --version)" = "$version" ]
        [ "$(run "$2/bin/ncclscope" plugin-path)" -ef \
            "$(run "$2/bin/python" -c 'import ncclscope; print(ncclscope.plugin_path())')" ]
        echo "$3 was installed: $version"
    )
}

try "$work/checkout" venv "a fresh checkout"
scripts/try-installed.sh "$work/venv/bin" >"$work/tried" 2>&1 || { cat "$work/tried"; exit 1; }
tail -1 "$work/tried"

# As `python -m build --sdist` makes it.
mkdir "$work/dist"
python3 -m venv "$work/backend"
"$work/backend/bin/pip" install --quiet "$(sed -n 's/^requires = \["\(.*\)"\]$/\1/p' pyproject.toml)"
sdist=$(scripts/sdist.sh "$work/backend" "$work/dist")
first=$(sha256sum <"$work/dist/$sdist")
scripts/sdist.sh "$work/backend" "$work/dist" >/dev/null
[ "$(sha256sum <"$work/dist/$sdist")" = "$first" ] || {
    echo "error: two source distributions of one commit differ"
    exit 1
}
pip backend wheel --no-deps --wheel-dir "$work/wheels" "$work/dist/$sdist"
try "$work"/wheels/*.whl from_source "a source distribution of $(stat -c %s "$work/dist/$sdist") bytes"

# The same wheel as a conda package.
"$work/backend/bin/pip" install --quiet $(sed -n 's/^CONDA := //p' Makefile)
"$work/backend/bin/python" scripts/conda.py "$work/wheels"
