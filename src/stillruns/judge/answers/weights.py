"""Types of weights, as far as they matter to a comparison of outputs: what a backend rounds besides, and how."""

from __future__ import annotations

FLOATS = frozenset({"F16", "BF16", "F32"})
"""With these the CPU quantises no activations."""

_FINE = FLOATS | {"", "Q8_0"}
"""With these (empty: not told) no healthy path came near what is called `wrong`."""


def coarse(weights: str) -> bool:
    """Whether a distance alone never says `wrong` with such weights.

    A healthy card was as far from the CPU as damage is: qwen35 in Q4_0 wholly on CUDA, 0.71 nats at a token of its
    answer and 0.09 nats of KL on average, while its F16 twin lay within the floor (docs/lab/h200.md). A corrupted
    Q8_0 began at 0.71.
    """
    return weights not in _FINE
