"""Hypotheses from a spec, a file of their own, or the library by name; each checked before it is taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from stillruns.catalogue.stock_hypotheses import shipped_hypotheses
from stillruns.errors import SpecError
from stillruns.judge.claims import hypotheses
from stillruns.lab.specs import toml_file
from stillruns.model.spec import HypothesisSpec


class HypothesisTable(msgspec.Struct, forbid_unknown_fields=True):
    """A `[[hypothesis]]` table: four texts, or `use` alone."""

    id: str = ""
    text: str = ""
    predicts: str = ""
    refuted_if: str = ""
    use: str = ""


def check(entries: Sequence[HypothesisTable], place: str) -> tuple[HypothesisSpec, ...]:
    """The hypotheses of a document. Raises SpecError for one that is incomplete, not of the language, or there
    twice."""
    found: list[HypothesisSpec] = []
    for entry in entries:
        hypothesis = _one(entry, place)
        hypotheses.check(hypothesis, place)
        if any(h.id == hypothesis.id for h in found):
            raise SpecError(f"{place}: the hypothesis {hypothesis.id} is given twice")
        found.append(hypothesis)
    return tuple(found)


def load(path: Path) -> tuple[HypothesisSpec, ...]:
    """The `[[hypothesis]]` tables of a file: of their own, or of a spec. Raises SpecError."""
    raw = toml_file.tables(toml_file.text(path, "the hypotheses in"), path)
    try:
        entries = msgspec.convert(raw.get("hypothesis", []), list[HypothesisTable])
    except msgspec.ValidationError as error:
        raise SpecError(f"{path}: hypothesis: {error}") from error
    if not entries:
        raise SpecError(f"{path} has no [[hypothesis]]; see docs/hypotheses.md")
    return check(entries, str(path))


def library(names: Sequence[str] = ()) -> tuple[HypothesisSpec, ...]:
    """Hypotheses that ship with the package, all or those named. Raises SpecError for an unknown name."""
    known = {h.id: h.spec for h in shipped_hypotheses()}
    for name in names:
        if name not in known:
            raise SpecError(f"the library has no hypothesis {name}; there are {', '.join(known)}")
    return tuple(known[name] for name in names) if names else tuple(known.values())


def _one(entry: HypothesisTable, place: str) -> HypothesisSpec:
    own = (entry.id, entry.text, entry.predicts, entry.refuted_if)
    if entry.use:
        if any(own):
            raise SpecError(f"{place}: the hypothesis with use = {entry.use!r} may have no other field")
        return library([entry.use])[0]
    for name, value in zip(("id", "text", "predicts", "refuted_if"), own, strict=True):
        if not value.strip():
            raise SpecError(f"{place}: hypothesis {entry.id or '(without id)'} has no {name}; all four are required")
    return HypothesisSpec(*own)
