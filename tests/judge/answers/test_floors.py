"""The promise: floors come from backends that are right, never from the card that is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stillruns.judge.answers import floors
from stillruns.model.agreement import OutputVerdict
from stillruns.model.backend import Backend
from stillruns.model.divergence import Divergence, Path
from stillruns.model.known_floor import KnownFloor, Pair

SEEN = Divergence(30, 4e-6, 2e-5, 3e-5, 1.0, 0.01, 0.003, None, None)
KNOWN = KnownFloor("llama", "F16", "m", "llvmpipe (LLVM 19)", Pair.SOFTWARE, Path.PROMPT, SEEN, "r", "r.0001", True)


@pytest.mark.parametrize(
    ("backend", "device", "pair"),
    [
        (Backend.CPU, "sha256:1", Pair.CPU_BUILD),
        (Backend.VULKAN, "llvmpipe (LLVM 19.1.7, 256 bits)", Pair.SOFTWARE),
        (Backend.VULKAN, "AMD Radeon RX 580 Series (RADV POLARIS10)", Pair.CARD),
        (Backend.CUDA, "llvmpipe", Pair.CARD),
    ],
)
def test_who_is_right(backend: Backend, device: str, pair: Pair) -> None:
    """A software driver is known by its own name; a card is a card whatever it computes."""
    assert floors.pair_of(backend, device) is pair


@pytest.mark.parametrize(
    ("pair", "quantisation", "verdict", "trusted"),
    [
        (Pair.CARD, "F16", OutputVerdict.SAME, False),
        (Pair.CPU_BUILD, "F16", OutputVerdict.FLOOR_OK, True),
        (Pair.CPU_BUILD, "Q8_0", OutputVerdict.SUSPICIOUS, False),
        (Pair.SOFTWARE, "F16", OutputVerdict.SUSPICIOUS, False),
        (Pair.SOFTWARE, "Q4_K", OutputVerdict.SUSPICIOUS, True),
        (Pair.SOFTWARE, "Q4_K", OutputVerdict.WRONG, False),
        (Pair.CPU_BUILD, "F16", OutputVerdict.UNKNOWN, False),
    ],
)
def test_what_is_trusted(pair: Pair, quantisation: str, verdict: OutputVerdict, trusted: bool) -> None:
    """Never a card; never what is off by more than rounding, save a software driver on quantised weights."""
    assert floors.trusted(pair, quantisation, verdict) is trusted


def test_fitting() -> None:
    """Of another architecture, quantisation or path it is no floor, and for its own device neither."""
    assert floors.fitting([KNOWN], "llama", "F16", Path.PROMPT, "RX 580") == (KNOWN,)
    assert not floors.fitting([KNOWN], "qwen3", "F16", Path.PROMPT, "RX 580")
    assert not floors.fitting([KNOWN], "llama", "Q8_0", Path.PROMPT, "RX 580")
    assert not floors.fitting([KNOWN], "llama", "F16", Path.DECODE, "RX 580")
    assert not floors.fitting([KNOWN], "llama", "F16", Path.PROMPT, KNOWN.device)
    assert not floors.fitting([replace(KNOWN, trusted=False)], "llama", "F16", Path.PROMPT, "RX 580")


def test_the_largest_counts() -> None:
    """A known floor widens the run's own, each number apart, and says where it came from; a smaller one does not."""
    own = replace(SEEN, kl_mean=4e-7, kl_p99=9e-5)
    found, why = floors.widened(own, [KNOWN])
    assert found is not None
    assert (found.kl_mean, found.kl_p99) == (4e-6, 9e-5)
    assert why == "software vulkan in r.0001"
    assert floors.widened(replace(SEEN, kl_mean=1e-3, kl_p99=1e-2), [KNOWN])[1] == ""
    assert floors.widened(None, []) == (None, "")
    assert floors.widened(None, [KNOWN])[0] == SEEN
