"""Precision and recall of `trace` on real source trees, against tests/data/trace_truth.csv.

    make accuracy SOURCES=DIR      (python scripts/accuracy_trace.py DIR)

DIR holds `ollama` and `ollama-python` (git repositories with the releases below) and `llama.cpp-b11434` (its
files); what is missing is skipped, with the reason. Truth rows: `needed` = yes is a line that an expert names when
asked how the option works (recall counts these); `no` is a line that concerns the option although nobody would miss
it (precision counts both). Any other row that the tracer gives counts as wrong.
"""

from __future__ import annotations

import csv
import resource
import sys
import tempfile
import time
from pathlib import Path

from stillruns.lab.tracing import Source, trace
from stillruns.model.trace import Trace

TRUTH = Path(__file__).parent.parent / "tests" / "data" / "trace_truth.csv"
CASES: dict[str, list[tuple[str, str, str]]] = {
    "v0.5.7": [("ollama-python", "ollama-python", "v0.6.2"), ("ollama", "ollama", "v0.5.7")],
    "v0.17.5": [("ollama-python", "ollama-python", "v0.6.2"), ("ollama", "ollama", "v0.17.5")],
    "v0.33.0-rc2": [
        ("ollama-python", "ollama-python", "v0.6.2"),
        ("ollama", "ollama", "v0.33.0-rc2"),
        ("llama.cpp", "llama.cpp-b11434", ""),
    ],
}
"""Release -> (name, folder under DIR, revision)."""
MANY = ("num_ctx",)
"""Options that flood: at most 200 rows."""


def main() -> int:
    """Score every release of the truth; 1 when a number is below the goal."""
    folder = Path(sys.argv[1])
    truth: dict[tuple[str, str], dict[str, bool]] = {}
    with TRUTH.open(newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            truth.setdefault((row["release"], row["option"]), {})[row["place"]] = row["needed"] == "yes"
    good = True
    with tempfile.TemporaryDirectory() as store:
        for release, wanted in CASES.items():
            missing = [d for _, d, _ in wanted if not (folder / d).is_dir()]
            if missing:
                print(f"{release}: skipped, {folder} has no {', '.join(missing)}")
                continue
            sources = [Source(name, folder / where, rev) for name, where, rev in wanted]
            for option in sorted({o for r, o in truth if r == release} | set(MANY)):
                started = time.monotonic()
                found = trace(option, sources, Path(store))
                cold = time.monotonic() - started
                started = time.monotonic()
                trace(option, sources, Path(store))
                warm = time.monotonic() - started
                good &= score(release, option, found, truth.get((release, option), {}), cold, warm)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak memory {peak} MiB")
    return 0 if good and peak < 500 else 1


def score(release: str, option: str, found: Trace, truth: dict[str, bool], cold: float, warm: float) -> bool:
    """Print one line; True when the goals of this option are met."""
    rows = {f"{r.project}:{r.path}:{r.line}" for r in found.rows}
    shown = {f"{s.project}:{s.file}:{n}" for s in found.stages for n in s.lines}
    head = f"{release:12} {option:10} {len(rows):4} rows {len(found.stages):2} stages"
    head += f" {cold:4.1f} s cold {warm:4.1f} s warm"
    if option in MANY:
        print(f"{head}  (limit 200 rows; the word stands in {found.hits} lines)")
        return len(rows) <= 200
    needed = {p for p, must in truth.items() if must}
    recall = len(needed & rows) / len(needed)
    precision = len(rows & truth.keys()) / len(rows) if any(not must for must in truth.values()) else None
    told = f"precision {precision:.2f}" if precision is not None else "chain only"
    print(
        f"{head}  recall {recall:.2f} of {len(needed)}  {told}  (in stages {len(needed & shown) / len(needed):.2f})"
    )
    for place in sorted(needed - rows):
        print(f"    missed {place}")
    return recall >= 0.9 and (precision is None or precision >= 0.75)


if __name__ == "__main__":
    sys.exit(main())
