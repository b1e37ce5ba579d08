"""Other tools' views of the cards, where they are installed: what differs from sysfs is evidence."""

from __future__ import annotations

import re

from stillruns.lab.probing import LiveCommands
from stillruns.model.card import Card
from stillruns.model.machine import Machine, Tool


def ask(machine: Machine) -> tuple[Tool, ...]:
    """Disagreements only; an empty tuple where everything agrees or nothing is installed."""
    if not machine.live:
        return ()
    commands = LiveCommands()
    found: list[Tool] = []
    rocminfo = commands.run(("rocm_agent_enumerator",))
    if rocminfo.absence is None and rocminfo.status == 0:
        listed = sorted(
            line for line in rocminfo.text.split() if re.fullmatch(r"gfx[0-9a-f]+", line) and line != "gfx000"
        )
        ours = sorted(card.processor for card in machine.cards if card.kfd is not None)
        if listed != ours:
            says = {"targets": f"{', '.join(listed) or 'none'} where sysfs says {', '.join(ours) or 'none'}"}
            found.append(Tool("rocm_agent_enumerator", "the machine", says, rocminfo.cite("; ".join(listed))))
    lspci = commands.run(("lspci", "-Dn"))
    if lspci.absence is None and lspci.status == 0:
        ids = dict(re.findall(r"^(\S+) \w+: ([0-9a-f]{4}:[0-9a-f]{4})", lspci.text, re.MULTILINE))
        found += [
            Tool(
                "lspci",
                card.address,
                {"id": f"{ids[card.address]} where sysfs says {card.pci.pci_id}"},
                lspci.cite("-"),
            )
            for card in machine.cards
            if _differs(card, ids) and card.pci is not None
        ]
    return tuple(found)


def _differs(card: Card, ids: dict[str, str]) -> bool:
    return card.pci is not None and card.address in ids and ids[card.address] != card.pci.pci_id
