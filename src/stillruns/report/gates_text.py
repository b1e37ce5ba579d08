"""The gate matrix as text: a row a layer, a column a path, then reasons, paths, cards and advice."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from stillruns.model.gate import Gate, GateMatrix, GatePath, GateStatus, Layer
from stillruns.report.columns import columns, visible

WIDTH = 110
_MARK = {
    GateStatus.ALLOW: "allow",
    GateStatus.BLOCK: "BLOCK",
    GateStatus.PARTIAL: "partial",
    GateStatus.UNLISTED: "unlisted",
    GateStatus.UNKNOWN: "unknown",
}


def text(matrix: GateMatrix, *, evidence: bool = False) -> str:
    """Everything that `check` prints. `evidence` adds the places under each reason."""
    lines = [f"gates of {visible(matrix.machine)}", ""]
    lines += _table(matrix)
    lines += ["", *_reasons(matrix, evidence)]
    lines += ["", "paths", *_paths(matrix.paths)]
    if matrix.cards:
        lines += ["", "why was my GPU skipped?"]
        for card in matrix.cards:
            where = card.device or "any"
            lines += _wrapped(f"{where} {card.target} ({card.name}): {card.text}", "  ")
    if matrix.advice:
        lines += ["", "advice, the likeliest first"]
        for advice in matrix.advice:
            ids = f" [{', '.join(advice.workarounds)}]" if advice.workarounds else ""
            lines += _wrapped(f"{advice.rank}. {advice.text} ({advice.path}, {advice.gate.value}){ids}", "  ")
    for note in matrix.notes:
        lines += _wrapped(f"note: {note}", "")
    return "\n".join(lines) + "\n"


def _column(path: GatePath) -> str:
    if path.path == "cpu":
        return "cpu"
    device = path.device.removeprefix("0000:") if path.device else ""
    return " ".join(filter(None, (path.path, path.target.partition(":")[0] if path.target != "none" else "", device)))


def _table(matrix: GateMatrix) -> list[str]:
    rows = [["layer", *(_column(path) for path in matrix.paths)]]
    for layer in Layer:
        cells = [_cell(matrix.gates, layer, path) for path in matrix.paths]
        if any(cells):
            rows.append([layer.value, *cells])
    rows.append(["path", *(path.status.value for path in matrix.paths)])
    return columns(rows)


def _cell(gates: Sequence[Gate], layer: Layer, path: GatePath) -> str:
    for gate in gates:
        if (gate.layer, gate.path, gate.target, gate.device) == (layer, path.path, path.target, path.device):
            return _MARK[gate.status]
    return ""


def _reasons(matrix: GateMatrix, evidence: bool) -> list[str]:
    """One line a reason; equal reasons of several paths are said once."""
    lines: list[str] = []
    for layer in Layer:
        said: dict[tuple[GateStatus, str], list[Gate]] = {}
        for gate in matrix.gates:
            if gate.layer is layer:
                said.setdefault((gate.status, gate.reason), []).append(gate)
        for (status, reason), gates in said.items():
            who = ", ".join(dict.fromkeys(_who(gate) for gate in gates))
            lines += _wrapped(f"{layer.value} [{who}] {_MARK[status]}: {reason}", "")
            if evidence:
                lines += _evidence(gates)
    return lines


def _who(gate: Gate) -> str:
    return " ".join(filter(None, (gate.path, gate.device.removeprefix("0000:") if gate.device else "")))


def _evidence(gates: Sequence[Gate]) -> list[str]:
    lines = []
    for cite in dict.fromkeys(cite for gate in gates for cite in gate.evidence):
        place = " ".join(filter(None, (cite.source, cite.at, cite.sha256[:23])))
        lines.append(f"    {visible(place)}")
        if cite.excerpt and cite.excerpt != "-":
            lines.append(f"      | {visible(cite.excerpt)}")
    return lines


def _paths(paths: Sequence[GatePath]) -> list[str]:
    return [f"  {line}" for line in columns([[_column(path), path.status.value, path.reason] for path in paths])]


def _wrapped(line: str, indent: str) -> list[str]:
    clean = visible(line)
    return textwrap.wrap(
        clean, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
