"""What `stillruns run --plan` and `--trials-for` do once their arguments are read."""

from __future__ import annotations

from pathlib import Path

from stillruns.cli.output import emit_json, emit_text, page
from stillruns.lab import planned
from stillruns.lab.specs import spec_file
from stillruns.report import plan_text


def plan(spec: Path, *, as_json: bool) -> None:
    """`stillruns run SPEC --plan`: no store is opened, nothing is started."""
    found = planned.plan(spec_file.load(spec))
    emit_json(plan_text.document(found, found.question)) if as_json else emit_text(plan_text.text(found, page()))


def trials_for(text: str, *, as_json: bool) -> None:
    """`stillruns run --trials-for 5%,50%`."""
    found = planned.question(planned.rates(text))
    emit_json(plan_text.document(None, found)) if as_json else emit_text("\n".join(page().line(found.sentence)))
