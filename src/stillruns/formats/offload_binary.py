"""LLVM's OffloadBinary, as in .llvm.offloading sections: device images with a table of strings each.

Layout: llvm/Object/OffloadBinary.h. Version 1 holds one image a binary and says its entry's size; version 2 holds
several and says how many, and its strings carry their lengths. Binaries follow each other, aligned to 8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stillruns.errors import FormatError
from stillruns.formats import amdgpu
from stillruns.formats.reading import Span

MAGIC = b"\x10\xff\x10\xad"
MOST_IMAGES = 4096
MOST_BINARIES = 1 << 14
MOST_STRINGS = 64
LONGEST_STRING = 4096


class Image(NamedTuple):
    """One device image: `arch` and `triple` as the strings say, its place and size in bytes, and the header of AMD's
    code where it is such. `problem` is a sentence about damage (then nothing else holds)."""

    offset: int
    triple: str = ""
    arch: str = ""
    size: int = 0
    code: amdgpu.Code | None = None
    problem: str = ""


def walk(span: Span) -> Iterator[tuple[Image, ...]]:
    """The images of each binary in a section or file, one tuple a binary."""
    at = span.start
    for _ in range(MOST_BINARIES):
        if at + 32 > span.end:
            return
        if span.some(at, 4) != MAGIC:
            at += 8
            after = span.skip_zeros(at, 1 << 20)
            at = at if after >= span.end else max(at, after // 8 * 8)
            if after >= span.end:
                return
            if span.some(at, 4) != MAGIC:
                at = span.find((MAGIC,), at, 64 << 20)
                if at < 0:
                    return
        try:
            images, size = _binary(span, at)
        except FormatError as error:
            yield (Image(at, problem=str(error)),)
            return
        yield images
        at += (size + 7) // 8 * 8
    yield (Image(at, problem=f"there are more than {MOST_BINARIES} offload binaries; the rest is not read"),)


def _binary(span: Span, at: int) -> tuple[tuple[Image, ...], int]:
    version, size, entries, last = span.unpack("<IQQQ", at + 4, "the header of an offload binary")
    if version not in (1, 2):
        raise FormatError(f"offload binaries of version {version} are not known here (1 and 2 are)", at)
    if size < 32 or at + size > span.end:
        raise FormatError(f"the offload binary claims {size} bytes and {span.end - at} are there", at)
    inside = span.within(at, at + size)
    count = 1 if version == 1 else last
    if count > MOST_IMAGES:
        raise FormatError(f"the offload binary claims {count} images", at)
    images = []
    for index in range(count):
        row = inside.unpack("<HHIQQQQ", at + entries + 40 * index, f"image {index} of an offload binary")
        strings_at, strings, image, length = row[3:]
        words = _strings(inside, at, strings_at, strings, version)
        code = amdgpu.header(inside.some(at + image, 64)) if length >= 64 else None
        images.append(Image(at + image, words.get("triple", ""), words.get("arch", ""), length, code))
    return tuple(images), size


def _strings(span: Span, at: int, table: int, count: int, version: int) -> dict[str, str]:
    width = 16 if version == 1 else 24
    found = {}
    for index in range(min(count, MOST_STRINGS)):
        row = span.unpack("<QQ", at + table + width * index, "a string of an offload binary")
        key, value = (span.some(at + place, LONGEST_STRING).split(b"\0", 1)[0] for place in row)
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
    return found
