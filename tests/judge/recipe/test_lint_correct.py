"""The promise: the corrected recipe keeps its form, is read as written, and a good recipe is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lint_help import judged

COMPOSE = "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server\n    command:\n"
VARIABLES = COMPOSE.replace("command:", "environment:")

CORRECTED = [
    ("x.sh", "./main -m x --no-mmap -ngl 9\n", "./llama-cli -m x --load-mode none -ngl 9\n"),
    ("x.sh", "llama-cli -m x \\\n  --rocm-single-alloc \\\n  -ngl 9\n", "llama-cli -m x \\\n  -ngl 9\n"),
    ("x.sh", "llama-cli -m x \\\n  --rocm-single-alloc\nls\n", "llama-cli -m x\nls\n"),
    ("x.sh", "llama-cli -ngl 1 -m x -ngl 2\n", "llama-cli -m x -ngl 2\n"),
    ("x.sh", "llama-server --draft 8 -m x\n", "llama-server --spec-draft-n-max 8 -m x\n"),
    ("x.sh", "llama-cli --no-mmap --mlock\n", "llama-cli --load-mode mlock\n"),
    ("x.sh", "llama-cli -fa -m x --ctx-size=4096\n", "llama-cli -fa on -m x --ctx-size 4096\n"),
    ("x.sh", "export OLLAMA_NUM_GPU=1 OLLAMA_VULKAN=1\nollama serve\n", "export OLLAMA_VULKAN=1\nollama serve\n"),
    ("x.sh", "export OLLAMA_NUM_GPU=1\nollama serve\n", "ollama serve\n"),
    ("x.sh", "export OLLAMA_NUM_GPU=1 GGML_CUDA_P2P=0\nollama serve\n", "ollama serve\n"),
    ("x.sh", "GGML_CUDA_P2P=0 llama-cli\n", "llama-cli\n"),
    ("x.sh", "LLAMA_ARG_NO_MMAP=1 llama-cli\n", "LLAMA_ARG_LOAD_MODE=none llama-cli\n"),
    ("x.sh", "HSA_OVERRIDE_GFX_VERSION=gfx906 llama-cli\n", "HSA_OVERRIDE_GFX_VERSION=9.0.6 llama-cli\n"),
    ("x.sh", "HSA_OVERRIDE_GFX_VERSION_0=9.0.6 llama-cli\n", "HSA_OVERRIDE_GFX_VERSION_1=9.0.6 llama-cli\n"),
    ("x.sh", "cmake -B b -DGGML_HIPBLAS=ON -DX=1\n", "cmake -B b -DGGML_HIP=ON -DX=1\n"),
    ("x.sh", "CMAKE_ARGS=\"-DLLAMA_HIPBLAS=on\" pip install x\n", "CMAKE_ARGS=\"-DGGML_HIP=on\" pip install x\n"),
    ("x.sh", "make -j8 LLAMA_HIPBLAS=1 && ls\n",
     "cmake -B build -DGGML_HIP=ON && cmake --build build --config Release && ls\n"),
    ("x.sh", "docker run -e GGML_CUDA_P2P=0 -it ghcr.io/ggml-org/llama.cpp:server -m x --no-mmap\n",
     "docker run -it ghcr.io/ggml-org/llama.cpp:server -m x --load-mode none\n"),
    ("a.service", "[Service]\nEnvironment=OLLAMA_NUM_GPU=1\nExecStart=/usr/bin/ollama serve\n",
     "[Service]\nExecStart=/usr/bin/ollama serve\n"),
    ("Dockerfile", 'FROM ghcr.io/ggml-org/llama.cpp:server\nENV OLLAMA_NUM_GPU=1\nCMD ["-m", "x", "--no-mmap"]\n',
     'FROM ghcr.io/ggml-org/llama.cpp:server\nCMD ["-m", "x", "--load-mode", "none"]\n'),
    ("c.yaml", COMPOSE + "      - --no-mmap\n      - -fa\n",
     COMPOSE + "      - --load-mode\n      - none\n      - -fa\n      - on\n"),
    ("c.yaml", VARIABLES + '      LLAMA_ARG_NO_MMAP: "0"\n      "LLAMA_ARG_NO_MMAP": 1\n',
     VARIABLES
     + '      LLAMA_ARG_LOAD_MODE: "none"\n      "LLAMA_ARG_LOAD_MODE": "none"\n'),
    ("c.yaml", VARIABLES + '      - "LLAMA_ARG_NO_MMAP=0"\n',
     VARIABLES + '      - "LLAMA_ARG_LOAD_MODE=none"\n'),
    ("c.yaml", VARIABLES + "      - OLLAMA_NUM_GPU=0\n",
     COMPOSE.replace("    command:\n", "")),
    ("a.service",
     '[Service]\nEnvironment="OLLAMA_NUM_GPU=3" "HSA_OVERRIDE_GFX_VERSION=gfx906" A=1\nExecStart=/u/ollama serve\n',
     '[Service]\nEnvironment="HSA_OVERRIDE_GFX_VERSION=9.0.6" A=1\nExecStart=/u/ollama serve\n'),
    ("Dockerfile", 'FROM ghcr.io/ggml-org/llama.cpp:server\nENV LLAMA_ARG_NO_MMAP="1"\nCMD ["-m", "x"]\n',
     'FROM ghcr.io/ggml-org/llama.cpp:server\nENV LLAMA_ARG_LOAD_MODE=none\nCMD ["-m", "x"]\n'),
    ("c.md", "Do\n~~~sh\n$ export GGML_CUDA_P2P=0\nu@h:~$ llama-cli -m x\n~~~\n",
     "Do\n~~~sh\nu@h:~$ llama-cli -m x\n~~~\n"),
    ("x.sh", "HSA_ENABLE_SDMA=0\nM=x\nllama-cli -m $M\n", "export HSA_ENABLE_SDMA=0\nM=x\nllama-cli -m $M\n"),
    ("x.sh", "A=(-m x --no-mmap)\nA+=(-fa)\nllama-cli \"${A[@]}\"\nllama-server \"${A[@]}\"\n",
     "A=(-m x --load-mode none)\nA+=(-fa on)\nllama-cli \"${A[@]}\"\nllama-server \"${A[@]}\"\n"),
    ("x.sh", "llama-cli -tps 4 -m x\n", "llama-cli -m x\n"),
    ("x.sh", "llama-server --spec-draft-n-max 4 --spec-draft-n-max-x 2\n", "llama-server --spec-draft-n-max 4\n"),
    ("c.md", "Do\n```sh\n$ llama-cli --no-mmap\nout\n```\n", "Do\n```sh\n$ llama-cli --load-mode none\nout\n```\n"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "recipe", "corrected"), CORRECTED, ids=[case[1][:40] for case in CORRECTED])
def test_corrected(path: str, recipe: str, corrected: str) -> None:
    """The text to paste, in the form of the recipe; judged again, it is clean."""
    result = judged(recipe, path=path)
    assert result.corrected == corrected
    again = judged(corrected, path=path)
    assert [item for item in again.items if not item.good] == []
    assert again.corrected is None


@pytest.mark.parametrize(
    "recipe",
    [
        "llama-server -m x -ngl 99 -fa on --load-mode none\n",
        "export HIP_VISIBLE_DEVICES=0\nollama serve\n",
        "ls -la\n",
        "",
    ],
)
def test_nothing_to_change(recipe: str) -> None:
    """A recipe that is read as written is left alone."""
    result = judged(recipe)
    assert (result.corrected, result.edits, result.clean) == (None, (), True)


@pytest.mark.parametrize(
    "recipe",
    [
        "OLLAMA_NOT_THERE=1 go generate ./...\n",  # the program of a build that lint has no list of
        "export LLAMA_MY_TAG=b1\n./build-image.sh\n",  # somebody's script
        "export AMDGPU_TARGETS=gfx906\ncmake -B b\nllama-server -m x\n",  # a build in the same script
        "export OLLAMA_MINE=1\necho $OLLAMA_MINE\nollama serve\n",  # the script itself
        "docker run -e OLLAMA_NOT_THERE=1 me/mine\n",
    ],
)
def test_what_another_may_want_stays(recipe: str) -> None:
    """A name that nothing of llama.cpp or Ollama reads is taken out only where nothing else gets to see it."""
    assert judged(recipe).corrected is None


WORDS = [
    "-ngl 9",
    "-ngl 7",
    "--no-mmap",
    "--mlock",
    "-fa",
    "-fa on",
    "--rocm-single-alloc",
    "--bogus 3",
    "-c=4",
    "-m x",
]
SETTINGS = ["OLLAMA_NUM_GPU=1", "GGML_CUDA_P2P=0", "LLAMA_ARG_NO_MMAP=1", "A=1", "HSA_OVERRIDE_GFX_VERSION=gfx906"]
PROGRAMS = ["./main", "./server", "llama-server", "llama-bench", "ollama serve"]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(SETTINGS), unique=True, max_size=3),
    st.sampled_from(PROGRAMS),
    st.lists(st.sampled_from(WORDS), max_size=5),
    st.sampled_from([" ", " \\\n  "]),
)
def test_correcting_twice_changes_nothing(variables: list[str], program: str, words: list[str], joint: str) -> None:
    """For any mix, correcting the corrected recipe changes nothing more."""
    text = joint.join([*variables, program, *words]) + "\n"
    once = judged(text).corrected or text
    assert (judged(once).corrected or once) == once
