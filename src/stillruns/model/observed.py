"""Cells with their trials as hypotheses see them: factors, counts, circumstances, whatever run they came from."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.applied import Answer
from stillruns.model.evidence import Ref


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a trial met and nobody asked for. `server` names the process that served it, `service` the long-lived one
    that started that, and `boot` the boot of the machine; trials that share one are not independent. `order` is its
    place in time among all trials of its machine. `measured` holds nuisances by name (`temperature` in degrees,
    `load`, `free memory` in MiB), those known."""

    server: str = ""
    boot: str = ""
    order: float | None = None
    measured: dict[str, float] = field(default_factory=dict)
    service: str = ""


@dataclass(frozen=True, slots=True)
class ObservedTrial:
    """One trial, reduced to what statements can be about. `tokens` counts those seen before its end; `output` is the
    verdict of the comparison with the reference, None where there was no answer; `text_kept` is false where tokens
    came and their text was not stored."""

    trial: str
    run: str
    applied: Answer
    why: str
    outcome: str
    phase: str
    components: tuple[str, ...]
    passed: bool
    output: str | None
    tokens_per_second: float | None
    seconds: float
    tokens: int = 0
    text_kept: bool = True
    circumstances: Circumstances = Circumstances()
    key_ref: Ref | None = None
    key_text: str = ""
    served: float = 0.0
    """Seconds from its first request to the end of its last."""
    lived: float | None = None
    """Of one that crashed: seconds from the start of the process that died to its death; None where nothing tells."""
    waited: float = 0.0
    """Seconds of `seconds` in which its server, before that start, waited for what an earlier death had left."""

    @property
    def counts(self) -> bool:
        """Whether it enters a rate."""
        return self.applied is Answer.YES and self.outcome != "interrupted"

    @property
    def crashed(self) -> bool:
        """The server ended by itself: a signal, an abort, a lost device."""
        return self.outcome in ("crash", "abort", "device_lost")


@dataclass(frozen=True, slots=True)
class ObservedCell:
    """A cell and its trials.

    `factors` maps every factor of its condition to a text, None where the evidence does not show it (`backend`,
    `version`, `layers`, `env.NAME`, ...). `layers` is the number asked for (`unknown` where nothing tells), `placed`
    the number seen on the device. `fixed` tells whether the number of applied trials was fixed beforehand,
    `randomised` whether the order was drawn (None: nothing tells).
    `zero` marks a cell that offloads nothing.
    """

    id: str
    side: str
    factors: dict[str, str | None]
    layers: int | str
    placed: int | None
    trials: tuple[ObservedTrial, ...]
    fixed: bool
    randomised: bool | None
    args: tuple[str, ...] = ()
    axes: dict[str, str | int | float | bool] = field(default_factory=dict)
    shows_asked: bool = True
    """False where `layers` is the number seen on the device, since no line shows what was asked."""
    model: str = ""
    """The model as the spec names it; the factor `model` leaves the type of its weights out. Empty if not known."""
    checked: str | None = None
    """The verdict of its check (teacher forcing, on the F16 twin where there is one); None where there was none."""

    @property
    def applied(self) -> tuple[ObservedTrial, ...]:
        """The trials that enter a rate."""
        return tuple(t for t in self.trials if t.counts)
