"""/etc/ld.so.cache: which file the dynamic loader takes for a name, as ldconfig wrote it.

The layout is glibc's `struct cache_file_new` (sysdeps/generic/dl-cache.h): 48 bytes of header, entries of 24 bytes,
then strings whose offsets count from the header. Older files hold the former layout first (`ld.so-1.7.0`), and the
new one behind it, aligned.
"""

from __future__ import annotations

import struct

from stillruns.errors import FormatError

_OLD, _NEW = b"ld.so-1.7.0\0", b"glibc-ld.so.cache1.1"
_HEADER, _ENTRY = 48, 24
_LIBC6 = 3
_WIDE = {0x0300, 0x0A00, 0x1000, 0x0500}
"""Flags of 64-bit libraries: x86-64, AArch64, RISC-V (lp64d), PowerPC64."""
MOST_ENTRIES = 1 << 18


def read(data: bytes) -> dict[str, str]:
    """Name -> path of 64-bit libraries, the first entry of each name (the loader's choice on a plain CPU); raises
    FormatError for what is no such file."""
    at = 0
    if data.startswith(_OLD):
        (count,) = _unpack("<I", data, 12)
        at = -(-(16 + 12 * count) // 8) * 8
    if data[at : at + len(_NEW)] != _NEW:
        raise FormatError("this is no cache of the dynamic loader", at)
    (count,) = _unpack("<I", data, at + 20)
    if count > MOST_ENTRIES or at + _HEADER + _ENTRY * count > len(data):
        raise FormatError(f"the cache claims {count} entries, and {len(data)} bytes are there", at + 20)
    found: dict[str, str] = {}
    for flags, name, path, _, hwcap in struct.iter_unpack(
        "<iIIIQ", data[at + _HEADER : at + _HEADER + _ENTRY * count]
    ):
        if flags & 0xFF != _LIBC6 or flags & 0xFF00 not in _WIDE or hwcap:
            continue
        found.setdefault(_text(data, at + name), _text(data, at + path))
    found.pop("", None)
    return found


def _unpack(form: str, data: bytes, at: int) -> tuple[int, ...]:
    try:
        return struct.unpack_from(form, data, at)
    except struct.error as error:
        raise FormatError("the cache is cut off", at) from error


def _text(data: bytes, at: int) -> str:
    if at >= len(data):
        return ""
    end = data.find(b"\0", at, at + 4096)
    return data[at:end].decode("utf-8", "replace") if end >= 0 else ""
