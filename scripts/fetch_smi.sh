#!/bin/sh
# Unpacks Debian's rocm-smi and rocm_agent_enumerator (under 1 MB to fetch) into FOLDER, for the tests that let AMD's own
# tools read the tests' fake machines: tests/lab/machines/test_tools_real.py. Needs no root; nothing is installed.
set -eu
folder=${1:?usage: scripts/fetch_smi.sh FOLDER}
if [ -e "$folder/usr/bin/rocm_agent_enumerator" ]; then exit 0; fi
exec "$(dirname "$0")/fetch_debian.sh" "$folder" rocm-smi librocm-smi64-1 rocminfo
