"""The promise: the lab notebook's tables are what the evidence beside it gives, judged by this version."""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_tables_are_what_the_evidence_gives(tmp_path: Path) -> None:
    """`python scripts/lab_page.py` would change nothing, and the evidence stays within its limit of 2 MB."""
    module = load("lab_page")
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.page(text, module.tables(tmp_path)) == text
    assert sum(path.stat().st_size for path in module.PAGE.parent.rglob("*") if path.is_file()) < 2_000_000


def test_a_pace_is_found_and_a_lasting_difference_is_none() -> None:
    """A host that slows down by 4 % a minute is told as that, with cells of any speed and whatever each trial adds;
    one that does not, as nothing. Within rounds a value that moves with nothing has no slope."""
    slowing = trials(lambda minute: 0.96**minute)
    middle, low, high = (100 * math.expm1(log) for log in speeds().slope(slowing, lambda t: t.speed))
    assert low <= middle <= high
    assert middle == pytest.approx(-4.0, abs=0.01)
    steady = speeds().slope(trials(lambda minute: 1.0), lambda t: t.speed)
    assert steady == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    assert speeds().within(slowing, lambda t: t.heat).startswith(("+0.0", "-0.0"))


def test_a_median_of_ten_has_the_second_and_the_ninth() -> None:
    """Whatever the order and however far the least and the most lie."""
    assert speeds().middle([9, 2, 3, 4, 5, 6, 7, 8, 1000, -1000], 1) == "5.5 (2.0 to 9.0)"


def test_what_was_cut_off_is_no_empty_cell() -> None:
    """A fault that was asked and did not end says so; one that makes no sense stays empty."""
    result = {"kind": "hang", "backend": "cuda", "phase": "prompt", "judged": "hang in prompt", "right": True}
    lines = list(
        load("lab_faults").faults(
            {
                "faults-cuda-hang-init.err": b"",
                "faults-cuda-hang-prompt.err": b"",
                "faults-cuda-hang-prompt.json": json.dumps({"results": [result]}).encode(),
                "faults-vulkan-flood.err": b"",
            }
        )
    )
    assert "| `hang` | cuda | cut off |  |  |  | hang |  |  |\n" in lines
    assert "| `flood` | vulkan |" + " cut off |" * 7 + "\n" in lines


def trials(pace: Callable[[float], float]) -> list[Any]:
    """Ten rounds of two cells, half a minute each, on a card whose temperature has nothing to do with it."""
    return [
        speeds().Paced(
            ("llama", "F16", backend, "all"),
            i,
            30.0 * i,
            own * pace(i / 2),
            ready=1.0,
            first=0.1,
            answer=0.2,
            processor=1.0,
            load=1.0,
            heat=40.0 + (i + n) % 2 * (i % 3),
        )
        for n, (backend, own) in enumerate((("cuda", 700.0), ("vulkan", 300.0)))
        for i in range(10)
    ]


def speeds() -> Any:
    """The module about speeds."""
    return load("lab_speeds")


@functools.cache
def load(name: str) -> Any:
    """A script as a module."""
    place = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert place and place.loader
    module = importlib.util.module_from_spec(place)
    sys.modules[name] = module
    place.loader.exec_module(module)
    return module
