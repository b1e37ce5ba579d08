"""What the store's runs say about targets: applied trials that passed and failed on this machine, with layers on the
device. What a software driver computed says nothing about a card, and a store may come from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from stillruns.catalogue.load import card_names
from stillruns.errors import StillrunsError
from stillruns.judge.incidents.fields import card_target
from stillruns.lab.runs import host, judging
from stillruns.model.backend import Backend, is_software
from stillruns.model.machine import RunEvidence
from stillruns.model.server_facts import SeenDevice
from stillruns.store.store import Store

MOST_RUNS = 5
_SELFTEST = "selftest"
"""Runs whose faults were put there on purpose: they say nothing about the machine."""


def collect(store: Store) -> tuple[RunEvidence, ...]:
    """The newest runs' applied trials by backend and target; a run that cannot be judged is passed over."""
    found: list[RunEvidence] = []
    for summary in store.runs()[-MOST_RUNS:]:
        try:
            found += _run(store, summary.run)
        except StillrunsError:
            continue
    return tuple(found)


def _run(store: Store, run: str) -> list[RunEvidence]:
    opening = judging.first_record(store, run)
    if "spec" not in opening or opening.get("form") == _SELFTEST or not of_this_machine(opening):
        return []
    start = judging.opening(store, run)
    judged = judging.Judged(store, run, start.plans, start.spec.backends, start.engines)
    backends = {plan.id: plan.condition.backend for plan in start.plans}
    counts: dict[tuple[str, str], list[int]] = {}
    for verdict in judged.verdicts:
        if not verdict.counts or verdict.trial not in judged.seen:
            continue  # a reference that an earlier run measured is that run's evidence
        where = _where(backends[verdict.cell], judged.devices.get(verdict.trial))
        if where is not None:
            pair = counts.setdefault(where, [0, 0])
            pair[0 if verdict.passed else 1] += 1
    return [RunEvidence(b, t, n[0], n[1], run, "") for (b, t), n in counts.items()]


def of_this_machine(opening: Mapping[str, object]) -> bool:
    """Whether a run was made on this machine, as far as its CPU tells."""
    told = opening.get("host")
    return not isinstance(told, dict) or told.get("cpu") in (None, "", host.describe()["cpu"])


def _where(backend: Backend, device: SeenDevice | None) -> tuple[str, str] | None:
    """(backend, target) of a trial that was applied; None where it shows nothing about a card: no layer was on it, or
    it is none. The target is as the log prints it, or as the card's name tells it (Vulkan prints none), else
    empty."""
    if backend is Backend.CPU:
        return backend.value, "cpu"
    if device is None or is_software(f"{device.description} {device.driver}"):
        return None
    return backend.value, (device.target or card_target(device.description, card_names()) or "").partition(":")[0]
