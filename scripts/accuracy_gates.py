"""How often `stillruns check` names the layer that stops a GPU: `python scripts/accuracy_gates.py [--case N]`.

The blind set for `check` (docs/accuracy.md): machines as people described them in public threads. What is true of
each stands in docs/case-studies/blind-machines.csv (from the thread and upstream's sources; written before the first
run), what its files hold in tests/data/blind_machines.toml. Each is built below a temporary folder and judged as
`check --no-exec --sysroot FOLDER` judges it, with `--runtime` where the thread's build lies in a home.

A row of the table is a path of a card. `right`: the same answer, for a stopped path by one of the expected layers;
`unknown`: no answer; `wrong`: open against stopped, stopped against open, or stopped by other layers only. `beside`
counts layers that were named besides and of which neither column says that they are true. With `--case N` the
verdicts of one machine are printed, with `--write COLUMN` the answers are written to that column of the labels. Exit
status 1 when an answer is not the one in the column `after`.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import described
from stillruns.lab import checking
from stillruns.lab.machines.machine import CheckRequest
from stillruns.lab.specs import toml_file
from stillruns.model.gate import GateMatrix, GatePath, PathStatus
from stillruns.report import gates_text
from stillruns.report.columns import Page

ROOT = Path(__file__).parent.parent
LABELS = ROOT / "docs/case-studies/blind-machines.csv"
MACHINES = ROOT / "tests/data/blind_machines.toml"


def main(words: Sequence[str]) -> int:
    """The table; exit status 1 when an answer is another than the recorded one."""
    parser = argparse.ArgumentParser(description="accuracy of check on described machines")
    parser.add_argument("--case", default="", help="print the verdicts of one machine")
    parser.add_argument("--write", default="", metavar="COLUMN", help="write the verdicts to the labels")
    asked = parser.parse_args(words)
    rows = list(csv.DictReader(LABELS.read_text(encoding="utf-8").splitlines()))
    machines = toml_file.tables(toml_file.text(MACHINES, "the machines"), MACHINES)
    matrices: dict[str, GateMatrix] = {}
    counts: Counter[tuple[str, str]] = Counter()
    changed: list[str] = []
    for row in rows:
        case = row["case"]
        if asked.case and case != asked.case:
            continue
        if described.needs_root(machines[case]) and os.getuid() != 0:
            print(f"{case} left out: only root can give files to nobody")
            continue
        if case not in matrices:
            matrices[case] = judged(machines[case], machines["lists"])
            if asked.case:
                print(gates_text.text(matrices[case], evidence=False, page=Page(160, fits=True)))
        found = path_of(matrices[case], row["path"], row["device"])
        answer = verdict(row, found)
        counts["stopped" if row["expected"] != "open" else "open", answer.rstrip("+")] += 1
        counts["beside", ""] += answer.count("+")
        print(f"{case} {row['path']:7}{answer:9} expected {row['expected']}; {said(found)}")
        if asked.write:
            row[asked.write] = answer
        elif answer != row["after"]:
            changed.append(f"{case} {row['path']}: {answer}, recorded {row['after']}")
    for kind in ("stopped", "open"):
        print(kind, *(f"{name} {counts[kind, name]}" for name in ("right", "unknown", "wrong")))
    print("layers named beside:", counts["beside", ""])
    if asked.write:
        with LABELS.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print(*(f"changed: {line}" for line in changed), sep="\n", end="\n" if changed else "")
    return 1 if changed else 0


def judged(facts: dict[str, Any], lists: dict[str, str]) -> GateMatrix:
    """What `check` says about a described machine."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        described.build(root, facts, lists)
        asked = CheckRequest(tuple(facts.get("runtime", "").split()))
        found = checking.start(root, "", asked, run_tools=False, store=None)
        if found.faults:
            raise SystemExit("\n".join(found.faults))
        return found.matrix


def path_of(matrix: GateMatrix, name: str, device: str) -> GatePath | None:
    """The path of a card; of the only one where the label names none."""
    for path in matrix.paths:
        if path.path == name and (not device or path.device == device):
            return path
    return None


def verdict(row: dict[str, str], found: GatePath | None) -> str:
    """`right`, `unknown` or `wrong`, with a `+` for each layer that is named besides and not known to be true."""
    if found is None or found.status is PathStatus.UNKNOWN:
        return "unknown"
    stopped = {layer.value for layer in found.stopped_by}
    if row["expected"] == "open" or found.status is PathStatus.OPEN:
        return "right" if (row["expected"] == "open") is (found.status is PathStatus.OPEN) else "wrong"
    expected = set(row["expected"].split("|"))
    beside = len(stopped - expected - set(row["also"].split("|")))
    return ("right" if stopped & expected else "wrong") + "+" * beside


def said(found: GatePath | None) -> str:
    """The answer in a few words."""
    if found is None:
        return "said nothing of this path"
    return f"said {found.status.value}: {', '.join(layer.value for layer in found.stopped_by) or found.reason}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
