#!/bin/sh
# Runs tests with random delays in every process (see jitter.c): what holds only on a fast machine fails here.
#     scripts/test_jitter.sh                          the tests that start processes; half an hour or so
#     scripts/test_jitter.sh tests/act -x             these arguments for pytest
# STILLRUNS_JITTER=300 delays three times as often. Needs cc and unshare (Debian: gcc libc6-dev util-linux), and root
# or the right to make user namespaces. The library is preloaded through a file that only this run's mount namespace
# sees, so that tests which set LD_PRELOAD or start programs in a clean environment are delayed, too.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/${VENV:-.venv}/bin/python
[ -x "$python" ] || { echo "test_jitter: no tests are installed in ${VENV:-.venv}; run 'make test' once before" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O2 -shared -fPIC -o "$folder/libjitter.so" scripts/jitter.c -ldl
mkdir "$folder/etc"
user=
[ "$(id -u)" = 0 ] || user=--map-root-user
[ $# -gt 0 ] || set -- tests/act tests/cli tests/lab tests/store tests/collect tests/test_conformance.py tests/test_proc.py
unshare --mount $user sh -euc '
    folder=$1; shift
    mount -t tmpfs tmpfs "$folder/etc"
    mkdir "$folder/etc/upper" "$folder/etc/work"
    mount -t overlay overlay -o "lowerdir=/etc,upperdir=$folder/etc/upper,workdir=$folder/etc/work" /etc
    echo "$folder/libjitter.so" >/etc/ld.so.preload
    exec "$@"
' sh "$folder" "$python" -m pytest -m "not real" --timeout 900 "$@"
