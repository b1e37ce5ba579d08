"""Compiles the fault-injection library with this machine's C compiler, once for each source and compiler.

What the library does, and its environment variables, is told at the top of `fault.c`; what there is to inject, as
data, in `faults.py`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

from stillruns import proc
from stillruns.errors import EnvironmentLacks

SOURCE = Path(__file__).with_name("fault.c")
LIBRARY = "libstillruns_fault.so"
FLAGS = ("-std=gnu11", "-O1", "-g", "-fPIC", "-fexceptions", "-Wall", "-Wextra", "-shared")
"""-fexceptions: C++ exceptions of the server pass through the library's functions and must find the way on."""
LIBRARIES = ("-ldl", "-lm", "-pthread")
"""Needed by name before glibc 2.34."""
COMPILERS = ("cc", "gcc", "clang")
ADVICE = "install one with `apt install gcc libc6-dev`"


def build(cc: str | None, folder: Path) -> Path:
    """The library's path below `folder`, compiled unless it is there. `cc` None: $CC, then cc, gcc, clang.

    EnvironmentLacks, with the line that helps, where there is no compiler or it cannot compile.
    """
    compiler = _compiler(cc)
    source = SOURCE.read_bytes()
    identity = "\0".join([compiler, *FLAGS, *LIBRARIES, os.uname().machine]).encode()
    key = hashlib.sha256(source + b"\0" + identity).hexdigest()[:12]
    target = folder / f"fault-{key}" / LIBRARY
    if target.exists():
        return target
    temporary = target.with_name(f".{LIBRARY}.{os.getpid()}.{time.monotonic_ns():x}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _compile(compiler, temporary)
        temporary.replace(target)
    except OSError as error:
        raise EnvironmentLacks(f"the fault library cannot be put into {folder}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _compiler(asked: str | None) -> str:
    names = [asked] if asked else [name for name in (os.environ.get("CC"), *COMPILERS) if name]
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise EnvironmentLacks(
        f"no C compiler for the fault library ({', '.join(names)} not found on PATH): {ADVICE}"
        if not asked
        else f"the C compiler {asked!r} was not found: {ADVICE}, or name another"
    )


def _compile(compiler: str, target: Path) -> None:
    done = proc.run([compiler, *FLAGS, "-o", str(target), str(SOURCE), *LIBRARIES], timeout=120)
    if done.status != 0:
        text = done.stderr.decode("utf-8", "replace")
        lines = [line for line in text.splitlines() if "error" in line.lower()] or text.splitlines()[:1]
        said = lines[0].strip() if lines else "without a word"
        raise EnvironmentLacks(f"{compiler} could not compile the fault library ({said}): {ADVICE}")
