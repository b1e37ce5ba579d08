"""Build filter: would this target be built, and which line says so."""

from __future__ import annotations

from fnmatch import fnmatchcase

from stillruns.judge.gates.loading import cuda_fit
from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.gate_tables import RuntimeRow
from stillruns.model.raw import Cite
from stillruns.model.source_build import Deletion, Place, SourceBuild, TargetList
from stillruns.model.version import between

LAYER = Layer.BUILD_FILTER
DECIDES = (
    "the source tree given with --source: presets and list filters by evaluation, deletions in release recipes; "
    "without "
    "one, what the catalogue read in the installed release"
)


def judge(view: PathView) -> Gate | None:
    """`block` when no list of the release keeps the target, `partial` when its kernel files are deleted
    afterwards."""
    if view.target is None or view.backend not in (Backend.ROCM, Backend.CUDA):
        return None
    gates = [_source(view, source) for source in view.machine.sources]
    told = [gate for gate in gates if gate is not None]
    if told:
        return max(told, key=lambda gate: gate.status is GateStatus.BLOCK)
    return _catalogue(view)


def kept(view: PathView, entry: TargetList) -> bool:
    """Whether a list has the target, whatever its features, or the generic target that serves it; for CUDA, code or
    PTX that surely runs on it."""
    if view.backend is Backend.CUDA:
        return any(
            (fit := cuda_fit(target, view.processor)) is not None and not fit.doubt for target in entry.targets or ()
        )
    generic = view.info.generic if view.info else ""
    return any(t.partition(":")[0] in (view.processor, generic or view.processor) for t in entry.targets or ())


def deleted(view: PathView, source: SourceBuild) -> tuple[Deletion, ...]:
    """The recipe's lines that remove kernel files of this target."""
    names = (f"TensileLibrary_lazy_{view.processor}.dat", f"Kernels.so-000-{view.processor}.hsaco")
    return tuple(d for d in source.deletions if any(fnmatchcase(name, d.pattern) for name in names))


def _source(view: PathView, source: SourceBuild) -> Gate | None:
    lists = [entry for entry in source.lists if entry.backend == view.backend.value]
    if not lists:
        return None
    release = [entry for entry in lists if entry.builds_release]
    default = [entry for entry in lists if entry.default_only]
    has = [entry for entry in release if kept(view, entry)]
    plain = [entry for entry in default if kept(view, entry)]
    own = any(entry.targets is None for entry in default)
    word = f"{'keeps' if plain else 'drops'} {view.processor}"
    if own:
        word = "takes the GPUs of the machine that builds, or those that GPU_TARGETS names"
    removed = deleted(view, source) if view.backend is Backend.ROCM else ()
    tree = f"{source.name}@{source.rev}" if source.rev else source.name
    tail = f"; {_at(removed[0].place)} deletes {removed[0].pattern}" if removed else ""
    places = [entry.place for entry in (has or release) + default] + [d.place for d in removed]
    evidence = [_cite(place, tree) for place in places[:6]]
    if has:
        status = GateStatus.PARTIAL if removed else GateStatus.ALLOW
        return view.gate(
            LAYER, status, f"{has[0].name} builds {view.processor} ({_at(has[0].place)}){tail}", *evidence
        )
    if not release:
        status = GateStatus.PARTIAL if plain or own else GateStatus.BLOCK
        text = f"a plain build {word} ({_at(default[0].place)}); no release recipe in this tree{tail}"
    else:
        names = ", ".join(dict.fromkeys(f"{e.name} ({_at(e.place)})" for e in release[:2]))
        text = f"no list of the release builds {view.processor}: {names}"
        if default:
            text += f"; a plain build {word} ({_at(default[0].place)})"
        text += tail
        status = GateStatus.BLOCK
    return view.gate(
        LAYER, status, text, *evidence, weight=45,
        advice=f"build the runtime yourself and name {view.processor} as its target",
        workarounds=("build-ollama-for-target", "build-llama-cpp-for-target", "build-name-target"),
    )  # fmt: skip


def _catalogue(view: PathView) -> Gate:
    """What the catalogue read about the installed release."""
    if view.backend is not Backend.ROCM:
        return view.unknown(LAYER, "give a tree with --source NAME=DIR", AbsenceReason.NOT_COLLECTED)
    for runtime in view.machine.runtimes:
        if runtime.runtime != "ollama" or not runtime.version:
            continue
        for row in view.tables.runtimes:
            if row.runtime == "ollama" and row.platform == "linux" and row.facet == "build_targets":
                until = "" if row.newest else row.until
                if between(runtime.version, row.since, until):
                    return _row(view, row, runtime.version)
    given = ", ".join(source.name for source in view.machine.sources)
    text = "no source tree was given (--source NAME=DIR) and no installed release tells it"
    if given:
        text = f"what was given as source ({given}) has no list of {view.backend.value} targets that could be read"
    return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED)


def _row(view: PathView, row: RuntimeRow, version: str) -> Gate:
    words = row.value.replace(",", ";").replace(" ", ";").split(";")
    cite = Cite(row.source, at=row.place, excerpt=row.value[:200])
    built = any(word.partition(":")[0] == view.processor for word in words)
    if row.newest and between(version, row.since, row.until) is not True:
        text = f"Ollama {version} is newer than the releases that were read; {row.until} was "
        text += f"{'' if built else 'not '}built for {view.processor} ({row.place})"
        return view.unknown(LAYER, text, AbsenceReason.NOT_COLLECTED, cite)
    if built:
        return view.gate(
            LAYER, GateStatus.ALLOW, f"Ollama {version} is built for {view.processor} ({row.place})", cite
        )
    return view.gate(
        LAYER, GateStatus.BLOCK, f"Ollama {version} is not built for {view.processor} ({row.place})", cite, weight=45,
        advice="take a release from before the target was dropped, or build it yourself",
        workarounds=("pin-release-with-target", "build-ollama-for-target"),
    )  # fmt: skip


def _at(place: Place) -> str:
    return f"{place.file}:{place.line}"


def _cite(place: Place, tree: str) -> Cite:
    return Cite(f"{tree}:{place.file}", at=f"L{place.line}", excerpt=place.text)
