"""The promise: lint stays as right about the recipes of its blind sets as it is recorded to be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import accuracy_lint  # noqa: E402


@pytest.mark.parametrize("number", ["1", "2", "3"])
def test_nothing_got_worse(number: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Rebuilt from the words that the tables hold: no row that was right is lost, and no answer is wrong."""
    monkeypatch.setattr(sys, "argv", ["accuracy_lint.py", "--set", number])
    worse = accuracy_lint.main()
    shown = capsys.readouterr()
    assert worse == 0, shown.out + shown.err
    now = shown.out.rpartition("now, ")[2]
    assert [line.split("|")[4].strip() for line in now.splitlines() if line.startswith(("| names", "| values"))] == [
        "0",
        "0",
    ]


def test_grades() -> None:
    """Right, unknown, wrong: no item is unknown, `not found` is unknown only where nothing reads the name."""
    row = {"label": "read", "value_label": "ok"}
    assert accuracy_lint.grade(row, None) == "uu"
    assert accuracy_lint.grade({**row, "label": "renamed", "value_label": ""}, None) == "u-"
