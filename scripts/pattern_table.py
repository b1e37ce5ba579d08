"""Write docs/patterns.md from the catalogue: every crash pattern with its meaning, golden log and source."""

from __future__ import annotations

from pathlib import Path

from stillruns.catalogue import load
from stillruns.model.pattern import CrashPattern

PAGE = Path(__file__).parent.parent / "docs" / "patterns.md"
HEAD = """# Crash patterns

Written by `python scripts/pattern_table.py` from the catalogue; do not edit. Of the patterns that match a line, the
one with the highest rank explains it. `real` patterns were seen in a real log; `composed` ones were written from the
source that prints them, and never give a high confidence. The golden log of a pattern is
`tests/golden/patterns/ID.raw`.

"""


def cell(text: str) -> str:
    """Text that cannot break a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def row(pattern: CrashPattern) -> str:
    """One pattern."""
    parts = ", ".join(component.value for component in pattern.components)
    phase = pattern.phase.value if pattern.phase else ""
    golden = f"[{pattern.origin}](../tests/golden/patterns/{pattern.id}.raw)"
    meaning = f"{pattern.explanation} {pattern.next_step}"
    meaning += "".join(f" On {', '.join(advice.targets)}: {advice.text}" for advice in pattern.next_for)
    cells = (
        f"`{pattern.id}`",
        str(pattern.rank),
        pattern.outcome.value,
        phase,
        parts,
        meaning,
        golden,
        pattern.source,
    )
    return "| " + " | ".join(cell(text) for text in cells) + " |"


def page() -> str:
    """The whole page."""
    head = "| id | rank | outcome | phase | who | meaning, and what to try | golden log | source |\n"
    return HEAD + head + "|---|---|---|---|---|---|---|---|\n" + "\n".join(map(row, load.patterns())) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
