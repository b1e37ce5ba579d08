"""The fields of a cell, or of a pool of cells, as values of expressions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from stillruns.judge.claims.expressions import COUNTED, FACTORS, TIMES
from stillruns.judge.claims.values import (
    Basis,
    CellGroup,
    Cells,
    Gap,
    GapKind,
    NameCounts,
    Number,
    Text,
    Value,
    nothing,
    point,
)
from stillruns.judge.statistics import blocks, sequential
from stillruns.judge.statistics.binomial import clopper_pearson
from stillruns.judge.statistics.throughput import spread
from stillruns.model.applied import Answer
from stillruns.model.observed import ObservedCell, ObservedTrial
from stillruns.model.rate import Rate

_NUMBERS = ("context", "batch", "ubatch", "threads", "predict")
UNKNOWN = "unknown"
"""The name of a phase, a component or a divergence that nothing shows: it may be any."""


def field(name: str, group: CellGroup, cells: Sequence[ObservedCell]) -> Value:
    """The value of a field of a group; what a pool's cells do not agree on is not known."""
    members = [cells[i] for i in sorted(group.cells)]
    if name in FACTORS:
        return _factor(name, members, group)
    if name in COUNTED:
        if not members:
            return nothing(*group.gaps, _untested(members, group), sides=(group.cells,))
        trials = [t for c in members for t in c.trials if t.outcome != "interrupted"]
        counted = {
            "trials": len(trials),
            "applied": sum(t.applied is Answer.YES for t in trials),
            "void": sum(t.applied is Answer.NO for t in trials),
            "unknown": sum(t.applied is Answer.UNKNOWN for t in trials),
        }
        return point(float(counted[name]), (group.cells,))
    return _measure(name, members, group, cells)


def axis(name: str, group: CellGroup, cells: Sequence[ObservedCell]) -> Value:
    """`c.axes['NAME']`; a cell without that axis has no value there, which equals nothing."""
    found = {c.axes.get(name) for c in (cells[i] for i in group.cells)}
    if len(found) != 1:
        return Text(None, gaps=frozenset({_open(group, cells, f"its cells differ in {name}")}))
    value = found.pop()
    if value is None:
        return Text(frozenset())
    number = None if isinstance(value, (bool, str)) else float(value)
    return Text(frozenset({str(value)}), number, value if isinstance(value, bool) else None)


def label(group: CellGroup, cells: Sequence[ObservedCell]) -> str:
    """A name for a group in sentences: the cell's id, or what its cells share."""
    members = [cells[i] for i in sorted(group.cells)]
    if len(members) == 1:
        return members[0].id
    if not members:
        return "no cell"
    names = []
    for factor in ("backend", "model", "version"):
        values = {c.factors.get(factor) for c in members}
        if len(values) == 1 and None not in values:
            names.append(f"{factor}={values.pop()}")
    sides = {c.side for c in members}
    if len(sides) == 1 and names[:1] != [f"backend={next(iter(sides))}"]:
        names = [f"side={sides.pop()}"]  # several sides may have one backend
    layers = sorted({str(c.layers) for c in members})
    return ",".join([*names[:1], f"gpu_layers={'|'.join(layers)}"]) + f" ({len(members)} cells)"


def rate_of(basis: Basis, level: float = 0.95) -> Rate | None:
    """The interval that the counts allow: exact where their number was fixed, else the confidence sequence."""
    if basis.fixed and level == 0.95:
        return blocks.widened(clopper_pearson(basis.failures, basis.n), basis.blocks)
    return blocks.widened(sequential.confidence_sequence(basis.failures, basis.n, level), basis.blocks)


def basis_of(what: str, members: Iterable[ObservedCell], cells: Cells) -> Basis:
    """The counts of a group for one kind of failure."""
    known = list(members)
    applied = [t for c in known for t in c.applied]
    failed = failures(what, applied)
    shared = blocks.counts(zip(blocks.block_of(applied), failed, strict=False))
    return Basis(what, sum(failed), len(applied), all(c.fixed for c in known if c.applied), cells, blocks=shared)


def failures(what: str, applied: Iterable[ObservedTrial]) -> list[bool]:
    """Which of the trials failed, in the sense of `rate` or of `crash_rate`."""
    return [t.crashed if what == "crash_rate" else _failed(t) for t in applied]


def _failed(trial: ObservedTrial) -> bool:
    """A trial whose answer was not kept ended well as far as is known: it is no failure, and no pass."""
    return trial.outcome != "ok"


def _factor(name: str, members: list[ObservedCell], group: CellGroup) -> Value:
    if name == "args":
        shared = set(members[0].args).intersection(*(c.args for c in members)) if members else set()
        return NameCounts(dict.fromkeys(sorted(shared), 1))
    values = {_one(name, c) for c in members}
    if len(values) != 1:
        return Text(None, gaps=frozenset({_open(group, members, f"its cells differ in {name}")}))
    value = values.pop()
    if value is None:
        return Text(None, gaps=frozenset({_open(group, members, f"{name} is not known")}))
    if name in ("layers", "gpu_layers"):
        return _layers(members[0])
    if name == "placed":
        return point(float(value))
    if name in _NUMBERS:
        return point(float(value)) if _numeric(value) else nothing(_open(group, members, f"{name} is {value}"))
    if name == "backend":
        return Text(frozenset({value, members[0].side}))
    if name == "model":
        given = {c.model for c in members}
        return Text(frozenset({value, *given} if len(given) == 1 and "" not in given else {value}))
    return Text(frozenset({value}))


def _one(name: str, cell: ObservedCell) -> str | None:
    if name in ("layers", "gpu_layers"):
        told = cell.layers != "unknown" and (name == "layers" or cell.shows_asked)
        return str(cell.layers) if told else None
    if name == "placed":
        return None if cell.placed is None else str(cell.placed)
    return cell.side if name == "side" else cell.factors.get(name)


def _layers(cell: ObservedCell) -> Text:
    """`none` offloads nothing; `all` and `auto` are more than any number unless the placement was seen."""
    asked = cell.layers
    if asked == "none":
        return Text(frozenset({"none"}), 0.0)
    if asked in ("all", "auto"):
        return Text(frozenset({asked}), float(cell.placed) if cell.placed is not None else math.inf)
    return Text(frozenset({str(asked)}), float(asked) if _numeric(str(asked)) else None)


def _numeric(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _measure(name: str, members: list[ObservedCell], group: CellGroup, cells: Sequence[ObservedCell]) -> Value:
    side = (group.cells,)
    applied = [t for c in members for t in c.applied]
    gaps = set(group.gaps)
    if not applied:
        gaps.add(_untested(members, group))
    gone = frozenset(gaps)
    maybe = sum(len(cells[i].applied) for i in group.maybe)
    if (maybe or group.chosen) and (name in TIMES or name in ("rate", "crash_rate", "throughput")):
        return Number(0.0, math.inf, gone, side, None, (0.0, math.inf))
    if name in ("rate", "crash_rate"):
        basis = basis_of(name, members, group.cells)
        rate = rate_of(basis)
        if rate is None:
            return Number(0.0, 1.0, gone, side, basis, (0.0, 1.0))
        return Number(rate.low, rate.high, gone, side, basis, (rate.low, rate.high))
    if name == "throughput":
        measured = spread(speeds(members))
        if measured is None:
            why = _untested(members, group) if not applied else _open(group, members, "has no two speeds to compare")
            return Number(0.0, math.inf, gone | {why}, side, None, (0.0, math.inf))
        return Number(measured.low, measured.high, gone, side, None, (measured.low, measured.high), speed=True)
    if name in TIMES:
        return _times(name, applied, gone, group, members)
    if name in ("outcome", "phase", "component", "divergence"):
        counts = _names(name, applied, members)
        missing = (
            {_open(group, members, f"{name} is unknown in {counts[UNKNOWN]} of its trials")}
            if counts.get(UNKNOWN)
            else ()
        )
        return NameCounts(counts, gone, side, frozenset(missing))
    number = {
        "passed": sum(t.passed for t in applied),
        "failed": sum(_failed(t) for t in applied),
        "crashed": sum(t.crashed for t in applied),
        "wrong": sum(t.outcome == "wrong_output" for t in applied),
    }[name]
    if gone and not applied:
        return nothing(*gone, sides=side)
    unsure = _unsure(name, applied)
    if unsure:
        gone |= {_open(group, members, f"the output of {unsure} of its trials is unknown")}
    return Number(number, number + unsure + maybe, gone, side)


def _unsure(name: str, applied: list[ObservedTrial]) -> int:
    """How many trials ended well with an output that nobody judged: each may be one more that is wrong, or that
    passed."""
    ended = [t for t in applied if t.outcome == "ok"]
    if name == "wrong":
        return sum(t.output in (None, UNKNOWN) for t in ended)
    return sum(not t.passed for t in ended) if name == "passed" else 0


def seconds(name: str, trial: ObservedTrial) -> float | None:
    """One of TIMES of a trial that crashed; None where nothing tells."""
    return {"time_to_failure": trial.lived, "client_seconds": trial.seconds, "waited": trial.waited}[name]


def _times(
    name: str, applied: list[ObservedTrial], gone: frozenset[Gap], group: CellGroup, members: list[ObservedCell]
) -> Number:
    """The shortest and the longest: what a time that is always the same must not differ in."""
    known = [seconds(name, t) for t in applied if t.crashed]
    told = [value for value in known if value is not None]
    if not told or len(told) < len(known):
        why = "has no time of a death" if applied else "no trial was applied"
        gone |= {_open(group, members, why)}
        return Number(0.0, math.inf, gone, (group.cells,), None, (0.0, math.inf))
    return Number(min(told), max(told), gone, (group.cells,), None, (min(told), max(told)))


def speeds(members: Iterable[ObservedCell]) -> list[float]:
    """Tokens per second of the applied trials that ended well."""
    ended = (t for c in members for t in c.applied if t.outcome == "ok")
    return [t.tokens_per_second for t in ended if t.tokens_per_second is not None]


def _names(name: str, applied: list[ObservedTrial], members: list[ObservedCell]) -> dict[str, int]:
    seen: Counter[str] = Counter()
    if name == "divergence" and applied:
        seen.update(c.checked for c in members if c.checked is not None)
    for trial in applied:
        if name == "outcome":
            seen[trial.outcome] += 1
        elif name == "divergence":
            seen[trial.output or UNKNOWN] += 1
        elif trial.outcome != "ok":
            seen.update([trial.phase] if name == "phase" else trial.components or [UNKNOWN])
    return dict(sorted(seen.items()))


def untested(group: CellGroup, cells: Sequence[ObservedCell]) -> Gap:
    """That no trial of these cells was applied, and why."""
    return _untested([cells[i] for i in sorted(group.cells)], group)


def _untested(members: Sequence[ObservedCell], group: CellGroup) -> Gap:
    if not members:
        return Gap(GapKind.UNTESTED, "no cell of these runs fits the hypothesis", group.cells)
    whys = Counter(t.why.split(": ", 1)[0] for c in members for t in c.trials if t.why)
    why = f" ({whys.most_common(1)[0][0]})" if whys else ""
    return Gap(GapKind.UNTESTED, f"{_some(members)}: no trial was applied{why}", group.cells)


def _open(group: CellGroup, members: Sequence[ObservedCell], why: str) -> Gap:
    return Gap(GapKind.UNMEASURED, f"{_some(members) or 'no cell'}: {why}", group.cells)


def _some(members: Sequence[ObservedCell]) -> str:
    """The first three cells' names."""
    return ", ".join(c.id for c in members[:3]) + (", ..." if len(members) > 3 else "")
