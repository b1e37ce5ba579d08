"""Runtimes that are installed: their backends' libraries, and where the loader would look for what those need."""

from __future__ import annotations

from collections.abc import Iterable

from stillruns.collect.gathering import Commands, read
from stillruns.collect.tree import Tree, glob
from stillruns.model.absence import Absence
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawFile

PROBE = Probe(
    id="runtimes",
    applies="any machine",
    reads=(
        "/usr/lib/ollama, /usr/local/lib/ollama, and the folders in them",
        "/usr/lib/*/ggml, /usr/lib/*/ggml/backends*, /usr/lib/*, /usr/local/lib, /usr/{local/,}bin, /opt/llama.cpp",
        "/opt/koboldcpp, /usr/share/koboldcpp",
        "the folder of --runtime PATH, and folders of servers that run",
        "LM Studio's engines in ~/.lmstudio and ~/.cache/lm-studio, and their backend-manifest.json",
        "/etc/ld.so.cache, /etc/ld.so.conf, /etc/ld.so.conf.d/*.conf",
    ),
)

FOLDERS = (
    "/usr/local/lib/ollama", "/usr/local/lib/ollama/*", "/usr/lib/ollama", "/usr/lib/ollama/*",
    "/opt/ollama/lib/ollama", "/opt/ollama/lib/ollama/*", "/usr/lib/*-linux-gnu/ggml", "/usr/lib/*-linux-gnu/ggml/*",
    "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib64/ggml", "/usr/lib", "/usr/lib/ggml", "/usr/local/lib",
    "/usr/local/lib64", "/usr/local/lib/ggml", "/opt/llama.cpp", "/opt/llama.cpp/*", "/opt/llama.cpp/build/bin",
    "/usr/local/bin", "/usr/bin", "/opt/koboldcpp", "/usr/share/koboldcpp",
)  # fmt: skip
ENGINES = tuple(
    f"{home}/{place}/extensions/backends/llama.cpp-*"
    for home in ("/home/*", "/root")
    for place in (".lmstudio", ".cache/lm-studio")
)
MANIFEST = "backend-manifest.json"
_NAMES = ("libggml", "libllama", "llama-server", "ollama", "koboldcpp_")
_LIBRARY_FOLDERS = ("rocblas", "hipblaslt")


def collect(tree: Tree, commands: Commands, more: Iterable[str] = ()) -> Collected:
    """Names of ggml's libraries in every folder where runtimes live, `more` (absolute folders) included."""
    del commands
    files: list[RawFile] = []
    seen: set[str] = set()
    for pattern in (*FOLDERS, *ENGINES, *more, *(folder.rstrip("/") + "/*" for folder in more)):
        for folder in glob(tree, pattern):
            names = tree.names(folder)
            if isinstance(names, Absence) or folder in seen:
                continue
            seen.add(folder)
            kept = [name for name in names if name.startswith(_NAMES) or name in _LIBRARY_FOLDERS]
            if any(name.startswith(_NAMES) for name in kept) or "/ollama/" in folder:
                entry = tree.entry(folder)
                real = folder if isinstance(entry, Absence) else entry.real
                files.append(RawFile(folder, real, "folder", "\n".join(kept).encode()))
                if MANIFEST in names:
                    files.append(read(tree, f"{folder}/{MANIFEST}", 1 << 16))
    for pattern in ("/etc/ld.so.conf", "/etc/ld.so.conf.d/*.conf"):
        files += [read(tree, path, 1 << 16) for path in glob(tree, pattern)]
    files.append(read(tree, "/etc/ld.so.cache", 8 << 20))
    return Collected(tuple(files))
