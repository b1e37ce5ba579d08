"""Running probes: one that fails costs its own layer, never the matrix."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from stillruns import proc
from stillruns.collect.gathering import Commands
from stillruns.errors import EnvironmentLacks
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.raw import RawCommand

Found = TypeVar("Found")

TIMEOUT = 8.0
"""Seconds for one tool of the machine (vulkaninfo, rpm, journalctl)."""


QUIET = {
    "MESA_SHADER_CACHE_DISABLE": "true",
    "MESA_GLSL_CACHE_DISABLE": "true",
    "CUDA_CACHE_DISABLE": "1",
    "__GL_SHADER_DISK_CACHE": "0",
}
"""For every child of `check`, which writes nothing: Mesa opens its shader cache for writing as soon as a device is
listed (seen with strace: vulkaninfo, Mesa 22.3; the second name is the older one), CUDA and NVIDIA's driver theirs at
the first compilation."""


@dataclass(slots=True)
class Guard:
    """Keeps the tracebacks of probes and parsers that failed: faults of ours are evidence too."""

    faults: list[str] = field(default_factory=list)

    def run(self, what: str, job: Callable[[], Found]) -> Found | Absence:
        """The job's answer, or an absence that says that this program failed at it."""
        try:
            return job()
        except Exception as error:
            self.faults.append(traceback.format_exc())
            return Absence(
                AbsenceReason.UNPARSABLE,
                f"reading {what} failed: {type(error).__name__}: {error}",
                "please report this with the output of --debug",
            )


class LiveCommands(Commands):
    """Runs a tool that is installed, with a time limit; no tool is needed."""

    def has(self, name: str) -> bool:
        """Whether a tool is installed."""
        return shutil.which(name) is not None

    def run(self, argv: tuple[str, ...]) -> RawCommand:
        """The tool's output; an absence where it is not installed or did not end in time."""
        if not self.has(argv[0]):
            return RawCommand(argv, absence=Absence(AbsenceReason.NOT_INSTALLED, f"{argv[0]} is not installed"))
        try:
            done = proc.run(argv, timeout=TIMEOUT, env={**os.environ, **QUIET}, cwd="/")
        except EnvironmentLacks as error:
            return RawCommand(argv, absence=Absence(AbsenceReason.NOT_INSTALLED, str(error)))
        if done.timed_out:
            detail = f"{argv[0]} did not end in {TIMEOUT:.0f} s"
            return RawCommand(argv, None, done.stdout, done.stderr, Absence(AbsenceReason.TIMED_OUT, detail))
        return RawCommand(argv, done.status, done.stdout, done.stderr)
