"""Numbers as documents carry them."""

from __future__ import annotations

import math


def significant(value: float) -> str:
    """Three significant digits, and never an exponent: `0.0123`, `25.4`, `5110`."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def rounded(value: object, digits: int = 6) -> object:
    """The same structure with floats rounded to `digits` decimals; NaN and infinities become null."""
    if isinstance(value, float):
        return round(value, digits) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry, digits) for entry in value]
    return value
