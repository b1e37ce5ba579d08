"""What a worklog's own tables could not show: each finding is computed from the requests and names its places."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from stillruns.judge.studies.words import asked as asked_of
from stillruns.judge.studies.words import listed, many, places, span
from stillruns.judge.studies.words import runs as runs_of
from stillruns.model.applied import Answer
from stillruns.model.backend import Backend
from stillruns.model.worklog import Finding, StudyRequest

NEAR = 0.10
"""A speed within this share of the run with no layer offloaded does not show that the GPU worked."""
WAIT = 3.0
"""Seconds before a runner's start that are more than preparing a load takes: Ollama waits up to five for memory."""


def findings(requests: Sequence[StudyRequest], silent_ps: Sequence[StudyRequest]) -> tuple[Finding, ...]:
    """All of them, the most weighty first. After the answers to `silent_ps`, `ollama ps` listed no model."""
    found: list[Finding] = []
    for look in _LOOKS:
        found += look(requests)
    if silent_ps:
        found.append(
            Finding(
                "wrong server",
                f"after {many(silent_ps)} that answered ({listed(runs_of(silent_ps))}) `ollama ps` listed no model, "
                "right after a runner had served: it asked another server (or the model is unloaded at once), so "
                "these listings and versions say nothing about the server that was measured",
                places(silent_ps),
            )
        )
    return tuple(found)


def _void(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    void = [r for r in requests if r.void]
    for asked in dict.fromkeys(r.record.asked for r in void):
        group = [r for r in void if r.record.asked == asked]
        reused = [r for r in group if r.reused]
        layers = listed(dict.fromkeys(f"{r.applied_layers} of {r.total_layers}" for r in group))
        text = f"{many(group)} with num_gpu={asked_of(group[0])} ran with {layers} layers"
        if reused == group and asked == "auto":
            text = (
                f"{many(group)} with num_gpu={asked_of(group[0])} loaded nothing ({listed(runs_of(group))}): the "
                f"runner with {layers} layers that an earlier request had loaded served them. Ollama keeps a running "
                "model when num_gpu is negative (server/sched.go, needsReload), so these cells were never tested"
            )
        yield Finding("void", text, places(group))


def _crashes(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    groups: dict[tuple[str | None, str, str], list[StudyRequest]] = {}
    for request in requests:
        if request.death is not None:
            key = (request.death.signature, request.death.phase.value, request.backend.value)
            groups.setdefault(key, []).append(request)
    for (signature, phase, backend), group in groups.items():
        deaths = [r.death for r in group if r.death is not None]
        candidates = listed(c.value for c in deaths[0].components) or "unknown"
        unsure = "; the log cannot tell which" if len(deaths[0].components) > 1 else ""
        batches = listed(dict.fromkeys(d.batch for d in deaths if d.batch))
        where = f"{phase} phase ({batches})" if batches else f"{phase} phase"
        layers = listed(dict.fromkeys(f"{r.applied_layers}/{r.total_layers}" for r in group))
        yield Finding(
            "crash",
            f"{many(group, 'runner')} died of {deaths[0].signal or 'an unknown signal'} in the {where} on {backend} "
            f"with {layers} layers, with one signature ({signature}); candidates: {candidates}{unsure}",
            tuple((r.run, r.death.ref) for r in group if r.death is not None),
        )


def _timing(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    """What the client timed is the wait for freed memory as well."""
    timed = [
        (r.record.seconds, r.death.after_load, r)
        for r in requests
        if r.death is not None and r.death.after_load is not None and r.record.seconds is not None
    ]
    before = [(round(seconds - after, 3), r) for seconds, after, r in timed]
    waits = [(wait, r) for wait, r in before if wait > WAIT]
    others = [wait for wait, _ in before if wait <= WAIT]
    polled = [r.death.waited for _, r in waits if r.death is not None and r.death.waited is not None]
    if waits:
        rest = f" ({span(others)} s in the others)" if others else ""
        seen = f": {span(polled)} s by its probes" if polled else ""
        yield Finding(
            "timing",
            f"the time to a crash that the client measured ({span(s for s, _, _ in timed)} s) is no property of the "
            f"fault: a runner died {span(a for _, a, _ in timed)} s after its start, but in {many(waits)} "
            f"{span(w for w, _ in waits)} s passed before that start{rest}, in which the server waited for the "
            f"memory of the runner that had died before{seen}",
            places([r for _, r in waits]),
        )


def _empty(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    ok = [r for r in requests if r.empty and r.record.status == "ok"]
    if ok:
        tokens = span(r.record.tokens or 0 for r in ok)
        yield Finding(
            "no text",
            f"{many(ok)} counted as ok stored no text although {tokens} tokens were generated "
            f"({listed(runs_of(ok))}): whether their output was sane is unknown",
            places(ok),
        )


def _speed(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    """Layers on the GPU that make no difference are no proof that the GPU worked."""
    for model in dict.fromkeys(r.model for r in requests):
        for server in dict.fromkeys(r.server for r in requests if r.server):
            own = [r for r in requests if r.model == model and r.server == server and r.record.rate]
            base = [r.record.rate for r in own if r.record.rate and r.record.asked == 0]
            offloaded = [r for r in own if (r.applied_layers or 0) > 0]
            if not base:
                continue
            cpu = median(base)
            near = [r for r in offloaded if r.record.rate and abs(r.record.rate / cpu - 1) <= NEAR]
            if near:
                speeds = span(r.record.rate or 0 for r in near)
                yield Finding(
                    "speed",
                    f"{model} on {server}: {len(near)} of {len(offloaded)} answered requests with layers on the GPU "
                    f"ran at {speeds} tokens/s, within 10 % of num_gpu=0 ({cpu:.1f}): an answer in this time does "
                    "not show that the GPU did anything",
                    places(near),
                )


def _versions(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    shown: dict[str, StudyRequest] = {}
    for request in sorted(requests, key=lambda r: r.runner_ref is None):  # a runner's start shows its call site
        if request.side is not Backend.UNKNOWN and request.version.low:
            shown.setdefault(request.server, request)
    texts = {server: r.version.text for server, r in shown.items()}
    if len({r.side for r in shown.values()}) > 1 and len(set(texts.values())) > 1:
        sides = "; ".join(f"{r.side.value} ({server}) {texts[server]}" for server, r in shown.items())
        yield Finding(
            "versions",
            f"the sides ran different releases of Ollama: {sides}. A difference between them is confounded with the "
            "release",
            tuple((r.run, r.runner_ref) for r in shown.values() if r.runner_ref),
        )


def _shared(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    beside = [r for r in requests if r.alone is False]
    if not beside:
        return
    free = dict.fromkeys(r.device_free for r in beside if r.device_free)
    other = dict.fromkeys(r.device_free for r in requests if r.alone and r.device_free)
    seen = f"; free before a load: {listed(free)} there, {listed(other)} otherwise" if free and other else ""
    servers = {r.server for r in beside}
    here = {r.device_bus for r in beside if r.device_bus}
    there = {r.device_bus for r in requests if r.device_bus and r.server not in servers}
    shared = f"; both servers use the device {listed(sorted(here & there))}" if here & there else ""
    yield Finding(
        "shared GPU",
        f"in {listed(runs_of(beside))} a runner of the other server was still loaded when the run began"
        f"{shared}{seen}",
        places(beside),
    )


def _labels(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    wrong = [r for r in requests if r.label and r.side is not Backend.UNKNOWN and r.label != r.side.value]
    if wrong:
        sides = listed(dict.fromkeys(r.side.value for r in wrong))
        labels = listed(dict.fromkeys(r.label for r in wrong))
        yield Finding(
            "label",
            f"{many(wrong)} labelled {labels} in meta.json went to a server that loads {sides} "
            f"({listed(runs_of(wrong))})",
            places(wrong),
        )


def _order(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    """Values that several runs tried one after the other, in the same order, without going back to any."""
    orders: dict[tuple[str, ...], list[StudyRequest]] = {}
    for run in dict.fromkeys(r.run for r in requests):
        own = [r for r in requests if r.run == run]
        order = tuple(value for value, _ in itertools.groupby(own, asked_of))
        if len(order) > 2 and len(set(order)) == len(order):
            orders.setdefault(order, []).extend(own)
    for order, own in orders.items():
        runs = runs_of(own)
        if len(runs) > 1:
            once = ", each value once" if len(own) == len(runs) * len(order) else ""
            yield Finding(
                "order",
                f"num_gpu was tried in the order {', '.join(order)}{once}, in each of {len(runs)} runs: what depends "
                "on the order (a loaded runner, a warm page cache) cannot be told from what depends on the value",
                places(own),
            )


def _engines(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    """Models that ran on different engines, or with flash attention set in another way."""
    shown: dict[str, tuple[str, str]] = {}
    first: dict[str, StudyRequest] = {}
    for model in dict.fromkeys(r.model for r in requests):
        own = [r for r in requests if r.model == model and r.engine]
        if own:
            flash = listed(dict.fromkeys(r.flash_attention for r in own if r.flash_attention))
            shown[model] = (listed(dict.fromkeys(r.engine for r in own)), flash or "not told")
            first[model] = own[0]
    if len(set(shown.values())) > 1:
        each = "; ".join(
            f"{name} on the {engine}, flash attention {flash}" for name, (engine, flash) in shown.items()
        )
        what = "engines" if len({engine for engine, _ in shown.values()}) > 1 else "settings of flash attention"
        yield Finding(
            "engines",
            f"the models ran on different {what} ({each}): models are confounded with {what}",
            tuple((r.run, r.runner_ref) for r in first.values() if r.runner_ref),
        )


def _unloaded(requests: Sequence[StudyRequest]) -> Iterable[Finding]:
    unsure = [r for r in requests if r.side is not Backend.UNKNOWN and r.applied is Answer.UNKNOWN]
    if unsure:
        yield Finding(
            "unknown load",
            f"{many(unsure)} ran on a runner whose load is not in the journal: its layers are not shown "
            f"({listed(runs_of(unsure))})",
            places(unsure),
        )


_LOOKS: tuple[Callable[[Sequence[StudyRequest]], Iterable[Finding]], ...] = (
    _void,
    _crashes,
    _timing,
    _versions,
    _empty,
    _speed,
    _shared,
    _order,
    _engines,
    _labels,
    _unloaded,
)
