"""The gate matrix as text: a row a layer, a column a path, then reasons, paths, cards and advice."""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.model.gate import Advice, Gate, GateMatrix, GatePath, GateStatus, Layer
from stillruns.model.hint import hint
from stillruns.report.columns import PLAIN, Page, columns, visible, width

_MARK = {
    GateStatus.ALLOW: "allow",
    GateStatus.BLOCK: "BLOCK",
    GateStatus.PARTIAL: "partial",
    GateStatus.UNLISTED: "unlisted",
    GateStatus.UNKNOWN: "unknown",
}


def text(matrix: GateMatrix, *, evidence: bool = False, page: Page = PLAIN) -> str:
    """Everything that `check` prints. `evidence` adds the places under each reason."""
    lines = [f"gates of {visible(matrix.machine)}", ""]
    lines += _tables(matrix, page.width)
    lines += ["", *_reasons(matrix, evidence, page)]
    lines += ["", "paths", *_paths(matrix.paths, page)]
    if matrix.cards:
        lines += ["", "why was my GPU skipped?"]
        for card in matrix.cards:
            where = " ".join(filter(None, (card.device, card.target if card.target != "none" else "")))
            lines += page.wrapped(f"{where} ({card.name}): {card.text}", "  ")
    if matrix.advice:
        lines += ["", *_advice(matrix, page)]
    for note in matrix.notes:
        lines += page.wrapped(f"note: {note}", "")
    return "\n".join(lines) + "\n"


def _advice(matrix: GateMatrix, page: Page) -> list[str]:
    """What to try, and the commands that tell more: a line each, to be copied."""
    lines = ["advice, the likeliest first"]
    for advice in matrix.advice:
        line = f"{advice.rank}. {advice.text} ({advice.path}, {advice.gate.value}){_ids(advice)}"
        lines += page.wrapped(line, "  ")
    ids = dict.fromkeys(name for advice in matrix.advice for name in advice.workarounds)
    lines += [f"  what the ids in brackets mean: {hint('workarounds', *ids)}"] if ids else []
    if any(advice.gate is Layer.EXECUTION for advice in matrix.advice):
        cites = [cite for gate in matrix.gates if gate.layer is Layer.EXECUTION for cite in gate.evidence]
        runs = dict.fromkeys(cite.source.removeprefix("run ") for cite in cites)
        lines += [f"  the trials: {hint('report', *runs, options=('--trials',))}"] if runs else []
    return lines


def _ids(advice: Advice) -> str:
    """The workarounds; the first is the smallest change, and one is enough where they are for one obstacle."""
    if not advice.workarounds:
        return ""
    several = advice.one_is_enough and len(advice.workarounds) > 1
    return f" [{', '.join(advice.workarounds)}{': one is enough' if several else ''}]"


def _column(path: GatePath, cards: int = 1) -> str:
    if path.path == "cpu":
        return "cpu"
    device = path.device.removeprefix("0000:") if path.device else ""
    target = path.target.partition(":")[0] if path.target != "none" else ""
    return " ".join(filter(None, (path.path, target, device if cards == 1 else f"x{cards}")))


def _tables(matrix: GateMatrix, most: int) -> list[str]:
    """The matrix; cards with equal verdicts share a column, and what is wider than the page goes below."""
    shared: dict[tuple[str, ...], list[GatePath]] = {}
    for path in matrix.paths:
        cells = tuple(_cell(matrix.gates, layer, path) for layer in Layer)
        shared.setdefault((path.path, path.target.partition(":")[0], *cells, path.status.value), []).append(path)
    columns_ = [[_column(paths[0], len(paths)), *key[2:]] for key, paths in shared.items()]
    names = ["layer", *(layer.value for layer in Layer), "path"]
    kept = [row for row in range(len(names)) if row in (0, len(names) - 1) or any(c[row] for c in columns_)]
    first = [names[row] for row in kept]
    lines: list[str] = []
    page: list[list[str]] = []
    for column in [[column[row] for row in kept] for column in columns_]:
        if page and max(map(width, _table(first, [*page, column]))) > most:
            lines += [*_table(first, page), ""]
            page = []
        page.append(column)
    return lines + _table(first, page)


def _table(names: Sequence[str], page: Sequence[Sequence[str]]) -> list[str]:
    return columns(list(zip(names, *page, strict=True)))


def _cell(gates: Sequence[Gate], layer: Layer, path: GatePath) -> str:
    for gate in gates:
        if (gate.layer, gate.path, gate.target, gate.device) == (layer, path.path, path.target, path.device):
            return _MARK[gate.status]
    return ""


def _reasons(matrix: GateMatrix, evidence: bool, page: Page) -> list[str]:
    """One line a reason; equal reasons of several paths are said once."""
    lines: list[str] = []
    everywhere = {
        name: [path.device for path in matrix.paths if path.path == name] for name in {p.path for p in matrix.paths}
    }
    for layer in Layer:
        said: dict[tuple[GateStatus, str], list[Gate]] = {}
        for gate in matrix.gates:
            if gate.layer is layer:
                said.setdefault((gate.status, gate.reason), []).append(gate)
        for (status, reason), gates in said.items():
            who = ", ".join(_who(gates, everywhere))
            lines += page.wrapped(f"{layer.value} [{who}] {_MARK[status]}: {reason}", "")
            if evidence:
                lines += _evidence(gates)
    return lines


def _who(gates: Sequence[Gate], everywhere: dict[str, list[str | None]]) -> list[str]:
    """Paths by card; one word for all cards of a backend where there are several."""
    by_path: dict[str, list[str | None]] = {}
    for gate in gates:
        by_path.setdefault(gate.path, []).append(gate.device)
    found = []
    for path, devices in by_path.items():
        if len(devices) > 1 and devices == everywhere[path]:
            found.append(f"{path} on all {len(devices)} cards")
        else:
            found += [f"{path} {device.removeprefix('0000:')}" if device else path for device in devices]
    return list(dict.fromkeys(found))


def _evidence(gates: Sequence[Gate]) -> list[str]:
    lines = []
    for cite in dict.fromkeys(cite for gate in gates for cite in gate.evidence):
        place = " ".join(filter(None, (cite.source, cite.at, cite.sha256[:23])))
        lines.append(f"    {visible(place)}")
        if cite.excerpt and cite.excerpt != "-":
            lines.append(f"      | {visible(cite.excerpt)}")
    return lines


def _paths(paths: Sequence[GatePath], page: Page) -> list[str]:
    lines = columns([[_column(path), path.status.value, path.reason] for path in paths])
    indent = " " * (len(columns([[_column(path), path.status.value, "|"] for path in paths])[0]) - 1) if paths else ""
    if len(indent) > page.width // 2:  # no room beside: below, a little to the right
        indent = "  "
    return [part for line in lines for part in page.wrapped(line, "  ", "  " + indent)]
