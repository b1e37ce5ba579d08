"""Which file answers a library's needs, in the order in which the dynamic loader looks (ld.so(8))."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from stillruns.model.code_object import Linking
from stillruns.model.raw import Collected

DEFAULTS = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)

C_LIBRARIES = (
    *(f"{folder}/libc.so.6" for folder in DEFAULTS),
    "/lib/ld-musl-x86_64.so.1",
    "/lib/libc.musl-x86_64.so.1",
)
"""One of these is on every system that runs programs; a tree without any is a part of one."""


def resolve(
    linking: Linking,
    folder: str,
    library_path: Iterable[str],
    configured: Iterable[str],
    find: Callable[[str], str],
    loaded: Iterable[str] = (),
) -> dict[str, str]:
    """DT_NEEDED -> the path after links, empty where nothing answers.

    `folder` is where the library lies (for `$ORIGIN`), `library_path` LD_LIBRARY_PATH of the process, `configured`
    ld.so.conf's folders, `find(path)` the path after links of a file or empty, `loaded` the folders that the program
    itself brings (a runner's own). RPATH counts only where there is no RUNPATH.
    """
    rpath = () if linking.runpath else linking.rpath
    order = [*rpath, *library_path, *linking.runpath, *configured, *DEFAULTS, *loaded]
    folders = [re.sub(r"\$\{?ORIGIN\}?", folder, place).rstrip("/") for place in order if place]
    found: dict[str, str] = {}
    for soname in linking.needed:
        found[soname] = next((real for place in folders if (real := find(f"{place}/{soname}"))), "")
    return found


def configured(raw: Collected) -> tuple[str, ...]:
    """Folders of ld.so.conf and its parts, in the order of the files."""
    found: list[str] = []
    for file in raw.files:
        if file.path.startswith("/etc/ld.so.conf") and file.data:
            found += [line.strip() for line in file.text.splitlines() if line.strip().startswith("/")]
    return tuple(dict.fromkeys(found))


def split(value: str) -> Sequence[str]:
    """LD_LIBRARY_PATH's folders; an empty part (the working folder) is left out."""
    return [part for part in re.split("[:;]", value) if part.startswith("/")]
