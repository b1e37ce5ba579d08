"""A hypothesis that ships with the package."""

from __future__ import annotations

import msgspec

from stillruns.model.spec import HypothesisSpec


class StockHypothesis(msgspec.Struct, frozen=True):
    """A `[[hypothesis]]` of the library: what HypothesisSpec has, and who says so."""

    id: str
    text: str
    predicts: str
    refuted_if: str
    sources: tuple[str, ...]
    read_on: str

    @property
    def spec(self) -> HypothesisSpec:
        """As a spec takes it."""
        return HypothesisSpec(self.id, self.text, self.predicts, self.refuted_if)
