"""The promise: every verb starts by itself, from a shell: its own imports bring all that it needs.

Other tests call verbs in a process where everything is loaded already (tests/warm.py), so each has its start here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from program import fresh
from stillruns.cli.group import VERBS

CALLS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "run": (("run", "--", "sh", "-c", "exit 3"), 0, "### sh: exit status 3"),
    "run of a spec": (("run", "gone.toml"), 2, "cannot read the spec gone.toml"),
    "run --plan": (("run", "--plan", "gone.toml"), 2, "cannot read the spec gone.toml"),
    "demo": (("demo", "--help"), 0, "Run a small synthetic model on every backend"),
    "selftest": (("selftest", "--kind", "segfault"), 2, "--kind knows abort, device_lost, "),
    "autopsy": (("autopsy", __file__), 0, ""),
    "check": (("check", "--no-exec", "--target", "vega"), 2, "'vega' is no GPU target"),
    "snapshot": (("snapshot", "x.tar.zst", "--no-exec", "--sysroot", "/dev/null"), 2, "/dev/null"),
    "show": (("show", "0001"), 3, "there is no store at"),
    "report": (("report", "--list"), 3, "there is no store at"),
    "claims": (("claims", "--list"), 0, "gpu-unusable"),
    "import": (("import", "--help"), 0, "import [OPTIONS] PATH"),
    "workarounds": (("workarounds",), 0, "above-4g-decoding"),
    "trace": (("trace", "--help"), 0, "trace [OPTIONS]"),
    "lint": (("lint", "--no-path", "--no-config", "--", "llama-cli", "--no-mmap"), 1, "corrected:"),
    "replay": (("replay",), 3, "there is no store at"),
    "verify": (("verify",), 3, "there is no store at"),
}
"""A cheap call of each verb that goes as far as its working half, its exit status, and a part of what it says."""


@pytest.mark.parametrize("call", CALLS)
def test_a_start(tmp_path: Path, call: str) -> None:
    """The exit status, the right words, and no traceback."""
    words, status, said = CALLS[call]
    done = fresh(*words, STILLRUNS_STORE=str(tmp_path / "s"))
    assert done.returncode == status, done.stderr
    assert said in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_every_verb_is_started() -> None:
    """A verb that is added gets its start."""
    assert {call.split()[0] for call in CALLS} == set(VERBS)
