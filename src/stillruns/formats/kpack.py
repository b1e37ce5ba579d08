"""KPACK: device code beside its library, in archives for each family of targets (ROCm 7.x and later).

Layout: ROCm's kpack runtime. A library's .rocm_kpack_ref section is a msgpack map {kernel_name, kpack_search_paths};
paths count from the library's folder, and `@GFXARCH@` in one stands for the target. An archive is `KPAK`, a version
and the offset of its table, a msgpack map {gfx_arches, toc: {binary: {target: ...}}}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stillruns.errors import FormatError
from stillruns.formats.reading import ReadAt, Span

MAGIC = b"KPAK"
SECTION = ".rocm_kpack_ref"
PLACEHOLDER = "@GFXARCH@"
LARGEST_REFERENCE = 1 << 16
LARGEST_TABLE = 8 << 20


class Reference(NamedTuple):
    """Where a library's code lies: paths as written, and the name under which archives list it."""

    kernel_name: str
    search_paths: tuple[str, ...]


class Archive(NamedTuple):
    """An archive's table: all its targets, and the targets of each binary in it."""

    version: int
    targets: tuple[str, ...]
    binaries: dict[str, tuple[str, ...]]

    def of(self, kernel_name: str) -> tuple[str, ...]:
        """The targets that hold code of this binary (its bundles are listed as `NAME#0`, `NAME#1`, ...)."""
        found: dict[str, None] = {}
        for name, targets in self.binaries.items():
            if name == kernel_name or name.rpartition("#")[0] == kernel_name:
                found |= dict.fromkeys(targets)
        return tuple(sorted(found))


def reference(span: Span) -> Reference:
    """A library's reference; FormatError where the section is damaged."""
    data = span.take(span.start, min(span.end - span.start, LARGEST_REFERENCE), "the reference to KPACK archives")
    found = _decoded(data.rstrip(b"\0"), "the reference to KPACK archives", span.start)
    name, paths = found.get("kernel_name"), found.get("kpack_search_paths")
    if not isinstance(name, str) or not isinstance(paths, list):
        raise FormatError("the reference to KPACK archives names no kernel or no paths", span.start)
    return Reference(name, _texts(paths))


def archive(read_at: ReadAt, size: int) -> Archive:
    """An archive's table; FormatError where it is none or is damaged."""
    span = Span(read_at, 0, size)
    head = span.take(0, 16, "the header of a KPACK archive")
    if head[:4] != MAGIC:
        raise FormatError("this is no KPACK archive", 0)
    version, place = int.from_bytes(head[4:8], "little"), int.from_bytes(head[8:16], "little")
    length = size - place
    if place < 16 or length <= 0 or length > LARGEST_TABLE:
        raise FormatError(f"the table of the KPACK archive shall be at {place:#x} of {size} bytes", 8)
    table = _decoded(
        span.take(place, length, "the table of a KPACK archive"), "the table of the KPACK archive", place
    )
    targets, toc = table.get("gfx_arches", []), table.get("toc", {})
    if not isinstance(targets, list) or not isinstance(toc, dict):
        raise FormatError("the table of the KPACK archive has another shape", place)
    binaries = {str(name): _texts(sorted(of, key=str)) for name, of in toc.items() if isinstance(of, dict)}
    return Archive(version, _texts(targets), binaries)


def _decoded(data: bytes, what: str, place: int) -> dict[object, object]:
    import msgpack  # here: few libraries have such archives, and every scan would load it

    try:
        found = msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise FormatError(f"{what} is damaged: {error or type(error).__name__}", place) from None
    if not isinstance(found, dict):
        raise FormatError(f"{what} is no map", place)
    return found


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str))
