"""What the judges of one trial look up again and again, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stillruns.model.absence import Absence
from stillruns.model.applied import Answer, FactorApplied
from stillruns.model.backend import Backend
from stillruns.model.condition import Condition
from stillruns.model.evidence import Ref
from stillruns.model.server_facts import Offload, ServerFacts
from stillruns.model.trial import TrialRecord

LIBRARIES: dict[Backend, tuple[str, ...]] = {
    Backend.VULKAN: ("libggml-vulkan", "libvulkan"),
    Backend.ROCM: ("libggml-hip", "libggml-rocm", "libamdhip64"),
    Backend.CUDA: ("libggml-cuda", "libcuda.so", "libcudart"),
    Backend.SYCL: ("libggml-sycl", "libsycl"),
    Backend.METAL: ("libggml-metal",),
    Backend.RPC: ("libggml-rpc",),
    Backend.CPU: ("libggml-cpu",),
}
"""A backend's libraries have names that begin so; a mapped one shows that it was loaded, never that it worked."""


_MOVES_TENSORS = frozenset(
    """
    -ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe
    LLAMA_ARG_OVERRIDE_TENSOR LLAMA_ARG_CPU_MOE LLAMA_ARG_N_CPU_MOE
    """.split()
)


@dataclass(frozen=True, slots=True)
class TrialView:
    """A condition, the log's facts (None when there is no log to read) and the raw record of one trial. `evaluated`
    are the tokens of the prompt that were computed, as far as the answers say it, one number an answer."""

    condition: Condition
    facts: ServerFacts | None
    absent: Absence | None
    record: TrialRecord
    evaluated: tuple[int, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the server got through load: then the lines that decide must be there, and are demanded."""
        loaded = self.facts is not None and self.facts.model_loaded is not None
        return loaded or self.record.sighting.ready_at is not None

    @property
    def attached(self) -> bool:
        """A server that ran before we came: it has no arguments or environment of ours."""
        return bool(self.condition.url)

    @property
    def why_no_log(self) -> str:
        """Why there are no facts, for a sentence."""
        if self.absent is None or not self.absent.detail:
            return "there is no server log"
        return self.absent.detail

    def hides(self, *names: str) -> bool:
        """Whether the log's verbosity leaves out any of these (`offload`, `buffers`, `devices`), or the log does not
        hold the load of the model at all: it begins later, or is another program's."""
        if self.ready and self.facts is not None and not self._shows_a_load(self.facts):
            return True
        return self.facts is not None and any(name in self.facts.hidden for name in names)

    @staticmethod
    def _shows_a_load(facts: ServerFacts) -> bool:
        printed = facts.settings.keys() - {"n_threads"}  # that one stands before the load
        return bool(facts.model_loaded or facts.buffers or printed or isinstance(facts.offload, Offload))

    @property
    def moves_tensors(self) -> str:
        """The option or variable that keeps tensors off the device whatever the layers say, or empty. Then the line
        `offloaded N/M layers` does not tell the placement."""
        words = (*self.record.argv, *self.record.env)
        return next((word for word in words if word.split("=", 1)[0] in _MOVES_TENSORS), "")

    def option(self, *names: str) -> str | None:
        """The value that follows the last of these flags on the command line; empty when none follows, None when
        the flag is not there."""
        return option(self.record.argv, *names)

    def died_in(self) -> str:
        """The phase that the log reached, for a sentence: `died in load`."""
        phase = "init" if self.facts is None else self.facts.last_phase.value
        return f"died in {phase}" if phase != "unknown" else "died early"


def option(argv: Sequence[str], *names: str) -> str | None:
    """The value after the last occurrence of any of `names`; llama.cpp lets the last one win."""
    found = None
    for place, word in enumerate(argv):
        if word in names:
            found = argv[place + 1] if place + 1 < len(argv) else ""
    return found


def yes(asked: object, got: object | None, why: str, *refs: Ref) -> FactorApplied:
    """An applied factor."""
    return FactorApplied(Answer.YES, str(asked), None if got is None else str(got), why, refs)


def no(asked: object, got: object | None, why: str, *refs: Ref) -> FactorApplied:
    """A factor that was not applied. `why` begins with a short form that ends in a colon, for tables."""
    return FactorApplied(Answer.NO, str(asked), None if got is None else str(got), why, refs)


def unknown(asked: object, why: str, *refs: Ref) -> FactorApplied:
    """A factor about which the evidence is silent."""
    return FactorApplied(Answer.UNKNOWN, str(asked), None, why, refs)


def file_name(path: str) -> str:
    """`/usr/lib/libggml-vulkan.so.0` -> `libggml-vulkan.so.0`; a deleted file's mark is dropped."""
    return path.removesuffix(" (deleted)").rsplit("/", 1)[-1]
