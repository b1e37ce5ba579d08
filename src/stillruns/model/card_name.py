"""A graphics card's name in logs, and the target that it is."""

from __future__ import annotations

import msgspec


class CardName(msgspec.Struct, frozen=True):
    """`name` is a part of the printed name (`RADV VEGA10`, `Instinct MI50`); the longest that is found counts.
    `source` says where name and `target` are brought together."""

    name: str
    target: str
    source: str
