"""The half of `stillruns autopsy` that reads stores: loaded only when a path names one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stillruns.lab.autopsy import Opener, TrialLog
from stillruns.lab.runs import stored_logs
from stillruns.model.hint import CALLER
from stillruns.model.server_log import Note


def opener(store_dir: Path | None) -> Opener:
    """Opens runs and trials of the store at `store_dir` (None: the default place), and stores that a path names."""

    found = stored_logs.opener(store_dir)

    def opened(path: str) -> tuple[Sequence[TrialLog], list[Note]]:
        if not stored_logs.is_id(path):
            CALLER.store = path  # what is printed about it is about this one
        return found(path)

    return opened
