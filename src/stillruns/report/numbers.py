"""Numbers as documents carry them."""

from __future__ import annotations

import math


def rounded(value: object, digits: int = 6) -> object:
    """The same structure with floats rounded to `digits` decimals; NaN and infinities become null."""
    if isinstance(value, float):
        return round(value, digits) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry, digits) for entry in value]
    return value
