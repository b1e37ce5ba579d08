"""docs/gates.md: its tables come from the code. `python scripts/gates_page.py` writes the page, `--check`
compares."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path

import stillruns.collect
from stillruns.catalogue.gate_tables import tables
from stillruns.judge.gates.gates import LAYERS
from stillruns.model.probe import Probe

PAGE = Path(__file__).parent.parent / "docs" / "gates.md"
BEGIN, END = "<!-- generated: {} -->", "<!-- end: {} -->"


def probes() -> list[Probe]:
    """Every probe in `stillruns.collect`, by id."""
    found = []
    for info in pkgutil.iter_modules(stillruns.collect.__path__):
        module = importlib.import_module(f"stillruns.collect.{info.name}")
        if isinstance(getattr(module, "PROBE", None), Probe):
            found.append(module.PROBE)
    return sorted(found, key=lambda probe: probe.id)


def layers_table() -> str:
    """Layer, what decides it, the verdicts that it gives."""
    rows = ["| layer | what decides | verdicts |", "|---|---|---|"]
    for module in LAYERS:
        verdicts = " ".join((module.judge.__doc__ or "").split())
        rows.append(f"| {module.LAYER.value} | {module.DECIDES} | {verdicts} |")
    return "\n".join(rows)


def probes_table() -> str:
    """Probe, when there is something to read, what it reads and runs."""
    rows = ["| probe | applies to | reads | runs, where installed |", "|---|---|---|---|"]
    for probe in probes():
        reads = "<br>".join(f"`{read}`" for read in probe.reads).replace("|", "\\|")
        runs = "<br>".join(f"`{' '.join(argv)}`" for argv in probe.commands)
        rows.append(f"| {probe.id} | {probe.applies} | {reads} | {runs} |")
    return "\n".join(rows)


def knowledge_table() -> str:
    """Catalogue tables with their sizes and the sources' kinds."""
    known = tables()
    rows = ["| table | rows | says |", "|---|---|---|"]
    for name, count, says in (
        (
            "targets.csv",
            len(known.targets),
            "features, generic targets, override strings, atomics of each AMD target",
        ),
        ("neighbours.csv", len(known.neighbours), "whose code a target can run under an override"),
        ("gpus.csv", len(known.gpus), "PCI ids"),
        ("mesa.csv", len(known.mesa), "chips that older Mesas do not know"),
        ("support.csv", len(known.support), "what AMD's tables and packages say about a target, by release"),
        ("runtime_targets.csv", len(known.runtimes), "what released runtimes build, delete and filter"),
        ("packages.csv", len(known.packages), "distributions' packages that carry a target"),
        ("nvidia.toml", len(known.nvidia), "compute capabilities, last toolkit, last driver"),
        ("runtime_gates.toml", len(known.gates), "runtimes' own filters, by version"),
        ("kernel_events.toml", len(known.events), "lines of the kernel's log"),
        ("firmware.toml", len(known.firmware), "names of firmware files by target"),
    ):
        rows.append(f"| `{name}` | {count} | {says} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """The page with its generated parts renewed."""
    for name, make in (("layers", layers_table), ("probes", probes_table), ("knowledge", knowledge_table)):
        begin, end = BEGIN.format(name), END.format(name)
        pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"docs/gates.md has no place for {name}")
        made = f"{begin}\n{make()}\n{end}"
        text = pattern.sub(lambda _, made=made: made, text)  # type: ignore[misc]
    return text


def main() -> int:
    """Write, or compare."""
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if "--check" in sys.argv[1:]:
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
