"""The promise: what was parsed beforehand is used for exactly the bytes that it was made of, and for no others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stillruns.catalogue import load, shipped
from stillruns.errors import CatalogueError
from stillruns.model.backend import Runtime

TABLES = (
    "patterns_client.toml",
    "grammar_vllm.toml",
    "card_names.toml",
    "known_issues.toml",
    "workarounds_build.toml",
)


def run(folder: Path, code: str) -> str:
    """What a Python with a copy of the package in `folder` prints."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of the whole package, to be damaged."""
    shutil.copytree(shipped.FOLDER.parents[1], tmp_path / "stillruns", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def data(copy: Path) -> Path:
    """The data files of the copy."""
    return copy / "stillruns" / "catalogue" / "data"


RULES = "from stillruns.catalogue import load; from stillruns.model.backend import Runtime as R; "
SOURCES = RULES + "print([r.source for r in load.grammar(R.VLLM)][0])"
PARSED = RULES + "load.grammar(R.VLLM); import sys; print('tomllib' in sys.modules or 'tomli' in sys.modules)"


def test_nothing_is_parsed_at_a_usual_start() -> None:
    """Every file that programs read at each start has its entries in the list, equal to what its TOML says."""
    for file in TABLES:
        assert shipped.checked(file)
        assert shipped.entries(file)
    assert len(load.grammar(Runtime.VLLM)) > 5
    assert shipped.entries("trace_num_gpu.toml") == ""


def test_an_edited_file_is_parsed_again(copy: Path) -> None:
    """After an edit the list's entries are stale; the file's own are used; without or with a broken list too."""
    assert run(copy, PARSED) == "False"
    grammar = data(copy) / "grammar_vllm.toml"
    grammar.write_text(grammar.read_text().replace('source = "', 'source = "edited: '))
    assert run(copy, SOURCES).startswith("edited: ")
    assert run(copy, PARSED) == "True"
    (data(copy) / "checked.txt").write_bytes(b"\xff\xfe  \n  \n")
    assert run(copy, SOURCES).startswith("edited: ")
    (data(copy) / "checked.txt").unlink()
    assert run(copy, SOURCES).startswith("edited: ")


def test_damaged_entries_are_not_used(copy: Path) -> None:
    """Entries that are no JSON, or not of the form, are left and the TOML file is read."""
    listed = data(copy) / "checked.txt"
    whole = listed.read_text(encoding="utf-8")
    expected = run(copy, SOURCES)
    for broken in (whole.replace('  [{"id"', '  [{"id"x'), whole.replace('"event":', '"happening":')):
        assert broken != whole
        listed.write_text(broken, encoding="utf-8")
        assert run(copy, SOURCES) == expected
        assert run(copy, PARSED) == "True"


def test_an_edited_file_is_checked_again(copy: Path) -> None:
    """A rule broken by an edit is refused, though the list's entries of the file before the edit were good."""
    grammar = data(copy) / "grammar_vllm.toml"
    grammar.write_text(grammar.read_text() + '\n[[rule]]\nid = "x"\n')
    code = (
        RULES + "from stillruns.errors import CatalogueError as E\ntry: load.grammar(R.VLLM)\nexcept E as e: print(e)"
    )
    assert "grammar_vllm.toml, x" in run(copy, code)


def test_a_file_that_is_gone() -> None:
    """One sentence with the file."""
    with pytest.raises(CatalogueError, match=r"gone\.toml cannot be read"):
        shipped.content("gone.toml")
