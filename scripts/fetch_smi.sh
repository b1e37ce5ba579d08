#!/bin/sh
# Unpacks Debian's rocm-smi and rocm_agent_enumerator (under 1 MB to fetch) into FOLDER, for the tests that let AMD's own
# tools read the tests' fake machines: tests/lab/test_tools_real.py. Needs no root; nothing is installed.
set -eu
folder=${1:?usage: scripts/fetch_smi.sh FOLDER}
if [ -e "$folder/usr/bin/rocm_agent_enumerator" ]; then exit 0; fi
command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
    echo "fetch_smi.sh: needs apt-get and dpkg (Debian or a relative of it)" >&2
    exit 1
}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
apt-get -qq download rocm-smi librocm-smi64-1 rocminfo 2>"$work/said" || {
    echo "fetch_smi.sh: apt-get cannot fetch rocm-smi (run \`apt-get update\`?): $(tail -1 "$work/said")" >&2
    exit 1
}
cd - >/dev/null
for package in "$work"/*.deb; do dpkg -x "$package" "$folder"; done
