"""The promise: each process that serves is judged by its own environment and its own rights, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

import machines
import sysroots
from stillruns.model.gate import Gate, GateStatus, Layer

ALLOW, BLOCK, PARTIAL, UNKNOWN = GateStatus.ALLOW, GateStatus.BLOCK, GateStatus.PARTIAL, GateStatus.UNKNOWN


@pytest.fixture()
def root(tmp_path: Path) -> Path:
    """A machine with one MI50."""
    sysroots.mi50(tmp_path)
    return tmp_path


def process(
    root: Path, pid: int, cmdline: str, *, uid: int = 998, groups: str = "44 105", readable: bool = True,
    **variables: str,
) -> None:  # fmt: skip
    """A running model server; one that is not readable has no environ file here, as a closed one reads."""
    words = cmdline.split()
    sysroots.write(root, f"proc/{pid}/comm", words[0].rpartition("/")[2])
    sysroots.write(root, f"proc/{pid}/cmdline", "\0".join(words).encode() + b"\0")
    sysroots.write(
        root,
        f"proc/{pid}/status",
        f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\nGroups:\t{groups}",
    )
    if readable:
        sysroots.write(
            root, f"proc/{pid}/environ", "".join(f"{k}={v}\0" for k, v in variables.items()).encode() or b"A=1\0"
        )


def gate(root: Path, layer: Layer = Layer.ENVIRONMENT) -> Gate:
    """The ROCm path's gate."""
    return machines.gate(machines.judged(machines.with_runtime(machines.of(root), "gfx906")), layer)


def test_several_servers_are_named(root: Path) -> None:
    """One hides the card, the other does not: partial, both named."""
    process(root, 812, "ollama serve", HIP_VISIBLE_DEVICES="7")
    process(root, 900, "llama-server -m x.gguf", HIP_VISIBLE_DEVICES="0")
    found = gate(root)
    assert found.status is PARTIAL
    assert "process 812 (ollama serve)" in found.reason and "process 900 (llama-server)" in found.reason


def test_server_and_its_runner(root: Path) -> None:
    """Ollama's runner is a process of its own, with what the server added for it."""
    process(root, 812, "ollama serve")
    process(root, 813, "ollama runner --port 1", ROCR_VISIBLE_DEVICES="")
    found = gate(root)
    assert found.status is PARTIAL and "(ollama runner) hides every GPU" in found.reason
    assert "nothing in process 812 (ollama serve)" in found.reason


def test_all_hide_it(root: Path) -> None:
    """Where every server hides the card the path is blocked."""
    process(root, 812, "ollama serve", ROCR_VISIBLE_DEVICES="")
    process(root, 813, "ollama runner", ROCR_VISIBLE_DEVICES="")
    assert gate(root).status is BLOCK


def test_unreadable_environment(root: Path) -> None:
    """Another user's process: absent with the reason, alone and beside a readable one."""
    process(root, 812, "ollama serve", readable=False)
    found = gate(root)
    assert found.status is UNKNOWN and found.absent is not None and found.absent.value == "NO_PERMISSION"
    process(root, 900, "llama-server")
    both = gate(root)
    assert both.status is UNKNOWN and both.absent is found.absent
    assert "process 812" in both.reason and "process 900" in both.reason


def test_a_running_process_decides_over_its_unit(root: Path) -> None:
    """An edited unit that was not restarted does not count yet."""
    sysroots.write(root, "etc/systemd/system/ollama.service", "[Service]\nEnvironment=HIP_VISIBLE_DEVICES=9")
    assert gate(root).status is BLOCK
    process(root, 812, "ollama serve")
    assert gate(root).status is ALLOW


def test_drop_in_decides_over_the_unit(root: Path) -> None:
    """A unit's drop-in overrides it; they are one server."""
    sysroots.write(root, "etc/systemd/system/ollama.service", "[Service]\nEnvironment=HIP_VISIBLE_DEVICES=9")
    sysroots.write(
        root, "etc/systemd/system/ollama.service.d/gpu.conf", "[Service]\nEnvironment=HIP_VISIBLE_DEVICES=0"
    )
    assert gate(root).status is ALLOW


def test_rights_are_the_process_s(root: Path) -> None:
    """The groups of the running process decide, not those of who asks."""
    sysroots.nodes(root, "dev/kfd", "dev/dri/renderD128")
    node = (root / "dev/kfd").stat()  # it belongs to whoever runs this test
    gid, stranger = node.st_gid, max(node.st_uid, node.st_gid) + 1
    sysroots.write(root, "etc/group", f"render:x:{gid}:")
    sysroots.write(root, "etc/passwd", "root:x:0:0::/root:/bin/sh")
    process(root, 812, "ollama serve", groups=str(gid))
    assert gate(root, Layer.PERMISSIONS).status is ALLOW
    process(root, 900, "llama-server", uid=stranger, groups=f"{stranger} {stranger + 1}")
    found = gate(root, Layer.PERMISSIONS)
    assert found.status is PARTIAL and "process 900" in found.reason
    process(root, 812, "ollama serve", uid=stranger, groups=str(stranger))
    assert gate(root, Layer.PERMISSIONS).status is BLOCK


def test_containers_are_named_as_not_seen(root: Path) -> None:
    """An engine on the host is told beside the verdict; servers that all run in containers leave it unknown."""
    assert "containers" not in gate(root, Layer.VERSIONS).reason
    sysroots.write(root, "run/docker.sock", "")
    told = gate(root, Layer.VERSIONS)
    assert told.status is ALLOW and "containers of docker" in told.reason
    process(root, 812, "ollama serve")
    sysroots.write(root, "proc/812/cgroup", "0::/system.slice/docker-0123456789ab.scope")
    inside = gate(root, Layer.VERSIONS)
    assert inside.status is UNKNOWN and inside.absent is not None and inside.absent.value == "HIDDEN"
    assert "process 812 (ollama serve) runs in a docker container" in inside.reason
    process(root, 900, "llama-server")
    sysroots.write(root, "proc/900/cgroup", "0::/user.slice")
    assert gate(root, Layer.VERSIONS).status is ALLOW


def test_library_path_of_the_right_process(root: Path) -> None:
    """LD_LIBRARY_PATH counts where it is the process that runs the runtime's own program."""
    sysroots.write(root, "opt/llama.cpp/llama-server", b"\x7fELF")
    for pid, program, path in ((700, "/usr/bin/ollama", "/wrong"), (701, "/opt/llama.cpp/llama-server", "/right")):
        process(root, pid, program, LD_LIBRARY_PATH=path)
        sysroots.write(root, program.lstrip("/"), b"\x7fELF")
        sysroots.link(root, f"proc/{pid}/exe", program)
    found = {e.pid: e.program for e in machines.of(root).environments if e.pid}
    assert found == {700: "/usr/bin/ollama", 701: "/opt/llama.cpp/llama-server"}
