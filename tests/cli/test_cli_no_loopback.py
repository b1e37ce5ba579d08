"""The promise: where no server can be asked, not even on this machine, one sentence says so before any waiting."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from program import PROGRAM, environment


def cut_off(*words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A verb in a network namespace of its own, where the loopback interface is down; or a skip that says why not."""
    apart = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net"]
    try:
        allowed = subprocess.run([*apart, "true"], capture_output=True, text=True, timeout=120, check=False)
    except OSError:
        pytest.skip("no unshare here: apt install util-linux")
    if allowed.returncode:
        pytest.skip(f"no network namespace can be made here: {allowed.stderr.strip()}")
    argv = [*apart, *PROGRAM, *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=280, env=environment(**more), check=False)


@pytest.fixture()
def server(tmp_path: Path) -> Path:
    """A program that is called like the server, and ends at once."""
    place = tmp_path / "llama-server"
    place.write_text("#!/bin/sh\necho 'a server without a word'\nexit 3\n")
    place.chmod(0o755)
    return place


def test_an_experiment_is_not_begun(tmp_path: Path, server: Path) -> None:
    """The demo would wait for every server until its time is over."""
    done = cut_off("demo", "--store", tmp_path / "s", STILLRUNS_LLAMA_SERVER=str(server))
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert "no server can be asked at 127.0.0.1 here: Network is unreachable" in last and "ip link set lo up" in last
    assert not list((tmp_path / "s").glob("journal/*.jsonl"))


def test_a_command_of_ones_own_is_run_all_the_same(tmp_path: Path, server: Path) -> None:
    """Only the request of stillruns' own is left out, and why is said."""
    done = cut_off("run", "--store", tmp_path / "s", "--", server, "-m", "x.gguf")
    assert done.returncode == 0, done.stderr
    assert "no request is sent, since nothing can be asked at 127.0.0.1 here (Network is unreachable)" in done.stderr
    assert done.stdout.startswith("### llama-server: exit status 3")
