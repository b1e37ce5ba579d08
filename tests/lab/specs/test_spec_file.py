"""A spec that cannot mean anything is refused with one sentence that names the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from stillruns.errors import SpecError
from stillruns.lab.specs import spec_file
from stillruns.model.backend import Backend, Runtime
from stillruns.model.spec import DEFAULT_PROMPT

GOOD = """
[experiment]
name = "t"
model = "synth:llama?layers=4"
[[backend]]
id = "vulkan"
env = { GGML_VK_VISIBLE_DEVICES = "0" }
[matrix]
gpu_layers = [0, 2, "all"]
env.GGML_VK_DISABLE_F16 = ["0", "1"]
[stop]
trials = 4
"""


def load(tmp_path: Path, text: str) -> spec_file.Spec:
    """Write the text to a file and read it as a spec."""
    place = tmp_path / "spec.toml"
    place.write_text(text)
    return spec_file.load(place)


def test_a_good_spec_is_read_whole(tmp_path: Path) -> None:
    """Fields, axes and defaults arrive as they were written."""
    spec = load(tmp_path, GOOD)
    assert spec.gpu_layers == (0, 2, "all")
    assert spec.axes == {"env.GGML_VK_DISABLE_F16": ("0", "1")}
    assert spec.backends[0].backend is Backend.VULKAN
    assert spec.backends[0].runtime is Runtime.LLAMA_CPP
    assert spec.stop.trials == 4
    assert spec.prompt == DEFAULT_PROMPT
    assert spec.sha256.startswith("sha256:")


def test_the_digest_is_of_the_meaning(tmp_path: Path) -> None:
    """Comments, spaces and the file's place do not change the digest; a value does."""
    first = load(tmp_path, GOOD)
    other = tmp_path / "elsewhere"
    other.mkdir()
    assert load(other, "# a comment\n" + GOOD.replace("trials = 4", "trials   =   4")).sha256 == first.sha256
    assert load(tmp_path, GOOD.replace("trials = 4", "trials = 5")).sha256 != first.sha256


def test_later_fields_keep_older_digests(tmp_path: Path) -> None:
    """A field that came later changes a spec's digest only where it says something: an older run can go on."""
    first = load(tmp_path, GOOD).sha256
    same = 'name = "t"\nconcurrency = 1\nduration = 0\ncheck_positions = 32'
    assert load(tmp_path, GOOD.replace('name = "t"', same)).sha256 == first
    assert load(tmp_path, GOOD.replace('name = "t"', 'name = "t"\nconcurrency = 2')).sha256 != first


BAD = [
    ("name = ", "not valid TOML"),
    ('[experiment]\nname="t"\nmodel="m"\nmodle="x"\n[[backend]]\nid="cpu"', "modle"),
    ('[experiment]\nname="t"\n[[backend]]\nid="cpu"', "model"),
    ('[experiment]\nname="t"\nmodel="m"', "backend"),
    ('backend = []\n[experiment]\nname="t"\nmodel="m"', "at least one"),
    ('[experiment]\nname="t"\nmodel="m"\n[[backend]]\nid="amd"', "which backend"),
    ('[experiment]\nname="t"\nmodel="m"\n[[backend]]\nid="cpu"\n[[backend]]\nid="cpu"', "twice"),
    (GOOD.replace("[0, 2", "[-1, 2"), "gpu_layers has -1"),
    (GOOD.replace("[0, 2", "[2, 2"), "twice"),
    (GOOD.replace("env.GGML", "enf.GGML"), "not an axis"),
    (GOOD.replace("trials = 4", "trials = 0"), "trials >= 1"),
    (GOOD.replace("trials = 4", 'trials = "4"'), "stop.trials"),
    (GOOD.replace("trials = 4", "decide = { fail_below = 0.05 }"), "fail_above"),
    (GOOD.replace('name = "t"', 'name = "t"\nprompt = ""'), "empty"),
    (GOOD.replace('name = "t"', 'name = "t"\nprompt_file = "none.txt"'), "none.txt"),
    (GOOD.replace('name = "t"', 'name = "t"\npredict = 4000'), "no room"),
    (GOOD.replace('name = "t"', 'name = "t"\nreference = "gpu"'), "'cpu' or 'none'"),
    (GOOD.replace('name = "t"', 'name = "t"\nepochs = 2\nduration = 5'), "keep one of them"),
    (GOOD.replace('name = "t"', 'name = "t"\nconcurrency = 0'), "concurrency has 0"),
    (GOOD.replace('name = "t"', 'name = "t"\nprompt_tokens = 3000'), "more than context"),
    (GOOD.replace('name = "t"', 'name = "t"\ncheck_texts = ["x"]'), "need check = true"),
    (GOOD.replace("trials = 4", "trials = 4\nfutility = 0.1"), "needs decide"),
    (GOOD.replace('id = "vulkan"', 'id = "vulkan"\nruntime = "ollama"'), "no adapter"),
    (GOOD.replace('id = "vulkan"', 'id = "vulkan"\nruntime = "openai"'), "needs url"),
]


@pytest.mark.parametrize(("text", "says"), BAD, ids=[says for _, says in BAD])
def test_a_bad_spec_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """One sentence, and it names what is wrong."""
    with pytest.raises(SpecError) as refused:
        load(tmp_path, text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value).strip() or "TOML" in str(refused.value)


def test_a_spec_that_is_not_there(tmp_path: Path) -> None:
    """A missing file and a file that is no text are told apart from a bad spec."""
    with pytest.raises(SpecError, match="cannot read the spec"):
        spec_file.load(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="cannot read the spec"):
        spec_file.load(tmp_path / "binary.toml")


SMALLEST = GOOD.split("[stop]")[0]
DECIDE = "[stop]\ndecide = { fail_below = 0.05, fail_above = 0.5, error = 0.05 }\n"


def test_sequential_stop_is_read() -> None:
    """`decide` gives the sequential rule with its own bounds."""
    spec = spec_file.parse(SMALLEST + DECIDE + "max_trials = 30\n", Path("x.toml"))
    assert spec.stop.decide is not None
    assert (spec.stop.decide.fail_above, spec.stop.min_trials, spec.stop.max_trials) == (0.5, 3, 30)


@pytest.mark.parametrize(
    "text",
    [
        DECIDE + "trials = 6\n",
        "[stop]\nmin_trials = 3\n",
        "[stop]\ndecide = { fail_below = 0.5, fail_above = 0.05 }\n",
        "[stop]\ndecide = { fail_below = 0.05, fail_above = 0.5, error = 0.5 }\n",
        DECIDE + "min_trials = 50\n",
    ],
)
def test_stop_rules_that_make_no_sense(text: str) -> None:
    """Bounds of the other kind of rule, and rates that cannot be told apart, are refused."""
    with pytest.raises(SpecError, match=r"\[stop\]"):
        spec_file.parse(SMALLEST + text, Path("x.toml"))


@pytest.mark.parametrize(
    "line",
    [
        'args = ["--port", "8080"]',
        'args = ["--host", "0.0.0.0"]',
        'args = ["-v", "--api-key", "k"]',
        'args = ["--api-prefix", "/x"]',
        'args = ["-m", "other.gguf"]',
        'args = ["--list-devices"]',
        'env = { LLAMA_API_KEY = "k" }',
    ],
)
def test_what_the_harness_needs_cannot_be_set(tmp_path: Path, line: str) -> None:
    """A server that listens elsewhere, wants a key or ends at once would be counted as a failing backend."""
    text = GOOD.replace('env = { GGML_VK_VISIBLE_DEVICES = "0" }', line)
    with pytest.raises(SpecError, match="may not be set in a spec"):
        load(tmp_path, text)


def test_an_axis_cannot_set_it_either(tmp_path: Path) -> None:
    """The same through the matrix."""
    with pytest.raises(SpecError, match="may not be set in a spec"):
        load(tmp_path, GOOD.replace("env.GGML_VK_DISABLE_F16", '"arg.--api-key"'))
