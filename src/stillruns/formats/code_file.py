"""A file of device code in a folder of kernels: which processor it is for, who made it, whether it is whole.

Only headers are read: a plain code object's ELF header and its .comment section, a compressed bundle's sizes.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from stillruns.errors import FormatError
from stillruns.formats import amdgpu, bundles, elf
from stillruns.formats.reading import ReadAt, Span

_LINKER = re.compile(rb"Linker: ([^\0]{1,80})")


@dataclass(frozen=True, slots=True)
class CodeFile:
    """`processor` is empty where the header does not tell it, `version` the code object's or None, `maker` the linker
    as the file names it, `problem` a clause about damage or empty."""

    processor: str = ""
    version: int | None = None
    maker: str = ""
    problem: str = ""


def read(read_at: ReadAt, size: int) -> CodeFile:
    """The head of a .co or .hsaco file of `size` bytes; damage is in `problem` and raises nothing."""
    span = Span(read_at, 0, size)
    try:
        head = span.some(0, elf.HEADER)
        if head.startswith(bundles.COMPRESSED):
            claimed = bundles.compressed_size(head)
            cut = claimed is not None and claimed > size
            return CodeFile(problem=f"it shall have {claimed} bytes and has {size}" if cut else "")
        if head.startswith(bundles.MAGIC):
            return CodeFile()
        code = amdgpu.header(head)
        if code is None:
            return CodeFile(problem="it is empty" if not head else "it holds no device code")
        return CodeFile(code.processor, code.version, _maker(span, head))
    except FormatError as error:
        return CodeFile(problem=str(error))


def _maker(span: Span, head: bytes) -> str:
    """The linker that .comment names; FormatError where the file is cut before the end of its section headers."""
    (table,) = struct.unpack_from("<Q", head, 40)
    width, count, names_index = struct.unpack_from("<HHH", head, 58)
    if not table or width != 64 or not count:
        return ""
    rows = list(struct.iter_unpack("<IIQQQQIIQQ", span.take(table, 64 * count, "the table of its sections")))
    if names_index >= count:
        return ""
    names = span.some(rows[names_index][4], min(rows[names_index][5], 4096))
    wanted = names.find(b"\0.comment\0") + 1
    for row in rows:
        if wanted and row[0] == wanted:
            found = _LINKER.search(span.some(row[4], min(row[5], 4096)))
            return found[1].decode("utf-8", "replace") if found else ""
    return ""
