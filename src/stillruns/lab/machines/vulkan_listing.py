"""Vulkan's devices by a small program of our own, where vulkaninfo is not installed: in a child with a time limit."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

from stillruns import proc
from stillruns.act import vulkan_query
from stillruns.errors import EnvironmentLacks
from stillruns.lab.machines.probing import QUIET
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.machine import Machine, Vulkan
from stillruns.model.raw import RawCommand
from stillruns.normalise import vulkan_limits

TIMEOUT = 15.0
"""Seconds; a driver that hangs when it is loaded costs this much and no more."""

SHOWN = ("stillruns' own list of Vulkan devices",)


def ask(machine: Machine) -> Vulkan | Absence:
    """The machine's Vulkan facts, with limits where vulkaninfo could not tell them and a loader is here."""
    facts = machine.vulkan
    if isinstance(facts, Absence) or not machine.live or not facts.loader or not isinstance(facts.limits, Absence):
        return facts
    if facts.limits.reason is not AbsenceReason.NOT_INSTALLED:
        return facts
    found = vulkan_limits.parse(listing())
    return dataclasses.replace(facts, limits=found)


def listing() -> RawCommand:
    """What the child prints; an absence where it did not end in time."""
    argv = (sys.executable, "-I", str(Path(vulkan_query.__file__)))
    try:
        done = proc.run(argv, timeout=TIMEOUT, env={**os.environ, **QUIET}, cwd="/")
    except EnvironmentLacks as error:
        return RawCommand(SHOWN, absence=Absence(AbsenceReason.NOT_INSTALLED, str(error)))
    if done.timed_out:
        detail = f"a Vulkan driver did not list its devices in {TIMEOUT:.0f} s"
        return RawCommand(SHOWN, absence=Absence(AbsenceReason.TIMED_OUT, detail))
    if done.signal:
        detail = f"a Vulkan driver died with {done.signal} when it listed its devices"
        return RawCommand(SHOWN, absence=Absence(AbsenceReason.UNPARSABLE, detail))
    return RawCommand(SHOWN, done.status, done.stdout, done.stderr)
