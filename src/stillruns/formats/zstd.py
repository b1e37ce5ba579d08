"""Zstandard under one name: the standard library's module from Python 3.14 on, its backport before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):  # pragma: no cover
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError

__all__ = ["ZstdCompressor", "ZstdDecompressor", "ZstdError"]
