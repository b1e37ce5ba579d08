"""What a HIP runtime library (libamdhip64) can load, as its own bytes say."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.model.code_object import FileRef


@dataclass(frozen=True, slots=True)
class HipRuntime:
    """`version` is what follows `.so.` in the file's real name (`6.4.43484`, `6`).

    `compressed` is True where the library holds the text with which it refuses a too old comgr for compressed
    bundles; `generic` are the generic targets that it names; `opens` the comgr that it opens when it needs it (which
    decompresses); `kpack` whether it speaks of KPACK archives. They are signs in one direction only: a library
    without them may still know (or be packed).
    """

    file: FileRef
    version: str
    compressed: bool
    generic: tuple[str, ...]
    opens: tuple[str, ...] = ()
    kpack: bool = False
