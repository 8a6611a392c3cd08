#!/usr/bin/env bash
# Installs what some tests need and can do without: a browser, and an emulator of aarch64.
set -euo pipefail
missing=()
command -v chromium chromium-browser google-chrome >/dev/null || missing+=(chromium)
command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    (apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}") >/dev/null 2>&1 ||
        echo "could not be installed: ${missing[*]}"
fi
