"""A runtime's binary as found on this machine: who it is and what it can do."""

from __future__ import annotations

from dataclasses import dataclass, field

from stillruns.model.absence import Absence


@dataclass(frozen=True, slots=True)
class Device:
    """A device as the runtime lists it: `name` such as `Vulkan0`, memory in MiB (None when not printed)."""

    name: str
    description: str
    total_mib: int | None = None
    free_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """Identity is the digest of the binary and of the shared libraries beside it, not the version text.

    `flags` are the options its own `--help` names (aliases included, with their dashes); `values` maps an option to
    the accepted values where the help lists them (`--flash-attn` -> ("on", "off", "auto")); `devices` is what
    `--list-devices` printed; `system_info` the CPU features that the binary reports (`AVX512` -> `1`).
    `found_by` says which of the four places it came from. `env` is what must be set for it to run.
    """

    binary: str
    sha256: str
    libraries: dict[str, str]
    version: str
    flags: frozenset[str]
    values: dict[str, tuple[str, ...]]
    devices: tuple[Device, ...] | Absence
    system_info: dict[str, str] = field(default_factory=dict)
    found_by: str = ""
    env: dict[str, str] = field(default_factory=dict)

    def accepts(self, flag: str) -> bool:
        """Whether the binary's own help names this option."""
        return flag in self.flags
