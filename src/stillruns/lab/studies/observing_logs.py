"""Trials of logs that came alone as the cells that hypotheses look at: groups by what the lines show, never by name.

Every factor is what some line tells, None where none does. Trials that are equal in every factor are one cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from stillruns.lab.runs import observing
from stillruns.model.backend import Backend
from stillruns.model.evidence import Ref
from stillruns.model.observed import Circumstances, ObservedCell, ObservedTrial
from stillruns.model.outcome import OutcomeKind
from stillruns.model.worklog import StudyRequest

ALWAYS = ("backend", "layers", "model", "runtime", "version", "quantisation", "device", "cpu path", "threads")
"""Factors that every condition has: where no line tells one it is unknown. Others count as unknown only where some
trial of the study tells them."""
SETTINGS = ("context", "batch", "ubatch", "flash_attention", "parallel")
_NAMELESS = re.compile(r"[01] \(unknown\)")
"""What a build outside a git checkout calls itself: any of them."""
_JOIN = re.compile(r"([-_.])[-_.]+")


class LogTrial(NamedTuple):
    """One trial of one log, the `place`-th (from 0) of its run: `text` is the line that tells its end, or empty."""

    run: str
    place: int
    request: StudyRequest
    text: str = ""


def models(trials: Sequence[LogTrial]) -> dict[str, tuple[ObservedCell, ...]]:
    """Model (its own name without the type of its weights) -> its cells, in the order of the trials."""
    factors = [_factors(t.request) for t in trials]
    _one_cpu_path(factors)
    names = _named(factors)
    groups: dict[str, list[ObservedCell]] = {}
    for trial, values in zip(trials, factors, strict=True):
        whole = {name: values.get(name) for name in names}
        groups.setdefault(str(whole["model"] or trial.request.model), []).append(_cell(trial, whole))
    return {model: _distinct(observing.merged(cells)) for model, cells in groups.items()}


def _factors(request: StudyRequest) -> dict[str, str | None]:
    told = dict(request.told)
    version = request.version
    layers = request.layers
    return {
        "backend": None if request.side is Backend.UNKNOWN else request.side.value,
        "layers": None if layers is None else str(layers),
        "model": _JOIN.sub(r"\1", observing.family(request.model)),
        "runtime": told.get("runtime"),
        "version": version.text if version.low and not _NAMELESS.fullmatch(version.low) else None,
        "engine": request.engine or None,
        "quantisation": told.get("quantisation"),
        "architecture": told.get("architecture"),
        "device": "none" if request.side is Backend.CPU else told.get("device"),
        "driver": told.get("driver"),
        "build": told.get("compiler"),
        "cpu path": told.get("cpu path"),
        "cpu library": told.get("cpu library"),
        "host": told.get("host"),
        "threads": told.get("threads"),
        **{name: told.get(name) for name in SETTINGS},
    }


def _one_cpu_path(factors: Sequence[dict[str, str | None]]) -> None:
    """The features of the CPU backend where some trial prints them; else the name of the library that all loaded."""
    library = all(f["cpu library"] for f in factors) and not any(f["cpu path"] for f in factors)
    for values in factors:
        loaded = values.pop("cpu library")
        if library:
            values["cpu path"] = loaded


def _named(factors: Sequence[Mapping[str, str | None]]) -> list[str]:
    names = dict.fromkeys(name for values in factors for name in values)
    return [name for name in names if name in ALWAYS or any(values.get(name) for values in factors)]


def _cell(trial: LogTrial, factors: dict[str, str | None]) -> ObservedCell:
    request = trial.request
    layers = request.layers
    shown = "unknown" if layers is None else f"{request.applied_layers}/{request.total_layers}"
    if request.void or request.applied_layers is None:
        shown = "unknown" if layers is None else str(layers)
    return ObservedCell(
        id=f"backend={request.side.value},layers={shown}",
        side=request.side.value,
        factors=factors,
        layers="unknown" if layers is None else layers,
        placed=None if request.void else request.applied_layers,
        trials=(_trial(trial),),
        fixed=False,
        randomised=None,
        shows_asked=request.record.asked not in (None, "auto"),
    )


def _distinct(cells: Sequence[ObservedCell]) -> tuple[ObservedCell, ...]:
    """Cells with the same backend and layers are called by what else they differ in."""
    named = []
    for cell in cells:
        alike = [c for c in cells if c.id == cell.id]
        apart = [n for n in cell.factors if len({c.factors[n] for c in alike}) > 1] if len(alike) > 1 else []
        more = "".join(f",{name}={'unknown' if cell.factors[name] is None else cell.factors[name]}" for name in apart)
        named.append(replace(cell, id=cell.id + more))
    return tuple(named)


def _trial(trial: LogTrial) -> ObservedTrial:
    request, death = trial.request, trial.request.death
    ref: Ref | None = death.ref if death else None
    return ObservedTrial(
        trial=f"{trial.run}.{trial.place + 1:04d}",
        run=trial.run,
        applied=request.applied,
        why=request.why,
        outcome=request.outcome.value,
        phase=death.phase.value if death else "unknown",
        components=tuple(c.value for c in death.components) if death else (),
        passed=False,
        output="unknown" if request.outcome is OutcomeKind.OK else None,
        tokens_per_second=request.record.rate,
        seconds=request.record.seconds or 0.0,
        tokens=request.record.tokens or 0,
        circumstances=Circumstances(server=f"{trial.run} {request.runner_ref or ''}"),
        key_ref=ref,
        key_text=trial.text,
    )
