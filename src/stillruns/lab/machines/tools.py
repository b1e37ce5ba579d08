"""Other tools' views of the cards, where they are installed: what differs from sysfs is evidence."""

from __future__ import annotations

import dataclasses
import os

from stillruns.lab.machines.probing import LiveCommands
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Machine, Tool
from stillruns.model.raw import RawCommand
from stillruns.normalise import other_tools

_LOCKING = (other_tools.ROCM_SMI, other_tools.AMD_SMI)
"""AMD's libraries make lock files in /dev/shm that stay (shm_open in librocm_smi64 5.2.3 and 6.4.1 and libamd_smi
10.1): `check` writes nothing, so they get a /dev/shm of their own, and do not run where that is not permitted."""

_OWN_SHM = 'mount -t tmpfs tmpfs /dev/shm || exit 77; exec "$@"'


def ask(machine: Machine) -> tuple[Tool, ...]:
    """Disagreements only; an empty tuple where everything agrees or nothing is installed."""
    if not machine.live:
        return ()
    commands = LiveCommands()
    ran = [commands.run(other_tools.ENUMERATOR), commands.run(other_tools.LSPCI)]
    ran += [apart(commands, argv) for argv in _LOCKING]
    return other_tools.compare(ran, machine.cards)


def apart(commands: LiveCommands, argv: tuple[str, ...]) -> RawCommand:
    """A tool's output, run with an empty /dev/shm that goes with it; an absence where that is not permitted."""
    if not commands.has(argv[0]):
        return RawCommand(argv, absence=Absence(AbsenceReason.NOT_INSTALLED, f"{argv[0]} is not installed"))
    rights = () if os.geteuid() == 0 else ("-r",)
    done = commands.run(("unshare", *rights, "-m", "sh", "-c", _OWN_SHM, "sh", *argv))
    if done.absence is not None and done.absence.reason is AbsenceReason.NOT_INSTALLED:
        why = f"{argv[0]} was not run: it leaves lock files, and unshare, which keeps them apart, is not installed"
        return RawCommand(argv, absence=Absence(AbsenceReason.NOT_COLLECTED, why, "apt install util-linux"))
    if done.absence is None and (done.status == 77 or b"unshare:" in done.stderr):
        why = f"{argv[0]} was not run: it leaves lock files, and this machine permits no /dev/shm apart"
        return RawCommand(argv, absence=Absence(AbsenceReason.NO_PERMISSION, why))
    return dataclasses.replace(done, argv=argv)
