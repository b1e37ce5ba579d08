"""Zstandard under one name: the standard library's module from Python 3.14 on, its backport before.

The library is loaded when it is first needed: most files that are scanned for device code are not compressed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError

__all__ = ["ZstdCompressor", "ZstdDecompressor", "ZstdError", "head"]


def head(data: bytes, most: int) -> bytes:
    """At most `most` bytes of what a frame unpacks to; ValueError where it is damaged."""
    library = _library()
    try:
        return bytes(library.ZstdDecompressor().decompress(data, max_length=most))
    except (library.ZstdError, EOFError) as error:
        raise ValueError(str(error)) from None


def __getattr__(name: str) -> Any:
    """The library's own names, for `from ... import`."""
    if name not in __all__:
        raise AttributeError(name)
    return getattr(_library(), name)


def _library() -> Any:
    if sys.version_info >= (3, 14):  # pragma: no cover
        from compression import zstd
    else:
        from backports import zstd
    return zstd
