"""The promise: docs/gates.md says what the code does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_page_is_current() -> None:
    """Its tables are those that the code makes: `python scripts/gates_page.py` renews them."""
    place = importlib.util.spec_from_file_location("gates_page", ROOT / "scripts" / "gates_page.py")
    assert place and place.loader
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.page(text) == text
