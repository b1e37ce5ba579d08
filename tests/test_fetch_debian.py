"""The promise: where Debian's packages cannot be fetched, the scripts say in one sentence what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"
FETCHING = sorted(path.name for path in SCRIPTS.glob("fetch_*.sh") if path.name != "fetch_debian.sh")
TOOLS = ("chmod", "dirname", "mkdir", "mktemp", "rm", "tail")


def fetch(script: str, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """A script run with these programs only."""
    return subprocess.run(
        [SCRIPTS / script, folder], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder of programs without apt-get and dpkg."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(shutil.which(tool) or pytest.fail(f"there is no {tool}"))
    return programs


@pytest.mark.parametrize("script", FETCHING)
def test_no_debian(script: str, bare: Path, tmp_path: Path) -> None:
    """Without Debian's tools each script names them."""
    done = fetch(script, tmp_path / "into", str(bare))
    assert done.returncode == 1
    assert done.stderr == "fetch_debian.sh: needs apt-get and dpkg (Debian or a relative of it)\n"


def test_apts_own_word(bare: Path, tmp_path: Path) -> None:
    """What apt-get says last is passed on, with the package's name, and nothing was unpacked."""
    refusing = {"apt-get": "echo W: slow >&2\necho E: no such thing >&2\nexit 100\n", "dpkg": "exit 9\n"}
    for name, text in refusing.items():
        (bare / name).write_text(f"#!/bin/sh\n{text}")
        (bare / name).chmod(0o755)
    done = fetch("fetch_icds.sh", tmp_path / "into", str(bare))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "chromium-common" in done.stderr and "E: no such thing" in done.stderr
    assert not list((tmp_path / "into").iterdir())
