"""Numbers and lists as sentences and tables write them, whoever writes them."""

from __future__ import annotations

from collections.abc import Sequence


def significant(value: float) -> str:
    """Three significant digits, and never an exponent: `0.0123`, `25.4`, `5110`."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def enumerated(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; empty for none."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
