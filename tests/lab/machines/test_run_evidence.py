"""The promise: what runs showed counts for the card that computed, on the machine that has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import CPU, Table, small, vulkan
from stillruns.lab import running, selftest
from stillruns.lab.machines import run_evidence
from stillruns.lab.runs.preparing import prepare
from stillruns.lab.runs.progress import Silent
from stillruns.lab.specs.spec_file import load
from stillruns.store.opening import open_store


def ran(tmp_path: Path, *backends: Table, **more: Any) -> dict[str, int]:
    """A store with one run, and how many trials passed by backend."""
    place = small(tmp_path / "t.toml", *backends, reference="none", warm=False, **more)
    with open_store(tmp_path / "store") as store:
        result = running.run(prepare(load(place), store, Silent()), store, Silent(), new=True)
    return {cell.backend: cell.passed for cell in result.cells}


@pytest.mark.engine()
@pytest.mark.vulkan()
def test_a_software_driver_is_no_card(tmp_path: Path, shader_cache: Path) -> None:
    """Vulkan on llvmpipe passed, and that opens no path of any card; the CPU's trial is the CPU's. One layer on the
    device is enough for that: the shaders of all the others take half a minute to compile."""
    sides = CPU, vulkan(MESA_SHADER_CACHE_DIR=shader_cache)
    assert ran(tmp_path, *sides, matrix={"gpu_layers": [1]}) == {"cpu": 1, "vulkan": 1}
    with open_store(tmp_path / "store", create=False) as store:
        found = run_evidence.collect(store)
    assert [(seen.backend, seen.target, seen.passed) for seen in found] == [("cpu", "cpu", 1)]


@pytest.mark.engine()
def test_a_store_from_elsewhere(tmp_path: Path) -> None:
    """A run that another CPU recorded is another machine's."""
    ran(tmp_path)
    with open_store(tmp_path / "store", create=False) as store:
        assert [seen.backend for seen in run_evidence.collect(store)] == ["cpu"]
        opening = next(store.records(kind="run_started")).body
        assert run_evidence.of_this_machine(opening)
        host = {**json.loads(json.dumps(opening["host"])), "cpu": "another CPU"}
        assert not run_evidence.of_this_machine({**opening, "host": host})


@pytest.mark.engine()
@pytest.mark.usefixtures("shim")
def test_injected_faults_are_none_of_the_machines(tmp_path: Path) -> None:
    """After `selftest` no check says that a trial failed here: the fault was put there."""
    with open_store(tmp_path / "store") as store:
        done = selftest.run(store, Silent(), kinds=["segv"], phases=["decode"])
        assert [result.fault for result in done.results] == ["decode:segv"]
        assert run_evidence.collect(store) == ()
