"""What one load of a model has printed, and the phases that a server went through."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.evidence import Ref
from stillruns.model.expression import Expression
from stillruns.model.phase import Phase
from stillruns.model.server_facts import Buffer, Event, Offload, PhaseSpan

_ARCHITECTURE = Expression(
    r"(?:llama_model_loader: - kv\s+\d{1,4}:\s+general\.architecture str|(?:print_info|llm_load_print_meta): arch)"
    r"\s+= (?P<architecture>[\w.-]{1,40})\s*$"
)


@dataclass
class Load:
    """What one load of the model has printed."""

    path: str = ""
    tensors: bool = False
    begun: bool = False
    repeating: int | None = None
    output: bool | None = None
    offloaded: tuple[int, int, Ref] | None = None
    buffers: list[Buffer] = field(default_factory=list)
    settings: dict[str, tuple[str, Ref]] = field(default_factory=dict)
    overflow: dict[str, int] = field(default_factory=dict)
    beyond: bool = False
    architecture: str | None = None
    file_type: str = ""
    draft: bool = False

    def begin_tensors(self) -> None:
        """The load of the tensors begins: what looked like its lines before was a text of the model's."""
        if not self.begun:
            self.repeating = self.output = self.offloaded = None
            self.buffers.clear()
        self.begun = self.tensors = True

    def describe(self, text: str) -> None:
        """A line about the model; the first that names its architecture counts."""
        if self.architecture is None and "arch" in text:
            found = _ARCHITECTURE.match(text)
            self.architecture = found["architecture"] if found else None

    def has_type(self, event: Event) -> None:
        """A line that names the type of the weights: the last counts, since an Ollama server's log can hold loads
        that no other line of this grammar begins. A draft's type is not the model's."""
        if not self.draft:
            self.file_type = event.fields["type"]

    def draft_follows(self) -> None:
        """What is loaded from here on, until the model itself is loaded again, is its draft."""
        self.draft = True

    def offload_or_absence(self, lines: int, quiet: bool, cut: bool, phase: Phase) -> Offload | Absence:
        """The layers as printed, or why they are not there.

        `lines` is the log's length, `quiet` whether its verbosity hides them, `cut` whether it has a hole, `phase`
        where it ends.
        """
        if self.offloaded is None:
            return self._why(lines, quiet, cut, phase)
        offloaded, total, ref = self.offloaded
        output = self.output
        if output is None and self.repeating is not None:
            output = False  # the line for the output layer is printed only when it is offloaded
        repeating = self.repeating
        if output and offloaded == total and repeating == total - 2:
            repeating += 1  # b8500 and later take the output layer off a count that left it out already
        return Offload(offloaded, total, repeating, output, sum(self.overflow.values()), ref)

    def _why(self, lines: int, quiet: bool, cut: bool, phase: Phase) -> Absence:
        if lines == 0:
            return Absence(AbsenceReason.NOT_COLLECTED, "the log is empty")
        if not self.tensors and (self.beyond or quiet):
            return Absence(
                AbsenceReason.HIDDEN,
                "the lines of the load are not shown at this verbosity",
                "start it with -lv 4",
            )
        if cut:
            return Absence(
                AbsenceReason.NOT_COLLECTED, "the layer line may lie in the part of the log that was cut out"
            )
        if self.beyond:
            return Absence(
                AbsenceReason.NOT_COLLECTED,
                "the load's lines are there without a layer line: it is printed only when a GPU backend is loaded",
            )
        return Absence(AbsenceReason.NOT_COLLECTED, f"the log ends before the layer line, in {phase.value}")


@dataclass
class Phases:
    """The spans so far, and the phase that the server is in (None: not known, or idle)."""

    spans: list[PhaseSpan] = field(default_factory=list)
    current: Phase | None = None

    def mark(self, phase: Phase, ref: Ref) -> None:
        """A line that tells `phase`."""
        if self.current is phase and self.spans:
            self.spans[-1] = replace(self.spans[-1], last=ref)
        else:
            self.spans.append(PhaseSpan(phase, ref, ref))
        self.current = phase

    def idle(self) -> None:
        """The server waits."""
        self.current = None
