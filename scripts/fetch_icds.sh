#!/bin/sh
# Unpacks Debian's chromium-common (31 MB to fetch) into FOLDER, for the two Vulkan drivers in it that a real
# llama-server dies of: src/stillruns/act/shim/natural.py. Needs no root; nothing is installed.
set -eu
folder=${1:?usage: scripts/fetch_icds.sh FOLDER}
if [ -e "$folder/usr/lib/chromium/libVkICD_mock_icd.so" ]; then exit 0; fi
command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
    echo "fetch_icds.sh: needs apt-get and dpkg (Debian or a relative of it)" >&2
    exit 1
}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
apt-get -qq download chromium-common 2>"$work/said" || {
    echo "fetch_icds.sh: apt-get cannot fetch chromium-common (run \`apt-get update\`?): $(tail -1 "$work/said")" >&2
    exit 1
}
cd - >/dev/null
dpkg -x "$work"/chromium-common_*.deb "$folder"
