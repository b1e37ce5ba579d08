"""Ollama's filters that look at NVIDIA's driver: which branch it asks for, and which libraries it takes."""

from __future__ import annotations

import dataclasses

from stillruns.judge.gates.path_view import PathView
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.gate import Gate, GateStatus, Layer
from stillruns.model.gate_tables import RuntimeGate
from stillruns.model.machine import RuntimeInstall
from stillruns.model.raw import Cite

LAYER = Layer.RUNTIME_FILTER


def judge(view: PathView, rule: RuntimeGate, cite: Cite, ollama: RuntimeInstall) -> Gate | None:
    """The verdict of a rule of kind driver-floor or newest-cuda on a CUDA path; None where it does not look at this
    target, or finds nothing wrong."""
    if rule.below and not _below(view.processor, rule.below):
        return None
    driver = view.machine.nvidia
    branch = "" if isinstance(driver, Absence) else driver.driver.partition(".")[0]
    if not branch.isdigit():
        return view.unknown(LAYER, f"NVIDIA's driver does not tell its version, and {rule.text}",
                            AbsenceReason.NOT_COLLECTED, cite)  # fmt: skip
    new = int(branch) >= int(rule.driver)
    if rule.kind == "newest-cuda":
        others = [library for library in ollama.backends if library.backend == "cuda"]
        if not new or not any("/cuda_v13/" in library.path for library in others):
            return None
        return view.gate(
            LAYER, GateStatus.BLOCK, f"the driver is {branch}: {rule.text}", cite, weight=72,
            advice="take Ollama 0.12.0 or newer, which chooses its CUDA libraries by the card",
            workarounds=("pin-release-with-target",),
        )  # fmt: skip
    if new:
        return None
    last = view.last_nvidia_branch
    if last and int(last) < int(rule.driver):
        advice = f"take an older release: no driver that {view.processor} has is that new"
    else:
        advice = f"install NVIDIA's driver {rule.driver} or newer" + (f" (up to branch {last})" if last else "")
    found = view.gate(
        LAYER, GateStatus.BLOCK, f"the driver is {branch}: {rule.text}", cite, weight=76,
        advice=f"{advice}, or use Ollama 0.24 or older",
    )  # fmt: skip
    if any("/cuda_v12/" in library.path for library in ollama.backends):
        return found
    text = f"{found.reason}; that goes by the CUDA of Ollama's own builds, and this one is not laid out like them"
    doubt = view.perhaps(found, text, AbsenceReason.NOT_COLLECTED)
    return dataclasses.replace(doubt, advice=found.advice, weight=found.weight)


def _below(processor: str, border: str) -> bool:
    """Whether a target of NVIDIA's is older than another."""
    digits = processor.removeprefix("sm_")
    return digits.isdigit() and int(digits) < int(border.removeprefix("sm_"))
