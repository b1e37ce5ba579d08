"""What device code a file holds: every container that AMD's and NVIDIA's compilers write, told by the file's bytes.

Nothing is decided here about a card; that a generic target serves a processor, or that a runtime is too old for a
code object, is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from stillruns.errors import FormatError
from stillruns.formats import amdgpu, bundles, elf, kpack, nvidia, offload_binary
from stillruns.formats.reading import ReadAt, Span
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.code_object import CodeObjects, CodeTarget, Feature, FileRef, KpackRef, Linking

HIP_FATBIN = ".hip_fatbin"
HIP_WRAPPERS = ".hipFatBinSegment"
OFFLOADING = ".llvm.offloading"
NV_FATBIN = ".nv_fatbin"
NV_RELOCATABLE = "__nv_relfatbin"
"""Parts for NVIDIA's device linker. A linked library keeps them and the driver never loads them (cuobjdump lists them
only with -all): PTX in them promises nothing. They count only in a file that has nothing else, an object file."""
KNOWN = (HIP_FATBIN, OFFLOADING, kpack.SECTION, NV_FATBIN, NV_RELOCATABLE)

_WRAPPER = 24
"""Bytes of one registration: magic, version, two pointers."""
_IN_LIBRARY = b"FPIH"
"""Magic of a registration whose code is in this file (HIPF); `HIPK` says that it is in KPACK archives."""
LARGEST_WRAPPERS = 24 << 16
MOST_PROBLEMS = 20
MOST_SECTIONS = 8

Refer = Callable[[str], FileRef]
"""From a build id to the file as evidence, with the ranges read so far."""


@dataclass(slots=True)
class _Found:
    """What is gathered while the containers are walked."""

    bundles: int = 0
    wrappers: int | None = None
    compressed: dict[str, int] = field(default_factory=dict)
    found: dict[str, list[CodeTarget]] = field(default_factory=dict)
    kpack: KpackRef | None = None
    problems: list[str] = field(default_factory=list)

    def problem(self, sentence: str) -> None:
        """Keep a sentence about damage; a file of damage alone gives twenty of them."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(sentence)

    def add(self, targets: Iterable[CodeTarget]) -> None:
        """Targets of one bundle: each counts once for it, however often the bundle names it."""
        for target in {t.target: t for t in targets}.values():
            self.found.setdefault(target.target, []).append(target)

    @property
    def targets(self) -> dict[str, CodeTarget]:
        """What was found of each target, joined."""
        return {name: _joined(same) for name, same in self.found.items()}


def read(read_at: ReadAt, size: int, path: str, refer: Refer | None = None) -> CodeObjects | Absence:
    """The device code in a file of `size` bytes.

    An absence for an empty file and for one whose header is damaged; any other damage is in `problems`, beside what
    was found around it.
    """
    refer = refer or (lambda build_id: FileRef(path, size, build_id=build_id))
    if size == 0:
        return Absence(AbsenceReason.UNPARSABLE, f"{path} is empty")
    span = Span(read_at, 0, size)
    found = _Found()
    try:
        head = span.some(0, 64)
        if head.startswith(b"\x7fELF"):
            name, linking, build_id = _elf(span, head, found)
        else:
            name, linking, build_id = _other(span, head, found), Linking(), ""
    except FormatError as error:
        return Absence(AbsenceReason.UNPARSABLE, f"{path} cannot be read as device code: {error}")
    return CodeObjects(
        refer(build_id), name, found.bundles, found.wrappers, dict(sorted(found.compressed.items())),
        tuple(target for _, target in sorted(found.targets.items(), key=lambda pair: _order(pair[0]))), found.kpack,
        linking,
        tuple(found.problems),
    )  # fmt: skip


def archive_patterns(code: CodeObjects) -> tuple[str, ...]:
    """Where the KPACK archives of a library may lie, as patterns with `*` for the target."""
    if code.kpack is None:
        return ()
    folder = code.file.path.rpartition("/")[0]
    return tuple(f"{folder}/{path.replace(kpack.PLACEHOLDER, '*')}" for path in code.kpack.search_paths)


def with_archives(code: CodeObjects, archives: Sequence[tuple[ReadAt, int, str]]) -> CodeObjects:
    """The same library with the targets that its archives (read_at, size, path) hold for it."""
    if code.kpack is None:
        return code
    targets: dict[str, None] = {}
    problems = list(code.problems)
    for read_at, size, path in archives:
        try:
            targets |= dict.fromkeys(kpack.archive(read_at, size).of(code.kpack.kernel_name))
        except FormatError as error:
            problems.append(f"{path}: {error}")
    return replace(code, kpack=replace(code.kpack, targets=tuple(sorted(targets))), problems=tuple(problems))


def _elf(span: Span, head: bytes, found: _Found) -> tuple[str, Linking, str]:
    code = amdgpu.header(head)
    file = elf.read(span.read_at, span.end)
    for problem in file.problems:
        found.problem(problem)
    if code is not None:
        found.add((_target(code.target, code, 0),))
        return "code object", file.linking, file.build_id
    _wrappers(span, file, found)
    names = {section.name for section in file.sections}
    passed = {NV_RELOCATABLE} if NV_FATBIN in names else set()
    walked = [section for section in file.sections if section.name in KNOWN and section.name not in passed]
    if len(walked) > MOST_SECTIONS:
        found.problem(f"{len(walked)} sections claim to hold device code; {MOST_SECTIONS} of them are read")
        del walked[MOST_SECTIONS:]
    kinds = [kind for section in walked if (kind := _section(span, section, found))]
    if found.kpack is not None:
        kinds.append("KPACK")
    if not kinds and not file.sections:
        found.problem("there are no section headers, so device code in it would not be found")
    name = f"ELF with {' and '.join(dict.fromkeys(kinds))}" if kinds else "ELF without device code"
    return name, file.linking, file.build_id


def _section(span: Span, section: elf.Section, found: _Found) -> str:
    """Walk one section that holds device code; the container's name, or empty."""
    if section.type == elf.NOBITS or not section.size:
        return ""
    if section.offset + section.size > span.end:
        beyond = section.offset + section.size - span.end
        found.problem(f"the section {section.name} goes {beyond} bytes beyond the end of the file")
    inside = span.within(section.offset, section.offset + section.size)
    if section.name == kpack.SECTION:
        try:
            reference = kpack.reference(inside)
            found.kpack = KpackRef(reference.search_paths, reference.kernel_name)
        except FormatError as error:
            found.problem(str(error))
        return ""
    if section.name == HIP_FATBIN:
        return _bundles(inside, found)
    if section.name == OFFLOADING:
        return _images(inside, found)
    return _nvidia(inside, found)


def _wrappers(span: Span, file: elf.Elf, found: _Found) -> None:
    """Count the registrations in the library that lead to code in it."""
    for section in file.sections:
        if section.name == HIP_WRAPPERS and section.type != elf.NOBITS:
            data = span.some(section.offset, min(section.size, LARGEST_WRAPPERS))
            magics = [data[at : at + 4] for at in range(0, len(data) - _WRAPPER + 1, _WRAPPER)]
            found.wrappers = (found.wrappers or 0) + magics.count(_IN_LIBRARY)


def _bundles(span: Span, found: _Found) -> str:
    if found.wrappers == 0:  # all code was moved to archives and the section is left as zeros
        return ""
    before = found.bundles
    for bundle in bundles.walk(span):
        if bundle.problem:
            found.problem(bundle.problem)
        if bundle.form == "damaged":
            continue
        if bundle.form == "code object":
            found.add(_target(entry.target, entry.code, entry.offset) for entry in bundle.entries)
            continue
        found.bundles += 1
        if bundle.form != "plain":
            found.compressed[bundle.form] = found.compressed.get(bundle.form, 0) + 1
        found.add(_target(entry.target, entry.code, entry.offset) for entry in bundle.entries if entry.target)
    if found.wrappers is not None and found.bundles < found.wrappers and found.bundles > before:
        found.problem(f"{found.wrappers} bundles are registered and {found.bundles} were found")
    return "offload bundles" if found.bundles > before else "device code that cannot be read"


def _images(span: Span, found: _Found) -> str:
    any_found = False
    for images in offload_binary.walk(span):
        for image in images:
            if image.problem:
                found.problem(image.problem)
                continue
            any_found = True
            found.bundles += 1
            if image.arch:
                found.add((_target(image.arch, image.code, image.offset),))
    return "offload binaries" if any_found else ""


def _nvidia(span: Span, found: _Found) -> str:
    any_found = False
    for fatbin in nvidia.walk(span):
        if fatbin.problem:
            found.problem(fatbin.problem)
        if fatbin.entries:
            any_found = True
            found.bundles += 1
            found.add(
                CodeTarget(e.target, e.processor, Feature.NONE, Feature.NONE, offset=e.offset) for e in fatbin.entries
            )
    return "NVIDIA fat binaries" if any_found else ""


def _other(span: Span, head: bytes, found: _Found) -> str:
    if head.startswith((bundles.MAGIC, bundles.COMPRESSED)):
        _bundles(span, found)
        return "bundle file"
    if head.startswith(offload_binary.MAGIC):
        _images(span, found)
        return "offload binary"
    if head.startswith(kpack.MAGIC):
        archive = kpack.archive(span.read_at, span.end)
        found.add(_target(target, None, 0) for target in archive.targets)
        return "KPACK archive"
    return "no device code"


def _target(written: str, code: amdgpu.Code | None, offset: int) -> CodeTarget:
    """A target as its container writes it; the code's own header, where it was read, knows more."""
    processor, xnack, sramecc = amdgpu.features_in(written)
    if code is None:
        return CodeTarget(written, processor, xnack, sramecc, offset=offset)
    return CodeTarget(
        written, processor, code.xnack, code.sramecc, code.version, code.generic_version, offset=offset,
        mismatches=int(code.processor != processor),
    )  # fmt: skip


def _joined(same: Sequence[CodeTarget]) -> CodeTarget:
    """All finds of one target: counts add up, the newest version counts, features that differ are unknown."""
    read_here = [one for one in same if one.code_object_version is not None] or same
    xnack, sramecc = ({getattr(one, name) for one in read_here} for name in ("xnack", "sramecc"))
    return replace(
        same[0],
        xnack=xnack.pop() if len(xnack) == 1 else Feature.UNKNOWN,
        sramecc=sramecc.pop() if len(sramecc) == 1 else Feature.UNKNOWN,
        code_object_version=max((v for one in same if (v := one.code_object_version) is not None), default=None),
        generic_version=max(one.generic_version for one in same),
        count=len(same),
        mismatches=sum(one.mismatches for one in same),
    )


def _order(target: str) -> tuple[str, int, str]:
    """gfx900 before gfx1030, sm_61 before sm_100."""
    digits = "".join(c for c in target.split(":")[0] if c.isdigit() or c in "abcdef")
    kind = target[:2]
    return kind, len(digits), target
