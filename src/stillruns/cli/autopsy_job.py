"""The half of `stillruns autopsy` that reads stores: loaded only when a path names one."""

from __future__ import annotations

from pathlib import Path

from stillruns.lab.autopsy import Opener
from stillruns.lab.runs import stored_logs


def opener(store_dir: Path | None) -> Opener:
    """Opens runs and trials of the store at `store_dir` (None: the default place)."""
    return stored_logs.opener(store_dir)
