"""The promise: every form of recipe becomes items with the right name, value, place and scope; nothing raises."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.model.recipe import ItemKind, Recipe, RecipeForm, Scope
from stillruns.normalise.recipe.draft import KnownNames
from stillruns.normalise.recipe.reading import command_line, detect, read

NAMES = KnownNames(
    frozenset({"llama-server", "llama-cli", "llama-bench", "ollama"}),
    frozenset({"main", "server"}),
    {"ghcr.io/ggml-org/llama.cpp:server": "llama-server", "ollama/ollama": "ollama"},
)


def items(recipe: Recipe) -> list[tuple[str, str, str | None, int, str]]:
    """(kind, name, value, line, scope) of every item."""
    return [(i.kind.value, i.name, i.value, i.line, i.scope.value) for i in recipe.items]


def check_places(recipe: Recipe) -> None:
    """Spans lie in the text, and the name stands where it says."""
    for item in recipe.items:
        assert 0 <= item.start <= item.end <= len(recipe.text)
        assert item.start <= item.name_start <= item.name_end <= item.end or item.kind is ItemKind.PROGRAM
        assert recipe.text.count("\n", 0, item.name_start) + 1 >= item.line


SCRIPT = """#!/bin/bash
NGL=99
export HSA_X=1 GGML_Y="a b"
sudo -u me env A=1 nice -n 3 ./main -m "$HOME/x y.gguf" -ngl $NGL \\
   --no-mmap --ctx_size=4096 > out.log 2>&1 &
echo 'export Z=2' >> ~/.bashrc
bash -c "llama-cli -p 'a -b' -t $(nproc)"
"""


def test_shell() -> None:
    """Exports, prefixes, wrappers, continuations, variables, redirections, bash -c, a line written to ~/.bashrc."""
    recipe = read("x.sh", SCRIPT, NAMES)
    check_places(recipe)
    assert items(recipe) == [
        ("env", "HSA_X", "1", 3, "session"),
        ("env", "GGML_Y", "a b", 3, "session"),
        ("program", "./main", None, 4, "session"),
        ("flag", "-m", None, 4, "session"),
        ("flag", "-ngl", "99", 4, "session"),
        ("flag", "--no-mmap", None, 5, "session"),
        ("flag", "--ctx_size", "4096", 5, "session"),
        ("env", "A", "1", 4, "command"),
        ("env", "Z", "2", 6, "login"),
        ("program", "llama-cli", None, 7, "session"),
        ("flag", "-p", "a -b", 7, "session"),
        ("flag", "-t", None, 7, "session"),
    ]
    assert [item.dynamic for item in recipe.items if item.name in ("-m", "-t")] == [True, True]


UNIT = """[Service]
# a comment
Environment="A=b c" D=1
EnvironmentFile=-/etc/default/x
ExecStart=-/usr/bin/llama-server -ngl 9 \\
  --no-mmap
"""


def test_unit() -> None:
    """Quoted and several assignments, a continued ExecStart with a prefix; a file that is not opened is named."""
    recipe = read("x.service", UNIT, NAMES)
    check_places(recipe)
    assert items(recipe) == [
        ("env", "A", "b c", 3, "service"),
        ("env", "D", "1", 3, "service"),
        ("program", "/usr/bin/llama-server", None, 5, "service"),
        ("flag", "-ngl", "9", 5, "service"),
        ("flag", "--no-mmap", None, 6, "service"),
    ]
    assert "/etc/default/x" in recipe.notes[0].text


DOCKERFILE = """FROM ghcr.io/ggml-org/llama.cpp:server-rocm
ENV A=1 B="2 3"
ENV C 4
RUN cmake -B b -DGGML_HIP=ON \\
    # inner
    -DT=${A} && make LLAMA_X=1
CMD ["-m", "x", "--no-mmap"]
"""


def test_dockerfile() -> None:
    """Both ENV forms, a RUN line with a comment in its middle, CMD arguments for an image's own program."""
    recipe = read("Dockerfile", DOCKERFILE, NAMES)
    check_places(recipe)
    assert items(recipe) == [
        ("env", "A", "1", 2, "container"),
        ("env", "B", "2 3", 2, "container"),
        ("env", "C", "4", 3, "container"),
        ("cmake", "GGML_HIP", "ON", 4, "build"),
        ("cmake", "T", "1", 6, "build"),
        ("cmake", "LLAMA_X", "1", 6, "build"),
        ("flag", "-m", "x", 7, "container"),
        ("flag", "--no-mmap", None, 7, "container"),
    ]


COMPOSE = """services:
  a:
    image: ghcr.io/ggml-org/llama.cpp:server
    environment:
      - X=1
      - "Y=2"
    command: >
      -m m.gguf
      -ngl 9
  b:
    image: "ollama/ollama"
    environment:
      Z: "3"   # three
  c:
    image: ghcr.io/ggml-org/llama.cpp:server
    command: ["-m", "x", "-fa"]
  d:
    image: ghcr.io/ggml-org/llama.cpp:server
    command:
      - -ngl
      - 7
"""


def test_compose() -> None:
    """Lists, maps, folded text, flow lists and block lists, each with its service's program."""
    recipe = read("compose.yaml", COMPOSE, NAMES)
    check_places(recipe)
    assert items(recipe) == [
        ("flag", "-m", "m.gguf", 8, "container"),
        ("flag", "-ngl", "9", 9, "container"),
        ("env", "X", "1", 5, "container"),
        ("env", "Y", "2", 6, "container"),
        ("env", "Z", "3", 13, "container"),
        ("flag", "-m", "x", 16, "container"),
        ("flag", "-fa", None, 16, "container"),
        ("flag", "-ngl", "7", 20, "container"),
    ]
    assert [command.program for command in recipe.commands] == [
        "llama-server",
        "ollama",
        "llama-server",
        "llama-server",
    ]


PAGE = """# Title
prose with 3 + 4 = 8

```console
me@host:~$ export A=1
some output -ngl 3
$ docker run --rm -e B=2 -it ghcr.io/ggml-org/llama.cpp:server -ngl 9
```

```python
os.environ["NO"] = "1"
```

> ```ini
> [Service]
> Environment=C=3
> ```
"""


def test_markdown() -> None:
    """Blocks in their own form, prompts and output told apart, quoted fences, other languages left alone."""
    recipe = read("x.md", PAGE, NAMES)
    check_places(recipe)
    assert items(recipe) == [
        ("env", "A", "1", 5, "session"),
        ("flag", "-ngl", "9", 7, "container"),
        ("env", "B", "2", 7, "container"),
        ("env", "C", "3", 16, "service"),
    ]
    assert recipe.comments[1].text == "prose with 3 + 4 = 8"


HEREDOC = """cat > /etc/systemd/system/x.service <<'EOF'
[Service]
Environment=A=1
ExecStart=/usr/bin/ollama serve
EOF
CMAKE_ARGS="-DLLAMA_HIPBLAS=on -DX=$(nproc)" pip install llama-cpp-python
"""


def test_file_written_by_a_script() -> None:
    """A here-document is read by the name of the file that it becomes; CMAKE_ARGS is a CMake line of its own."""
    recipe = read("x.sh", HEREDOC, NAMES)
    assert [(i.name, i.line, i.scope) for i in recipe.items] == [
        ("CMAKE_ARGS", 6, Scope.BUILD),
        ("LLAMA_HIPBLAS", 6, Scope.BUILD),
        ("X", 6, Scope.BUILD),
        ("A", 3, Scope.SERVICE),
        ("/usr/bin/ollama", 4, Scope.SERVICE),
    ]


def test_config_file() -> None:
    """config.ini: keys with their section, comments cut off, a line that llama.cpp would refuse is named."""
    recipe = read("config.ini", "[*]\nn-gpu-layers = 99 ; all\nno value\n", NAMES)
    assert items(recipe) == [("config", "n-gpu-layers", "99", 2, "file")]
    assert recipe.notes[0].line == 3


def test_command_line_words() -> None:
    """Words that a shell has cut already are not cut again."""
    recipe = command_line(["./main", "-m", "a b.gguf", "-p", "$(rm -rf /)"], NAMES)
    assert [(i.name, i.value) for i in recipe.items] == [("./main", None), ("-m", "a b.gguf"), ("-p", "$(rm -rf /)")]


def test_server_is_only_ours_with_a_sign() -> None:
    """`server` alone is anybody's program; with a path or one of our flags it is llama.cpp's old name."""
    assert not read("a.sh", "server start --fast\n", NAMES).items
    assert read("a.sh", "server -m x.gguf\n", NAMES).items[0].name == "server"


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("README.md", "x", RecipeForm.MARKDOWN),
        ("x", "[Unit]\nA=1\n", RecipeForm.UNIT),
        ("override.conf", "[Service]\nEnvironment=A=1\n", RecipeForm.UNIT),
        ("Dockerfile.rocm", "", RecipeForm.DOCKERFILE),
        ("x", "FROM debian\nRUN a\n", RecipeForm.DOCKERFILE),
        ("x.yml", "", RecipeForm.COMPOSE),
        ("x", "services:\n  a:\n", RecipeForm.COMPOSE),
        ("config.ini", "", RecipeForm.CONFIG),
        ("-", "```sh\na\n```\n", RecipeForm.MARKDOWN),
        ("run", "llama-server -m x\n", RecipeForm.SHELL),
    ],
)
def test_detect(name: str, text: str, form: RecipeForm) -> None:
    """By name, then by text."""
    assert detect(name, text) is form


SHELL_PARTS = """
llama-server |-ngl |99 |export |A=1 |'|"|%|$(|)|`|<<EOF%|EOF%|# |docker run -e |-D|cmake |make |ssh h |bash -c |env -u
> ~/.bashrc|~~~|*|&&|=|é|${|}|ghcr.io/ggml-org/llama.cpp:server |> x.service|-x=
"""
FORM_PARTS = """
[Service]%|Environment=|ExecStart=|services:%|  a:%|    command: |    environment:%|["-m", |]|```sh%|```%|[*]%|k = v%
CMD |RUN |FROM x%|    image: ghcr.io/ggml-org/llama.cpp:server%|- |> |ENV |ENTRYPOINT
"""
PARTS = st.sampled_from(
    [part.replace("%", "\n") for part in re.split(r"[|\n]", SHELL_PARTS + FORM_PARTS)]
    + ["\0", "\r\n", "\x1b[31m", "\\\n", "|", "%"]
)


@given(st.lists(PARTS, max_size=25).map("".join), st.sampled_from(list(RecipeForm)))
def test_hostile_recipes(text: str, form: RecipeForm) -> None:
    """Any text in any form gives items whose spans lie in it, and raises nothing."""
    check_places(read("x", text, NAMES, form))
