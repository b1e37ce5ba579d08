"""The names of GPU targets alone: the whole table, with its nouns, costs a short command a fifth of its time."""

from __future__ import annotations

import csv
from importlib import resources

from stillruns.errors import CatalogueError


def target_names() -> frozenset[str]:
    """Every GPU target that the catalogue has a row for (gate_tables.py checks the rows)."""
    file = resources.files("stillruns.catalogue").joinpath("data/targets.csv")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(
            f"the catalogue file targets.csv cannot be read: {error}; install stillruns again."
        ) from error
    return frozenset(row["target"] for row in csv.DictReader(text.splitlines()))
