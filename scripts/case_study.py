"""Writes the report that docs/case-studies/vega56.md quotes: `python scripts/case_study.py DIR` (the worklog)."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from stillruns.lab import importing
from stillruns.lab.studies import studying
from stillruns.report import study_text
from stillruns.store.opening import open_store

PAGE = Path(__file__).parent.parent / "docs" / "case-studies" / "vega56.md"
BLOCK = re.compile(r"(<!-- report -->\n```\n).*?(```\n)", re.DOTALL)


def main() -> None:
    """Import the worklog into a store that is thrown away, and put the report between the marks."""
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "store") as store:
        found = importing.run(Path(sys.argv[1]), store, "vega-hbmx")
        text = study_text.text(studying.judge(store, found.study, studying.names(store)[found.study]))
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda match: match[1] + text + match[2], page), encoding="utf-8")
    print(f"{PAGE}: {text.count(chr(10))} lines of report")


if __name__ == "__main__":
    main()
