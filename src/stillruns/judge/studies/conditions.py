"""What the conditions of a worklog's runs were, as far as its files tell: logs that are missing, baselines that are
not alike, counts that rest on one line, settings that nothing reads, releases that are another server's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from stillruns.judge import versions
from stillruns.judge.studies.words import listed, many, places, runs
from stillruns.model.backend import Backend
from stillruns.model.outcome import OutcomeKind
from stillruns.model.worklog import Finding, Noted, StudyRequest, Unread


@dataclass(frozen=True, slots=True)
class Conditions:
    """A study's requests, what each run's client noted, and of the noted variables those that nothing reads."""

    requests: Sequence[StudyRequest]
    noted: Sequence[Noted] = ()
    unread: Sequence[Unread] = ()


def findings(seen: Conditions) -> tuple[Finding, ...]:
    """All of them, the most weighty first."""
    return tuple(finding for look in _LOOKS for finding in look(seen))


def _baseline(seen: Conditions) -> Iterable[Finding]:
    """A request with no layer on the GPU is not the same test on every server: some load the GPU's library."""
    loaded: dict[str, list[StudyRequest]] = {}
    for request in seen.requests:
        if request.record.asked == 0 and request.applied_layers == 0 and request.libraries:
            loaded.setdefault(_service(request), []).append(request)
    kinds = {name: {frozenset(b for b, _ in r.libraries) for r in group} for name, group in loaded.items()}
    plain = {name for name, sets in kinds.items() if all(s <= {Backend.CPU} for s in sets)}
    if not loaded or (not plain and len({frozenset(s) for s in kinds.values()}) == 1):
        return
    texts = []
    for name, group in loaded.items():
        libraries = listed(dict.fromkeys(b.value for r in group for b, _ in r.libraries))
        what = "a pure CPU run" if name in plain else "the GPU's library without a layer"
        texts.append(f"{many(group)} on {group[0].side.value} ({name}) loaded {libraries}: {what}")
    yield Finding(
        "baseline",
        f"num_gpu=0 is not one condition: {'; '.join(texts)}",
        tuple((r.run, ref) for group in loaded.values() for r in group for _, ref in r.libraries),
    )


def _derived(seen: Conditions) -> Iterable[Finding]:
    rest = [r for r in seen.requests if r.layout is not None]
    if rest:
        layers = listed(dict.fromkeys(f"{r.applied_layers}/{r.total_layers}" for r in rest))
        yield Finding(
            "derived layers",
            f"{many(rest)} ({listed(runs(rest))}) without a line that counts offloaded layers: {layers} is derived "
            "from the empty GPULayers of the load",
            tuple((r.run, r.layout) for r in rest if r.layout),
        )


def _one_process(seen: Conditions) -> Iterable[Finding]:
    """Days on which the same process served are no repeats of anything that is fixed when it starts."""
    days: dict[str, dict[str, StudyRequest]] = {}
    for request in seen.requests:
        if "[" in request.server and len(request.record.started) >= 10:
            days.setdefault(request.server, {}).setdefault(request.record.started[:10], request)
    several = {server: found for server, found in days.items() if len(found) > 1}
    if several:
        first = next(iter(several.values()))
        yield Finding(
            "one process",
            f"{listed(several)} served on {listed(sorted(first))}, each under one process id: unless a restart came "
            "by the same id again, the days are no repeats with another start of the server, another boot or another "
            "release",
            tuple((r.run, r.access_ref) for found in several.values() for r in found.values() if r.access_ref),
        )


def _version_noted(seen: Conditions) -> Iterable[Finding]:
    """A noted release that the server which answered cannot be."""
    wrong = []
    for noted in seen.noted:
        mine = [r for r in seen.requests if r.run == noted.run and r.version.low and r.version.high]
        if noted.version and mine and all(_outside(noted.version, r) for r in mine):
            wrong.append((noted, mine[0]))
    if wrong:
        stated = listed(dict.fromkeys(n.version for n, _ in wrong))
        real = listed(dict.fromkeys(f"{r.version.text} ({_service(r)})" for _, r in wrong))
        yield Finding(
            "version noted",
            f"in {many(wrong, 'run')} ({listed(n.run for n, _ in wrong)}) the client noted release {stated}, and the "
            f"server that answered is {real}: it asked another server for its version",
            tuple((n.run, n.version_ref) for n, _ in wrong if n.version_ref),
        )


def _outside(stated: str, request: StudyRequest) -> bool:
    low, high = request.version.low, request.version.high
    assert low is not None
    assert high is not None
    return versions.before(stated, low) is True or versions.before(high, stated) is True


def _names(seen: Conditions) -> Iterable[Finding]:
    """Variables that were noted as conditions and are none."""
    for unread in seen.unread:
        found = tuple(
            (noted.run, ref) for noted in seen.noted for name, ref in noted.environment if name == unread.name
        )
        if not found:
            continue
        yield Finding(
            "not read",
            f"{unread.name} is noted as a condition in {many(found, 'run')}, and the server does not read it "
            f"({unread.verdict}: {unread.why}; {unread.source})",
            found,
        )


def _environment(seen: Conditions) -> Iterable[Finding]:
    """What was noted is the client's environment; the server has its own."""
    blind = [n for n in seen.noted if n.environment and n.server_environment is None]
    if blind:
        names = sorted({name for n in blind for name, _ in n.environment})
        yield Finding(
            "environment",
            f"{many(blind, 'run')} noted the client's environment ({listed(names)}), and no line shows the server's "
            "own: what the server was started with, an override among it, is unknown",
            tuple((n.run, ref) for n in blind for _, ref in n.environment[:1]),
        )


def _no_log(seen: Conditions) -> Iterable[Finding]:
    """Requests whose server log is not there at all, and those that another server's log stands beside."""
    journal = {noted.run for noted in seen.noted if noted.journal}
    unknown = [r for r in seen.requests if r.side is Backend.UNKNOWN]
    if not unknown:
        return
    bare = [r for r in unknown if r.run not in journal]
    other = [r for r in unknown if r.run in journal]
    failed = [r for r in unknown if r.outcome is not OutcomeKind.OK]
    parts = []
    if bare:
        parts.append(f"there is no server log in {many(runs(bare), 'run')} ({listed(runs(bare))})")
    if other:
        parts.append(
            f"the log of {many(runs(other), 'run')} holds no line of the server that answered ({listed(runs(other))})"
        )
    lost = f"; {len(failed)} of them failed, of a cause that nothing tells" if failed else ""
    yield Finding(
        "unknown backend",
        f"{many(unknown)} in {many(runs(unknown), 'run')} have no line in a server's log that names a backend: where "
        f"they ran is unknown, whatever port they asked; {'; '.join(parts)}{lost}",
        places(unknown),
    )


def _service(request: StudyRequest) -> str:
    return request.server or "no server log"


_LOOKS: tuple[Callable[[Conditions], Iterable[Finding]], ...] = (
    _one_process,
    _baseline,
    _derived,
    _no_log,
    _version_noted,
    _names,
    _environment,
)
