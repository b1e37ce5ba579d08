"""The kernel's log: from the ring buffer where it may be read, from files and the journal otherwise."""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import RING, Tree
from stillruns.model.absence import Absence
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawFile

PROBE = Probe(
    id="kernel_log",
    applies="Linux; many distributions show it to root or the group adm only",
    reads=("/dev/kmsg", "/var/log/dmesg", "/var/log/kern.log"),
    commands=(("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic"),),
    limit=4 << 20,
)

_MOST = 16 << 20


def collect(tree: Tree, commands: Commands) -> Collected:
    """The ring buffer on the live machine; the files; and the journal only where the buffer gave nothing."""
    data = tree.read(RING, _MOST)
    if isinstance(data, Absence):
        ring = RawFile(RING, absence=data)
    else:
        ring = RawFile(RING, RING, "file", data, None, len(data))
    files = Probe(PROBE.id, PROBE.applies, PROBE.reads[1:], (), PROBE.limit)
    found = gather(tree, files, commands)
    if ring.data:
        return Collected((ring, *found.files))
    return Collected((ring, *found.files), tuple(commands.run(argv) for argv in PROBE.commands))
