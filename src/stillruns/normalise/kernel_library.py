"""How complete a folder of ready-made kernels is, target by target, by the folder's own index.

The index is believed about what a target needs; the folder about what is there; a file's own header about what it is.
That files come from another release shows in who linked them, in the version of their code and in the fields of their
solutions, each compared with what most targets of the same folder have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stillruns.errors import FormatError
from stillruns.formats import code_file, tensile
from stillruns.formats.reading import ReadAt
from stillruns.model.code_object import FileRef
from stillruns.model.kernel_library import KernelLibrary, LibraryState, TargetFiles
from stillruns.normalise.release_mix import Mix, compare

MERGED = "TensileLibrary.dat"
MAPPING = "TensileLiteLibrary_lazy_Mapping.dat"
_LAZY = re.compile(r"TensileLibrary_lazy_(gfx[0-9a-f]+(?:-[0-9]+)*(?:-generic)?)\.dat\Z")
_XNACK = re.compile(r"-xnack[+-](?=\.[a-z]+\Z)")


class Folder(Protocol):
    """A folder of kernels: names with sizes in bytes, names that lead nowhere, and its files' bytes."""

    @property
    def path(self) -> str:
        """Where it lies."""

    @property
    def files(self) -> Mapping[str, int]:
        """Name -> bytes."""

    @property
    def dangling(self) -> Sequence[str]:
        """Links that lead to no file."""

    def read_at(self, name: str, offset: int, n: int) -> bytes:
        """At most n bytes of one file."""

    def ref(self, name: str) -> FileRef:
        """One file as evidence."""


@dataclass(slots=True)
class _Census:
    """What is in the folder: code files with their heads, files by target, names without their xnack marks."""

    folder: Folder
    code: dict[str, code_file.CodeFile]
    named: dict[str, list[str]]
    plain: dict[str, list[str]]
    mix: Mix
    closely: Collection[str] = ()

    def kernels(self, target: str) -> bool:
        """Whether the target's helper kernels are there."""
        return f"Kernels.so-000-{target}.hsaco" in self.plain

    def damaged(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the names whose content is none or is cut."""
        return tuple(
            name
            for name in names
            if self.folder.files.get(name) == 0 or (name in self.code and self.code[name].problem)
        )


def read(folder: Folder, closely: Collection[str] = ()) -> KernelLibrary:
    """Every target that an index or a file's name speaks of, with its state.

    For the targets in `closely` (those of the machine's cards) the files of solutions are read whole: a cut one is
    found, and so is a code file that nothing but its solutions asks for. That is 20 MB a target; all targets of one
    folder would be 300.
    """
    files = folder.files
    is_lt = any(name.startswith(("TensileLite", "hipblaslt", "extop_")) for name in files) or (
        "/hipblaslt/" in folder.path + "/"
    )
    library = "hipBLASLt" if is_lt else "rocBLAS"
    census = _census(folder)
    census.closely = closely
    lazy = {found[1]: name for name in files if (found := _LAZY.match(name))}
    problems = [f"{folder.path}/{name} is a link that leads to no file" for name in folder.dangling[:20]]
    if is_lt and MAPPING in files:
        layout, targets, indexes = "lazy", _mapped(census), [MAPPING]
    elif lazy:
        layout, targets, indexes = "lazy", _lazy(census, lazy), sorted(lazy.values())
        if MERGED in files:
            problems.append(f"{folder.path} holds indexes of both layouts: {MERGED} beside lazy ones")
    elif MERGED in files:
        layout, targets, indexes = "merged", _merged(census), [MERGED]
    else:
        layout, indexes = "none", []
        targets = [_without_index(census, target) for target in census.named]
    problems += census.mix.problems
    ordered = tuple(sorted(targets, key=lambda entry: (len(entry.target), entry.target)))
    return KernelLibrary(
        folder.path, library, layout, ordered, tuple(folder.ref(name) for name in indexes), tuple(problems)
    )


def _census(folder: Folder) -> _Census:
    code: dict[str, code_file.CodeFile] = {}
    named: dict[str, list[str]] = {}
    plain: dict[str, list[str]] = {}
    for name, size in sorted(folder.files.items()):
        target = tensile.target_in(name)
        if target:
            named.setdefault(target, []).append(name)
        plain.setdefault(_XNACK.sub("", name), []).append(name)
        if name.endswith((".co", ".hsaco")):
            code[name] = code_file.read(_reader(folder, name), size)
    samples = {target: _sample(folder, names) for target, names in named.items()}
    return _Census(folder, code, named, plain, compare(named, code, samples))


def _reader(folder: Folder, name: str) -> ReadAt:
    return lambda offset, n: folder.read_at(name, offset, n)


def _sample(folder: Folder, names: Sequence[str]) -> frozenset[str]:
    """The fields of a solution in one of the target's own files."""
    for name in names:
        if name.endswith(".dat") and "_lazy_" not in name:
            try:
                return tensile.solution_fields(_reader(folder, name), folder.files[name])
            except FormatError:
                return frozenset()
    return frozenset()


def _whole(folder: Folder, name: str, most: int = tensile.LARGEST_INDEX) -> bytes:
    size = folder.files[name]
    if size > most:
        raise FormatError(f"it has {size} bytes, more than any such file", 0)
    return folder.read_at(name, 0, size) if size else b""


def _without_index(census: _Census, target: str) -> TargetFiles:
    names = census.named[target]
    return TargetFiles(
        target, LibraryState.INDEX_MISSING, files=len(names), suspect=tuple(names),
        detail=f"{len(names)} files are named after it and no index leads to them",
    )  # fmt: skip


def _lazy(census: _Census, indexes: Mapping[str, str]) -> list[TargetFiles]:
    found = []
    for target in {**indexes, **census.named}:
        if target not in indexes:
            found.append(_without_index(census, target))
            continue
        name = indexes[target]
        try:
            rows = tensile.lazy(_whole(census.folder, name))
        except (FormatError, OSError) as error:
            files = len(census.named.get(target, ()))
            found.append(
                TargetFiles(
                    target, LibraryState.INDEX_DAMAGED, files=files, suspect=(name,), detail=f"{name}: {error}"
                )
            )
            continue
        foreign = sorted({row.target for row in rows if row.target not in ("", target)})
        prefixes = sorted({prefix for row in rows if row.target in ("", target) for prefix in row.files})
        found.append(_judged(census, target, prefixes, name, foreign))
    return found


def _mapped(census: _Census) -> list[TargetFiles]:
    try:
        prefixes = tensile.mapping(_whole(census.folder, MAPPING))
    except (FormatError, OSError) as error:
        return [
            TargetFiles(target, LibraryState.INDEX_DAMAGED, files=len(names), suspect=(MAPPING,),
                        detail=f"{MAPPING}: {error}")
            for target, names in census.named.items()
        ]  # fmt: skip
    by_target: dict[str, list[str]] = {}
    for prefix in prefixes:
        by_target.setdefault(tensile.target_in(prefix + ".co"), []).append(prefix)
    by_target.pop("", None)
    found = [_judged(census, target, listed, MAPPING, ()) for target, listed in by_target.items()]
    return found + [_without_index(census, target) for target in census.named if target not in by_target]


def _judged(census: _Census, target: str, prefixes: Sequence[str], index: str, foreign: Sequence[str]) -> TargetFiles:
    """One target whose index could be read."""
    own = sum("fallback" not in prefix for prefix in prefixes)
    fallback = len(prefixes) - own
    needed: list[str] = []
    missing: list[str] = []
    broken: dict[str, str] = {}
    for prefix in prefixes:
        group = _group(census, target, prefix)
        needed += group.present
        missing += group.missing
        broken |= group.broken
    others = any(census.kernels(other) for other in census.named)
    if prefixes and others and not census.kernels(target):
        missing.append(f"Kernels.so-000-{target}.hsaco")
    files = len(census.named.get(target, ()))
    for name in census.damaged([*needed, *census.named.get(target, ())]):
        broken.setdefault(name, _why(census, name))

    def state(kind: LibraryState, suspect: Sequence[str] = (), detail: str = "") -> TargetFiles:
        return TargetFiles(target, kind, own, fallback, files, tuple(missing), tuple(dict.fromkeys(suspect)), detail)

    if not prefixes:
        said = f"{index} has no row for it" + (f", but for {', '.join(foreign)}" if foreign else "")
        return state(LibraryState.INDEX_DAMAGED, (index,), said)
    if missing or broken:
        parts = [f"{len(missing)} files that {index} leads to are not there"] if missing else []
        parts += [f"{name}: {why}" for name, why in list(broken.items())[:3]]
        return state(LibraryState.FILES_MISSING, tuple(broken), "; ".join(parts))
    if target in census.mix.suspects or (foreign and not own):
        suspects = census.mix.suspects.get(target, ())
        said = census.mix.details.get(target, "")
        if foreign and not own:
            suspects = (index, *suspects)
            said = "; ".join(part for part in (f"{index} is written for {', '.join(foreign)}", said) if part)
        return state(LibraryState.MIXED, suspects, said)
    loose = sorted(set(census.named.get(target, ())) - set(needed) - _beside(target, index))
    said = f"{len(loose)} files named after it are led to by no index" if loose else ""
    if own:
        return state(LibraryState.COMPLETE, loose, said)
    return state(LibraryState.FALLBACK_ONLY, loose, said or f"{index} has no kernels of its own for it")


@dataclass(slots=True)
class _Group:
    """One prefix of an index: files that are there, names that are not, and damaged files with the reason."""

    present: list[str]
    missing: list[str]
    broken: dict[str, str]


def _group(census: _Census, target: str, prefix: str) -> _Group:
    """What a prefix needs: its solutions, and the code that they ask for where they are read closely."""
    solutions = f"{prefix}.dat"
    code = tensile.code_names(prefix, target)
    present = [real for name in (solutions, *code) for real in census.plain.get(name, ())]
    missing = [] if solutions in census.plain else [solutions]
    broken: dict[str, str] = {}
    wanted: frozenset[str] = frozenset()
    if target in census.closely and not missing:
        try:
            wanted = tensile.code_suffixes(_whole(census.folder, solutions, tensile.LARGEST_SOLUTIONS))
        except FormatError as error:
            broken[solutions] = str(error)
        except OSError as error:
            if error.errno:  # without one it is no fault of the disk: a snapshot for another target has no such range
                broken[solutions] = f"it cannot be read: {error.strerror}"
    asked = [name for name in code if name[name.rindex(".") :] in wanted]
    if asked:
        missing += [name for name in asked if name not in census.plain]
    elif not any(name in census.plain for name in code):
        missing.append(code[0])
    return _Group(present, missing, broken)


def _beside(target: str, index: str) -> set[str]:
    """Names that no prefix leads to and that belong there all the same."""
    marks = ("", "-xnack+", "-xnack-")
    kernels = {f"Kernels.so-000-{target}{mark}.hsaco" for mark in marks}
    return {index, f"TensileLibrary_lazy_{target}.dat", f"extop_{target}.co"} | kernels


def _why(census: _Census, name: str) -> str:
    return census.code[name].problem if name in census.code else "it is empty"


def _merged(census: _Census) -> list[TargetFiles]:
    try:
        rows = tensile.merged(_reader(census.folder, MERGED), census.folder.files[MERGED])
    except FormatError as error:
        return [
            TargetFiles(target, LibraryState.INDEX_DAMAGED, files=len(names), suspect=(MERGED,),
                        detail=f"{MERGED}: {error}")
            for target, names in census.named.items()
        ]  # fmt: skip
    own = {row.target for row in rows if row.target}
    for_all = any(not row.target for row in rows)
    return [_from_merged(census, target, target in own, for_all) for target in sorted(own | set(census.named))]


def _from_merged(census: _Census, target: str, own: bool, for_all: bool) -> TargetFiles:
    names = census.named.get(target, [])
    code = f"TensileLibrary_{target}.co"
    missing = [code] if own and code not in census.plain else []
    if (own or for_all) and not census.kernels(target):
        missing.append(f"Kernels.so-000-{target}.hsaco")
    damaged = census.damaged(names)

    def state(kind: LibraryState, suspect: Sequence[str] = (), detail: str = "") -> TargetFiles:
        return TargetFiles(
            target, kind, int(own), int(for_all), len(names), tuple(missing), tuple(suspect), detail
        )  # fmt: skip

    if missing or damaged:
        parts = [f"{', '.join(missing)} not there"] if missing else []
        parts += [f"{name}: {_why(census, name)}" for name in damaged[:3]]
        return state(LibraryState.FILES_MISSING, damaged, "; ".join(parts))
    if target in census.mix.suspects:
        return state(LibraryState.MIXED, census.mix.suspects[target], census.mix.details[target])
    if own:
        return state(LibraryState.COMPLETE)
    if code in census.plain or not for_all:
        return state(LibraryState.INDEX_MISSING, names, f"{MERGED} has no row for it")
    return state(LibraryState.FALLBACK_ONLY, (), f"{MERGED} has no row of its own for it")
