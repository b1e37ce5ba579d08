"""Numbers as documents carry them."""

from __future__ import annotations

import math
from collections.abc import Mapping


def precise(values: Mapping[str, object]) -> dict[str, object]:
    """Floats with six significant digits, where six decimals would make a small p or divergence zero; NaN and
    infinities become null."""
    return {key: _precise(value) for key, value in values.items()}


def _precise(value: object) -> object:
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def rounded(value: object, digits: int = 6) -> object:
    """The same structure with floats rounded to `digits` decimals; NaN and infinities become null."""
    if isinstance(value, float):
        return round(value, digits) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry, digits) for entry in value]
    return value
