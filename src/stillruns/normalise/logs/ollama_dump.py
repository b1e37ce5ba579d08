"""The dump of a dying Go program: which goroutine died, in which C function, and in which batch.

Only the first goroutine counts: it is the one that received the signal. Its `computeBatch` argument holds the batch's
number and its inputs as a slice {pointer, length, capacity}; the others wait.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from stillruns.model.evidence import Ref
from stillruns.model.phase import Phase
from stillruns.model.server_log import Frame
from stillruns.normalise.crash import frames

MAX_LINES = 400
"""A first goroutine's stack is shorter than this; the rest of the dump is not kept."""

_BATCH = re.compile(r"^0x[0-9a-f]{1,16}\??, \{0x(?P<number>[0-9a-f]{1,16})\??, ")
_SLICE = re.compile(r"\{0x[0-9a-f]{1,16}\??, 0x(?P<length>[0-9a-f]{1,8})\??, 0x(?P<capacity>[0-9a-f]{1,8})\??\}")

_LOADS = (
    "llama_load_model_from_file",
    "llama_model_load_from_file",
    "ggml_backend_tensor_set",
    "ggml_backend_alloc_ctx_tensors",
    "ggml_backend_buft_alloc_buffer",
)
_RESERVES = (
    "ggml_backend_sched_reserve",
    "llama_new_context_with_model",
    "llama_init_from_model",
)
_DISCOVERS = ("ggml_backend_load", "ggml_backend_dev_init", "ggml_backend_dev_memory", "ggml_backend_dev_get_props")
_INFO = ("ollamarunner.(*Server).info", "GetDevicesFromRunner", "ggml.BackendDeviceInfo")


@dataclass
class Dump:
    """One dump being read: `take` gives it the lines after the banner."""

    ref: Ref
    goroutine: str = ""
    lines: int = 0
    open: bool = True
    frames: list[Frame] = field(default_factory=list)
    batch: int | None = None
    batch_length: int | None = None
    batch_ref: Ref | None = None

    def take(self, text: str, ref: Ref) -> None:
        """The next line of the stream; lines of others in between do no harm."""
        self.lines += 1
        if text.startswith("goroutine "):
            if self.goroutine:
                self.open = False
                return
            self.goroutine = text[:80]
            return
        if self.lines > MAX_LINES:
            self.open = False
            return
        if not self.goroutine or text[:1] in ("\t", " ", ""):
            return
        frame = frames.read(text, ref)
        if frame and len(self.frames) < frames.MAX_FRAMES:
            self.frames.append(frame)
        if self.batch is None and ".(*Server).computeBatch(" in text:
            self._batch(text.split(".(*Server).computeBatch(", 1)[1], ref)

    def _batch(self, arguments: str, ref: Ref) -> None:
        number, inputs = _BATCH.match(arguments), _SLICE.search(arguments)
        if number and inputs and int(inputs["length"], 16) <= int(inputs["capacity"], 16):
            self.batch = int(number["number"], 16)
            self.batch_length = int(inputs["length"], 16)
            self.batch_ref = ref

    def phase(self, parallel: int | None) -> tuple[Phase, Ref | None]:
        """Where it died, by the stack alone; UNKNOWN when the stack does not tell.

        The first batch of a runner is a prompt's, and so is one of several inputs where only one sequence runs; one
        input in a later batch is a step of decoding.
        """
        names = [frame.function for frame in self.frames]
        for marks, phase in ((_DISCOVERS, Phase.DISCOVER), (_RESERVES, Phase.RESERVE), (_LOADS, Phase.LOAD)):
            for frame in self.frames:
                if frame.function.startswith(marks):
                    return phase, frame.ref
        if any(name.startswith(_INFO) for name in names):
            return Phase.DISCOVER, self.ref
        if self.batch is None or not self.batch_length:
            return Phase.UNKNOWN, None
        if self.batch == 0 or (self.batch_length > 1 and parallel == 1):
            return Phase.PROMPT, self.batch_ref
        if self.batch_length == 1:
            return Phase.DECODE, self.batch_ref
        return Phase.UNKNOWN, None
