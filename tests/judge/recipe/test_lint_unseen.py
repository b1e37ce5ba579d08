"""The promise: a variable that no program of the script sees is not called read, and one that is seen is."""

from __future__ import annotations

import pytest
from lint_help import NAMES, ground, judged

from stillruns.judge.recipe.lint import lint
from stillruns.normalise.recipe.reading import read

UNSEEN = [
    ("HSA_ENABLE_SDMA=0\nllama-server -m x", "HSA_ENABLE_SDMA", "nothing exports it"),
    ("declare HSA_ENABLE_SDMA=0\n./main -m x", "HSA_ENABLE_SDMA", "nothing exports it"),
    ("export HSA_ENABLE_SDMA=0\nenv -i llama-server -m x", "HSA_ENABLE_SDMA", "env -i"),
    ("HSA_ENABLE_SDMA=0 env -i llama-server -m x", "HSA_ENABLE_SDMA", "env -i"),
    ("HSA_ENABLE_SDMA=0 env -u HSA_ENABLE_SDMA llama-server", "HSA_ENABLE_SDMA", "unset"),
    ("export HSA_ENABLE_SDMA=0\nenv --unset=HSA_ENABLE_SDMA llama-server", "HSA_ENABLE_SDMA", "unset"),
    ("export HSA_ENABLE_SDMA=0\nunset -v HSA_ENABLE_SDMA\nllama-server", "HSA_ENABLE_SDMA", "unset"),
]

SEEN = [
    "export A=1 HSA_ENABLE_SDMA=0\nllama-server -m x",
    "HSA_ENABLE_SDMA=0; export HSA_ENABLE_SDMA\nllama-server -m x",
    "export HSA_ENABLE_SDMA\nHSA_ENABLE_SDMA=0\nllama-server -m x",
    "set -a\nHSA_ENABLE_SDMA=0\nset +a\nllama-server -m x",
    "declare -x HSA_ENABLE_SDMA=0\nllama-server -m x",
    "env -i HSA_ENABLE_SDMA=0 llama-server -m x",
    "HSA_ENABLE_SDMA=1\nHSA_ENABLE_SDMA=$HSA_ENABLE_SDMA llama-server -m x",
    "unset HSA_ENABLE_SDMA\nexport HSA_ENABLE_SDMA=0\nllama-server -m x",
    "export HSA_ENABLE_SDMA=0\nllama-server -m x\nunset HSA_ENABLE_SDMA\nllama-cli -m x",
    "MODEL=x\nTHREADS=4\nllama-server -m $MODEL -t $THREADS",
    "HSA_ENABLE_SDMA=0\nls",
    "AMDGPU_TARGETS=gfx906\ncmake -B b -DGGML_HIP=ON -DAMDGPU_TARGETS=$AMDGPU_TARGETS\nllama-server -m x",
]


@pytest.mark.parametrize(("recipe", "name", "why"), UNSEEN, ids=[case[0][:50] for case in UNSEEN])
def test_unseen(recipe: str, name: str, why: str) -> None:
    """Never exported, unset, or emptied by env -i: a conflict with its places."""
    found = [item for item in judged(recipe).items if item.verdict.value == "conflict"]
    assert [(item.name, item.value_verdict and item.value_verdict.value) for item in found] == [(name, "no effect")]
    assert why in found[0].why
    assert len(found[0].evidence) >= 2


@pytest.mark.parametrize("recipe", SEEN)
def test_seen(recipe: str) -> None:
    """Every way in which a shell hands a variable on; variables of the script itself are none of lint's business."""
    assert [item.name for item in judged(recipe).items if item.verdict.value == "conflict"] == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.md", "```powershell\n$env:OLLAMA_NUM_GPU=1\n```\n"),
        ("a.md", "~~~bat\nset OLLAMA_NUM_GPU=1\n~~~\n"),
        ("a.bat", "set OLLAMA_NUM_GPU=1\n"),
        ("a.ps1", "$env:OLLAMA_NUM_GPU=1\n"),
        ("a.sh", "set OLLAMA_NUM_GPU=1\nollama serve\n"),
        ("a.sh", "setx OLLAMA_NUM_GPU=1\nollama serve\n"),
    ],
)
def test_windows_is_said(path: str, text: str) -> None:
    """What is written for Windows is not judged as if a Unix shell ran it, and a note says so."""
    result = judged(text, path=path)
    assert any("Windows" in note for note in result.notes)
    assert "OLLAMA_NUM_GPU" not in [item.name for item in result.items]


@pytest.mark.parametrize("path", ["a.env", "/etc/default/ollama", "environment"])
def test_file_of_variables(path: str) -> None:
    """A file that only sets variables is what a unit or compose hands on: all are judged, though nothing starts."""
    result = judged("# mine\n\nOLLAMA_VULKAN=1\nOLLAMA_NUM_GPU='9'\nHSA_ENABLE_SDMA=0", path=path)
    assert [(item.name, item.verdict.value) for item in result.items] == [
        ("OLLAMA_VULKAN", "read"),
        ("OLLAMA_NUM_GPU", "never existed"),
        ("HSA_ENABLE_SDMA", "read"),
    ]


@pytest.mark.parametrize(("line", "clashes"), [("EnvironmentFile=-/etc/default/ollama\n", 0), ("", 1)])
def test_file_that_a_unit_names(line: str, clashes: int) -> None:
    """What a unit names as its EnvironmentFile reaches the service; a file that it does not name does not."""
    unit = read("o.service", f"[Service]\n{line}ExecStart=/usr/bin/ollama serve\n", NAMES)
    variables = read("copy/ollama", "OLLAMA_VULKAN=1\n", NAMES)
    found = lint([unit, variables], ground(), ())[1].items
    assert [item.verdict.value for item in found].count("conflict") == clashes
    assert "read" in [item.verdict.value for item in found]


def test_variables_alone_are_read_by_whom_they_are_for() -> None:
    """Where a recipe starts nothing, a variable of Ollama's is not called another program's."""
    assert [i.verdict.value for i in judged("export OLLAMA_VULKAN=1\nexport PS1=x\n").items] == ["read"]
    assert [i.verdict.value for i in judged("export PYTORCH_HIP_ALLOC_CONF=a:b\n").items] == ["other program"]


def test_arguments_in_a_variable() -> None:
    """Flags that came out of a variable are judged one by one, and the place that uses it is left alone."""
    text = 'ARGS="-m x --no-mmap"\nllama-server $ARGS -fa\neval "llama-cli --no-mmap"\n'
    result = judged(text)
    found = [(i.name, i.verdict.value) for i in result.items if i.kind.value == "flag"]
    assert found == [("-m", "read"), ("--no-mmap", "removed"), ("-fa", "read"), ("--no-mmap", "removed")]
    assert result.corrected == text.replace("-fa", "-fa on").replace("cli --no-mmap", "cli --load-mode none")


def test_variable_that_is_handed_on() -> None:
    """`- NAME` of a compose file and `-e NAME` of docker are names like any other; their values are not known."""
    compose = "services:\n  a:\n    image: ollama/ollama\n    environment:\n      - OLLAMA_NUM_GPU\n"
    assert [item.name for item in judged(compose, path="c.yml").items] == ["OLLAMA_NUM_GPU"]
    run = judged("docker run -e OLLAMA_NUM_GPU -e OLLAMA_VULKAN=1 ollama/ollama")
    assert [(item.name, item.value) for item in run.items if item.kind.value == "env"] == [
        ("OLLAMA_NUM_GPU", None),
        ("OLLAMA_VULKAN", "1"),
    ]


def test_environment_on_one_line_is_said() -> None:
    """A flow map of a compose file is named instead of being passed over."""
    result = judged('services:\n  a:\n    image: ollama/ollama\n    environment: {A: "1"}\n', path="c.yml")
    assert any("on one line" in note for note in result.notes)


@pytest.mark.parametrize(("value", "said"), [("$PATH", 1), ("${HOME}/x", 1), ("/usr/bin", 0), ("5$", 0)])
def test_unit_fills_nothing_in(value: str, said: int) -> None:
    """The dollar sign has no meaning in Environment= (systemd.exec(5))."""
    text = f'[Service]\nEnvironment="PATH={value}"\nExecStart=/usr/bin/ollama serve\n'
    found = [i for i in judged(text, path="o.service").items if i.verdict.value == "conflict"]
    assert [i.value_verdict.value for i in found if i.value_verdict] == ["other meaning"] * said
