"""A client whose options class travels as a keyword of its own name."""

from typing import Optional


class Options:
    gpu_layers: Optional[int] = None  # want gpu_layers
    seed: Optional[int] = None


class Client:
    def generate(self, prompt, options=None):
        return self.request(
            Body(
                prompt=prompt,
                options=options,  # want gpu_layers
            )
        )
