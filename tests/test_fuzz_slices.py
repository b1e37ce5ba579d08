"""The promise: whatever bytes come from outside, there is an answer or one sentence, soon, with right line numbers.

Short slices of `make fuzz`, always of the same inputs; the long runs are `make fuzz`'s.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from random import Random

import pytest

from fuzzing import binaries, damage, documents, logs, nearly
from fuzzing.target import Target, TooSlow, trial
from stillruns.errors import SpecError
from stillruns.lab.specs import hypothesis_file, spec_file

TARGETS: tuple[Target, ...] = (*logs.TARGETS, *binaries.TARGETS, *documents.TARGETS)
INPUTS = {"machine-files": 4, "snapshot-document": 4, "snapshot-values": 8, "worklog-import": 2}
INPUTS |= {"log-near-matches": 6, "log-noise": 6, "log-dense": 4}
FEW = 25
SEED = 20261130
SLOWER = 6.0
"""Of the machines that run these: what grows with the square of its input takes hundreds of times as long."""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_slice(target: Target) -> None:
    """Some damaged inputs of each target, the good ones first."""
    seeds = target.seeds()
    inputs = itertools.islice(target.inputs(seeds, Random(SEED)), INPUTS.get(target.name, FEW))
    for data in itertools.chain(list(seeds)[:8], inputs):
        trial(target, data, SLOWER)


def test_the_checks_can_fail() -> None:
    """A quotation that does not stand on its line, an input that takes too long, and any exception are findings."""
    found = {"ref": "s0:L2", "text": "GGML_ASSERT(b)"}
    logs.quotes(b"a\nx GGML_ASSERT(b) y\n", [found])
    with pytest.raises(AssertionError, match="s0:L2 does not hold"):
        logs.quotes(b"GGML_ASSERT(b)\na\n", [found])
    with pytest.raises(TooSlow):
        trial(Target("slow", list, lambda data: sum(range(3_000_000)), damage.noise, floor=0.001), b"x")
    with pytest.raises(ZeroDivisionError):
        trial(Target("fault", list, lambda data: 1 // 0, damage.noise), b"x")


def test_every_byte_is_cut_once() -> None:
    """The order rotates with the seed; in the end every head and every tail was tried."""
    seeds = [b"abc", b"de"]
    for seed in (1, 2):
        tried = list(damage.cuts(seeds, Random(seed)))
        assert sorted(tried) == sorted(part for s in seeds for at in range(len(s) + 1) for part in (s[:at], s[at:]))
        assert len(tried) == damage.all_cuts(seeds)


def test_damage_is_seeded() -> None:
    """The same seed gives the same inputs, so a finding can be made again."""
    for make in (damage.binary, damage.text, damage.noise, damage.shuffled):
        first, second = (list(itertools.islice(make([b"a\nb\n", b"c"], Random(5)), 50)) for _ in range(2))
        assert first == second
        assert len(set(first)) > 1


def test_near_matches_nearly_match() -> None:
    """Of each expression's lines some match whole and some do not, and some are long."""
    missed = 0
    for regex in logs.expressions():
        lines = list(itertools.islice(nearly.lines(regex, Random(SEED)), 16))
        hits = [re.search(regex, line) is not None for line in lines]
        missed += not (any(hits) and not all(hits))
        assert any(len(line) > 1000 for line in lines), regex
    assert missed < len(logs.expressions()) // 5


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "x = " + "{a=" * 100_000, "a." * 100_000 + "a = 1"])
def test_a_spec_nested_without_end(text: str, tmp_path: Path) -> None:
    """One sentence, at once: the parser's stack would end, or its time grow with the square of the depth."""
    path = tmp_path / "spec.toml"
    path.write_text(text)
    for read in (spec_file.load, hypothesis_file.load):
        with pytest.raises(SpecError, match=r"nested too deeply|more than 200 parts|not valid TOML"):
            read(path)


def test_a_long_prompt_is_no_long_name(tmp_path: Path) -> None:
    """Sentences and numbers of a prompt are not taken for a name of many parts; a file without end is not read."""
    good = '[experiment]\nname = "x"\nmodel = "m.gguf"\nprompt = "{}"\n[[backend]]\nid = "cpu"\n[stop]\ntrials = 1\n'
    path = tmp_path / "spec.toml"
    path.write_text(good.format("One. Two. 0.5 1.5 " * 500))
    assert spec_file.load(path).prompt.count(".") == 2000
    path.write_bytes(b" " * (4 << 20) + b"\n\n")
    with pytest.raises(SpecError, match="more than 4 MiB"):
        spec_file.load(path)
