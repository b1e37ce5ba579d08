"""DRM nodes to the cards that they belong to."""

from __future__ import annotations

import re

from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.card import DrmNode
from stillruns.model.raw import Collected

_ADDRESS = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/drm/")


def parse(raw: Collected) -> tuple[DrmNode, ...] | Absence:
    """Every `cardN` and `renderDN` with its PCI address (empty for one that is on no bus)."""
    found = []
    for file in raw.files:
        name = file.path.split("/")[-2] if file.path.count("/") >= 2 else ""
        if re.fullmatch(r"(?:card|renderD)\d{1,6}", name):
            address = _ADDRESS.search(file.real)
            found.append(DrmNode(name, address[1] if address else ""))
    if not found:
        return Absence(AbsenceReason.NOT_INSTALLED, "there are no DRM nodes: no graphics driver holds a card")
    return tuple(found)
