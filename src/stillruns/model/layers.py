"""Layers that were asked for against layers that were offloaded."""

from __future__ import annotations

from stillruns.model.applied import Answer


def compare(asked: int | str | None, got: int | None, total: int | None) -> tuple[Answer, str]:
    """Whether `got` of `total` layers are what was asked: a number (clipped to what the model has), `"all"`, `"auto"`
    (whatever the runtime chose), or None (not known). The second value says why, in a few words."""
    if asked is None:
        return Answer.UNKNOWN, "what it asked for is not in the log"
    if got is None:
        return Answer.UNKNOWN, f"asked {asked} layers; the log does not show how many were offloaded"
    shown = f"{got}/{total}" if total is not None else str(got)
    if asked == "auto":
        return Answer.YES, f"the number was left to the runtime, which offloaded {shown}"
    if asked == "all":
        if total is None:
            return Answer.UNKNOWN, f"asked all layers, {got} were offloaded, of how many is not shown"
        return (Answer.YES if got == total else Answer.NO), f"asked all layers, applied {shown}"
    wanted = int(asked) if total is None else min(int(asked), total)
    return (Answer.YES if got == wanted else Answer.NO), f"asked {asked}, applied {shown}"
