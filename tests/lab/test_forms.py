"""The promise: runs that are no experiment (selftests, single commands, imports) are not taken for one, and each form
of run has its verdicts' digest on record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from stillruns.cli import claims, report
from stillruns.errors import UsageError
from stillruns.lab import claiming, demo, importing, once, replaying, running, selftest
from stillruns.lab.runs import judging, preparing
from stillruns.lab.runs.progress import Silent
from stillruns.lab.studies import studying
from stillruns.store.opening import open_store
from stillruns.store.store import Store

WORKLOG = Path(__file__).parents[1] / "golden" / "worklog"


def recorded(store: Store) -> dict[str, bool | None]:
    """form -> whether its digest on record is the one of today."""
    return {found.form: found.same for found in replaying.replay(store)}


def test_imports_and_commands_record_a_digest(tmp_path: Path) -> None:
    """An imported run and a supervised command are compared like an experiment."""
    with open_store(tmp_path / "store") as store:
        importing.run(WORKLOG, store, "small")
        once.run(("sh", "-c", "exit 3"), store, lambda text: None)
        assert recorded(store) == {"worklog": True, "once": True}


@pytest.mark.engine()
@pytest.mark.usefixtures("shim")  # which skips without a compiler
def test_a_selftest_is_no_experiment(tmp_path: Path) -> None:
    """`report` and `claims` without a name pass over it; named, it is reported; replay judges it again."""
    place = tmp_path / "store"
    with open_store(place) as store:
        result = selftest.run(store, Silent(), kinds=("segv",), phases=("decode",))
        assert recorded(store) == {"selftest": True}
        assert claiming.matrices(store) == ()
        with pytest.raises(UsageError, match="holds no experiment"):
            judging.newest_matrix(store)
        importing.run(WORKLOG, store, "small")
        assert studying.newest(store) == "small"
    runner = CliRunner()
    for command in (report.command, claims.command):
        shown = runner.invoke(command, ["--store", str(place)], standalone_mode=False)
        assert "selftest cpu" not in shown.output and result.run not in shown.output
        assert "small" in shown.output
    named = runner.invoke(report.command, [result.run, "--store", str(place)], standalone_mode=False)
    (row,) = [line for line in named.output.splitlines() if "SIGSEGV" in line]
    assert row.split()[:3] == ["cpu", "-", "decode:segv"], "a row says which fault it is of"


@pytest.mark.engine()
@pytest.mark.usefixtures("shim")
def test_a_selftest_after_an_import_hides_nothing(tmp_path: Path) -> None:
    """The newest study stays what `report` prints."""
    with open_store(tmp_path / "store") as store:
        importing.run(WORKLOG, store, "small")
        selftest.run(store, Silent(), kinds=("segv",), phases=("decode",))
        assert studying.newest(store) == "small"


@pytest.mark.engine()
def test_the_demo_records_a_digest(tmp_path: Path) -> None:
    """`stillruns demo` is an experiment like any other: replay comes to the same verdicts (here without Vulkan)."""
    blind = {**os.environ, "VK_DRIVER_FILES": "/none.json", "VK_ICD_FILENAMES": "/none.json"}
    with open_store(tmp_path / "store") as store:
        spec = demo.spec(store, Silent(), trials=1, environ=blind)
        running.run(preparing.prepare(spec, store, Silent(), blind), store, Silent(), new=True)
        assert recorded(store) == {"matrix": True}
