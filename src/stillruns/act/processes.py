"""Reading /proc about processes that are not ours to wait for."""

from __future__ import annotations

from pathlib import Path

from stillruns.act.launcher import below, descendants, over, state_and_parent

__all__ = [
    "below",
    "command_line",
    "core_dumping",
    "descendants",
    "environment",
    "leaving",
    "mapped",
    "over",
    "pid_namespace",
    "shared_objects",
    "start_ticks",
    "state_and_parent",
]


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty when it is gone or belongs to someone else."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (field.decode("utf-8", "surrogateescape").partition("=") for field in data.split(b"\0") if b"=" in field)
    return {name: value for name, _, value in pairs}


def command_line(pid: int) -> tuple[str, ...]:
    """The words that a process was started with; empty when it is gone or a kernel's."""
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(data.removesuffix(b"\0").decode("utf-8", "surrogateescape").split("\0")) if data else ()


def start_ticks(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot (proc(5), field 22): a pid that came back has another."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def pid_namespace() -> str:
    """The inode of our pid namespace: a pid means nothing outside its own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        return "unknown"


def leaving(pid: int) -> bool:
    """Whether a process has ended or is about to: gone, a zombie, or without its files, which the kernel closes on
    the way out. Whoever sees its connection break because it died sees this too."""
    stat = state_and_parent(pid)
    if stat is None or stat[0] in "ZX":
        return True
    try:
        return not any(Path(f"/proc/{pid}/fd").iterdir())
    except OSError as error:
        return not isinstance(error, PermissionError)


def core_dumping(pid: int) -> bool:
    """Whether the kernel is writing this process's core (`CoreDumping`, Linux 4.15)."""
    try:
        return b"CoreDumping:\t1" in Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return False


def mapped(pid: int) -> bytes:
    """The text of /proc/PID/maps; empty when the process is gone, a zombie, or not ours to read."""
    try:
        return Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return b""


def shared_objects(maps: bytes) -> set[str]:
    """The paths of mapped shared objects in the text of /proc/PID/maps."""
    found = set()
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and b".so" in fields[5]:
            found.add(fields[5].decode("utf-8", "replace").removesuffix(" (deleted)"))
    return found
