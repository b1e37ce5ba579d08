"""Paths as people write them."""

from __future__ import annotations

from pathlib import Path

from stillruns.errors import UsageError


def expanded(text: str) -> Path:
    """The path with `~` and `~name` spelled out; raises UsageError for a home that is not known here."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        home = Path(text).parts[0]
        raise UsageError(f"{text}: {home} is no home that is known here; give the path in full") from error
