"""Loads the working half of a verb by name, after its arguments are read: `stillruns VERB --help` stays quick."""

from __future__ import annotations

import importlib
from types import ModuleType

from stillruns.cli.stopping import EAR


def load(name: str) -> ModuleType:
    """The module `stillruns.cli.<name>`."""
    with EAR.held():
        return importlib.import_module(f"stillruns.cli.{name}")
