"""Floors from backends that are right, measured against each other: which ones, and what they make of a cell's own.

Right are the CPU's two paths, other CPU builds, and software Vulkan drivers; a real card never is its own floor, as
a damaged one would then always pass. A backend that is off by more than rounding is no floor: something there is not
understood. One exception: on quantised weights a software driver may be suspicious, since the CPU quantises the
activations too and is itself the odd one out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stillruns.judge.answers.weights import FLOATS
from stillruns.model.agreement import OutputVerdict
from stillruns.model.backend import Backend, is_software
from stillruns.model.divergence import Divergence, Path
from stillruns.model.known_floor import KnownFloor, Pair


def pair_of(backend: Backend, device: str) -> Pair:
    """What a cell's device is beside the CPU reference."""
    if backend is Backend.CPU:
        return Pair.CPU_BUILD
    return Pair.SOFTWARE if backend is Backend.VULKAN and is_software(device) else Pair.CARD


def trusted(pair: Pair, quantisation: str, verdict: OutputVerdict) -> bool:
    """Whether such a measurement serves as a floor; `verdict` is what it came to beside the CPU's own paths."""
    if pair is Pair.CARD or verdict is OutputVerdict.UNKNOWN:
        return False
    if verdict is OutputVerdict.SUSPICIOUS:
        return pair is Pair.SOFTWARE and quantisation not in FLOATS
    return verdict in (OutputVerdict.SAME, OutputVerdict.FLOOR_OK)


def fitting(
    known: Iterable[KnownFloor], architecture: str, quantisation: str, path: Path, device: str
) -> tuple[KnownFloor, ...]:
    """Those that a cell may be judged by: same architecture, quantisation and path, and not its own device's."""
    return tuple(
        f
        for f in known
        if f.trusted
        and (f.architecture, f.quantisation, f.path) == (architecture, quantisation, path)
        and f.device != device
    )


def widened(own: Divergence | None, known: Sequence[KnownFloor]) -> tuple[Divergence | None, str]:
    """A run's own floor and the known ones as one, the largest of each number, and what it rests on beside the run's
    own; empty where that is the largest."""
    found, why = own, ""
    for other in sorted(known, key=lambda f: (f.seen.kl_mean, f.run, f.trial)):
        if found is None or other.seen.kl_mean > found.kl_mean or other.seen.kl_p99 > found.kl_p99:
            why = f"{other.pair.value} in {other.trial}"
            found = other.seen if found is None else _largest(found, other.seen)
    return found, why


def _largest(a: Divergence, b: Divergence) -> Divergence:
    return replace(
        a,
        kl_mean=max(a.kl_mean, b.kl_mean),
        kl_p99=max(a.kl_p99, b.kl_p99),
        kl_max=max(a.kl_max, b.kl_max),
        largest=max(a.largest, b.largest),
        noise=max(a.noise, b.noise),
        same_top=min(a.same_top, b.same_top),
    )
