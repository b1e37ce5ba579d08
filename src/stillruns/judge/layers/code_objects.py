"""Code objects: does the backend's library hold code that this target can load?"""

from __future__ import annotations

from stillruns.judge import override
from stillruns.judge.path_view import PathView, matches
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.code_object import CodeObjects, CodeTarget
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.machine import BackendLibrary
from stillruns.model.raw import Cite

LAYER = Layer.CODE_OBJECTS
DECIDES = (
    "the targets inside the backend's library: exact target, features, generic targets, code object version, targets "
    "that only some bundles hold"
)


def judge(view: PathView) -> Gate | None:
    """`allow` when a runtime here holds the code, `partial` when only some bundles or runtimes do, else `block`."""
    if view.target is None or view.backend not in (Backend.ROCM, Backend.CUDA):
        return None
    seen = override.as_runtime_sees(view)
    return override.told(_judge(seen), seen)


def _judge(view: PathView) -> Gate:
    libraries = view.backend_libraries
    if not libraries:
        text = f"no runtime with a {view.backend.value} backend was found here"
        return view.unknown(LAYER, text, AbsenceReason.NOT_INSTALLED)
    verdicts = [of_library(view, library) for _, library in libraries]
    good = [gate for gate in verdicts if gate.status is GateStatus.ALLOW]
    half = [gate for gate in verdicts if gate.status is GateStatus.PARTIAL]
    bad = [gate for gate in verdicts if gate.status is GateStatus.BLOCK]
    if good and bad:
        evidence = (*good[0].evidence, *bad[0].evidence)
        text = f"{good[0].reason}; but {bad[0].reason}"
        return view.gate(LAYER, GateStatus.PARTIAL, text, *evidence)
    return (good or half or bad or verdicts)[0]


def of_library(view: PathView, library: BackendLibrary) -> Gate:
    """The verdict on one library."""
    raw = view.machine.code.get(library.path)
    code = view.code(library.path)
    name = library.path.rpartition("/")[2]
    if code is None:
        why = raw.detail if isinstance(raw, Absence) else "it was not read"
        reason = raw.reason if isinstance(raw, Absence) else AbsenceReason.NOT_COLLECTED
        return view.unknown(LAYER, f"{library.path}: {why}", reason)
    found = _fitting(view, code)
    if not found:
        return _none(view, library, code)
    entry, condition = found[0]
    cite = cite_of(code, entry)
    what = entry.target if entry.processor == view.processor else f"{entry.target}, which serves {view.processor}"
    problems = [condition] if condition else []
    count = sum(
        e.count for e, note in found if bool(note) is bool(condition)
    )  # exact here, generic there: both count
    if code.bundles and count < code.bundles:
        problems.append(f"in {count} of {code.bundles} bundles only")
    if code.wrappers is not None and code.wrappers > code.bundles:
        problems.append(f"{code.wrappers - code.bundles} of {code.wrappers} registered bundles were not found")
    if any(e.mismatches for e, _ in found):
        problems.append("the code says another processor than its label")
    problems += _age(library, entry)
    problems += code.problems[:1]
    if problems:
        return view.gate(LAYER, GateStatus.PARTIAL, f"{name} holds {what}, {'; '.join(problems)}", cite)
    version = f" (code object v{entry.code_object_version})" if entry.code_object_version else ""
    return view.gate(LAYER, GateStatus.ALLOW, f"{name} holds {what}{version}", cite)


def _fitting(view: PathView, code: CodeObjects) -> list[tuple[CodeTarget, str]]:
    """Entries that run on the target, the unconditional and exact ones first."""
    assert view.target is not None
    if view.backend is Backend.CUDA:
        return [(entry, note) for entry in code.targets if (note := _cuda(entry, view.processor)) is not None]
    found = []
    for entry in code.targets:
        fits, condition = matches(entry, view.target, view.info)
        if fits:
            found.append((entry, condition))
    return sorted(found, key=lambda pair: (bool(pair[1]), pair[0].processor != view.processor))


def _cuda(entry: CodeTarget, processor: str) -> str | None:
    """Machine code runs on its own major with an equal or higher minor; PTX on anything newer."""
    kind, _, number = entry.processor.partition("_")
    mine = processor.partition("_")[2]
    if not number.isdigit() or not mine.isdigit():
        return "" if entry.processor == processor else None
    if kind == "sm" and int(number) // 10 == int(mine) // 10 and int(number) <= int(mine):
        return ""
    if kind == "compute" and int(number) <= int(mine):
        return "as PTX, compiled at the first start"
    return None


def _none(view: PathView, library: BackendLibrary, code: CodeObjects) -> Gate:
    has = ", ".join(dict.fromkeys(entry.target for entry in code.targets))
    if code.kpack is not None:
        packed = code.kpack.targets
        if any(t.partition(":")[0] == view.processor for t in packed):
            return view.gate(LAYER, GateStatus.ALLOW, f"{code.kpack.kernel_name} beside it holds {view.processor}")
        text = (
            f"{library.path} keeps its code in KPACK archives, which hold "
            f"{', '.join(packed) or 'nothing that was read'}"
        )
        return view.gate(LAYER, GateStatus.BLOCK if packed else GateStatus.UNKNOWN, text, cite_of(code, None))
    if not code.targets and code.problems:
        return view.unknown(LAYER, f"{library.path}: {code.problems[0]}", AbsenceReason.UNPARSABLE)
    same = [e.target for e in code.targets if e.processor == view.processor]
    if same:
        text = f"{library.path} holds {', '.join(same)}, whose features are not those of {view.shown}"
    else:
        text = f"{library.path} holds no {view.processor}; it has {has or 'no device code'}"
    neighbour = override.advice(view, (entry.processor for entry in code.targets)) if not same else ""
    if neighbour:
        return view.gate(
            LAYER, GateStatus.BLOCK, text, cite_of(code, None), weight=75, advice=neighbour,
            workarounds=("override-gfx-neighbour", "override-apu-900", "build-llama-cpp-for-target"),
        )  # fmt: skip
    return view.gate(
        LAYER, GateStatus.BLOCK, text, cite_of(code, None), weight=60,
        advice=f"take or build a runtime whose library holds {view.processor}",
        workarounds=("debian-rocm-packages", "build-llama-cpp-for-target", "pin-release-with-target"),
    )  # fmt: skip


def _age(library: BackendLibrary, entry: CodeTarget) -> list[str]:
    """A v6 code object or a generic target in a HIP runtime from before them: inferred from the runtime's soname."""
    old = next((s for s in library.links if s in ("libamdhip64.so.4", "libamdhip64.so.5")), "")
    if old and ((entry.code_object_version or 0) >= 6 or "generic" in entry.processor):
        return [f"and {old} is older than such code objects (inferred)"]
    return []


def cite_of(code: CodeObjects, entry: CodeTarget | None) -> Cite:
    """A file as evidence: the first place of an entry, and the digest of the range that was read there."""
    if entry is None:
        ranges = code.file.ranges[:1]
        return Cite(code.file.path, ranges[0].sha256 if ranges else "", "", ", ".join(e.target for e in code.targets))
    digest = next((r.sha256 for r in code.file.ranges if r.offset <= entry.offset < r.offset + r.length), "")
    shown = f"{entry.target}: {entry.count} of {code.bundles} bundles" if code.bundles else entry.target
    return Cite(code.file.path, digest, f"@{entry.offset:#x}+64", shown)
