"""Ports on the loopback: a free one, and whether the server that answers there is really ours."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from stillruns.act.processes import below, leaving, over
from stillruns.errors import EnvironmentLacks

RETRIES = 5
"""Starts after the first that may lose the race for a port."""

BIND_FAILED = re.compile(rb"couldn't bind (HTTP |to )?server socket|address already in use|EADDRINUSE", re.IGNORECASE)
"""How servers say that a port is taken (llama-server: `couldn't bind HTTP server socket`)."""

CONTAINERS = frozenset({"docker", "podman", "nerdctl", "distrobox", "toolbox", "incus", "lxc", "machinectl", "ssh"})
"""Programs behind which the server's socket is held by somebody else's process."""


def cut_off(host: str = "127.0.0.1") -> str:
    """Why nothing can be asked at an address of our own machine; empty where it can. Nothing is sent: to connect a
    datagram socket only looks for a way there. A new network namespace has its loopback interface down."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def refused(host: str, port: int) -> OSError | None:
    """Why nobody could begin to listen there now: EADDRINUSE where another program does, EACCES where only root may.

    OverflowError for what is no port.
    """
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error
    return None


def free_port() -> int:
    """A port that nobody listens on at this moment; somebody may take it before the server does.

    EnvironmentLacks where no server could be asked, whatever its port.
    """
    if why := cut_off():
        raise EnvironmentLacks(
            f"no server can be asked at 127.0.0.1 here: {why}; bring the loopback interface up (`ip link set lo up`)"
        )
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listeners(port: int) -> set[int]:
    """Inodes of the TCP sockets that listen on `port` in our network namespace (proc(5), /proc/net/tcp)."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                found.add(int(fields[9]))
    return found


def _sockets(pid: int) -> set[int] | None:
    """Inodes of the sockets that a process holds; None when we may not look (a program with file capabilities)."""
    found = set()
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(entry.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    except PermissionError:
        return None
    except OSError:
        pass
    return found


def _ending(pid: int) -> bool:
    """Whether a process is on its way out, so that what it held can no longer be seen, but may still be there: its
    files are gone and it is no zombie yet, or its first thread has ended and others have not."""
    return not over(pid) and leaving(pid)


def owner_is(port: int, root: int) -> bool | None:
    """Whether every listener on `port` belongs to `root` or a descendant of it.

    None when nothing tells: the socket is in another network namespace (a container), we may not look, or the
    listener went while we looked (a server that crashes is nobody else's). Two listeners with SO_REUSEPORT, one of
    them foreign, are `False`: requests would be spread over both.
    """
    there = listeners(port)
    if not there:
        return None
    family = [root, *below(root)]  # ended ones too: their sockets may be there a moment longer
    ours: set[int] = set()
    hidden = False
    for pid in family:
        held = _sockets(pid)
        hidden = hidden or held is None
        ours |= held or set()
        if there <= ours:
            return True
    foreign = there - ours
    if hidden or any(_ending(pid) for pid in family) or not foreign & listeners(port):
        return None
    return False
