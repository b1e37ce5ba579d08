"""The names of GPU targets alone: the whole table, with its nouns, costs a short command a fifth of its time."""

from __future__ import annotations

import csv

from stillruns.catalogue import shipped


def target_names() -> frozenset[str]:
    """Every GPU target that the catalogue has a row for (gate_tables.py checks the rows)."""
    return frozenset(row["target"] for row in csv.DictReader(shipped.text("targets.csv").splitlines()))
