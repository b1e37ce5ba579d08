"""All requests of a worklog, counted by what was applied; and what its own tables could not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from stillruns.judge.statistics import sequential
from stillruns.judge.statistics.binomial import clopper_pearson
from stillruns.model.applied import Answer
from stillruns.model.backend import Backend
from stillruns.model.outcome import OutcomeKind
from stillruns.model.rate import Rate
from stillruns.model.server_log import Layers
from stillruns.model.worklog import StudyCell, StudyRequest

_SIDES = (Backend.ROCM, Backend.CUDA, Backend.VULKAN, Backend.SYCL, Backend.METAL, Backend.CPU, Backend.UNKNOWN)


def cells(requests: Sequence[StudyRequest]) -> tuple[StudyCell, ...]:
    """One cell for each model, side, server and num_gpu, in that order."""
    keys: dict[tuple[str, Backend, str, Layers], list[StudyRequest]] = {}
    for request in requests:
        keys.setdefault((request.model, request.side, unit(request.server), request.layers), []).append(request)
    return tuple(_cell(group) for _, group in sorted(keys.items(), key=lambda item: _order(*item[0])))


def unit(server: str) -> str:
    """`ollama-rocm[1415]` -> `ollama-rocm`: a service that was restarted is the same service."""
    return server.split("[", 1)[0]


def _order(model: str, side: Backend, server: str, asked: Layers) -> tuple[str, int, str, int, int]:
    if asked is None:
        return model, _SIDES.index(side), server, 2, 0
    if isinstance(asked, str):
        return model, _SIDES.index(side), server, 1, 0
    return model, _SIDES.index(side), server, 0, asked


def _cell(group: Sequence[StudyRequest]) -> StudyCell:
    first = group[0]
    applied = [r for r in group if r.applied is Answer.YES]
    failed = [r for r in applied if r.outcome is not OutcomeKind.OK]
    speeds = [r.record.rate for r in group if r.record.rate is not None]
    return StudyCell(
        side=first.side,
        server=unit(first.server),
        model=first.model,
        asked=first.layers,
        requests=len(group),
        counted_ok=sum(r.record.status == "ok" for r in group) if first.client else None,
        applied=len(applied),
        void=sum(r.void for r in group),
        unknown=sum(r.applied is Answer.UNKNOWN for r in group),
        answered=len(applied) - len(failed),
        failed=len(failed),
        empty=sum(r.empty for r in group),
        outcomes=tuple(sorted(Counter(r.outcome.value for r in group if not r.void).items())),
        layers=tuple(sorted({f"{r.applied_layers}/{r.total_layers}" for r in group if r.applied_layers is not None})),
        rate=_rate(len(failed), len(applied), fixed=first.client),
        speed=(median(speeds), min(speeds), max(speeds)) if speeds else None,
    )


def _rate(failures: int, n: int, *, fixed: bool) -> Rate | None:
    """A script wrote a worklog's numbers of requests down beforehand; how many logs came nobody fixed."""
    if not n:
        return None
    return clopper_pearson(failures, n) if fixed else sequential.confidence_sequence(failures, n, 0.95)
