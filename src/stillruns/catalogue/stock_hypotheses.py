"""The library of hypotheses that people have about their GPUs (data/hypotheses.toml)."""

from __future__ import annotations

from functools import cache
from typing import Any

from stillruns.catalogue import shipped
from stillruns.catalogue.forms import convert, day, document, say, table, unique
from stillruns.model.stock_hypothesis import StockHypothesis

_FILE = "hypotheses.toml"


@cache
def shipped_hypotheses() -> tuple[StockHypothesis, ...]:
    """The library of hypotheses, in file order."""
    found = [_read(entry) for entry in table(_FILE, document(_FILE, shipped.content(_FILE)), "hypothesis")]
    unique("hypotheses", found)
    return tuple(found)


def _read(entry: dict[str, Any]) -> StockHypothesis:
    """A `[[hypothesis]]`: a statement that people make, as two expressions over cells."""
    found = convert(_FILE, entry, StockHypothesis)
    say(_FILE, found.id, text=found.text, predicts=found.predicts, refuted_if=found.refuted_if, sources=found.sources)
    day(_FILE, found.id, found.read_on)
    return found
