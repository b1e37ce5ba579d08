"""A program as it is installed: its help text, the files that it loads, and where a name stands in them.

Nothing of a recipe is ever run. What is started is a program that the user names or that PATH has, only with `--help`
or `--version`, with an environment of ours that hides GPUs and configuration files from it: a help text must neither
wake a sleeping card nor depend on the user's settings.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stillruns import proc
from stillruns.errors import EnvironmentLacks, FormatError
from stillruns.formats import elf_dynamic
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.installed import NAMED, LibraryFile, StringHit

TIMEOUT = 30.0
"""Seconds for `--help`: the first start of a ROCm build reads a gigabyte."""

READERS = ("getenv", "secure_getenv")
"""The dynamic symbols through which C and C++ code reads the environment."""

_HIDE = {
    "GGML_VK_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "-1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "ROCR_VISIBLE_DEVICES": "-1",
    "XDG_CONFIG_HOME": "/nonexistent",
    "HOME": "/nonexistent",
    "PAGER": "cat",
    "COLUMNS": "120",
}
_KEEP = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "USER")
_COMMON = re.compile(r"^(ld-linux|libc\.so|libm\.so|libdl\.so|libpthread|librt\.so|libgcc_s|libstdc\+\+|linux-vdso)")
_SYSTEM = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
)
_FOLDERS = (*_SYSTEM, "/lib64", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/rocm/lib")
_LARGEST = 4 << 30


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program printed when asked for its help or version; `argv` as it was started."""

    argv: tuple[str, ...]
    text: str


def find(program: str, named: Mapping[str, Path], environ: Mapping[str, str]) -> tuple[Path, str] | Absence:
    """(path, how it was found). A name is looked up in `named`, then on PATH; folders of PATH that are not absolute
    are left out, so that a file beside the recipe is never taken for an installed program."""
    if program in named:
        path = named[program]
        if not path.is_file():
            raise EnvironmentLacks(f"{path} is no file; give the path of the {program} that you run")
        return path, NAMED
    search = [folder for folder in environ.get("PATH", "").split(os.pathsep) if folder.startswith("/")]
    found = shutil.which(program, path=os.pathsep.join(search)) if "/" not in program and search else None
    if found is None:
        return Absence(
            AbsenceReason.NOT_INSTALLED,
            f"{program} is not on PATH",
            f"name the one that you run: --binary {program}=/path/to/{program}",
        )
    return Path(found), "on PATH"


def ask(path: Path, question: str, environ: Mapping[str, str]) -> Printed | Absence:
    """Standard output and error of `path --help` or `path --version`."""
    env = {name: environ[name] for name in _KEEP if name in environ} | _HIDE
    try:
        done = proc.run([str(path), question], timeout=TIMEOUT, env=env, cwd="/", limit=2 << 20)
    except EnvironmentLacks as error:
        return Absence(AbsenceReason.NOT_INSTALLED, str(error))
    if done.timed_out:
        return Absence(AbsenceReason.TIMED_OUT, f"{path} {question} did not end within {TIMEOUT:.0f} s")
    text = done.stdout.decode("utf-8", "replace")
    said = done.stderr.decode("utf-8", "replace")
    whole = text if question == "--help" and len(text) > 200 else text + said
    if not whole.strip() or done.signal:
        how = done.signal or f"exit status {done.status}"
        return Absence(AbsenceReason.UNPARSABLE, f"{path} {question} printed nothing to read ({how})")
    return Printed((str(path), question), whole)


def files(path: Path, environ: Mapping[str, str]) -> tuple[tuple[LibraryFile, ...], tuple[str, ...]]:
    """(the program's ELF files, DT_NEEDED names that were found nowhere): the binary, what it needs, the backends
    beside it, and the Vulkan drivers that the loader would open (themselves, not what they need in turn). The C
    library's own files are left out."""
    binary = path.resolve()
    waiting = [binary, *_beside(binary)]
    seen: dict[Path, LibraryFile] = {}
    known: set[tuple[str, int]] = set()
    missing: set[str] = set()
    drivers: set[Path] = set()
    while waiting:
        file = waiting.pop(0).resolve()
        if file in seen or _COMMON.match(file.name) or not file.is_file():
            continue
        same = (file.name.partition(".so")[0], file.stat().st_size)
        if same in known:
            continue  # wheels carry libx.so, libx.so.0 and libx.so.0.1 as copies
        known.add(same)
        made = _library(file)
        if made is None:
            continue
        library, search = made
        seen[file] = library
        for name in library.needed:
            if _COMMON.match(name) or file in drivers:
                continue
            found = _locate(name, file, binary, search, environ)
            if found is None:
                missing.add(name)
            else:
                waiting.append(found)
        if file.name.startswith("libvulkan.so"):
            drivers |= {driver.resolve() for driver in _drivers()}
            waiting += sorted(drivers)
    return tuple(seen.values()), tuple(sorted(missing))


def _beside(binary: Path) -> list[Path]:
    """Backends are opened by name at run time, from the program's folder or a distribution's."""
    folder = binary.parent
    places = [folder, folder.parent / "lib", folder.parent / "lib" / "ollama"]
    found: list[Path] = []
    for place in places:
        found += sorted(place.glob("libggml-*.so*")) + sorted(place.glob("*/libggml-*.so*"))
    for base in (folder.parent / "lib", Path("/usr/lib")) if folder.name == "bin" else ():
        found += sorted(base.glob("*/ggml/backends*/libggml-*.so"))
    return found


def _drivers() -> list[Path]:
    found: list[Path] = []
    for manifest in sorted(Path("/usr/share/vulkan/icd.d").glob("*.json")):
        try:
            named = re.search(r'"library_path"\s*:\s*"([^"]+)"', manifest.read_text(errors="replace"))
        except OSError:
            continue
        if named:
            place = Path(named.group(1))
            found += [place] if place.is_absolute() else [Path(folder) / place for folder in _SYSTEM]
    return [path for path in found if path.is_file()]


def _locate(name: str, user: Path, binary: Path, search: tuple[str, ...], environ: Mapping[str, str]) -> Path | None:
    """As ld.so(8) looks: LD_LIBRARY_PATH, the run path, the program's folder (a bundle), the system's folders."""
    own = [folder.replace("$ORIGIN", str(user.parent)).replace("${ORIGIN}", str(user.parent)) for folder in search]
    folders = [*environ.get("LD_LIBRARY_PATH", "").split(":"), *own, str(user.parent), str(binary.parent), *_FOLDERS]
    for folder in folders:
        if folder.startswith("/") and (Path(folder) / name).is_file():
            return Path(folder) / name
    return None


def _library(path: Path) -> tuple[LibraryFile, tuple[str, ...]] | None:
    try:
        size = path.stat().st_size
        if not 64 <= size <= _LARGEST:
            return None
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            dynamic = elf_dynamic.read(lambda at, count: data[at : at + count], size)
            digest = hashlib.sha256(data).hexdigest()
    except (OSError, FormatError, ValueError):
        return None
    reads = next(((name, dynamic.imports[name]) for name in READERS if name in dynamic.imports), None)
    return LibraryFile(str(path), f"sha256:{digest}", size, dynamic.needed, reads), dynamic.search


def strings(
    libraries: Iterable[LibraryFile], names: Iterable[str], known: Iterable[str] = ()
) -> dict[str, tuple[StringHit, ...]]:
    """Where each name is a NUL-terminated string of its own (at most one place a file). In a Go program strings have
    no end, so there a name counts where it is not a part of a longer `known` name (`OLLAMA_NUM` of
    `OLLAMA_NUM_PARALLEL`)."""
    wanted = sorted(set(names))
    longer = {name: [other.encode() for other in known if name in other and name != other] for name in wanted}
    found: dict[str, list[StringHit]] = {name: [] for name in wanted}
    for library in libraries:
        for hit in _hits(library.path, wanted, longer):
            found[hit.text].append(hit)
    return {name: tuple(hits) for name, hits in found.items()}


def _hits(path: str, names: list[str], longer: Mapping[str, list[bytes]]) -> Iterator[StringHit]:
    try:
        with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            go = data.find(b"\xff Go buildinf:") >= 0
            for name in names:
                raw = name.encode("utf-8", "surrogateescape")
                at = data.find(raw)
                while at >= 0 and (
                    _inside(data, at, raw, longer[name])
                    if go
                    else data[at - 1 : at] + data[at + len(raw) : at + len(raw) + 1] != b"\0\0"
                ):
                    at = data.find(raw, at + 1)
                if at >= 0:
                    yield StringHit(path, at, name)
    except (OSError, ValueError):
        return


def _inside(data: mmap.mmap, at: int, raw: bytes, longer: list[bytes]) -> bool:
    """Is the text at `at` a part of one of the longer names?"""
    for other in longer:
        shift = other.find(raw)
        if shift <= at and data[at - shift : at - shift + len(other)] == other:
            return True
    return False


def configuration(environ: Mapping[str, str]) -> list[Path]:
    """The files that llama.cpp's programs read by themselves (common/arg.cpp:720-741 at b11434), in their order."""
    home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else "")
    places = [Path("/etc/llama.cpp/config.ini"), *([Path(home) / "llama.cpp" / "config.ini"] if home else [])]
    return [place for place in places if place.is_file()]
