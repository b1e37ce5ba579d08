"""The promise: `check` can be read on a terminal of 80 columns, with several cards, and a card's line says why."""

from __future__ import annotations

from pathlib import Path

import machines
import sysroots
from stillruns.report import gates_text
from stillruns.report.columns import Page


def rig(root: Path, cards: int) -> None:
    """Several MI50s; the last one's memory reports errors."""
    for index in range(cards):
        sysroots.mi50(root, index + 1, f"0000:{4 + index:02x}:00.0", 128 + index)
    last = root / f"sys/devices/pci0000:00/0000:00:03.1/0000:{3 + cards:02x}:00.0/ras/umc_err_count"
    last.write_text("ue: 2\nce: 9\n")
    sysroots.host(root)
    sysroots.vulkan(root)


def test_eighty_columns(tmp_path: Path) -> None:
    """Eight cards: equal columns are one, the odd card has its own, no line is wider than asked, and no word for all
    cards is a list of eight addresses."""
    rig(tmp_path, 8)
    matrix = machines.judged(machines.with_runtime(machines.of(tmp_path), "gfx906"))
    for width in (80, 100):
        text = gates_text.text(matrix, page=Page(width, fits=True))
        wide = [line for line in text.splitlines()[2:] if len(line) > width]
        assert wide == []
        assert "rocm gfx906 x7" in text and "rocm gfx906 0b:00.0" in text
        assert "code objects [rocm on all 8 cards] allow" in text


def test_narrow_tables(tmp_path: Path) -> None:
    """Columns that do not fit go into a second table, each with its layers."""
    rig(tmp_path, 2)
    matrix = machines.judged(machines.with_runtime(machines.of(tmp_path), "gfx906"))
    text = gates_text.text(matrix, page=Page(60, fits=True))
    assert text.count("\nofficial support ") >= 3  # two tables and the reason
    assert all(len(line) <= 60 for line in text.split("paths")[0].splitlines()[2:])


def test_why_is_complete(tmp_path: Path) -> None:
    """The line of a skipped card says the layer and what was found there; that of an open one what to look at."""
    rig(tmp_path, 1)
    stopped = machines.judged(machines.with_runtime(machines.of(tmp_path), "gfx1100"))
    (card,) = stopped.cards
    assert "stopped by code objects (/opt/llama.cpp/libggml-hip.so holds no gfx906" in card.text
    assert "and by kernel libraries" in card.text
    (card,) = machines.judged(machines.with_runtime(machines.of(tmp_path), "gfx906")).cards
    assert card.text.startswith("nothing that was read skips it") and "see power and heat" in card.text
