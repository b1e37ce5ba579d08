"""A tree to the facts of a machine: every probe, every parser, and the files that hold device code."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from stillruns.catalogue.gate_tables import tables
from stillruns.collect import (
    amdgpu,
    container,
    cuda,
    drm,
    environment,
    firmware,
    kernel,
    kernel_log,
    kfd,
    pci,
    permissions,
    rocm,
    runtimes,
    source_tree,
    vulkan,
)
from stillruns.collect.gathering import Commands, read
from stillruns.collect.tree import Tree
from stillruns.errors import FormatError, UsageError
from stillruns.formats import gguf
from stillruns.lab.machines.libraries import Libraries
from stillruns.lab.machines.probing import Guard
from stillruns.model.absence import Absence
from stillruns.model.card import Card
from stillruns.model.machine import Environment, Machine
from stillruns.model.source_build import SourceBuild
from stillruns.model.target import from_override
from stillruns.normalise import amdgpu as amdgpu_facts
from stillruns.normalise import cards as card_facts
from stillruns.normalise import container as container_facts
from stillruns.normalise import cuda as cuda_facts
from stillruns.normalise import drm as drm_facts
from stillruns.normalise import environment as environment_facts
from stillruns.normalise import firmware as firmware_facts
from stillruns.normalise import host_cpu as cpu_facts
from stillruns.normalise import kernel as kernel_facts
from stillruns.normalise import kernel_log as log_facts
from stillruns.normalise import kfd as kfd_facts
from stillruns.normalise import pci as pci_facts
from stillruns.normalise import permissions as permission_facts
from stillruns.normalise import rocm as rocm_facts
from stillruns.normalise import runtimes as runtime_facts
from stillruns.normalise import source_build
from stillruns.normalise import vulkan as vulkan_facts

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What the user named: folders of runtimes, source trees (`name`, path, revision), a model file, and the target
    whose kernel files are read closely (the machine's own cards' are in any case)."""

    runtimes: tuple[str, ...] = ()
    sources: tuple[tuple[str, Path, str], ...] = ()
    model: Path | None = None
    target: str = ""


@dataclass(slots=True)
class MachineReading:
    """A machine as it was read, and what went wrong in this program on the way."""

    machine: Machine
    guard: Guard = field(default_factory=Guard)


def read_machine(tree: Tree, commands: Commands, asked: CheckRequest) -> MachineReading:
    """Every probe and every parser; nothing is run but the tools that `commands` allows."""
    guard = Guard()
    known = tables()

    def ask(what: str, job: Callable[[], Found]) -> Found | Absence:
        return guard.run(what, job)

    bus = ask("the PCI bus", lambda: pci_facts.parse(pci.collect(tree, commands)))
    topology = ask("the KFD topology", lambda: kfd_facts.parse(kfd.collect(tree, commands)))
    nodes = ask("the DRM nodes", lambda: drm_facts.parse(drm.collect(tree, commands)))
    states = ask("the amdgpu driver", lambda: amdgpu_facts.parse(amdgpu.collect(tree, commands)))
    nvidia = ask("the NVIDIA driver", lambda: cuda_facts.parse(cuda.collect(tree, commands)))
    cards = card_facts.join(
        () if isinstance(bus, Absence) else bus,
        topology,
        () if isinstance(nodes, Absence) else nodes,
        {} if isinstance(states, Absence) else states,
        nvidia,
        known,
    )
    pieces = _or_empty(ask("package databases", lambda: rocm_facts.parse(rocm.collect(tree, commands))))
    around = _or_empty(ask("environments", lambda: environment_facts.parse(environment.collect(tree, commands))))
    folders = runtimes.collect(tree, commands, (*asked.runtimes, *_served_from(around)))
    found = _or_empty(ask("runtimes", lambda: runtime_facts.parse(folders, pieces)))
    libraries = Libraries(tree, folders, around, guard)
    found = tuple(libraries.resolve(runtime) for runtime in found)
    found = tuple(runtime for runtime in found if runtime.backends or not runtime.program)
    signs = container.collect(tree, commands)
    box = ask("signs of a container", lambda: container_facts.parse(signs))
    cpu = cpu_facts.parse(read(tree, "/proc/cpuinfo", 1 << 20).data or b"")
    closely = _processors(cards, around, asked.target)
    has_amd = any(card.vendor == 0x1002 for card in cards)
    machine = Machine(
        name=tree.name,
        live=tree.live,
        cards=cards,
        kfd=topology,
        kernel=ask("the kernel", lambda: kernel_facts.parse(kernel.collect(tree, commands))),
        log=ask("the kernel's log", lambda: log_facts.parse(kernel_log.collect(tree, commands), known.events)),
        permissions=ask("permissions", lambda: permission_facts.parse(permissions.collect(tree, commands))),
        container=None if isinstance(box, Absence) else box,
        firmware=ask("firmware", lambda: firmware_facts.parse(firmware.collect(tree, commands, modules=has_amd))),
        rocm=pieces,
        vulkan=ask("Vulkan", lambda: vulkan_facts.parse(vulkan.collect(tree, commands))),
        nvidia=nvidia,
        cpu_name="" if isinstance(cpu, Absence) else cpu.name,
        cpu_flags=frozenset() if isinstance(cpu, Absence) else cpu.flags,
        runtimes=found,
        environments=around,
        code=libraries.code,
        hip=libraries.hip,
        engines=container_facts.engines(signs),
        libraries=libraries.folders(found, closely),
        sources=tuple(_source(*source) for source in asked.sources),
        model=_model(asked.model) if asked.model else "",
        whole=libraries.whole(),
    )
    return MachineReading(machine, guard)


def named_runtimes(folders: Sequence[str], tree: Tree) -> tuple[str, ...]:
    """The folders of --runtime as paths of the tree: from the working folder on this machine, from the root
    elsewhere; of a program its folder. Raises UsageError for what is not there."""
    found = []
    for folder in folders:
        place = str(Path(folder).absolute()) if tree.live else "/" + folder.strip("/")
        entry = tree.entry(place)
        if isinstance(entry, Absence) or entry.kind not in ("folder", "file"):
            raise UsageError(
                f"--runtime {folder}: there is no such folder in {tree.name}; name that of llama-server."
            )
        found.append(place if entry.kind == "folder" else entry.real.rpartition("/")[0])
    return tuple(found)


def _processors(cards: Sequence[Card], around: Sequence[Environment], target: str) -> tuple[str, ...]:
    """The targets whose kernel files are read closely: the cards', the one asked for, and what overrides name."""
    wanted = [card.processor for card in cards] + [target.partition(":")[0]]
    for owner in around:
        overrides = [v for name, v in owner.variables.items() if name.startswith("HSA_OVERRIDE_GFX_VERSION")]
        wanted += [from_override(value) for value in overrides]
    return tuple(dict.fromkeys(name for name in wanted if name.startswith("gfx")))


def _served_from(around: Sequence[Environment]) -> tuple[str, ...]:
    """Folders of the programs that serve or would: a build in somebody's home is a runtime like any other."""
    programs = [entry.program for entry in around if entry.serving and entry.program.startswith("/")]
    found = dict.fromkeys(program.rpartition("/")[0] for program in programs)
    return tuple(folder for folder in found if folder)


def _or_empty(found: tuple[Found, ...] | Absence) -> tuple[Found, ...]:
    return () if isinstance(found, Absence) else found


def _source(name: str, path: Path, rev: str) -> SourceBuild:
    """One source tree, read without touching it."""
    tree = source_tree.read(name, path, rev, source_build.SUFFIXES)
    return source_build.read(name, rev, tree.load(), tuple(tables().targets))


def _model(path: Path) -> str:
    """`moe quantised`, `dense quantised`, `moe F16`, ...: what decides which kernels a model needs."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            model = gguf.read(lambda offset, n: os.pread(file.fileno(), n, offset), size)
    except OSError as error:
        raise UsageError(f"--model {path}: {error.strerror}; name a GGUF file.") from error
    except FormatError as error:
        raise UsageError(f"--model {path} is no whole GGUF file: {error}.") from error
    experts = model.metadata.get(f"{model.architecture}.expert_count", 0)
    types = [tensor.type_name for tensor in model.tensors if len(tensor.shape) > 1]
    quantised = any(kind not in ("F16", "F32", "BF16") for kind in types)
    kind = "quantised" if quantised else next(iter(sorted(set(types))), "F16")
    return f"{'moe' if isinstance(experts, int) and experts > 0 else 'dense'} {kind}"


def merged(machine: Machine, **changes: object) -> Machine:
    """The machine with some facts replaced (device listings, runs)."""
    return dataclasses.replace(machine, **changes)  # type: ignore[arg-type]


def parse_sources(words: Sequence[str], exists: Callable[[Path], bool]) -> tuple[tuple[str, Path, str], ...]:
    """`NAME=PATH[@REV]` of --source; raises UsageError for another form."""
    found = []
    for word in words:
        name, equals, place = word.partition("=")
        if not equals or not name or not place:
            raise UsageError(f"--source {word!r} is not of the form NAME=PATH or NAME=PATH@REV.")
        path, at, rev = place.rpartition("@")
        if at and exists(Path(path)):
            found.append((name, Path(path), rev))
        else:
            found.append((name, Path(place), ""))
    return tuple(found)
