"""One trial as the JSON document `stillruns.trial/1` (docs/schemas/trial.json)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stillruns.model.trial import TrialRecord
from stillruns.model.verdict import TrialVerdict
from stillruns.report.numbers import rounded


def document(
    record: TrialRecord, verdict: TrialVerdict, excerpts: Mapping[str, str], paths: Mapping[str, str]
) -> dict[str, Any]:
    """The raw record, the verdict, the lines that refs name, and the files of the evidence."""
    body = rounded(
        {
            "schema": "stillruns.trial/1",
            "trial": record.trial,
            "record": msgspec.to_builtins(record),
            "verdict": msgspec.to_builtins(verdict),
            "excerpts": [{"ref": ref, "text": text} for ref, text in excerpts.items()],
            "files": dict(paths),
        }
    )
    assert isinstance(body, dict)
    return body
