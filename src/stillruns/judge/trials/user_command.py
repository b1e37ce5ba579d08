"""Reads a user's own command line: which part of it is a llama.cpp program, and what it asks for.

Option names and their variables are those of llama.cpp's common/arg.cpp (b4000 to b10434).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stillruns.model.condition import Layers

PROGRAMS = ("llama-server", "llama-cli", "llama-bench", "llama-run", "llama-simple")

OTHER_TOOLS = tuple(
    """
    llama-batched-bench llama-completion llama-embedding llama-fit-params llama-imatrix llama-mtmd-cli
    llama-perplexity llama-quantize llama-speculative llama-tts rpc-server ggml-rpc-server
    """.split()
)
"""More programs of llama.cpp's that print lines of a load or of devices; they are counted and not read."""
TELLS_AND_ENDS = frozenset(
    "-h --help --usage --version --license --list-devices -cl --cache-list --completion-bash".split()
)
"""Options with which a program loads nothing, and prints something about itself or the machine."""

OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "model": (("-m", "--model"), "LLAMA_ARG_MODEL"),
    "gpu_layers": (("-ngl", "--gpu-layers", "--n-gpu-layers"), "LLAMA_ARG_N_GPU_LAYERS"),
    "device": (("-dev", "--device"), "LLAMA_ARG_DEVICE"),
    "context": (("-c", "--ctx-size"), "LLAMA_ARG_CTX_SIZE"),
    "batch": (("-b", "--batch-size"), "LLAMA_ARG_BATCH"),
    "ubatch": (("-ub", "--ubatch-size"), "LLAMA_ARG_UBATCH"),
    "threads": (("-t", "--threads"), "LLAMA_ARG_THREADS"),
    "flash_attention": (("-fa", "--flash-attn"), "LLAMA_ARG_FLASH_ATTN"),
    "host": (("--host",), "LLAMA_ARG_HOST"),
    "port": (("--port",), "LLAMA_ARG_PORT"),
    "api_key": (("--api-key", "--api-key-file"), "LLAMA_API_KEY"),
    "verbosity": (("-lv", "--verbosity", "--log-verbosity"), "LLAMA_ARG_LOG_VERBOSITY"),
}


@dataclass(frozen=True, slots=True)
class UserCommand:
    """`program` is the llama.cpp program's name, or empty for anything else; `asked` maps the settings above that
    the command or its environment gives to their text."""

    argv: tuple[str, ...]
    program: str
    asked: dict[str, str]
    verbose: bool

    @property
    def is_server(self) -> bool:
        """Whether it will answer requests."""
        return self.program == "llama-server"

    @property
    def layers(self) -> Layers | None:
        """The number of layers asked, `"all"` for all (also `-1` of builds where that means all); None when not asked
        or when the runtime is to choose (`auto`)."""
        text = self.asked.get("gpu_layers")
        if text is None or text == "auto":
            return None
        try:
            number = int(text)
        except ValueError:
            return "all" if text == "all" else None
        return number if number >= 0 else None

    def number(self, name: str) -> int | None:
        """A setting as a number; None when not asked or no number."""
        text = self.asked.get(name, "")
        return int(text) if text.isdigit() else None


def read(argv: Sequence[str], env: Mapping[str, str]) -> UserCommand:
    """The command, read; words before the program (a container, a wrapper) are skipped. The last of two equal options
    wins, and an option wins over its variable, as in llama.cpp."""
    place = next((i for i, word in enumerate(argv) if _program(word)), None)
    if place is None:
        return UserCommand(tuple(argv), "", {}, False)
    words = list(argv[place + 1 :])
    asked: dict[str, str] = {}
    for name, (flags, variable) in OPTIONS.items():
        if env.get(variable):
            asked[name] = env[variable]
        for index, word in enumerate(words):
            if word in flags:
                following = words[index + 1] if index + 1 < len(words) else ""
                bare = name == "flash_attention" and (not following or following.startswith("-"))
                asked[name] = "on" if bare else following
    verbose = any(word in ("-v", "--verbose", "--log-verbose") for word in words)
    return UserCommand(tuple(argv), _program(argv[place]), asked, verbose)


def started(commands: Sequence[Sequence[str]]) -> tuple[UserCommand, ...]:
    """The programs of llama.cpp's among the command lines that were seen, in their order, without those that only
    tell of themselves and end. Their environments are not known."""
    found = (words for words in commands if words and _program(words[0], (*PROGRAMS, *OTHER_TOOLS)))
    return tuple(read(words, {}) for words in found if not TELLS_AND_ENDS.intersection(words[1:]))


def _program(word: str, known: Sequence[str] = PROGRAMS) -> str:
    name = word.rsplit("/", 1)[-1]
    return next((p for p in known if name == p or name.startswith(p + "-")), "")
