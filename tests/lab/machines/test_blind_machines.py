"""The promise: what docs/accuracy.md says of the check on described machines is what this version answers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_recorded_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """`python scripts/accuracy_gates.py` finds no answer that is another than the recorded one."""
    place = importlib.util.spec_from_file_location("accuracy_gates", ROOT / "scripts" / "accuracy_gates.py")
    assert place and place.loader
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    assert module.main([]) == 0, capsys.readouterr().out
