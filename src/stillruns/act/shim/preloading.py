"""A path of the fault library that LD_PRELOAD can hold: a store may lie in a folder with spaces in its name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stillruns.errors import EnvironmentLacks

SEPARATORS = " :"
"""What parts the names in LD_PRELOAD, with no way to quote it (ld.so(8))."""
SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  parents of a new folder that is ours alone
"""Where a link to the library may lie when TMPDIR has such a name, too."""


def holds(path: Path) -> bool:
    """Whether LD_PRELOAD can hold it."""
    return not any(separator in str(path) for separator in SEPARATORS)


@contextmanager
def reachable(library: Path) -> Iterator[Path]:
    """The library's path where LD_PRELOAD can hold it, else that of a link in a folder that goes with the block.

    EnvironmentLacks where no folder for the link can be made.
    """
    if holds(library):
        yield library
        return
    with tempfile.TemporaryDirectory(prefix="stillruns-", dir=_parent(library)) as folder:
        link = Path(folder) / library.name
        link.symlink_to(library.absolute())
        yield link


def _parent(library: Path) -> str:
    """An existing folder with a plain name into which we may write."""
    for folder in (tempfile.gettempdir(), *SHARED_FOLDERS):
        if holds(Path(folder)):
            try:
                with tempfile.TemporaryFile(dir=folder):
                    return folder
            except OSError:
                continue
    raise EnvironmentLacks(
        f"LD_PRELOAD cannot hold the path {library}: use a store in a folder without spaces and colons"
    )
