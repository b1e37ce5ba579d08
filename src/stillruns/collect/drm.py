"""DRM nodes, and which card each belongs to."""

from __future__ import annotations

from stillruns.collect.gathering import Commands, gather
from stillruns.collect.tree import Tree
from stillruns.model.probe import Probe
from stillruns.model.raw import Collected

PROBE = Probe(
    id="drm",
    applies="Linux with a graphics driver",
    reads=("/sys/class/drm/card*/dev", "/sys/class/drm/renderD*/dev"),
    limit=64,
)


def collect(tree: Tree, commands: Commands) -> Collected:
    """What the probe declares."""
    return gather(tree, PROBE, commands)
