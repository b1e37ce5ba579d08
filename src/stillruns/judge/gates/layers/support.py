"""Official support: the vendor's tables by release. Not being listed blocks nothing."""

from __future__ import annotations

import re

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.gate_tables import SupportRow
from stillruns.model.raw import Cite
from stillruns.model.version import Version, between, parse

LAYER = Layer.SUPPORT
DECIDES = "the vendor's table of supported GPUs for the installed release (else the newest one that was read)"

_ORDER = ("supported", "deprecated", "library-built-but-unsupported", "removed", "unsupported", "not-listed")


def judge(view: PathView) -> Gate | None:
    """`allow` when supported, `partial` when deprecated, else `unlisted`: it blocks nothing."""
    if view.target is None:
        return None
    if view.backend is Backend.CUDA:
        return _cuda(view)
    if view.backend is not Backend.ROCM:
        return None
    rows = [row for row in view.tables.support if row.target == view.processor]
    if not rows:
        return view.gate(LAYER, GateStatus.UNLISTED, f"{view.processor} is in no table of ROCm that was read")
    version = installed(view)
    wanted = version or _newest(rows)
    stream = "therock" if _is_therock(wanted) else "production"
    official = [row for row in rows if row.stream == stream and row.kind in ("official", "therock")]
    now = [row for row in official if between(wanted, row.first, row.last)]
    when = f"ROCm {wanted}" + ("" if version else " (the newest table: nothing here tells its release)")
    if not now:
        last = max(official, key=lambda row: parse(row.last) or (0,), default=None)
        if last is None:
            return view.gate(LAYER, GateStatus.UNLISTED, f"no table of ROCm speaks of {view.processor}")
        text = f"{when} is in no table that was read; up to {last.last} it was {last.status}"
        return view.gate(LAYER, GateStatus.UNLISTED, text, _cite(last))
    best = min(now, key=lambda row: _ORDER.index(row.status))
    product = f" ({best.product})" if best.product else ""
    if best.status == "supported":
        return view.gate(LAYER, GateStatus.ALLOW, f"supported in {when}{product}", _cite(best))
    if best.status == "deprecated":
        return view.gate(LAYER, GateStatus.PARTIAL, f"deprecated in {when}{product}", _cite(best))
    text = f"{_word(best)} in {when}"
    libraries = [row for row in rows if row.kind == "library" and between(wanted, row.first, row.last)]
    if best.status != "library-built-but-unsupported" and any(row.status == "removed" for row in libraries):
        text += "; AMD's own library packages dropped its kernels"
    return view.gate(LAYER, GateStatus.UNLISTED, text, _cite(best), *(_cite(row) for row in libraries[:2]))


def installed(view: PathView) -> str:
    """The ROCm release that is installed, as far as package versions and /opt/rocm tell; empty when there is none."""
    pieces = view.machine.rocm
    order = [p for p in pieces if p.name == "rocm"]
    order += [p for p in pieces if re.match(r"lib(?:rocblas|amdhip64)|rocblas|hip-runtime-amd|rocm-core", p.name)]
    return next((p.version for p in order if parse(p.version)), "")


def _is_therock(version: str) -> bool:
    parsed: Version | None = parse(version)
    return parsed is not None and parsed >= (7, 9, 0)


def _newest(rows: list[SupportRow]) -> str:
    official = [row for row in rows if row.kind == "official" and row.stream == "production"] or rows
    return max((row.last for row in official), key=lambda text: parse(text) or (0,))


def _word(row: SupportRow) -> str:
    return {
        "removed": "removed",
        "unsupported": "named as not supported",
        "not-listed": "not listed",
        "library-built-but-unsupported": "built and tested in part, not supported",
    }.get(row.status, row.status)


def _cite(row: SupportRow) -> Cite:
    return Cite(row.source, at=f"read {row.read_on}", excerpt=f"{row.scope}: {row.status} {row.first} to {row.last}")


def _cuda(view: PathView) -> Gate:
    entry = next((entry for entry in view.tables.nvidia if entry.target == view.processor), None)
    if entry is None:
        return view.unknown(LAYER, f"no table that was read names {view.processor}", AbsenceReason.NOT_COLLECTED)
    cite = Cite(entry.source, at=f"read {entry.read_on}")
    if not entry.last_toolkit:
        return view.gate(LAYER, GateStatus.ALLOW, f"{entry.name} is current", cite)
    text = (
        f"{entry.name}: CUDA {entry.last_toolkit} is the last toolkit for it, {entry.last_driver} the last "
        "driver branch"
    )
    return view.gate(LAYER, GateStatus.UNLISTED, text, cite)
