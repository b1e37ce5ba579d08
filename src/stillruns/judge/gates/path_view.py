"""One path (a backend on a target on a card) with everything that its gates are judged by."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from stillruns.model.absence import AbsenceReason
from stillruns.model.backend import Backend
from stillruns.model.card import Card
from stillruns.model.code_object import CodeObjects, CodeTarget, Feature
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.gate_tables import GateTables
from stillruns.model.kernel_library import KernelLibrary
from stillruns.model.machine import BackendLibrary, Environment, KernelLog, KernelSign, Machine, RuntimeInstall
from stillruns.model.raw import Cite
from stillruns.model.target import TargetId, TargetInfo


@dataclass(frozen=True, slots=True)
class PathView:
    """`target` is None for the CPU and for a machine without a GPU; `card` None for a GPU that is not here; `column`
    names the path's own target where `target` is another that an override pretends."""

    backend: Backend
    target: TargetId | None
    card: Card | None
    machine: Machine
    tables: GateTables
    column: str = ""

    @property
    def processor(self) -> str:
        """`gfx906`, `sm_61`, or `cpu` and `none` where there is no target."""
        if self.target is not None:
            return self.target.processor
        return "cpu" if self.backend is Backend.CPU else "none"

    @property
    def last_nvidia_branch(self) -> str:
        """The last branch of NVIDIA's driver that knows the target (`580`); empty where none dropped it."""
        known = next((entry for entry in self.tables.nvidia if entry.target == self.processor), None)
        return known.last_driver if known else ""

    @property
    def nvidia_driver(self) -> str:
        """What to install for this target: `NVIDIA's driver`, and its branch where newer ones dropped the card."""
        branch = self.last_nvidia_branch
        return "NVIDIA's driver" + (f" (branch {branch}: newer ones dropped {self.processor})" if branch else "")

    @property
    def vulkan_loader(self) -> str:
        """The packages that bring Vulkan's loader, and Mesa's drivers where the card's own does not bring one."""
        return "libvulkan1" if self.processor.startswith("sm_") else "libvulkan1 and mesa-vulkan-drivers"

    @property
    def shown(self) -> str:
        """The target as it is printed."""
        return str(self.target) if self.target is not None else self.processor

    @property
    def info(self) -> TargetInfo | None:
        """What the catalogue knows about the processor."""
        return self.tables.targets.get(self.processor)

    @property
    def backend_libraries(self) -> tuple[tuple[RuntimeInstall, BackendLibrary], ...]:
        """The libraries of this backend, with the runtimes that they belong to."""
        return tuple(
            (runtime, library)
            for runtime in self.machine.runtimes
            for library in runtime.backends
            if library.backend == self.backend.value
        )

    def gate(
        self,
        layer: Layer,
        status: GateStatus,
        reason: str,
        *evidence: Cite | None,
        absent: AbsenceReason | None = None,
        workarounds: tuple[str, ...] = (),
        advice: str = "",
        weight: int = 0,
    ) -> Gate:
        """A verdict of this path."""
        return Gate(
            layer=layer,
            path=self.backend.value,
            target=self.column or self.shown,
            device=self.card.address if self.card else None,
            status=status,
            reason=reason,
            evidence=tuple(cite for cite in evidence if cite is not None),
            absent=absent,
            workarounds=tuple(name for name in workarounds if self._fits(name)),
            advice=advice,
            weight=weight,
        )

    def lacking(
        self,
        layer: Layer,
        reason: str,
        *evidence: Cite | None,
        advice: str,
        weight: int,
        workarounds: tuple[str, ...] = (),
    ) -> Gate:
        """Something needed is not there: `block` on a whole system, `unknown` in a tree that is a part of one."""
        if self.machine.whole:
            return self.gate(
                layer, GateStatus.BLOCK, reason, *evidence, advice=advice, weight=weight, workarounds=workarounds
            )
        text = f"{reason}; this tree is no whole system (no C library is in it), so it may be elsewhere"
        return self.unknown(layer, text, AbsenceReason.NOT_COLLECTED, *evidence)

    def _fits(self, name: str) -> bool:
        """Whether the catalogue has this workaround, and for this target."""
        found = self.tables.workarounds.get(name)
        return found is not None and (
            not found.targets or self.target is None or self.processor in found.targets or bool(self.column)
        )

    def unknown(self, layer: Layer, reason: str, absent: AbsenceReason, *evidence: Cite | None) -> Gate:
        """A layer that nothing decides here."""
        return self.gate(layer, GateStatus.UNKNOWN, reason, *evidence, absent=absent)

    def perhaps(self, gate: Gate, reason: str, absent: AbsenceReason) -> Gate:
        """A block that holds under a condition that nothing tells: it decides nothing, and the path is not open."""
        doubt = gate.status is GateStatus.BLOCK
        return dataclasses.replace(self.unknown(gate.layer, reason, absent, *gate.evidence), doubt=doubt)

    def events(self, layer: Layer) -> tuple[KernelSign, ...]:
        """The kernel log's events of a layer that bear on this card (its address, its PCI id, or no address at
        all)."""
        if not isinstance(self.machine.log, KernelLog):
            return ()
        mine = {self.card.address, self.card.pci.pci_id if self.card.pci else ""} if self.card else set()
        return tuple(
            event
            for event in self.machine.log.events
            if event.layer == layer.value and (not event.address or event.address in mine)
        )

    def variable(self, name: str, program: str = "") -> tuple[str, Environment] | None:
        """A variable as the serving process sees it: servers and their units first, this shell last. With `program`
        (`ollama`) only servers of that name count as serving, and a running one hides its unit and this shell."""
        mine = [e for e in self.machine.environments if e.serving and program in e.owner]
        running = [e for e in mine if e.pid is not None and e.readable]
        rest = [e for e in self.machine.environments if not e.serving]
        for environment in running if program and running else (*mine, *rest):
            if name in environment.variables:
                return environment.variables[name], environment
        return None

    def code(self, path: str) -> CodeObjects | None:
        """What was found in a file, or None."""
        found = self.machine.code.get(path)
        return found if isinstance(found, CodeObjects) else None

    def folder_of(self, library: BackendLibrary, name: str) -> KernelLibrary | None:
        """The kernel folder that a backend library would use: beside the rocBLAS that it links, and no other."""
        linked = next(
            (path for soname, path in library.links.items() if soname.startswith(f"lib{name.lower()}.")), ""
        )
        own = self.variable("ROCBLAS_TENSILE_LIBPATH") if name == "rocBLAS" else None
        starts = [own[0].rstrip("/")] if own and own[0] else []
        if linked:
            base = linked.rpartition("/")[0]
            starts += [f"{base}/{name.lower()}/library", f"{base}/{name.lower()}/"]
        for start in starts:
            for folder in self.machine.libraries:
                same = folder.folder == start if not start.endswith("/") else folder.folder.startswith(start)
                if folder.library == name and same:
                    return folder
        return None


def matches(code: CodeTarget, target: TargetId, known: TargetInfo | None) -> tuple[bool, str]:
    """Whether code runs on a target, and under which condition (empty: none).

    The rules of LLVM's AMDGPUUsage ("target ID"): the processor, or the generic processor that serves it; a feature
    that the code fixes must be the device's. A device's xnack that nobody told is off, as the driver sets it.
    """
    generic = known is not None and code.processor == known.generic
    if code.processor != target.processor and not generic:
        return False, ""
    conditions = []
    for name, built, has in (
        ("sramecc", code.sramecc, target.sramecc),
        ("xnack", code.xnack, False if target.xnack is None else target.xnack),
    ):
        if built in (Feature.ON, Feature.OFF):
            if has is None:
                conditions.append(f"only on cards with {name}{'+' if built is Feature.ON else '-'}")
            elif has is not (built is Feature.ON):
                return False, ""
    return True, "; ".join(conditions)
