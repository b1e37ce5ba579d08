"""Which file answers a library's needs, in the order in which the dynamic loader looks (ld.so(8))."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from stillruns.errors import FormatError
from stillruns.formats import ld_cache
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


@dataclass(frozen=True, slots=True)
class Loader:
    """What the dynamic loader is set up with: the folders of ld.so.conf, and its cache (None where that was not
    readable: then the folders stand for it)."""

    configured: tuple[str, ...] = ()
    cache: dict[str, str] | None = None


def resolve(
    linking: Linking,
    folder: str,
    library_path: Iterable[str],
    loader: Loader,
    find: Callable[[str], str],
    loaded: Iterable[str] = (),
) -> dict[str, str]:
    """DT_NEEDED -> the path after links, empty where nothing answers.

    `folder` is where the library lies (for `$ORIGIN`), `library_path` LD_LIBRARY_PATH of the process, `find(path)`
    the path after links of a file or empty, `loaded` the folders that the program itself brings (a runner's own).
    RPATH counts only where there is no RUNPATH; the loader never looks into ld.so.conf, but into its cache.
    """
    rpath = () if linking.runpath else linking.rpath
    before = _folders([*rpath, *library_path, *linking.runpath], folder)
    after = _folders([*(loader.configured if loader.cache is None else ()), *DEFAULTS, *loaded], folder)
    found: dict[str, str] = {}
    for soname in linking.needed:
        cached = (loader.cache or {}).get(soname, "")
        places = [*(f"{place}/{soname}" for place in before), cached, *(f"{place}/{soname}" for place in after)]
        found[soname] = next((real for place in places if place and (real := find(place))), "")
    return found


def uncached(soname: str, loader: Loader, find: Callable[[str], str]) -> str:
    """Where a name that the loader would not find lies after all: in a folder of ld.so.conf that its cache does not
    know yet. Empty where it lies in none."""
    if loader.cache is None:
        return ""
    return next((place for place in loader.configured if find(f"{place}/{soname}")), "")


def _folders(places: Iterable[str], origin: str) -> list[str]:
    return [re.sub(r"\$\{?ORIGIN\}?", origin, place).rstrip("/") for place in places if place]


def loader(raw: Collected) -> Loader:
    """The loader's own files, as the probe of runtimes brought them."""
    file = raw.file("/etc/ld.so.cache")
    cache = None
    if file is not None and file.data:
        try:
            cache = ld_cache.read(file.data)
        except FormatError:
            cache = None  # a damaged cache is rebuilt at the next ldconfig; ld.so.conf says what it will hold
    return Loader(configured(raw), cache)


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
