#!/bin/sh
# Unpacks Debian's chromium-common (31 MB to fetch) into FOLDER, for the two Vulkan drivers in it that a real
# llama-server dies of: tests/act/shim/natural_crashes.py. Needs no root; nothing is installed.
set -eu
folder=${1:?usage: scripts/fetch_icds.sh FOLDER}
if [ -e "$folder/usr/lib/chromium/libVkICD_mock_icd.so" ]; then exit 0; fi
exec "$(dirname "$0")/fetch_debian.sh" "$folder" chromium-common
