"""Shared by the tests of the judge of recipes: a recipe's text to verdicts, with the real catalogue."""

from __future__ import annotations

from stillruns.catalogue.options import options
from stillruns.catalogue.target_names import target_names
from stillruns.judge.recipe.ground import Ground
from stillruns.judge.recipe.lint import lint
from stillruns.model.installed import Installed, LibraryFile, StringHit
from stillruns.model.lint import LintItem, LintResult
from stillruns.normalise import program_help
from stillruns.normalise.recipe.draft import KnownNames
from stillruns.normalise.recipe.reading import read

NAMES = KnownNames(
    frozenset({"llama-server", "llama-cli", "llama-bench", "llama-completion", "ollama"}),
    frozenset({"main", "server", "quantize"}),
    options().images,
)

OLD_HELP = """----- common params -----

-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers, 'auto', or 'all' (default: auto)
                                        (env: LLAMA_ARG_N_GPU_LAYERS)
-m,    --model FNAME                    model
-fa,   --flash-attn [on|off|auto]       set it ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
--mmap, --no-mmap                       DEPRECATED in favor of `--load-mode`: map (default: enabled)
                                        (env: LLAMA_ARG_MMAP)
--mlock                                 force it
                                        (env: LLAMA_ARG_MLOCK)
"""


def ground(*engines: Installed) -> Ground:
    """The real catalogue, and these programs."""
    return Ground(
        options=options(),
        installed={engine.program: engine for engine in engines},
        sources={},
        targets=target_names(),
    )


def engine(
    program: str = "llama-server", *, strings: tuple[str, ...] = (), libraries: tuple[str, ...] = ()
) -> Installed:
    """A composed build: its help, the files that it loads and the names that they hold."""
    program = "llama-server"
    lines, found = program_help.read(OLD_HELP)
    files = tuple(LibraryFile(f"/opt/{name}", "sha256:0", 1, (), ("getenv", 64)) for name in libraries)
    hits = {name: (StringHit(files[0].path, 4096, name),) for name in strings}
    return Installed(program, f"/opt/{program}", "named by you", "version: 1", lines, found, files, hits)


def judged(text: str, *engines: Installed, path: str = "x.sh") -> LintResult:
    """One recipe."""
    return lint([read(path, text, NAMES)], ground(*engines), ())[0]


def pair(item: LintItem) -> tuple[str, str | None]:
    """(verdict, value's verdict) as text."""
    return item.verdict.value, item.value_verdict.value if item.value_verdict else None


def only(text: str, name: str, *engines: Installed, path: str = "x.sh") -> LintItem:
    """The verdict on a name (not the conflicts)."""
    found = [i for i in judged(text, *engines, path=path).items if i.name == name and i.verdict.value != "conflict"]
    assert len(found) == 1, [(i.name, i.verdict.value) for i in found]
    return found[0]


def clashes(text: str, *engines: Installed, path: str = "x.sh") -> list[str]:
    """The reasons of every conflict."""
    return [item.why for item in judged(text, *engines, path=path).items if item.verdict.value == "conflict"]
