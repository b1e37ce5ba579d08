"""Which layers of a model are offloaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """`repeating` offloaded repeating layers, and whether the `output` layer is offloaded.

    llama.cpp counts the output layer as one: `offloaded 2/5` on a model with 4 repeating layers is
    {repeating: 1, output: true} there (the output layer is taken first), and was {repeating: 2, output: false}
    in Ollama up to 0.24. `total` counts repeating layers plus one.
    """

    repeating: int
    output: bool
    total: int

    @property
    def offloaded(self) -> int:
        """The number that runtimes print: repeating layers plus the output layer."""
        return self.repeating + (1 if self.output else 0)
