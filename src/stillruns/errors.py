"""Every error that a user can meet, as one tree.

    StillrunsError                 one sentence: what, where, what to do
    ├── UsageError                 exit 2: arguments, or a spec that cannot be read
    │   └── SpecError              a spec file or one of its fields
    ├── EnvironmentLacks           exit 1: something that the job needs is not on this machine
    ├── StoreError                 exit 3: the store cannot be read or written
    │   ├── StoreBusy              another writer holds this run
    │   ├── StoreDamaged           a record or blob does not match its digest
    │   └── StoreNewer             written by a newer stillruns
    ├── FormatError                bytes that are not what they claim to be (offset included)
    ├── CatalogueError             shipped data that breaks its own rules
    └── Interrupted                exit 130: Ctrl-C, state kept

Exit codes are DESIGN's: 0 complete, 1 the answer is no or the job could not be completed, 2 usage,
3 the tool itself failed, 130 interrupted.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns to its caller."""

    COMPLETE = 0
    NO = 1
    USAGE = 2
    FAILED = 3
    INTERRUPTED = 130


class StillrunsError(Exception):
    """Base of all; the message is one sentence that says what, where and what to do."""

    exit_code: ExitCode = ExitCode.FAILED


class UsageError(StillrunsError):
    """The command line or an input file asks for something that cannot be done."""

    exit_code = ExitCode.USAGE


class SpecError(UsageError):
    """A spec file that cannot be read, or a field of it that makes no sense."""


class EnvironmentLacks(StillrunsError):
    """A program, driver, permission or file that the job needs is not on this machine."""

    exit_code = ExitCode.NO


class StoreError(StillrunsError):
    """The store cannot be read or written."""


class StoreBusy(StoreError):
    """Another living process writes to the same run."""


class StoreDamaged(StoreError):
    """A record or a blob does not match its digest."""


class StoreNewer(StoreError):
    """The store was written by a newer version of this program."""


class FormatError(StillrunsError):
    """Bytes are not what they claim to be.

    `offset` is the place, in bytes from the start of the input, or None when no single place is at fault.
    """

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"{message} (at offset {offset:#x})")
        self.offset = offset


class CatalogueError(StillrunsError):
    """Shipped catalogue data breaks its own rules."""


class Interrupted(StillrunsError):
    """The user pressed Ctrl-C; what was recorded so far is kept, in `run` where a run had begun."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self, message: str, run: str = "") -> None:
        super().__init__(message)
        self.run = run
