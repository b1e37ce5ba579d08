"""The promise: the lab notebook's tables are what the evidence beside it gives, judged by this version."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_tables_are_what_the_evidence_gives(tmp_path: Path) -> None:
    """`python scripts/lab_page.py` would change nothing, and the evidence stays within its limit of 2 MB."""
    place = importlib.util.spec_from_file_location("lab_page", ROOT / "scripts" / "lab_page.py")
    assert place and place.loader
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.page(text, module.tables(tmp_path)) == text
    assert sum(path.stat().st_size for path in module.FOLDER.iterdir()) < 2_000_000
