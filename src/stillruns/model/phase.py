"""Where in a server's life something happened."""

from __future__ import annotations

from enum import Enum


class Phase(str, Enum):
    """In the order in which a server goes through them."""

    DISCOVER = "discover"
    INIT = "init"
    LOAD = "load"
    RESERVE = "reserve"
    WARMUP = "warmup"
    PROMPT = "prompt"
    DECODE = "decode"
    TEARDOWN = "teardown"
    UNKNOWN = "unknown"
