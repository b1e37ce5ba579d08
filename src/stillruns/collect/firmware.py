"""Firmware files, and the list that the driver's own module carries."""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Callable, Iterator

from stillruns.collect.gathering import Commands, read
from stillruns.collect.tree import Tree, glob
from stillruns.formats.reading import ReadAt
from stillruns.formats.zstd import ZstdDecompressor, ZstdError
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawFile

PROBE = Probe(
    id="firmware",
    applies="machines with an AMD card",
    reads=(
        "/lib/firmware/amdgpu, /lib/firmware/updates/amdgpu, /lib/firmware/radeon (names only)",
        "/lib/modules/RELEASE/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko* (the firmware lines of .modinfo)",
    ),
)

FOLDERS = ("/lib/firmware/amdgpu", "/lib/firmware/updates/amdgpu", "/lib/firmware/radeon")
_MODULES = (
    "/lib/modules/{release}/updates/dkms/amdgpu.ko*",
    "/lib/modules/{release}/extra/amdgpu.ko*",
    "/lib/modules/{release}/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko*",
)
_LINE = re.compile(rb"(?<=[\0\n])firmware=([\w./-]{1,100})\0")
_MOST = 256 << 20


def collect(tree: Tree, commands: Commands, modules: bool = True) -> Collected:
    """The names in the firmware folders, and (with `modules`) the running kernel's module's own list."""
    del commands
    files = []
    for folder in FOLDERS:
        names = tree.names(folder)
        if isinstance(names, Absence):
            files.append(RawFile(folder, absence=names))
        else:
            files.append(RawFile(folder, folder, "folder", "\n".join(names).encode()))
    if not modules:
        return Collected(tuple(files))
    release = read(tree, "/proc/sys/kernel/osrelease", 256).text or "*"
    for pattern in _MODULES:
        for path in glob(tree, pattern.format(release=release)):
            return Collected((*files, module_list(tree, path)))
    return Collected(tuple(files))


def module_list(tree: Tree, path: str) -> RawFile:
    """The module's firmware names, one a line; the module is read as a stream and never held whole."""
    with tree.ranges(path) as source:
        if isinstance(source, Absence):
            return RawFile(path, absence=source)
        try:
            names = sorted({m.decode() for m in _names(_plain(path, source.read_at))})
        except (lzma.LZMAError, zlib.error, ZstdError, EOFError, OSError) as error:
            return RawFile(path, absence=Absence(AbsenceReason.UNPARSABLE, f"{path} does not decompress: {error}"))
    return RawFile(path, path, "file", "\n".join(names).encode())


def _names(parts: Iterator[bytes]) -> Iterator[bytes]:
    tail = b""
    for part in parts:
        text = tail + part
        yield from _LINE.findall(text)
        tail = text[-256:]


def _plain(path: str, read_at: ReadAt) -> Iterator[bytes]:
    """The decompressed bytes of a module, in pieces."""
    feed: Callable[[bytes], bytes]
    if path.endswith(".xz"):
        feed = lzma.LZMADecompressor(memlimit=128 << 20).decompress
    elif path.endswith(".gz"):
        feed = zlib.decompressobj(31).decompress
    elif path.endswith(".zst"):
        feed = ZstdDecompressor().decompress
    else:
        feed = bytes
    offset, given = 0, 0
    while given < _MOST:
        part = read_at(offset, 1 << 18)
        if not part:
            return
        offset += len(part)
        plain = feed(part)
        given += len(plain)
        yield plain
