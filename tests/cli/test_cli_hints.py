"""The promise: a command that a message tells the reader to type works when it is pasted where it was printed, with
the store that was named; and what is printed fits the page that it is printed on."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sysroots
from program import ROOT, environment
from stillruns.cli.group import VERBS
from stillruns.model import hint as hints
from stillruns.model.hint import Caller, hint

GOLDEN = ROOT / "tests" / "golden"
PASTED = re.compile(r"`(stillruns [^`]*)`|: (stillruns [^`\n]*)$", re.MULTILINE)
"""A command stands between backticks, or after a colon to the end of its line."""
NAMED = re.compile(rf"\bstillruns (?:{'|'.join(VERBS)})\b")
LONG = ("demo", "selftest")
"""What takes minutes, or needs a real server, is pasted with `--help`: that its words are understood is the point."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store under a name that a shell must be given with care, one without a run, a damaged one, a
    machine, and a recipe."""
    place = tmp_path_factory.mktemp("place")
    stores = ROOT / "tests" / "stores"
    shutil.copytree(stores / "replay-v1-forms", place / "it's a store; $HOME")
    shutil.copytree(stores / "replay-v1", place / "hurt")
    (blob, *_) = sorted((place / "hurt" / "blobs" / "sha256").rglob("?" * 64))
    blob.unlink()
    old, root = place / "old", place / "root"
    sysroots.mi50(old)
    sysroots.vulkan(old)
    sysroots.host(old)
    sysroots.mi50(root)
    sysroots.write(root, "usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan.so", b"\x7fELF")
    sysroots.vulkan(root)
    sysroots.host(root)
    sysroots.nodes(root, "dev/kfd", "dev/dri/renderD128", mode=0o666)
    shutil.copytree(GOLDEN / "worklog", place / "a study's\tlogs")
    return place


STORE = "it's a store; $HOME"


def printed(place: Path, *words: str, **more: str) -> str:
    """All that a command says, on both streams."""
    done = subprocess.run(
        ["stillruns", *words], capture_output=True, text=True, timeout=240, cwd=place, check=False,
        env=environment(**more),
    )  # fmt: skip
    assert done.returncode in (0, 1, 2, 3) and "Traceback" not in done.stderr
    return done.stdout + done.stderr


def commands(text: str) -> list[str]:
    """The commands in it. No verb is named as `stillruns VERB` outside of one that can be pasted."""
    left = PASTED.sub("", text)
    assert not NAMED.search(left), left[max(0, NAMED.search(left).start() - 80) :][:200]  # type: ignore[union-attr]
    return [first or second for first, second in PASTED.findall(text)]


def pasted(place: Path, command: str) -> subprocess.CompletedProcess[str]:
    """What a shell makes of it."""
    verb = shlex.split(command)[1]
    line = f"{command} --help" if verb in LONG and not command.endswith("--help") else command
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=240, cwd=place, env=environment(), check=False
    )


STORED = [
    ("report",),
    ("report", "--trials", "20261130T130826Z"),
    ("report", "golden"),
    ("report", "20261130T130826Z"),
    ("report", "20261130T130912Z", "--trials"),
    ("report", "worklog", "--trials"),
    ("report", "run_a"),
    ("report", "20261130T130918Z"),
    ("report", "20261130T130826Z-263a7287.0001"),
    ("report", "--list"),
    ("claims",),
    ("claims", "--list"),
    ("show", "last"),
    ("show", "last", "--log"),
    ("show", "20261130T130912Z-308bc0e1.0003"),
    ("show", "nothing"),
    ("show",),
    ("replay", "20261130T130918Z"),
    ("replay", "nothing"),
    ("verify",),
    ("autopsy", "20261130T130826Z-263a7287"),
    ("autopsy", "20991130T130826Z-263a7287"),
    ("autopsy", str(GOLDEN / "autopsy" / "cli-rocblas-missing.raw")),
    ("autopsy", "a study's\tlogs"),
    ("import", "a study's\tlogs", "--name=-odd study"),
    ("check", "--no-exec", "--sysroot", "old"),
    ("check", "--no-exec", "--sysroot", "old", "--target", "gfx1031"),
    ("workarounds",),
    ("workarounds", "override-gfx-neighbour", "prefer-vulkan"),
    ("workarounds", "nothing-like-it-is-here"),
    ("snapshot", "a b.tar.zst", "--sysroot", "root"),
    ("lint", "--no-path", "--", "llama-server", "-ngl", "99", "--nothing"),
    ("run", "true", "-x", "it's"),
    ("run", "true"),
]
"""Verbs and slips; each is given `--store` as well."""


@pytest.mark.slow()
@pytest.mark.parametrize("words", STORED, ids=" ".join)
def test_every_command_can_be_pasted(place: Path, words: tuple[str, ...]) -> None:
    """Exit 0, and where it reads a store, it is the one that was named."""
    verb, *rest = words
    for command in commands(printed(place, verb, "--store", STORE, *rest)):
        verb = shlex.split(command)[1]
        if verb not in hints.NO_STORE and not command.endswith("--help"):
            assert f"--store {shlex.quote(STORE)}" in command or "--store hurt" in command, command
        done = pasted(place, command)
        assert done.returncode == 0, (command, done.stderr)


def test_commands_are_there(place: Path) -> None:
    """The test above would be idle if nothing were found: these print what it pastes."""
    for words, said in (
        (("report", "20261130T130826Z"), "stillruns show --store"),
        (("report", "worklog"), ".0001"),
        (("check", "--no-exec", "--sysroot", "old"), "stillruns workarounds "),
        (("autopsy", str(GOLDEN / "autopsy" / "cli-rocblas-missing.raw")), "stillruns workarounds "),
        (("snapshot", "c d.tar.zst", "--sysroot", "root"), "check --sysroot 'c d.tar.zst'"),
    ):
        verb, *rest = words
        assert any(said in command for command in commands(printed(place, verb, "--store", STORE, *rest))), words


@pytest.mark.parametrize("words", [("report",), ("claims",), ("show", "last"), ("report", "--list")], ids=" ".join)
def test_a_store_that_is_not_there(place: Path, words: tuple[str, ...]) -> None:
    """Where to begin is told with the same store."""
    verb, *rest = words
    (command,) = commands(printed(place, verb, "--store", "not here", *rest))
    assert command == "stillruns demo --store 'not here'"
    assert pasted(place, command).returncode == 0


def test_a_damaged_store_names_itself(place: Path) -> None:
    """What is missing is listed by the command that is named: with the answer no, since it is not all right."""
    for words in (("replay", "--store", "hurt"), ("autopsy", "hurt")):
        (command,) = set(commands(printed(place, *words)))
        assert command == "stillruns verify --store hurt"
    assert pasted(place, command).returncode == 1


def test_without_a_store_none_is_named(place: Path) -> None:
    """The environment that named it is there for the next command as well."""
    said = commands(printed(place, "report", "20261130T130826Z", STILLRUNS_STORE=STORE))
    assert said and not any("--store" in command for command in said)


def test_a_supervised_command(place: Path) -> None:
    """Its report is for others: names are taken out of the path of the store there, and the whole command is told
    apart from it."""
    home = place / "home" / "rumpelstiltskin"
    home.mkdir(parents=True)
    said = printed(place, "run", "--store", str(home / "a store"), "--", "true", USER="rumpelstiltskin")
    markdown, _, told = said.partition("stillruns: the command that shows")
    assert "rumpelstiltskin" not in markdown and "Evidence: `stillruns show --store" in markdown
    (command,) = PASTED.findall(told)
    assert pasted(place, command[1]).returncode == 0


def test_it_is_called_as_it_was_called(tmp_path: Path) -> None:
    """By its path where no shell would find its name, or as a module of an interpreter."""
    script = tmp_path / "stillruns"
    script.write_text(f"#!{sys.executable}\nfrom stillruns.cli import main\nmain()\n")
    script.chmod(0o755)
    for called in (["./stillruns"], [sys.executable, "-m", "stillruns"]):
        done = subprocess.run(
            [*called, "frobnicate"], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False,
            env=environment(PATH="/usr/bin:/bin"),
        )  # fmt: skip
        command = f"{shlex.join(called)} --help"
        assert f"`{command}` lists them" in done.stderr
    done = subprocess.run([script, "frob"], capture_output=True, text=True, check=False, timeout=60,
                          env=environment(PATH=f"{tmp_path}:/usr/bin:/bin"))  # fmt: skip
    assert "`stillruns --help` lists them" in done.stderr


@pytest.mark.parametrize(
    "word", ["plain", "two words", "it's", "$HOME`id`", "-dash", "tab\there", "a\x1b[2J\n'\\é", ""]
)
def test_a_word_reaches_the_program(word: str, caller: Caller) -> None:
    """Whatever is in it: on one line, with nothing that a terminal would act on, and as it was."""
    caller.program, caller.store = "printf '%s\\0'", word
    command = hint("show", word)
    assert command.isprintable()
    said = subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout.decode().split("\0")
    assert said[-2] == word
    assert not word or word in said[1] + said[2]


@pytest.fixture()
def caller() -> Iterator[Caller]:
    """The one caller of this process, which is put back."""
    before = hints.CALLER.program, hints.CALLER.store
    yield hints.CALLER
    hints.CALLER.program, hints.CALLER.store = before


PAGES = [
    ("report", "20261130T130826Z", "--trials"),
    ("report", "20261130T130902Z", "--trials"),
    ("report", "20261130T130912Z"),
    ("report", "worklog", "--trials"),
    ("report", "--list"),
    ("claims",),
    ("claims", "--list"),
    ("show", "20261130T130912Z-308bc0e1.0003"),
    ("replay", "20261130T130918Z"),
    ("verify",),
    ("autopsy", "20261130T130826Z-263a7287"),
    ("autopsy", str(GOLDEN / "autopsy" / "cli-rocblas-missing.raw")),
    ("check", "--no-exec", "--sysroot", "old"),
    ("check", "--no-exec", "--sysroot", "root", "--target", "gfx1031", "--evidence"),
    ("check", "--builds", "--target", "gfx900"),
    ("workarounds",),
    ("workarounds", "override-gfx-neighbour", "prefer-vulkan"),
    ("lint", "--no-path", "--all", "--", "llama-server", "-ngl", "99", "--nothing"),
    ("run", "--plan", str(ROOT / "examples" / "stress.toml")),
]
QUOTED = {
    "show": ("  s", "command  "),
    "autopsy": ("    s", "  key line"),
    "check": ("    ",),
    "lint": ("$", "  at "),
}
"""What is quoted, and commands, stay on one line."""


def words_of(text: str) -> Counter[str]:
    """Its words; a fold may put a `;` or the heading of a column beside one."""
    return Counter(word.rstrip(";:,") for word in text.split())


@pytest.mark.slow()
@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_every_width_says_the_same(place: Path, words: tuple[str, ...]) -> None:
    """Narrow or wide: not a word is lost or broken, and a line is longer than the page only where it is one word, a
    command to be copied or a quotation. A pipe is as wide everywhere, and says the same too."""
    verb, *rest = words
    wide = printed(place, verb, "--store", STORE, *rest, COLUMNS="1000")
    assert not words_of(wide) - words_of(printed(place, verb, "--store", STORE, *rest))
    for width in (60, 80, 110, 200):
        text = printed(place, verb, "--store", STORE, *rest, COLUMNS=str(width))
        assert not words_of(wide) - words_of(text), width
        for line in text.splitlines():
            whole = PASTED.search(line) or line.startswith(QUOTED.get(verb, ("\0",)))
            head = len(line) - len(line.lstrip())
            single = len(line.split()[-1]) + head > width - 24 if line.split() else False
            assert len(line) <= width or whole or single, (width, line)


def test_a_terminal_is_as_wide_as_it_is(place: Path) -> None:
    """Without COLUMNS the terminal is asked."""
    for width in (70, 130):
        leader, follower = pty.openpty()
        subprocess.run(["stty", "cols", str(width)], stdin=follower, check=True)
        with subprocess.Popen(
            ["stillruns", "workarounds", "prefer-vulkan"], stdout=follower, stdin=follower, cwd=place,
            env=environment(),
        ) as child:  # fmt: skip
            os.close(follower)
            said = b""
            try:
                while part := os.read(leader, 65536):
                    said += part
            except OSError:  # Linux says so when the last writer is gone
                pass
            os.close(leader)
        assert child.returncode == 0
        longest = max(len(line) for line in said.decode().split("\r\n") if "/" not in line.split(" ")[-1])
        assert width - 25 < longest <= width
