"""The promise: a hypothesis is complete and of the language before a trial runs, and the library's are too."""

from __future__ import annotations

from pathlib import Path

import pytest

from stillruns.catalogue.stock_hypotheses import shipped_hypotheses
from stillruns.errors import SpecError
from stillruns.judge.claims import hypotheses
from stillruns.lab.runs import freezing
from stillruns.lab.specs import hypothesis_file, spec_file
from stillruns.model.spec import HypothesisSpec

SPEC = '[experiment]\nname = "t"\nmodel = "synth:llama"\n[[backend]]\nid = "cpu"\n'
OWN = """
[[hypothesis]]
id = "H1"
text = "it fails"
predicts = "all(c.rate > 0.5 for c in cells)"
refuted_if = "any(c.passed > 0 for c in cells)"
"""


def test_the_library_is_of_the_language() -> None:
    """Every shipped hypothesis parses; the poster's three and the guide's four are there."""
    library = hypothesis_file.library()
    for hypothesis in library:
        hypotheses.check(hypothesis, "library")
    assert {h.id for h in library} >= {
        "gpu-unusable",
        "num-gpu-is-gpu-count",
        "vulkan-path-unstable",
        "parallel-allocation",
        "no-mmap-helps",
        "q8-0-is-the-problem",
        "vulkan-20-to-40-slower",
    }
    assert all(h.sources for h in shipped_hypotheses())


def test_a_spec_takes_its_own_and_the_librarys() -> None:
    """Both are in the spec, whole, so that the digest freezes what was meant."""
    spec = spec_file.parse(SPEC + OWN + '[[hypothesis]]\nuse = "gpu-unusable"\n', Path("x.toml"))
    assert [h.id for h in spec.hypotheses] == ["H1", "gpu-unusable"]
    assert spec.hypotheses[1].predicts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (OWN.replace('refuted_if = "any(c.passed > 0 for c in cells)"', ""), "no refuted_if"),
        (OWN.replace("it fails", " "), "no text"),
        (OWN.replace("c.passed", "c.nonsense"), "no field"),
        (OWN + OWN, "given twice"),
        ('[[hypothesis]]\nuse = "nonsense"\n', "the library has no"),
        (OWN + 'use = "gpu-unusable"\n', "no other field"),
        (OWN + "extra = 1\n", "extra"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    """At load, with the place."""
    with pytest.raises(SpecError, match=why):
        spec_file.parse(SPEC + text, Path("x.toml"))


def test_the_digest_is_of_what_it_says() -> None:
    """One word changed is another hypothesis; the design of the trials is not touched by it."""
    one, other = HypothesisSpec("H", "a", "b", "c"), HypothesisSpec("H", "a", "b", "d")
    assert freezing.digests([one])["H"] != freezing.digests([other])["H"]
    first = spec_file.parse(SPEC + OWN, Path("x.toml"))
    second = spec_file.parse(SPEC + OWN.replace("0.5", "0.6"), Path("x.toml"))
    assert first.sha256 != second.sha256
    assert freezing.design(first) == freezing.design(second)
