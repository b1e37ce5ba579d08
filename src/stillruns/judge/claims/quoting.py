"""What a claim says besides its verdict: how wide it is, what it rests on, and what should make a reader careful."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from stillruns.judge import versions
from stillruns.judge.claims import measuring
from stillruns.judge.claims.ledger import Compared, Ledger
from stillruns.judge.claims.values import CellGroup, Cells
from stillruns.judge.statistics import throughput
from stillruns.model.applied import Answer
from stillruns.model.claim import CellCounts, QuotedLine
from stillruns.model.observed import ObservedCell
from stillruns.model.wording import significant
from stillruns.model.workaround import KnownIssue

MOST_LINES = 12

_WIDTH = ("model", "quantisation", "runtime", "version", "device", "driver", "host")
"""What a claim's printed scope names, in this order."""

_QUESTION = "model model_file quantisation version threads context batch predict prompt_tokens concurrency".split()
"""Factors in which a CPU's cell and a card's have to agree for their speeds to be compared."""

_INTERNAL = ("side", "build", "model_file", "library", "placement")
"""Factors that stand for others in lists for people."""


def counts(cell: ObservedCell) -> CellCounts:
    """One row."""
    applied = cell.applied
    whole = [t for t in cell.trials if t.outcome != "interrupted"]
    basis = measuring.basis_of("rate", [cell], frozenset())
    return CellCounts(
        cell=cell.id,
        runs=tuple(sorted({t.run for t in cell.trials})),
        trials=len(whole),
        applied=len(applied),
        failed=basis.failures,
        crashed=sum(t.crashed for t in applied),
        passed=sum(t.passed for t in applied),
        output_unknown=sum(not t.passed and t.outcome == "ok" for t in applied),
        void=sum(t.applied is Answer.NO for t in whole),
        unknown=sum(t.applied is Answer.UNKNOWN for t in whole),
        rate=measuring.rate_of(basis),
    )


def summary(cell: ObservedCell) -> str:
    """`backend=rocm,num_gpu=1 (applied 3, crashed 0, passed 1, output unknown 2)`."""
    row = counts(cell)
    parts = [f"applied {row.applied}", f"crashed {row.crashed}", f"passed {row.passed}"]
    if row.output_unknown:
        parts.append(f"output unknown {row.output_unknown}")
    return f"{cell.id} ({', '.join(parts)})"


def sides(cells: Sequence[ObservedCell]) -> tuple[str, ...]:
    """The counts of all cells with layers on a device, added up by side, where one has several such cells."""
    grouped: dict[str, list[CellCounts]] = {}
    for cell in cells:
        if cell.layers not in (0, "none", "server") and cell.applied:
            grouped.setdefault(cell.side, []).append(counts(cell))
    if all(len(rows) == 1 for rows in grouped.values()):
        return ()
    names = ("applied", "crashed", "failed", "passed", "output_unknown")
    return tuple(
        f"{name}, {len(rows)} cell{'s' if len(rows) > 1 else ''} with layers on the device: "
        + ", ".join(f"{n.replace('_', ' ')} {sum(getattr(row, n) for row in rows)}" for n in names)
        for name, rows in grouped.items()
    )


def faster(used: Sequence[ObservedCell], cells: Sequence[ObservedCell]) -> tuple[str, ...]:
    """A sentence when a claim has passes with layers on a device, and no speed shows that the device helped."""
    offloaded = [c for c in used if c.layers not in (0, "none", "server") and c.applied]
    if not any(t.passed for c in offloaded for t in c.applied):
        return ()
    compared = {c.id: _compared(c, cells) for c in offloaded}
    if any(found is True for found in compared.values()):
        return ()
    slow = sum(found is False for found in compared.values())
    seen = (
        f"{slow} of {len(offloaded)} have a speed to compare, and none of these is faster"
        if slow
        else "none has a speed to compare"
    )
    return (f"no run shows the device computing faster than the CPU: of the cells with layers on it, {seen}",)


def _compared(cell: ObservedCell, cells: Sequence[ObservedCell]) -> bool | None:
    """Whether it is faster than without the device; None where there is nothing to compare."""
    base = _base(cell, cells)
    if base is None or throughput.spread(_speeds(cell)) is None or throughput.spread(_speeds(base)) is None:
        return None
    return throughput.no_faster(_speeds(cell), _speeds(base)) is None


def side(ledger: Ledger, cells: Cells) -> str:
    """A name for one side of a contrast."""
    return measuring.label(CellGroup(cells), ledger.cells)


def scope(cells: Sequence[ObservedCell]) -> str:
    """`model qwen3, version b10068, device Vulkan0`: what the cells of a claim are, and no more than that."""
    parts = []
    for name in _WIDTH:
        values = sorted({str(c.factors[name]) for c in cells if c.factors.get(name) is not None})
        if values:
            shown = " or ".join(values[:4]) + (f" or {len(values) - 4} more" if len(values) > 4 else "")
            parts.append(f"{name} {shown}")
    return ", ".join(parts) if parts else "no cell"


def driver(cells: Sequence[ObservedCell]) -> tuple[str, tuple[str, ...]]:
    """The drivers that the devices of these cells ran with (empty where no evidence names one), and the backends for
    which none is on record."""
    known: set[str] = set()
    missing: set[str] = set()
    for cell in cells:
        backend = cell.factors.get("backend")
        if backend not in ("cpu", None) and cell.layers not in (0, "none") and cell.applied:
            named = cell.factors.get("driver")
            (known if named else missing).add(named or str(backend))
    return " or ".join(sorted(known)), tuple(sorted(missing))


def not_varied(cells: Sequence[ObservedCell]) -> tuple[str, ...]:
    """`context = 512`: factors that had one value in all cells of a claim, the boot among them."""
    names = list(dict.fromkeys(name for c in cells for name in c.factors if name not in _INTERNAL))
    fixed = []
    for name in names:
        values = {c.factors.get(name) for c in cells}
        if len(values) == 1:
            value = values.pop()
            fixed.append(f"{name} = {'unknown' if value is None else value}")
    boots = {t.circumstances.boot for c in cells for t in c.applied if t.circumstances.boot}
    if len(boots) == 1:
        fixed.append("boot: all trials were made in one")
    return tuple(fixed)


def lines(cells: Sequence[ObservedCell]) -> tuple[QuotedLine, ...]:
    """The telling lines, one trial of each cell first, then more."""
    rounds: list[list[QuotedLine]] = []
    for cell in cells:
        told = [t for t in cell.trials if t.key_ref and t.outcome not in ("ok", "interrupted")]
        for place, trial in enumerate(told):
            if place == len(rounds):
                rounds.append([])
            if place < len(rounds):
                rounds[place].append(QuotedLine(f"{trial.trial} {trial.key_ref}", trial.key_text))
    return tuple([line for part in rounds for line in part][:MOST_LINES])


def warnings(cells: Sequence[ObservedCell]) -> tuple[str, ...]:
    """What should make a reader careful: shared blocks, failures of unknown condition, an order that was not drawn,
    answers that were not kept, an offloaded cell that is no faster than none."""
    found = list(blocks(cells))
    for cell in cells:
        applied = cell.applied
        unsure = [t for t in cell.trials if t.applied is Answer.UNKNOWN and t.outcome not in ("ok", "interrupted")]
        if unsure and applied:
            number = f"{len(unsure)} trial{'s' if len(unsure) > 1 else ''}"
            found.append(f"{cell.id}: {number} of unknown condition failed, and stand in no count and no rate")
        lost = sum(not t.text_kept for t in applied)
        if lost:
            found.append(f"{cell.id}: {lost} of {len(applied)} answers have tokens and no stored text")
    if any(c.randomised is False for c in cells if c.trials):
        found.append("the order of the trials was not drawn at random")
    elif any(c.randomised is None for c in cells if c.trials):
        found.append("in which order the trials were made, and whether it was drawn at random, is not known")
    return (*found, *speeds(cells))


def otherwise(cells: Sequence[ObservedCell], others: Sequence[ObservedCell]) -> tuple[str, ...]:
    """Sides on which these cells crash with layers on the device and those of another model pass: that keeps a claim
    narrow."""
    crashing = {c.side for c in cells if any(t.crashed for t in c.applied)}
    found = []
    for side in sorted(crashing):
        for model in sorted({str(c.factors.get("model")) for c in others}):
            offloaded = [
                t
                for c in others
                if c.side == side and c.factors.get("model") == model and c.placed
                for t in c.applied
            ]
            if offloaded and not any(t.crashed for t in offloaded):
                passed = sum(t.passed for t in offloaded)
                found.append(f"on {side}, {model} passed {passed} of {len(offloaded)} with layers on the device")
    return tuple(found)


def blocks(cells: Sequence[ObservedCell]) -> tuple[str, ...]:
    """Cells whose applied trials were all served by one process: they are not independent."""
    found = []
    for cell in cells:
        servers = {t.circumstances.server for t in cell.applied}
        if len(cell.applied) > 1 and len(servers) == 1 and "" not in servers:
            found.append(
                f"{cell.id}: all {len(cell.applied)} applied trials come from one server process, so its rate may be "
                "that process's own"
            )
    return tuple(found)


def times(cell: ObservedCell) -> str:
    """What the time to its crashes is made of, as a sentence; empty where nothing crashed or no time is known."""
    died = [t for t in cell.applied if t.crashed and t.lived is not None]
    if not died:
        return ""
    lived, measured = (_span(t.lived or 0.0 for t in died), _span(t.seconds for t in died))
    waits = [t.waited for t in died if t.waited > 0]
    wait = f", of which {_span(waits)} s are a wait for the memory of one that had died before" if waits else ""
    head = f"{cell.id}: {len(died)} died {lived} s after the start of the process"
    return f"{head}; the client measured {measured} s{wait}"


def speed(cell: ObservedCell) -> str:
    """Its speed with the interval, as a sentence; empty where no trial has one."""
    known = _speeds(cell)
    seen = throughput.spread(known)
    if seen is None:
        return f"{cell.id}: {significant(known[0])} tokens/s in its only trial with a speed" if known else ""
    what = "95 % interval of the median" if seen.exact else "range"
    middle, low, high = (significant(speed) for speed in (seen.median, seen.low, seen.high))
    return f"{cell.id}: {middle} tokens/s in {seen.n} trials ({what} {low} to {high})"


def _span(values: Iterable[float]) -> str:
    known = sorted(f"{value:.2f}" for value in values)
    low, high = min(known, key=float), max(known, key=float)
    return low if low == high else f"{low} to {high}"


def speeds(cells: Sequence[ObservedCell]) -> tuple[str, ...]:
    """Offloaded cells whose speed lies within the floor of the cell of the same side that offloads nothing."""
    found = []
    for cell in cells:
        if cell.layers in (0, "none", "server"):
            continue
        base = _without_layers(cell, cells)
        if base is not None:
            text = throughput.no_faster(_speeds(cell), _speeds(base))
            if text:
                found.append(f"{cell.id}: {text}")
    return tuple(found)


def against_cpu(cells: Sequence[ObservedCell]) -> tuple[str, ...]:
    """The same against the CPU's own cell, for those that the above leaves out."""
    found = []
    for cell in cells:
        if cell.layers in (0, "none", "server") or _without_layers(cell, cells) is not None:
            continue
        base = _base(cell, cells)
        text = throughput.no_faster(_speeds(cell), _speeds(base)) if base is not None else None
        if text:
            found.append(f"{cell.id}: {text}")
    return tuple(found)


def _without_layers(cell: ObservedCell, cells: Sequence[ObservedCell]) -> ObservedCell | None:
    return next((c for c in cells if c.layers == 0 and _same(c, cell)), None)


def _base(cell: ObservedCell, cells: Sequence[ObservedCell]) -> ObservedCell | None:
    """What a device is compared with: the CPU's own cell, or, where there is none, its side's that offloads nothing.
    (A device without layers is no CPU: the weights may be laid out otherwise.)"""
    own = (c for c in cells if c.layers == "none" and _same_question(c, cell))
    bare = (c for c in cells if c.layers == 0 and _beside_layers(c, cell))
    return next(itertools.chain(own, bare), None)


def _same_question(a: ObservedCell, b: ObservedCell) -> bool:
    """Whether a CPU's cell was asked what a card's was, of the same model and build, on as many threads."""
    same = (a.factors.get(name) == b.factors.get(name) for name in _QUESTION)
    return a.axes == b.axes and all(same)


def _same(a: ObservedCell, b: ObservedCell) -> bool:
    """Whether two cells differ in their layers only. (Where the placement was seen they differ in it too, and are not
    the same: the warnings that rest on this are in the digests of recorded runs; `against_cpu` warns of those cells.)
    """
    return a.factors.get("placement") == b.factors.get("placement") and _beside_layers(a, b)


def _beside_layers(a: ObservedCell, b: ObservedCell) -> bool:
    """Whether two cells differ in their layers, and the placement that follows from them, only."""
    others = {*a.factors, *b.factors} - {"layers", "placement"}
    return a.side == b.side and a.axes == b.axes and all(a.factors.get(n) == b.factors.get(n) for n in others)


def _speeds(cell: ObservedCell) -> list[float]:
    return [t.tokens_per_second for t in cell.applied if t.outcome == "ok" and t.tokens_per_second is not None]


def known_issues(
    used: Sequence[ObservedCell],
    compared: Iterable[Compared],
    issues: Sequence[KnownIssue],
    cells: Sequence[ObservedCell],
) -> tuple[str, ...]:
    """Faults that upstream knows and that fit failing cells, and fixes that lie between two compared sides."""
    found = []
    for issue in issues:
        for cell in used:
            if any(t.crashed for t in cell.applied) and _fits(issue, cell):
                fixed = f", fixed in {issue.fixed_in}" if issue.fixed_in else ""
                found.append(f"{issue.id}: {issue.title}{fixed} (fits {cell.id})")
                break
    for seen in compared:
        for issue in issues:
            if issue.fixed_in and "version" in seen.seen.free and _between(issue, seen, cells):
                found.append(f"{issue.id}: its fix in {issue.fixed_in} lies between the versions of the two sides")
    return tuple(dict.fromkeys(found))


def _fits(issue: KnownIssue, cell: ObservedCell) -> bool:
    """By what a cell's condition tells; an issue whose signs are lines of a log cannot be seen here."""
    factors = cell.factors
    if issue.lines or issue.patterns or not _concerns(issue, cell):
        return False
    for name, wanted in (("runtime", issue.runtimes), ("backend", issue.backends)):
        if wanted and factors.get(name) not in wanted:
            return False
    version = factors.get("version")
    if not (issue.versions_from or issue.versions_until or issue.fixed_in):
        return False
    if version is None:
        return False
    if issue.versions_from and versions.before(version, issue.versions_from) is not False:
        return False
    return not issue.fixed_in or versions.before(version, issue.fixed_in) is True


def _concerns(issue: KnownIssue, cell: ObservedCell) -> bool:
    """Whether the issue is about this cell's model and target, where it names any: `qwen35` about `qwen3.5:2b`."""
    name = (cell.factors.get("model") or "").replace("\\", "/").rsplit("/", 1)[-1].lower()
    plain = "".join(c for c in name if c.isalnum())
    if issue.models and not plain.startswith(issue.models):
        return False
    target = (cell.factors.get("target") or "").split(":", 1)[0]
    return not issue.targets or not target or target in issue.targets


def _between(issue: KnownIssue, seen: Compared, cells: Sequence[ObservedCell]) -> bool:
    """Whether one side lies before the fix and the other does not."""
    assert issue.fixed_in is not None
    sides = []
    for group in (seen.left, seen.right):
        members = [cells[i] for i in group if cells[i].applied]
        if issue.runtimes and not all(c.factors.get("runtime") in issue.runtimes for c in members):
            return False
        if not all(_concerns(issue, c) for c in members):
            return False
        sides.append({versions.before(c.factors.get("version") or "", issue.fixed_in) for c in members})
    both = {cells[i].factors.get("backend") for group in (seen.left, seen.right) for i in group if cells[i].applied}
    touched = not issue.backends or bool(both & set(issue.backends))
    return touched and sides in ([{True}, {False}], [{False}, {True}])
