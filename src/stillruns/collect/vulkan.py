"""The Vulkan loader, the drivers' manifests, and what vulkaninfo lists."""

from __future__ import annotations

import json

from stillruns.collect.gathering import Commands, gather, read
from stillruns.collect.tree import Tree, glob
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawFile

PROBE = Probe(
    id="vulkan",
    applies="any machine",
    reads=(
        "/usr/share/vulkan/icd.d/*.json",
        "/usr/local/share/vulkan/icd.d/*.json",
        "/etc/vulkan/icd.d/*.json",
    ),
    commands=(("vulkaninfo", "--summary"), ("vulkaninfo",)),
    limit=1 << 16,
)

LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64",
    "/usr/lib", "/lib", "/usr/local/lib",
)  # fmt: skip


def collect(tree: Tree, commands: Commands) -> Collected:
    """The manifests, where the libraries that they name lie, and the loader."""
    found = gather(tree, PROBE, commands)
    more: list[RawFile] = []
    for folder in LIBRARIES:
        more += [read(tree, path, 0) for path in glob(tree, f"{folder}/libvulkan.so.1")]
    for file in found.files:
        for place in places(file):
            more.append(read(tree, place, 0))
    return Collected((*found.files, *more), found.commands)


def places(manifest: RawFile) -> list[str]:
    """Where the library that a manifest names may lie: beside it, at its path, or in the loader's folders."""
    try:
        library = json.loads(manifest.data or b"{}")["ICD"]["library_path"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    if not isinstance(library, str) or not library or "\0" in library or len(library) > 1024:
        return []
    if library.startswith("/"):
        return [library]
    if "/" in library:
        return [manifest.real.rpartition("/")[0] + "/" + library]
    return [f"{folder}/{library}" for folder in LIBRARIES]
