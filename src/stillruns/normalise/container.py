"""Signs of a container."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Container
from stillruns.model.raw import Collected

_CGROUP = re.compile(r"/(docker|kubepods|lxc|libpod|containerd|machine\.slice)", re.IGNORECASE)


_ENGINES = {
    "/run/docker.sock": "docker",
    "/run/podman/podman.sock": "podman",
    "/var/lib/containers/storage": "podman",
    "/run/k3s/containerd/containerd.sock": "k3s",
    "/var/lib/lxc": "lxc",
    "/var/lib/incus": "incus",
}


def engines(raw: Collected) -> tuple[str, ...]:
    """Container engines whose socket or storage is here; whether a container runs is not asked."""
    found = [
        name for path, name in _ENGINES.items() if (file := raw.file(path)) is not None and file.kind != "missing"
    ]
    return tuple(dict.fromkeys(found))


def kind_of(cgroup: str) -> str:
    """The kind of container that a process's cgroup names; empty where it names none."""
    found = _CGROUP.search(cgroup)
    return found[1].lower() if found else ""


def parse(raw: Collected) -> Container | Absence | None:
    """The container that we are in, None where every sign is missing, an absence where nothing was read."""
    if not raw.files:
        return Absence(AbsenceReason.NOT_COLLECTED, "signs of a container were not looked for")
    rules = tuple((raw.text("/sys/fs/cgroup/devices/devices.list") or "").splitlines()[:500])
    for path, kind in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/run/systemd/container", "")):
        file = raw.file(path)
        if file is not None and file.kind != "missing":
            return Container(kind or file.text or "container", file.cite(f"{path} is there"), rules)
    cgroup = raw.file("/proc/1/cgroup")
    found = _CGROUP.search(cgroup.text) if cgroup is not None and cgroup.data else None
    if found and cgroup is not None:
        return Container(found[1].lower(), cgroup.cite(), rules)
    return None
