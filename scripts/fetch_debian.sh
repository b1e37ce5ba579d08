#!/bin/sh
# Unpacks Debian's packages into FOLDER, without what they depend on. Needs no root; nothing is installed.
# `-s SUITE` takes them from that suite of Debian (sid, trixie), whatever this machine is: lists of its own, and packages
# on their way, are kept in .apt-SUITE beside FOLDER; DEBIAN_MIRROR names another mirror than apt's.
set -eu
usage='usage: scripts/fetch_debian.sh [-s SUITE] FOLDER PACKAGE...'
suite=
if [ "${1:-}" = -s ]; then
    suite=${2:?$usage}
    shift 2
fi
folder=${1:?$usage}
: "${2:?$usage}"
shift

refuse() { # what is wrong, and what to do
    echo "fetch_debian.sh: $1" >&2
    exit 1
}

command -v apt-get >/dev/null && command -v dpkg >/dev/null || refuse "needs apt-get and dpkg (Debian or a relative of it)"
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt fetches as a user of its own
debs=$work
options=-qq

if [ -n "$suite" ]; then
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e $keyring ] || refuse "needs the package debian-archive-keyring ($keyring)"
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian \(.*\/debian\)\/*$/\1/p' | head -n 1)}
    [ -n "$mirror" ] ||
        refuse "apt knows no mirror of Debian; name one: DEBIAN_MIRROR=http://... (run \`apt-get update\`?)"
    state=$(cd "$folder/.." && pwd)/.apt-$suite
    debs=$state/debs
    mkdir -p "$state/lists/partial" "$state/archives/partial" "$debs" "$state/parts"
    printf 'deb [signed-by=%s] %s %s main\n' $keyring "$mirror" "$suite" >"$state/sources.list"
    options="$options -o Dir::State=$state -o Dir::Cache=$state -o Dir::Etc::sourcelist=$state/sources.list
        -o Dir::Etc::sourceparts=$state/parts -o Dir::Etc::preferencesparts=$state/parts
        -o APT::Architecture=amd64 -o Acquire::Languages=none -o APT::Update::Error-Mode=any"
    # shellcheck disable=SC2086 # the options are words
    if [ ! -e "$state/updated" ]; then
        apt-get $options update 2>"$work/said" || refuse "apt-get cannot read $suite of $mirror: $(tail -n 1 "$work/said")"
        touch "$state/updated"
    fi
fi

# shellcheck disable=SC2086
(cd "$debs" && apt-get $options download "$@") 2>"$work/said" ||
    refuse "apt-get cannot fetch $* (run \`apt-get update\`?): $(tail -n 1 "$work/said")"
for package in "$@"; do
    dpkg -x "$debs/${package}_"*.deb "$folder"
    rm "$debs/${package}_"*.deb
done
