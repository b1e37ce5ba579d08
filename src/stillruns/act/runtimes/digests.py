"""Who a binary is: the digests of its file and of the shared libraries that make up the runtime.

The version text does not tell (a wheel's build calls itself build 1). Hashing 500 MB of GPU libraries takes a second,
so digests are cached by path, inode, size and modification time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from stillruns import proc

RUNTIME_LIBRARIES = ("libggml", "libllama", "libmtmd")
"""Names of the libraries that belong to the runtime wherever they are installed."""


def digest_file(path: Path, cache: Path | None = None) -> str:
    """`sha256:<hex>` of a file, from the cache folder when the file has not changed. Raises OSError."""
    status = path.stat()
    key = f"{path.resolve()}|{status.st_ino}|{status.st_size}|{status.st_mtime_ns}"
    if cache is None:
        return _hash(path)
    entry = cache / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}.json"
    try:
        known = json.loads(entry.read_bytes())
        if isinstance(known, dict) and known.get("key") == key and str(known.get("sha256", "")).startswith("sha256:"):
            return str(known["sha256"])
    except (OSError, ValueError):
        pass
    digest = _hash(path)
    cache.mkdir(parents=True, exist_ok=True)
    fresh = entry.with_suffix(f".{os.getpid()}.new")
    fresh.write_text(json.dumps({"key": key, "sha256": digest}))
    fresh.replace(entry)
    return digest


def _hash(path: Path) -> str:
    running = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            running.update(piece)
    return f"sha256:{running.hexdigest()}"


def identity(binary: Path, env: dict[str, str], cache: Path | None = None) -> tuple[str, dict[str, str]]:
    """(digest of the binary, {library file name: digest}): the libraries beside it and those of the runtime that it
    loads from elsewhere, with the backends beside these. Raises OSError when the binary cannot be read."""
    real = binary.resolve()
    libraries = {path.name: digest_file(path, cache) for path in sorted(_libraries(real, env))}
    return digest_file(real, cache), libraries


def _libraries(binary: Path, env: dict[str, str]) -> set[Path]:
    """Real files, links followed, each once."""
    found = {path.resolve() for path in binary.parent.glob("lib*.so*") if path.is_file()}
    for path in list(_loaded(binary, env)):
        found.add(path.resolve())
        found |= {beside.resolve() for beside in path.resolve().parent.glob("libggml-*.so") if beside.is_file()}
    return found


def _loaded(binary: Path, env: dict[str, str]) -> Iterator[Path]:
    """The runtime's libraries as the system's loader finds them; the binary itself does not run."""
    loader = _interpreter(binary)
    if loader is None or not Path(loader).exists():
        return
    listed = proc.run([loader, "--list", str(binary)], timeout=20, env=env)
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        path = Path(rest.rpartition(" (")[0])
        if arrow and name.startswith(RUNTIME_LIBRARIES) and path.is_file():
            yield path


def _interpreter(binary: Path) -> str | None:
    """The loader that an ELF file names (PT_INTERP): it is near the start of every dynamic program."""
    with binary.open("rb") as file:
        head = file.read(1 << 14)
    if head[:4] != b"\x7fELF" or head[4:5] != b"\x02":
        return None
    start = head.find(b"/lib")
    end = head.find(b"\0", start)
    path = head[start:end].decode("utf-8", "replace") if 0 <= start < end else ""
    return path if "/ld-" in path else None
