"""What `stillruns trace` does once its arguments are read; its parsers are an extra, which `--help` goes without."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from stillruns.cli.output import emit_text, page
from stillruns.errors import ExitCode
from stillruns.lab import tracing
from stillruns.report import trace_text


def trace(
    option: str,
    sources: Sequence[str],
    revisions: tuple[str, str] | None,
    *,
    as_json: bool,
    store_dir: Path | None,
) -> ExitCode:
    """Print where the option takes effect, or what changed between two revisions; NO when no tree knows it."""
    given = [tracing.parse_source(s) for s in sources]
    if revisions:
        old, new = tracing.diff(option, given, *revisions, store_dir)
        if as_json:
            emit_text(json.dumps(trace_text.compare(old, new), indent=1))
        else:
            emit_text(trace_text.compare_text(old, new, page()))
        return ExitCode.COMPLETE if old.found or new.found else ExitCode.NO
    found = tracing.trace(option, given, store_dir)
    if as_json:
        emit_text(json.dumps(trace_text.document(found), indent=1))
    else:
        emit_text(trace_text.text(found, page()))
    return ExitCode.COMPLETE if found.found else ExitCode.NO
