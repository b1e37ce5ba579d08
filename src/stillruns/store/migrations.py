"""The version of a store's layout, and the numbered steps from one to the next.

`VERSION` holds one line, `stillruns store N`. A store that is newer than this program is refused with advice; an
older one is migrated when it is opened for writing, each step recorded in `VERSION` before the next begins.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stillruns import __version__
from stillruns.errors import StoreDamaged, StoreError, StoreNewer
from stillruns.store.disk import doing, sync_path, write_all

VERSION = 1
"""What this program writes."""

FILE = "VERSION"
_TEXT = re.compile(rb"stillruns store ([1-9]\d{0,5})\n\Z")


@dataclass(frozen=True, slots=True)
class Migration:
    """Brings a store at `path` from version `to - 1` to `to`. `step` must be repeatable: a kill may fall into it."""

    to: int
    what: str
    step: Callable[[Path], None]


MIGRATIONS: tuple[Migration, ...] = ()
"""In order, without a gap, from 2 on. Version 1 is the first; `tests/stores/v1` is a sample that must always open."""


def read_version(path: Path) -> int | None:
    """The store's version; None when there is no VERSION file. StoreDamaged when it cannot be understood."""
    with doing("read", path / FILE):
        try:
            data = (path / FILE).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    found = _TEXT.match(data)
    if not found:
        raise StoreDamaged(
            f"{path / FILE} does not say `stillruns store N`; if the rest of the store is sound, "
            f"write the line `stillruns store {VERSION}` into it."
        )
    return int(found[1])


def write_version(path: Path, version: int) -> None:
    """Write VERSION in one step, durably."""
    goal = path / FILE
    temporary = path / f"{FILE}.{secrets.token_hex(4)}"
    with doing("write", goal):
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                write_all(fd, b"stillruns store %d\n" % version)
                os.fsync(fd)
            finally:
                os.close(fd)
            temporary.replace(goal)
        finally:
            temporary.unlink(missing_ok=True)
        sync_path(path)


def check(path: Path, version: int, newest: int = VERSION) -> None:
    """StoreNewer, with advice, for a store that a newer program wrote."""
    if version > newest:
        raise StoreNewer(
            f"the store {path} has layout {version}, but stillruns {__version__} knows up to {newest}; "
            "upgrade stillruns, or use another store (--store DIR)."
        )


def migrate(path: Path, version: int, migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    """Run the steps after `version`, one by one; the version reached. StoreError when a step cannot be done."""
    for migration in migrations:
        if migration.to <= version:
            continue
        if migration.to != version + 1:
            raise StoreError(f"no migration leads from layout {version} of {path} to {version + 1}.")
        with doing(migration.what, path):
            migration.step(path)
        write_version(path, migration.to)
        version = migration.to
    return version
