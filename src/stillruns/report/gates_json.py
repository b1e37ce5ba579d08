"""`check --json`: the document of the schema stillruns.gates/1."""

from __future__ import annotations

from typing import Any

from stillruns.model.gate import Gate, GateMatrix

SCHEMA = "stillruns.gates/1"


def document(matrix: GateMatrix) -> dict[str, Any]:
    """The matrix as one JSON-able document (docs/schemas/gates.json)."""
    return {
        "schema": SCHEMA,
        "machine": matrix.machine,
        "targets": list(matrix.targets),
        "gates": [_gate(gate) for gate in matrix.gates],
        "paths": [
            {
                "path": path.path,
                "target": path.target,
                "device": path.device,
                "status": path.status.value,
                "stopped_by": [layer.value for layer in path.stopped_by],
                "reason": path.reason,
            }
            for path in matrix.paths
        ],
        "cards": [
            {"device": card.device, "name": card.name, "target": card.target, "text": card.text}
            for card in matrix.cards
        ],
        "advice": [
            {
                "rank": advice.rank,
                "text": advice.text,
                "path": advice.path,
                "gate": advice.gate.value,
                "workarounds": list(advice.workarounds),
                "one_is_enough": advice.one_is_enough,
            }
            for advice in matrix.advice
        ],
        "notes": list(matrix.notes),
    }


def _gate(gate: Gate) -> dict[str, Any]:
    return {
        "layer": gate.layer.value,
        "path": gate.path,
        "target": gate.target,
        "device": gate.device,
        "status": gate.status.value,
        "reason": gate.reason,
        "evidence": [
            {"source": cite.source, "sha256": cite.sha256, "at": cite.at, "excerpt": cite.excerpt}
            for cite in gate.evidence
        ],
        "absent": gate.absent.value if gate.absent else None,
        "workarounds": list(gate.workarounds),
    }
