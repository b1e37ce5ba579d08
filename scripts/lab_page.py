"""Writes the tables of docs/lab/h200.md anew from the evidence beside it, judged by this version.

    python scripts/lab_page.py            rewrite the page's tables
    python scripts/lab_page.py --check    exit 1 when they are not what the evidence gives

The evidence: docs/lab/h200/store.tar.xz (a store: the F16 matrix, two runs on Vulkan drivers, the fault matrix) and
quantised.report.json.xz (what `stillruns report --json` printed for the quantised matrix).
"""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "lab" / "h200.md"
FOLDER = ROOT / "docs" / "lab" / "h200"
F16, HIDDEN, BROKEN = "20261130T132842Z-d43ec9ae", "20261130T134330Z-9b92c626", "20261130T134339Z-6c427bd1"
LAYERS = (0, 1, 2, 12, "all")
ARCHITECTURES = ("llama", "qwen3", "qwen35")

Document = dict[str, Any]


def main() -> None:
    """Rewrite the page, or compare with it."""
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="stillruns-lab-") as folder:
        made = page(text, tables(Path(folder)))
    if sys.argv[1:] == ["--check"]:
        sys.exit(made != text)
    PAGE.write_text(made, encoding="utf-8")


def page(text: str, made: dict[str, str]) -> str:
    """The page with each `<!-- generated: NAME -->` block replaced."""
    for name, body in made.items():
        head, _, rest = text.partition(f"<!-- generated: {name} -->\n")
        text = f"{head}<!-- generated: {name} -->\n{body}<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text


def tables(folder: Path) -> dict[str, str]:
    """Every table by its name; `folder` is for the unpacked store."""
    with tarfile.open(FOLDER / "store.tar.xz") as packed:
        packed.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else packed.extractall(folder)
    f16, hidden, broken = (report(folder, run) for run in (F16, HIDDEN, BROKEN))
    quantised = json.loads(lzma.decompress((FOLDER / "quantised.report.json.xz").read_bytes()))
    return {
        "f16": "".join(matrix(f16)),
        "quantised": "".join(matrix(quantised)),
        "distributions": "".join(distributions(f16)),
        "claims-f16": "".join(claims(f16)),
        "claims-quantised": "".join(claims(quantised)),
        "drivers": "".join(drivers(hidden, broken)),
    }


def report(store: Path, run: str) -> Document:
    """One run of the unpacked store, as the program reports it."""
    argv = [sys.executable, "-m", "stillruns", "report", run, "--json", "--store", str(store)]
    done = subprocess.run(argv, capture_output=True, check=True, env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""})
    found: Document = json.loads(done.stdout)
    return found


def model_of(cell: Document) -> str:
    """`qwen35 F16` of the cell's model."""
    named = re.match(r"synth:(\w+)\?.*type=(\w+)", cell["axes"]["model"])
    assert named is not None, cell
    return f"{named[1]} {named[2]}"


def matrix(document: Document) -> Iterator[str]:
    """Passed of applied, tokens per second (median and its 95 % interval) and output, a model and backend a row."""
    cells = [c for c in document["cells"] if c["note"] != "reference"]
    yield "| model | backend | " + " | ".join(f"{n} layers" for n in LAYERS) + " |\n"
    yield "|---|---|" + "---|" * len(LAYERS) + "\n"
    for model in dict.fromkeys(model_of(c) for c in cells):
        for backend in ("cpu", "cuda", "vulkan"):
            row = {c["gpu_layers"]: c for c in cells if model_of(c) == model and c["backend"] == backend}
            if row:
                row.setdefault(0, row.get("none", {}))
                yield f"| {model} | {backend} | " + " | ".join(shown(row.get(n)) for n in LAYERS) + " |\n"


def shown(cell: Document | None) -> str:
    """One cell's text."""
    if not cell:
        return ""
    speed = cell["tokens_per_second"]
    rate = f"{speed['median']:.0f} ({speed['low']:.0f} to {speed['high']:.0f})" if speed else "-"
    return f"{cell['passed']}/{cell['applied']}, {rate}, {cell['output']}"


def distributions(document: Document) -> Iterator[str]:
    """The teacher-forced checks: KL divergence from the CPU's distributions, in nats."""
    yield "| model | CPU's second path | cuda 1 | cuda 12 | cuda all | vulkan 1 | vulkan 12 | vulkan all |\n"
    yield "|---|---|---|---|---|---|---|---|\n"
    for name in ARCHITECTURES:
        found = {}
        floor = None
        for check in document["checks"]:
            if f"synth:{name}?" in check["model"]:
                backend, layers = re.findall(r"(?:backend|gpu_layers)=(\w+)", check["cell"])
                found[backend, layers] = check
                floor = check["floor"]
        columns = [(b, n) for b in ("cuda", "vulkan") for n in ("1", "12", "all")]
        row = [
            kl(found[c]["seen"]) + ("" if found[c]["verdict"] == "floor ok" else " **suspicious**") for c in columns
        ]
        yield f"| {name} F16 | {kl(floor)} | " + " | ".join(row) + " |\n"


def kl(seen: Document | None) -> str:
    """Mean and largest."""
    return f"{seen['kl_mean']:.1e}, {seen['kl_max']:.1e}" if seen else "-"


def claims(document: Document) -> Iterator[str]:
    """Each hypothesis and its verdict."""
    yield "| hypothesis | verdict |\n|---|---|\n"
    for claim in document["claims"]:
        yield f"| {claim['text']} | {claim['verdict']} |\n"


def drivers(*documents: Document) -> Iterator[str]:
    """The runs in which the Vulkan driver was hidden or replaced."""
    yield "| side | applied | passed | outcomes | what was said |\n|---|---|---|---|---|\n"
    for document in documents:
        for cell in document["cells"]:
            ended = ", ".join(f"{n} {kind}" for kind, n in cell["outcomes"].items()) or "-"
            note = cell["note"] or "-"
            trials = f"{cell['applied']}/{cell['trials']}"
            yield f"| {cell['backend']} | {trials} | {cell['passed']} | {ended} | {note} |\n"


if __name__ == "__main__":
    main()
