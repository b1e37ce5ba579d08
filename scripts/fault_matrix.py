"""Runs `stillruns selftest` and puts its table into docs/fault-matrix.md.

    python scripts/fault_matrix.py                  every backend that the page has a place for
    python scripts/fault_matrix.py vulkan           that one
    python scripts/fault_matrix.py cpu=table.md     takes a table that was printed earlier

Exits 1 when a fault was not recognised; the table is written all the same, with the wrong entries in bold.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "fault-matrix.md"
_PLACE = re.compile(r"<!-- generated: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)


def backends(page: str) -> list[str]:
    """The backends that the page has a place for."""
    return [found[1] for found in _PLACE.finditer(page)]


def put(page: str, backend: str, table: str) -> str:
    """The page with that backend's table in its place; ValueError when there is no such place."""
    if backend not in backends(page):
        raise ValueError(f"{PAGE.name} has no place for {backend}; it has {', '.join(backends(page))}")

    def replaced(found: re.Match[str]) -> str:
        return f"<!-- generated: {backend} -->\n{table.strip()}\n<!-- end -->" if found[1] == backend else found[0]

    return _PLACE.sub(replaced, page)


def measured(backend: str) -> tuple[str, bool]:
    """The table of a run now, in a store of its own, and whether all faults were recognised."""
    with tempfile.TemporaryDirectory(prefix="stillruns-") as store:
        command = [
            sys.executable,
            "-m",
            "stillruns",
            "selftest",
            "--markdown",
            "--backend",
            backend,
            "--store",
            store,
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        sys.exit(f"fault_matrix: selftest --backend {backend} printed no table (exit {done.returncode})")
    return done.stdout, done.returncode == 0


def main(words: list[str]) -> int:
    """Each word is a backend, or BACKEND=FILE."""
    sound = True
    for word in words or backends(PAGE.read_text(encoding="utf-8")):
        backend, _, file = word.partition("=")
        table, right = (Path(file).read_text(encoding="utf-8"), True) if file else measured(backend)
        sound = sound and right
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), backend, table), encoding="utf-8")
        print(f"fault_matrix: {PAGE.name}: {backend} {'written' if right else 'written, with faults not recognised'}")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
