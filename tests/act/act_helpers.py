"""What the tests of `act` share: a put that keeps blobs, and a look for leftovers."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from stillruns.act.environment import TRIAL
from stillruns.act.processes import environment
from stillruns.model.evidence import Evidence
from stillruns.model.spec import Timeouts
from stillruns.model.trial import TrialRecord

SERVER = Path(__file__).with_name("bad_server.py")
PATIENT = Timeouts(load=120.0, first_token=120.0, token=120.0, teardown=60.0)
"""For what is to succeed: no deadline here is reached on a machine that is merely slow."""
SOON = 60.0
"""Seconds within which what a short deadline ends is over: far less than the patience above or a server's ten
minutes, far more than a busy machine needs."""


FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall({exit}, 0)
"""
"""A program whose first thread ends alone: it has a zombie's letter from then on, and lives."""
EXIT = {"x86_64": 60, "aarch64": 93}
"""The number of exit(2), which ends one thread alone, by machine (the kernel's tables of system calls)."""


class Shelf:
    """A store of blobs in a folder, without a journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, kind: str, content: Path | bytes, source: str) -> Evidence:
        """Keep it under its digest; a file is moved away."""
        digest = hashlib.sha256(content if isinstance(content, bytes) else content.read_bytes()).hexdigest()
        blob = self.folder / digest
        if isinstance(content, bytes):
            blob.write_bytes(content)
        else:
            shutil.move(content, blob)
        return Evidence("", kind, f"sha256:{digest}", blob.stat().st_size, source)

    def read(self, record: TrialRecord, kind: str) -> bytes:
        """The bytes of the record's only evidence of this kind."""
        (item,) = [item for item in record.evidence if item.kind == kind]
        return (self.folder / item.sha256.removeprefix("sha256:")).read_bytes()


def carriers(trial: str) -> list[int]:
    """Pids of living processes that carry the marker of a trial."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if environment(pid).get(TRIAL) == trial]


def named(trial: str) -> list[int]:
    """Pids of the bad server's daemons that cleared their environment: they are called like the trial."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"{trial}\0600\0".encode():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_until(true: Callable[[], object], seconds: float = 60.0) -> bool:
    """Poll until it is true; false when the time is over."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
