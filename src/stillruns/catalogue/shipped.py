"""The data files as they lie in the package, and what `checked.txt` vouches for.

`checked.txt` has a line for every TOML file: the SHA-256 of the bytes that passed the whole check, the file's name,
and for the files that programs read at every start their entries as JSON, two spaces between. Parsing TOML in Python
and checking expressions cost more than a short autopsy; the JSON is good only for exactly those bytes, so an edited
file is parsed and checked as if there were none. Nothing is written at run time. scripts/check_catalogue.py writes
the list, a test derives it again.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from stillruns.errors import CatalogueError

FOLDER = Path(__file__).parent / "data"
CHECKED = FOLDER / "checked.txt"


def names(prefix: str) -> list[str]:
    """The TOML files whose names begin with `prefix`, sorted."""
    return sorted(path.name for path in FOLDER.iterdir() if path.name.startswith(prefix) and path.suffix == ".toml")


def content(file: str) -> bytes:
    """One data file. Raises CatalogueError where it cannot be read."""
    try:
        return (FOLDER / file).read_bytes()
    except OSError as error:
        raise CatalogueError(f"the catalogue file {file} cannot be read: {error}; reinstall stillruns.") from error


def text(file: str) -> str:
    """The same as text, which is UTF-8. Raises CatalogueError as well where it is not."""
    try:
        return content(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CatalogueError(f"the catalogue file {file} cannot be read: {error}; reinstall stillruns.") from error


def digest(file: str) -> str:
    """SHA-256 of a data file, hex."""
    return hashlib.sha256(content(file)).hexdigest()


@cache
def _listed() -> dict[str, tuple[str, str]]:
    """Name -> (digest, entries as JSON or empty)."""
    try:
        lines = CHECKED.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    parts = [line.split("  ", 2) for line in lines]
    return {part[1]: (part[0], part[2] if len(part) > 2 else "") for part in parts if len(part) > 1}


@cache
def checked(file: str) -> bool:
    """Whether these very bytes passed the check of expressions and names."""
    return file in _listed() and _listed()[file][0] == digest(file)


def entries(file: str) -> str:
    """The entries of exactly these bytes as JSON; empty where the list has none or was made of other bytes."""
    return _listed()[file][1] if checked(file) else ""


def forget() -> None:
    """Read the list and the files again in this process."""
    _listed.cache_clear()
    checked.cache_clear()
