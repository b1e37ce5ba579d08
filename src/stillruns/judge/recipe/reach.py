"""Who can see a variable: the programs of the recipe, what they load, and whether its reader is among that."""

from __future__ import annotations

from dataclasses import dataclass

from stillruns.judge.recipe.ground import FAMILY, Case, Ground, cite_string, loaded
from stillruns.model.installed import Installed
from stillruns.model.lint import Citation
from stillruns.model.option_row import Owner


@dataclass(frozen=True, slots=True)
class View:
    """A variable as seen from the programs of the recipe that can read it, and from what is installed of them."""

    case: Case
    ground: Ground
    programs: tuple[str, ...]
    """Programs of the recipe that can see the variable."""
    engines: tuple[Installed, ...]

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.case.item.name


OUTSIDE = frozenset({"pytorch", "opencl", "amdvlk", "rccl", "none", "cmake", "make"})
"""Owners that no ordinary build of llama.cpp or Ollama loads (RCCL only with GGML_HIP_RCCL=ON, which is off)."""


def hits(view: View) -> list[Citation]:
    """Where installed files hold the name as a string of its own."""
    return [cite_string(engine, hit) for engine in view.engines for hit in engine.hits.get(view.name, ())[:2]]


def reaches(view: View, owner: Owner) -> tuple[bool, list[Citation], str]:
    """Whether an owner is in what runs: (yes or no, citations, reason when not)."""
    llama = [name for name in view.programs if view.ground.program(name).startswith(FAMILY)]
    here = any(name in owner.programs for name in view.programs)
    if not view.programs and owner.programs and not owner.sign:
        return owner.id not in OUTSIDE, [], f"{owner.title} reads it; nothing of {names(view.programs)} does"
    if here or (owner.programs and not owner.sign):
        return here, [], "" if here else f"{owner.title} reads it, and the recipe starts {names(view.programs)}"
    if owner.id in OUTSIDE:
        return False, [], f"{owner.title} reads it; nothing that {names(view.programs)} loads does"
    engines = [engine for engine in view.engines if engine.files]
    if not engines:
        mine = owner.id in ("llama.cpp",) and not llama and "ollama" not in view.programs
        return not mine, [], ""
    for engine in engines:
        place = loaded(engine, owner)
        if place:
            return True, [Citation("file", place, f"{owner.title}: loaded by {engine.program}", engine.path)], ""
    loaded_by = ", ".join(engine.program for engine in engines)
    text = f"none of the {sum(len(e.files) for e in engines)} files of {loaded_by} matches {owner.sign}"
    cited = Citation("file", engines[0].path, text, f"catalogue/{owner.place}")
    return False, [cited], f"{owner.title} reads it, which the installed {loaded_by} does not load"


def names(programs: tuple[str, ...]) -> str:
    """Program names for a sentence."""
    return ", ".join(programs) or "llama.cpp and Ollama"
