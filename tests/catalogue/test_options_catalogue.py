"""The promise: the shipped catalogue of options keeps its rules, says what the facts say, and breaks loudly."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from stillruns.catalogue.options import CURATED, option_row, options, parse
from stillruns.errors import CatalogueError
from stillruns.model.option_row import Status

COLUMNS = (
    "name owner status semantics values default effect since until use reader notes source read_on build".split()
)
GOOD = dict.fromkeys(COLUMNS, "") | {
    "name": "A",
    "owner": "ggml",
    "status": "current",
    "semantics": "text",
    "source": "s",
    "read_on": "2026-11-30",
    "build": "no",
}


def test_loads() -> None:
    """Every table loads, and each kind of name is there."""
    found = options()
    assert {row.kind for row in found.rows} == set(CURATED.values())
    assert len(found.flags) > 300
    assert {reader.kind for reader in found.readers} == {"env", "cmake", "cmake-gone", "program", "mention"}
    assert any(row.owner == "ollama" and row.releases > 200 for row in found.searched)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": ""}, "no name"),
        ({"owner": "nobody"}, "unknown owner"),
        ({"status": "fine"}, "no status"),
        ({"semantics": "maybe"}, "no semantics"),
        ({"source": ""}, "no source"),
        ({"read_on": "yesterday"}, "no day"),
        ({"status": "renamed", "until": "b1"}, "no new name"),
        ({"status": "removed"}, "but not when"),
        ({"build": "perhaps"}, "neither yes nor no"),
    ],
)
def test_broken_rows(change: dict[str, str], complaint: str) -> None:
    """Each broken rule is a CatalogueError that names the place."""
    with pytest.raises(CatalogueError, match=complaint) as raised:
        option_row("t.csv:7", "env", {**GOOD, **change}, {"ggml"})
    assert "t.csv:7" in str(raised.value)


def test_broken_tables() -> None:
    """Other columns and short rows do not load."""
    with pytest.raises(CatalogueError, match="columns"):
        list(parse("t.csv", "a,b\n", ["a", "c"]))
    with pytest.raises(CatalogueError, match=r"t\.csv:2: 1 values for 2"):
        list(parse("t.csv", "a,b\n1\n", ["a", "b"]))


def test_every_fact_is_shipped(shared: Path) -> None:
    """Every variable, flag and option of the facts is in the catalogue under its name."""
    with (shared / "facts" / "env_vars.csv").open(newline="") as file:
        wanted = {row["name"] for row in csv.DictReader(file)}
    assert wanted <= {row.name for row in options().rows if row.kind == "env"}
    with (shared / "facts" / "flags.csv").open(newline="") as file:
        flags = {row["flag"] for row in csv.DictReader(file) if row["kind"] == "cli" and " " not in row["flag"]}
    assert flags <= {row.name for row in options().rows if row.kind == "flag"}


def test_same_flags_as_the_facts(shared: Path) -> None:
    """The computed table of flags names what the facts' own extraction of the same release names."""
    with (shared / "facts" / "flags_llamacpp_b11434.csv").open(newline="") as file:
        wanted = {name for row in csv.DictReader(file) for name in row["flags"].split()}
    found = {name for flag in options().flags for name in (*flag.names, *flag.negatives)}
    assert {name for name in wanted if name.startswith("-")} <= found


def test_renames_lead_to_current_names() -> None:
    """What a rename says to use instead exists."""
    known = {row.name for row in options().rows if row.status is Status.CURRENT}
    known |= {reader.name for reader in options().readers}
    for row in options().rows:
        if row.status is Status.RENAMED and row.use.isidentifier():
            assert row.use in known, f"{row.place}: {row.use} is not in the catalogue"
