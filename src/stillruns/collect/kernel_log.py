"""The kernel's log: from the ring buffer where it may be read, from files and the journal otherwise."""

from __future__ import annotations

import os

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.model.absence import Absence, AbsenceReason
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
    ring = ring_buffer() if tree.live else None
    files = Probe(PROBE.id, PROBE.applies, PROBE.reads[1:], (), PROBE.limit)
    found = gather(tree, files, commands)
    if ring is not None and ring.data:
        return Collected((ring, *found.files))
    asked = tuple(commands.run(argv) for argv in PROBE.commands)
    return Collected((*([ring] if ring else []), *found.files), asked)


def ring_buffer() -> RawFile:
    """/dev/kmsg from its oldest record to its newest, without waiting for more."""
    path = "/dev/kmsg"
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return RawFile(path, absence=Absence(AbsenceReason.NO_PERMISSION, f"{path} is not readable by this user"))
    except OSError as error:
        return RawFile(path, absence=Absence(AbsenceReason.NOT_INSTALLED, f"{path}: {error.strerror}"))
    parts: list[bytes] = []
    size = 0
    try:
        while size < _MOST:
            try:
                part = os.read(opened, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten while we read: go on with the next
            except OSError as error:
                if not parts:
                    reason = AbsenceReason.NO_PERMISSION if error.errno in (1, 13) else AbsenceReason.NOT_COLLECTED
                    return RawFile(path, absence=Absence(reason, f"{path}: {error.strerror}"))
                break
            parts.append(part)
            size += len(part)
    finally:
        os.close(opened)
    return RawFile(path, path, "file", b"".join(parts), None, size)
