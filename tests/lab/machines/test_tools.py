"""The promise: tools that leave lock files run with a /dev/shm of their own, or not at all."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stillruns.lab.machines import tools, vulkan_listing
from stillruns.lab.machines.probing import LiveCommands
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.raw import Cite
from stillruns.normalise import vulkan_limits

NAME = "stillruns-test-tool"


def test_lock_files_go_with_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tool writes into /dev/shm is gone afterwards, its output is not."""
    lock = Path("/dev/shm") / f"stillruns-test-{os.getpid()}"
    script = tmp_path / NAME
    script.write_text(f"#!/bin/sh\n: > {lock}\necho made $(ls /dev/shm | wc -l)\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = tools.apart(LiveCommands(), (NAME,))
    assert not lock.exists()
    if found.absence is not None:
        assert found.absence.reason in (AbsenceReason.NO_PERMISSION, AbsenceReason.NOT_COLLECTED)
        pytest.skip(found.absence.detail)
    assert found.argv == (NAME,) and found.text == "made 1\n"


def test_without_unshare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that is there is not said to be missing where what would keep its files apart is."""
    (tmp_path / NAME).write_text("#!/bin/sh\necho made\n")
    (tmp_path / NAME).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = tools.apart(LiveCommands(), (NAME,))
    assert found.absence is not None and found.absence.reason is AbsenceReason.NOT_COLLECTED
    assert found.absence.detail.startswith(f"{NAME} was not run:") and "unshare" in found.absence.detail


def test_not_installed() -> None:
    """A tool that is not there is an absence, whether or not namespaces are permitted."""
    found = tools.apart(LiveCommands(), ("stillruns-no-such-tool",))
    assert found.absence is not None and found.absence.reason is AbsenceReason.NOT_INSTALLED


def test_our_own_vulkan_listing() -> None:
    """Where vulkaninfo is not installed, a child of our own lists devices; both say the same where both are here."""
    found = vulkan_limits.parse(vulkan_listing.listing())
    if isinstance(found, Absence):
        pytest.skip(f"no Vulkan device is listed here: {found.detail}")
    assert all(device.name and device.max_storage_range for device in found)
    other = vulkan_limits.parse(LiveCommands().run(("vulkaninfo",)))
    if isinstance(other, Absence):
        pytest.skip(f"vulkaninfo does not tell: {other.detail}")
    plain = [dataclasses.replace(d, cite=Cite("x"), heaps=()) for d in found]
    assert plain == [dataclasses.replace(d, cite=Cite("x"), heaps=()) for d in other]


MAKES = "creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,mknodat,unlink,unlinkat"
_OPENED = re.compile(r'open(?:at)?\((?:\w+, )?"(?P<path>[^"]*)", (?P<flags>[A-Z_|]+).* = (?P<result>-?\d+)')
_MADE = re.compile(rf"(?:{MAKES.replace(',', '|')})\(.* = 0\Z")


def written(line: str, spare: str) -> bool:
    """Whether a line of strace shows a file made, moved, removed or opened for writing; /dev/null is none."""
    opened = _OPENED.search(line)
    if opened is None:
        return _MADE.search(line.rstrip()) is not None and "/dev/shm" not in line
    wants = any(flag in opened["flags"] for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"))
    place = opened["path"]
    return (
        wants and int(opened["result"]) >= 0 and place != "/dev/null" and not place.startswith(("/proc/self/", spare))
    )


@pytest.mark.slow
def test_the_full_check_writes_nothing(tmp_path: Path) -> None:
    """The whole of `check`, tools and backends' listings included, under strace: nothing is made, removed or opened
    for writing outside of its store."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    home, store, trace = tmp_path / "home", tmp_path / "store", tmp_path / "trace"
    home.mkdir()
    env = {**os.environ, "HOME": str(home), "STILLRUNS_STORE": str(store), "PYTHONDONTWRITEBYTECODE": "1"}
    only = f"trace=open,openat,{MAKES}"
    argv = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "300", "-e", only, "-o", str(trace), "--"]
    done = subprocess.run(
        [*argv, sys.executable, "-m", "stillruns", "check"],
        capture_output=True, text=True, env=env, cwd=tmp_path, timeout=300, check=False,
    )  # fmt: skip
    if "ptrace" in done.stderr or not trace.exists():
        pytest.skip(f"strace may not trace here: {done.stderr.strip()[:100]}")
    assert done.returncode in (0, 1), done.stderr
    wrote = [line for line in trace.read_text(errors="replace").splitlines() if written(line, f"{store}/")]
    assert wrote == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "trace"] and list(home.iterdir()) == []


def test_what_counts_as_written() -> None:
    """The reading of strace's lines can fail: each form of writing is seen, reading is not."""
    for line in (
        '1 openat(AT_FDCWD, "/root/.cache/x/index", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3',
        '1 open("/tmp/a", O_WRONLY) = 4',
        '1 mkdir("/root/.cache", 0700) = 0',
        '1 rename("/tmp/a", "/tmp/b") = 0',
        '1 unlink("/tmp/a") = 0',
    ):
        assert written(line, "/store/"), line
    for line in (
        '1 openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3',
        '1 openat(AT_FDCWD, "/root/x", O_WRONLY) = -1 EACCES (Permission denied)',
        '1 openat(AT_FDCWD, "/dev/null", O_RDWR) = 3',
        '1 mkdir("/root/.cache", 0700) = -1 EEXIST (File exists)',
        '1 openat(AT_FDCWD, "/store/journal", O_WRONLY|O_CREAT) = 3',
    ):
        assert not written(line, "/store/"), line
