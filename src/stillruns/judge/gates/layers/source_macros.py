"""Source macros: the target's compile path in the source tree, by macro evaluation."""

from __future__ import annotations

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.raw import Cite

LAYER = Layer.SOURCE_MACROS
DECIDES = (
    "ggml's GPU headers in the tree given with --source, preprocessed for the target: dot product, matrix "
    "cores, wave size, "
    "flash attention; and variables that the tree sets but nobody reads"
)


def judge(view: PathView) -> Gate | None:
    """`allow` for the hardware path, `partial` where the tree emulates; only with --source."""
    if view.target is None or view.backend is not Backend.ROCM:
        return None
    for source in view.machine.sources:
        facts = source.macros.get(view.processor, ())
        reads = [entry for entry in source.reads if entry.read_at or entry.set_at]
        if not facts and not reads:
            continue
        tree = f"{source.name}@{source.rev}" if source.rev else source.name
        parts = [
            f"{fact.name}: {fact.value} ({fact.place.file.rpartition('/')[2]}:{fact.place.line})" for fact in facts
        ]
        evidence = [Cite(f"{tree}:{f.place.file}", at=f"L{f.place.line}", excerpt=f.place.text) for f in facts]
        for entry in reads:
            places = sorted(entry.read_at or entry.set_at, key=lambda place: place.file.endswith(".patch"))
            where = ", ".join(f"{p.file}:{p.line}" for p in places[:2])
            what = "is read at" if entry.read_at else "is set and read nowhere in this tree:"
            by = f", set at {entry.set_at[0].file}:{entry.set_at[0].line}" if entry.read_at and entry.set_at else ""
            parts.append(f"{entry.name} {what} {where}{by}")
            evidence += [Cite(f"{tree}:{p.file}", at=f"L{p.line}", excerpt=p.text) for p in places[:2]]
        emulated = any(fact.name == "dp4a" and "emulated" in fact.value for fact in facts)
        if not facts:
            text = f"this tree has no GPU headers of ggml that tell the compile path; {'; '.join(parts)}"
            return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, *evidence)
        status = GateStatus.PARTIAL if emulated else GateStatus.ALLOW
        return view.gate(LAYER, status, "; ".join(parts), *evidence)
    return None
