"""The promise: the gates' tables are whole, sourced, and refuse what breaks their rules."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from stillruns.catalogue import gate_tables
from stillruns.catalogue.target_names import target_names
from stillruns.errors import CatalogueError
from stillruns.model.gate_tables import RuntimeGate


def test_tables_load() -> None:
    """All of them, and they know the cards that this program is for."""
    found = gate_tables.tables()
    assert {"gfx803", "gfx900", "gfx906", "gfx90a", "gfx1031"} <= set(found.targets)
    assert found.gpus["1002:66a1"].target == "gfx906" and found.gpus["1002:687f"].target == "gfx900"
    assert found.targets["gfx900"].generic == found.targets["gfx906"].generic == "gfx9-generic"
    assert {row.target for row in found.packages} >= {"gfx900", "gfx906"}
    known = {*found.targets, *(entry.target for entry in found.nvidia)}
    assert all(entry.target in known for entry in found.gpus.values() if entry.target)


def test_neighbours() -> None:
    """Who runs whose code: names are targets of one major version, and gfx906's dot products are not gfx900's."""
    found = gate_tables.tables()
    for target, others in found.neighbours.items():
        assert target in found.targets and target not in others
        assert all(other in found.targets and other[3:-2] == target[3:-2] for other in others), target
    assert "gfx906" not in found.neighbours["gfx900"] and "gfx1030" in found.neighbours["gfx1031"]


def test_nvidia_names() -> None:
    """Cards that people still own are recognised by the names that the driver prints, and each by one entry."""
    expected = {"Tesla P40": "sm_61", "Tesla P100-PCIE-16GB": "sm_60", "NVIDIA GeForce GTX 1080 Ti": "sm_61",
                "Tesla M40 24GB": "sm_52", "Tesla K80": "sm_37", "Tesla V100-SXM2-32GB": "sm_70",
                "NVIDIA GeForce RTX 3090": "sm_86", "NVIDIA H200": "sm_90", "NVIDIA A100-SXM4-40GB": "sm_80",
                "NVIDIA GeForce GTX 960": "sm_52", "Quadro P2000": "sm_61"}  # fmt: skip
    for name, target in expected.items():
        assert [a.target for a in gate_tables.tables().nvidia if re.search(a.names, name)] == [target], name


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,2\n", "a,source,read_on\n1,,2026-11-30\n", "a,source,read_on\n1,x,yesterday\n",
     "a,source,read_on\n1,x\n", "a,source,read_on\n1,x,2026-11-30,more\n", 'a,source,read_on\n"1,x,2026-11-30\n'],
)  # fmt: skip
def test_bad_tables(text: str) -> None:
    """Without source or day, too short, too long, unclosed: refused by file and line."""
    with pytest.raises(CatalogueError, match=r"test\.csv"):
        list(gate_tables.rows("test.csv", text))


@pytest.mark.parametrize(
    "change", [('id = "a"', 'id = "a"\nodd = 1'), ('source = "s"', 'source = " "'), ('kind = "list"', "kind = 3"),
               ("[[gate]]", "[[other]]"), ('read_on = "2026-11-30"', 'read_on = "2026"'), ("= ", "")],
)  # fmt: skip
def test_bad_entries(change: tuple[str, str]) -> None:
    """An unknown key, no source, a wrong type, a wrong table, no day, no TOML."""
    words = {"id": "a", "runtime": "r", "kind": "list", "since": "1", "until": "", "text": "t", "source": "s"}
    fields = {**words, "driver": "", "below": "", "read_on": "2026-11-30"}
    good = "[[gate]]\n" + "".join(f'{name} = "{value}"\n' for name, value in fields.items())
    assert gate_tables.toml("x.toml", good, "gate", RuntimeGate)
    with pytest.raises(CatalogueError, match=r"x\.toml"):
        gate_tables.toml("x.toml", good.replace(*change, 1), "gate", RuntimeGate)
    with pytest.raises(CatalogueError, match="twice"):
        gate_tables.toml("x.toml", good + good, "gate", RuntimeGate)


def test_names_of_targets() -> None:
    """The list of names is that of the table, and `lint`, which asks for it, loads no more of the gates' tables."""
    assert target_names() == frozenset(gate_tables.tables().targets)
    code = "import sys, stillruns.lab.linting; print('stillruns.catalogue.gate_tables' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False", done.stderr
