"""Finding, creating and opening a store."""

from __future__ import annotations

import os
from pathlib import Path

from stillruns.errors import StoreError
from stillruns.model.hint import hint
from stillruns.store.disk import doing, make_folder
from stillruns.store.migrations import FILE, VERSION, check, migrate, read_version, write_version
from stillruns.store.store import Store

_FOLDERS = ("journal", "blobs", "blobs/sha256", "blobs/temporary", "spool", "locks", "cache")


def default_path() -> Path:
    """$STILLRUNS_STORE, else $XDG_DATA_HOME/stillruns (an absolute path only, as the XDG specification wants it),
    else ~/.local/share/stillruns. Raises StoreError where that needs a home and there is none."""
    data = os.environ.get("XDG_DATA_HOME", "")
    inherited = f"{data}/stillruns" if data.startswith("/") else "~/.local/share/stillruns"
    chosen = Path(os.environ.get("STILLRUNS_STORE") or inherited)
    try:
        return chosen.expanduser()
    except RuntimeError as error:  # HOME is not set, and the system knows no user of this number (containers)
        raise StoreError(
            f"cannot tell where the store {chosen} is, since {chosen.parts[0]} is no home that is known here; name a "
            "folder with --store DIR, STILLRUNS_STORE=DIR or HOME=DIR."
        ) from error


def open_store(path: Path | None, *, create: bool = True) -> Store:
    """The store at `path` (None: `default_path()`).

    With `create`, a missing or empty folder becomes a store (mode 0700: evidence holds environments and prompts), an
    older layout is migrated, and what dead processes left in `spool/` is removed. Without, nothing is created or
    changed: the way to read a store on a read-only file system or of another user; writing to it may still work.
    Raises StoreError when there is no store or the folder holds something else, StoreNewer for one of a newer
    program.
    """
    path = (path or default_path()).absolute()  # children start in other folders
    version = read_version(path)
    if version is None:
        if not create:
            foreign = _foreign(path) if path.is_dir() else None
            if foreign is not None:
                raise StoreError(
                    f"{path} is not a store: it holds {foreign.name} and no VERSION; name one with --store DIR."
                )
            raise StoreError(
                f"there is no store at {path}; name one with --store DIR, or make one with `{hint('demo')}`."
            )
        _create(path)
        version = VERSION
    check(path, version)
    if version < VERSION:
        if not create:
            raise StoreError(
                f"the store {path} has the old layout {version}; open it once for writing to migrate it."
            )
        migrate(path, version)
    store = Store(path)
    if create:
        store.sweep()
    return store


def _create(path: Path) -> None:
    """Make the folder a store. Two processes may do this at the same time, and a kill may have cut it short before:
    VERSION comes last, and empty folders of our own names are taken over."""
    with doing("create the store", path):
        if not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(0o700, exist_ok=True)
        foreign = _foreign(path)
        if foreign is None:
            for name in _FOLDERS:
                make_folder(path / name)
    if read_version(path) is not None:  # another process was faster
        return
    if foreign is not None:
        raise StoreError(
            f"{path} is not a store: it holds {foreign.name} and no VERSION; choose a new or an empty folder."
        )
    write_version(path, VERSION)


def _foreign(path: Path) -> Path | None:
    """Something in the folder that is no part of a store."""
    return next((p for p in sorted(path.iterdir()) if not _ours(p)), None)


def _ours(path: Path) -> bool:
    if path.name.startswith(f"{FILE}."):
        return True
    return path.name in _FOLDERS and path.is_dir() and all(p.is_dir() for p in path.rglob("*"))
