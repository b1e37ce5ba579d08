"""Variables of the processes and units that serve models, and of this shell."""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather, read
from stillruns.collect.tree import Tree, glob
from stillruns.model.absence import Absence
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected, RawFile

PROBE = Probe(
    id="environment",
    applies="any machine; another user's process shows its environment to root only",
    reads=(
        "/proc/*/comm, and of model servers: environ, cmdline, status, cgroup, exe",
        "/etc/systemd/system/*.service, /etc/systemd/system/*.service.d/*.conf",
        "/usr/lib/systemd/system/ollama.service, /usr/lib/systemd/system/llama*.service",
        "/etc/environment",
        "/etc/default/ollama",
        "/proc/self/environ",
    ),
    limit=1 << 18,
)

SERVERS = ("ollama", "llama-server", "llama-cli", "llama-swap", "vllm", "koboldcpp", "lemonade", "local-ai")
_UNITS = (
    "/etc/systemd/system/*.service",
    "/etc/systemd/system/*.service.d/*.conf",
    "/usr/lib/systemd/system/ollama.service",
    "/usr/lib/systemd/system/llama*.service",
    "/lib/systemd/system/ollama.service",
    "/etc/environment",
    "/etc/default/ollama",
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """Units that name a model server, processes of one, and this process's own environment on the live machine."""
    units = gather(tree, Probe(PROBE.id, PROBE.applies, _UNITS, (), PROBE.limit), commands)
    files: list[RawFile] = [
        file
        for file in units.files
        if file.path.startswith("/etc/environment")
        or any(server.encode() in (file.data or b"") or server in file.path for server in SERVERS)
    ]
    for path in glob(tree, "/proc/[0-9]*/comm"):
        comm = tree.read(path, 64)
        if isinstance(comm, Absence) or not comm.decode("utf-8", "replace").strip().startswith(SERVERS):
            continue
        folder = path.rpartition("/")[0]
        files += [
            read(tree, f"{folder}/{name}", PROBE.limit) for name in ("comm", "environ", "cmdline", "status", "cgroup")
        ]
        files.append(read(tree, f"{folder}/exe", 0))
    files.append(read(tree, "/proc/self/environ", PROBE.limit))
    return Collected(tuple(files))
