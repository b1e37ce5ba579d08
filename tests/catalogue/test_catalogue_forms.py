"""The promise: a catalogue entry that breaks a rule does not load, and the message names file and entry."""

from __future__ import annotations

from typing import Any

import pytest

from stillruns.catalogue import forms
from stillruns.errors import CatalogueError

RULE: dict[str, Any] = {
    "id": "offloaded",
    "runtime": "llama.cpp",
    "event": "offloaded",
    "regex": r"^load_tensors: offloaded (?P<n>\d+)/(?P<m>\d+)",
    "anchor": "load_tensors: offloaded ",
    "source": "src/llama-model.cpp",
}
PATTERN: dict[str, Any] = {
    "id": "lost",
    "regex": "device lost on (?P<device>[^ ]+)",
    "anchor": "device lost on ",
    "outcome": "device_lost",
    "components": ["Vulkan driver"],
    "rank": 90,
    "origin": "real",
    "explanation": "It is lost.",
    "next_step": "Read the kernel's log.",
    "source": "ggml",
}
WORKAROUND: dict[str, Any] = {
    "id": "no-sdma",
    "title": "No SDMA",
    "kind": "runtime",
    "change": "HSA_ENABLE_SDMA=0",
    "mechanism": "No DMA engines.",
    "verify": "Compare the output.",
    "undo": "Unset it.",
    "risk": "Slower.",
    "evidence": "source",
    "sources": ["ROCr"],
    "read_on": "2026-11-30",
}
ISSUE: dict[str, Any] = {
    "id": "x",
    "title": "X",
    "sources": ["commit"],
    "read_on": "2026-11-30",
    "text": "It crashes.",
}


def test_good_entries_load() -> None:
    """The examples of this file are valid as they are."""
    assert forms.read_rule("f.toml", RULE).since == ""
    assert forms.read_pattern("f.toml", PATTERN).rank == 90
    assert forms.read_workaround("f.toml", WORKAROUND).set_env == {}
    assert forms.read_issue("f.toml", ISSUE).fixed_in is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colour": "red"}, "colour"),
        ({"regex": "("}, "regular expression"),
        ({"anchor": ""}, "anchor"),
        ({"anchor": "load_tensors: onloaded "}, "anchor"),
        ({"regex": r"load_tensors: offloaded (?:\d+ )*(\d+)+x"}, "endless"),
        ({"regex": r"load_tensors: offloaded .*a.*b"}, "quadratic"),
        ({"regex": r"(?i)load_tensors: offloaded "}, "flags"),
        ({"source": " "}, "source"),
        ({"phase": "coffee"}, "phase"),
        ({"runtime": "llama"}, "runtime"),
        ({"since": "yesterday"}, "version"),
        ({"id": "Not An Id"}, "id"),
    ],
)
def test_rule_refused(change: dict[str, Any], says: str) -> None:
    """Each broken grammar rule is refused with its name and the reason."""
    with pytest.raises(CatalogueError, match=says) as caught:
        forms.read_rule("grammar_x.toml", RULE | change)
    assert "grammar_x.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"origin": "guessed"}, "origin"),
        ({"components": []}, "components"),
        ({"components": ["gremlins"]}, "component"),
        ({"explanation": ""}, "explanation"),
        ({"next_step": ""}, "next_step"),
        ({"outcome": "boom"}, "outcome"),
        ({"rank": "high"}, "rank"),
        ({"harmless_when": "("}, "regular expression"),
    ],
)
def test_pattern_refused(change: dict[str, Any], says: str) -> None:
    """Each broken crash pattern is refused with its name and the reason."""
    with pytest.raises(CatalogueError, match=says):
        forms.read_pattern("patterns_x.toml", PATTERN | change)


@pytest.mark.parametrize("field", ["undo", "risk", "verify", "mechanism", "change"])
def test_workaround_says_everything(field: str) -> None:
    """A workaround without a way back, a risk, or a way to see that it works does not load; nor does `-`."""
    for silent in ("", " ", "-"):
        with pytest.raises(CatalogueError, match=field):
            forms.read_workaround("workarounds_x.toml", WORKAROUND | {field: silent})
    with pytest.raises(CatalogueError, match=f"{field} is missing"):
        forms.read_workaround("workarounds_x.toml", {k: v for k, v in WORKAROUND.items() if k != field})


@pytest.mark.parametrize(
    ("change", "says"),
    [({"sources": []}, "sources"), ({"read_on": "recently"}, "read_on"), ({"evidence": "hope"}, "evidence")],
)
def test_workaround_has_provenance(change: dict[str, Any], says: str) -> None:
    """Source, day and the level of evidence are required."""
    with pytest.raises(CatalogueError, match=says):
        forms.read_workaround("workarounds_x.toml", WORKAROUND | change)


def test_issue_has_provenance() -> None:
    """A known issue without a source does not load."""
    with pytest.raises(CatalogueError, match="sources"):
        forms.read_issue("known_issues.toml", ISSUE | {"sources": []})


def test_ids_are_unique() -> None:
    """Two entries of one id are refused."""
    rule = forms.read_rule("f.toml", RULE)
    with pytest.raises(CatalogueError, match="twice"):
        forms.unique("grammar", [rule, rule])


def test_file_holds_one_kind() -> None:
    """A file with another table than its own is refused."""
    with pytest.raises(CatalogueError, match="nothing else"):
        forms.table("f.toml", {"rule": [], "rules": []}, "rule")
    with pytest.raises(CatalogueError, match="array of tables"):
        forms.table("f.toml", {"rule": {"id": "x"}}, "rule")
