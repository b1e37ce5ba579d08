"""A TOML file that a person wrote, or got from someone: tables, or one sentence of why not."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from stillruns.errors import SpecError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST = 4 << 20
"""Bytes; a prompt may be long, a book is not."""
MOST_DOTS = 200
"""Parts of a key. The parser's time grows with the square of their number, its stack with the depth of values."""

_DOTTED = re.compile(r"[\w.\"'-]+")


def text(path: Path, what: str) -> str:
    """The file's text. Raises SpecError, `what` says what it was to be ("the spec")."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise SpecError(f"cannot read {what} {path}: {(error.strerror or str(error)).lower()}") from error
    if len(data) > LARGEST:
        raise SpecError(f"cannot read {what} {path}: it has more than {LARGEST >> 20} MiB; give a TOML file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"cannot read {what} {path}: {error}; give a TOML file in UTF-8") from error


def tables(text: str, path: Path) -> dict[str, Any]:
    """The text's tables. Raises SpecError where it is no TOML, or nested beyond what anybody writes."""
    if text.count(".") > MOST_DOTS and any(found[0].count(".") > MOST_DOTS for found in _DOTTED.finditer(text)):
        raise SpecError(f"{path} is not valid TOML: it has a name of more than {MOST_DOTS} parts")
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise SpecError(f"{path} is not valid TOML: its values are nested too deeply") from error
