"""AMD's own rocm_agent_enumerator and rocm-smi read the tests' fake machines, bound over /sys in a namespace of their
own: the fixtures are what such tools find on a real machine, and our reading agrees with theirs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import machines
import sysroots
from stillruns.model.raw import RawCommand
from stillruns.normalise import other_tools

SCRIPTS = Path(__file__).parents[3] / "scripts"

pytestmark = [pytest.mark.slow, pytest.mark.real]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked tools; skips where they cannot be fetched."""
    folder = tmp_path_factory.mktemp("smi")
    done = subprocess.run([str(SCRIPTS / "fetch_smi.sh"), str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr.strip() or "rocm-smi cannot be fetched")
    return folder


def over_sys(root: Path, command: list[str], **more: str) -> bytes:
    """The output of a command for which the tree's sys is /sys; skips where this machine does not permit that."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    rights = [] if os.geteuid() == 0 else ["-r"]
    script = f'mount --bind "{root}/sys" /sys || exit 77; exec "$@"'
    done = subprocess.run(
        ["unshare", *rights, "-m", "sh", "-c", script, "sh", *command],
        capture_output=True, env={**os.environ, **more}, check=False, timeout=240,
    )  # fmt: skip
    if done.returncode == 77 or b"unshare:" in done.stderr:
        pytest.skip(f"this machine does not permit a namespace with its own /sys: {done.stderr.decode()[:120]}")
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def machine(root: Path) -> Path:
    """Two MI50s, with what rocm-smi wants to see of a driver."""
    places = (("0000:04:00.0", 1, 128), ("0000:07:00.0", 2, 129))
    for address, number, minor in places:
        sysroots.mi50(root, number, address, minor)
        base = f"sys/devices/pci0000:00/0000:00:03.1/{address}"
        sensors = {"name": "amdgpu", "in0_label": "vddgfx", "in0_input": "800", "power1_average": "20000000",
                   "power1_cap_max": "225000000", "power1_cap_min": "0"}  # fmt: skip
        for name, value in sensors.items():
            sysroots.write(root, f"{base}/hwmon/hwmon1/{name}", value)
        sysroots.write(root, f"{base}/mem_info_vram_used", "1048576")
        sysroots.link(root, f"{base}/drm/card{minor - 128}/device", "../..")
    sysroots.write(root, "sys/module/amdgpu/initstate", "live")
    return root


def test_agent_enumerator(tools: Path, tmp_path: Path) -> None:
    """AMD's enumerator finds the two cards of the fixture, and agrees with what we read."""
    root = machine(tmp_path)
    printed = over_sys(root, ["python3", str(tools / "usr/bin/rocm_agent_enumerator")])
    assert printed.split() == [b"gfx000", b"gfx906", b"gfx906"]
    command = RawCommand(other_tools.ENUMERATOR, 0, printed)
    assert other_tools.compare([command], machines.of(root).cards) == ()


def test_rocm_smi(tools: Path, tmp_path: Path) -> None:
    """rocm-smi's memory, ids and power caps of the fixture are ours; with a card more on our side it is told."""
    root = machine(tmp_path)
    program = tools / "usr/libexec/rocm_smi/rocm_smi.py"
    library = next(iter(tools.rglob("librocm_smi64.so.*"))).parent
    printed = over_sys(root, ["python3", str(program), *other_tools.ROCM_SMI[1:]], LD_LIBRARY_PATH=str(library))
    command = RawCommand(other_tools.ROCM_SMI, 0, printed)
    cards = machines.of(root).cards
    assert b"0000:07:00.0" in printed and b"17179869184" in printed
    assert other_tools.compare([command], cards) == ()
    (found,) = other_tools.compare([command], cards[:1])
    assert "0000:07:00.0" in found.says["cards"]
