"""How fast the trials of docs/lab/h200 were, and what moved their speed: tables for scripts/lab_page.py.

Every round asks each cell once, in an order drawn at random: two cells of one round were made within 40 seconds of
each other, so what the host did meanwhile struck both. Ratios are therefore taken round by round. Of ten values the
interval is from the second smallest to the second largest, which holds the median in 97.9 % of all cases.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from stillruns.store.opening import open_store

Document = dict[str, Any]
Cell = tuple[str, str, str, str]
"""Model, type of its weights, backend, layers: (`qwen35`, `F16`, `cuda`, `all`)."""
SIDES = (("cpu", "none"), ("cuda", "all"), ("vulkan", "all"))
STUDENT_8 = 2.306
"""Of 8 degrees of freedom, two-sided 95 %: ten rounds and two parameters."""
CARD = {
    "temperature_c": "temperature, °C",
    "sm_mhz": "clock, MHz",
    "memory_mhz": "memory clock, MHz",
    "memory_used_mib": "memory in use, MiB",
    "power_w": "power, W",
}


@dataclass(frozen=True, slots=True)
class Paced:
    """One applied trial: its round, start (s), tokens per second, and of the client's clock the seconds until the
    server was ready, to the first token and to the last; processor seconds, load, and the card's temperature (°C)."""

    cell: Cell
    round: int
    started: float
    speed: float
    ready: float
    first: float
    answer: float
    processor: float
    load: float
    heat: float


def facts(store: Path, run: str) -> Document:
    """What the records of a run's trials say of time and of the card, by trial."""
    found = {}
    with open_store(store, create=False) as opened:
        for record in opened.records(run=run, kind="trial_ended"):
            trial: Any = record.body["record"]
            samples = [
                {name: sample["devices"][0][name] for name in CARD}
                for evidence in trial["evidence"]
                if evidence["kind"] == "samples"
                for sample in map(json.loads, opened.read_blob(evidence["sha256"]).splitlines())
            ]
            found[trial["trial"]] = {
                "cell": trial["cell"].partition(":")[0] if ":" in trial["cell"].partition("=")[0] else "",
                "ready": trial["sighting"]["ready_at"],
                "exchange": {k: (trial["exchange"] or {}).get(k) for k in ("sent_at", "first_token_at", "ended_at")},
                "processor": trial["end"]["cpu_seconds"],
                "load": trial["load_average"],
                "samples": samples,
            }
    return found


def paced(document: Document, known: Document) -> list[Paced]:
    """The trials of the matrix, without its references, warming trials and checks."""
    found = []
    for trial in document["trials"]:
        cell = re.match(r"backend=(\w+),gpu_layers=(\w+),model=synth:(\w+)\?.*?type=(\w+)", trial["cell"])
        if cell is not None:
            seen = known[trial["trial"]]
            sent = seen["exchange"]["sent_at"]
            found.append(
                Paced(
                    (cell[3], cell[4], cell[1], cell[2]),
                    trial["index"],
                    trial["started"],
                    trial["tokens_per_second"],
                    seen["ready"],
                    seen["exchange"]["first_token_at"] - sent,
                    seen["exchange"]["ended_at"] - sent,
                    seen["processor"],
                    seen["load"],
                    seen["samples"][0]["temperature_c"],
                )
            )
    return found


def tables(trials: Mapping[str, Sequence[Paced]], known: Mapping[str, Document], prompts: Document) -> dict[str, str]:
    """Every table by its name, of the runs by the type of their weights."""
    return {
        "ratios": "".join(ratios(trials)),
        "partial": "".join(partial(trials)),
        "answers": "".join(answers(trials)),
        "first-prompt": "".join(first_prompt(prompts)),
        "pace": "".join(pace(trials)),
        "spread": "".join(spread(trials)),
        "heat": "".join(heat(trials)),
        "card": "".join(card(known)),
    }


def by_round(trials: Sequence[Paced]) -> dict[Cell, dict[int, Paced]]:
    """Of each cell its trials by round."""
    found: dict[Cell, dict[int, Paced]] = {}
    for trial in trials:
        found.setdefault(trial.cell, {})[trial.round] = trial
    return found


def middle(values: Sequence[float], digits: int) -> str:
    """Median, and from the second smallest to the second largest."""
    ordered = sorted(values)
    low, high = ordered[1], ordered[-2]
    return f"{median(ordered):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def models(cells: Mapping[Cell, object]) -> Iterator[tuple[str, str]]:
    """(`qwen35`, `F16`) of each model of a run."""
    yield from sorted({cell[:2] for cell in cells})


def ratios(trials: Mapping[str, Sequence[Paced]]) -> Iterator[str]:
    """Tokens per second of one side over another's in the same round, all layers on the card."""
    yield "| model | CUDA to Vulkan | rounds in which CUDA was faster | CUDA to CPU | Vulkan to CPU |\n"
    yield "|---|---|---|---|---|\n"
    for run in trials.values():
        cells = by_round(run)
        for model in models(cells):
            cpu, cuda, vulkan = ([t.speed for _, t in sorted(cells[model + side].items())] for side in SIDES)
            faster = sum(a > b for a, b in zip(cuda, vulkan, strict=True))
            row = [middle(over(cuda, vulkan), 2), f"{faster} of {len(cuda)}"]
            row += [middle(over(side, cpu), 2) for side in (cuda, vulkan)]
            yield f"| {' '.join(model)} | {' | '.join(row)} |\n"


def partial(trials: Mapping[str, Sequence[Paced]]) -> Iterator[str]:
    """Tokens per second over the CPU's in the same round, with a part of the layers on the card."""
    layers = ("0", "1", "2", "12")
    yield "| model | " + " | ".join(f"{side} {n}" for side in ("CUDA", "Vulkan") for n in layers) + " |\n"
    yield "|---|" + "---|" * 2 * len(layers) + "\n"
    for run in trials.values():
        cells = by_round(run)
        for model in models(cells):
            mine = {cell[2:]: sorted(of.items()) for cell, of in cells.items() if cell[:2] == model}
            speeds = {cell: [trial.speed for _, trial in of] for cell, of in mine.items()}
            row = [middle(over(speeds[b, n], speeds[SIDES[0]]), 2) for b in ("cuda", "vulkan") for n in layers]
            yield f"| {' '.join(model)} | {' | '.join(row)} |\n"


def over(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours over theirs, round by round."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def answers(trials: Mapping[str, Sequence[Paced]]) -> Iterator[str]:
    """Milliseconds in a fresh process, as the client measured them."""
    yield "| model | first token: CPU | CUDA | Vulkan | 32 tokens: CPU | CUDA | Vulkan | Vulkan's before CUDA's |\n"
    yield "|---|---|---|---|---|---|---|---|\n"
    for run in trials.values():
        cells = by_round(run)
        for model in models(cells):
            sides = [[t for _, t in sorted(cells[model + side].items())] for side in SIDES]
            row = [middle([1000 * t.first for t in side], 0) for side in sides]
            row += [middle([1000 * t.answer for t in side], 0) for side in sides]
            sooner = sum(b.answer < a.answer for a, b in zip(sides[1], sides[2], strict=True))
            yield f"| {' '.join(model)} | {' | '.join(row)} | {sooner} of {len(sides[1])} |\n"


def prompt_times(store: Path, run: str) -> Document:
    """Milliseconds that the server of a check with all layers took for each prompt, by model and backend: of its
    first half of requests, which it evaluates whole."""
    found: Document = {}
    with open_store(store, create=False) as opened:
        for record in opened.records(run=run, kind="trial_ended"):
            trial: Any = record.body["record"]
            cell = re.match(
                r"check:backend=(\w+),gpu_layers=(?:all|none),model=synth:(\w+)\?.*?type=(\w+)", trial["cell"]
            )
            if cell is not None:
                log = next(e["sha256"] for e in trial["evidence"] if e["kind"] == "stderr")
                times = re.findall(rb"prompt eval time =\s+([\d.]+) ms", opened.read_blob(log))
                found.setdefault(f"{cell[2]} {cell[3]}", {})[cell[1]] = [float(t) for t in times[: len(times) // 2]]
    return found


def first_prompt(prompts: Document) -> Iterator[str]:
    """The first prompt of a process beside the others."""
    yield "| model | CPU: first | others | CUDA: first | others | Vulkan: first | others |\n"
    yield "|---|---|---|---|---|---|---|\n"
    for model, sides in prompts.items():
        row = []
        for side in ("cpu", "cuda", "vulkan"):
            first, *others = sides[side]
            row += [f"{first:.0f}", f"{median(others):.1f} ({min(others):.1f} to {max(others):.1f})"]
        yield f"| {model} | {' | '.join(row)} |\n"


def pace(trials: Mapping[str, Sequence[Paced]]) -> Iterator[str]:
    """Per cent a minute by which what was measured changed while a run went on: the slope over its ten rounds."""
    picks: dict[str, tuple[Callable[[Paced], bool], Callable[[Paced], float]]] = {
        "speed, all cells": (lambda t: True, lambda t: t.speed),
        "CPU alone": (lambda t: t.cell[2] == "cpu", lambda t: t.speed),
        "CUDA, all layers": (lambda t: t.cell[2:] == ("cuda", "all"), lambda t: t.speed),
        "Vulkan, all layers": (lambda t: t.cell[2:] == ("vulkan", "all"), lambda t: t.speed),
        "until ready": (lambda t: True, lambda t: t.ready),
        "processor time of a trial": (lambda t: True, lambda t: t.processor),
    }
    yield "| | " + " | ".join(picks) + " |\n|---|" + "---|" * len(picks) + "\n"
    for kind, run in trials.items():
        row = [per_cent(*slope([t for t in run if wanted(t)], value)) for wanted, value in picks.values()]
        yield f"| {kind} | {' | '.join(row)} |\n"


def per_cent(*logs: float) -> str:
    """A slope of logarithms and its interval."""
    middle, low, high = (100 * math.expm1(log) for log in logs)
    return f"{middle:+.1f} ({low:+.1f} to {high:+.1f})"


def slope(run: Sequence[Paced], value: Callable[[Paced], float]) -> tuple[float, float, float]:
    """Of the logarithm over minutes, with its 95 % interval: a straight line through the means of the rounds, each
    cell beside its own mean. Rounds are the units, since what happens to a host lasts for more than one trial."""
    own = {cell: fmean(math.log(value(t)) for t in of.values()) for cell, of in by_round(run).items()}
    rounds: dict[int, list[Paced]] = {}
    for trial in run:
        rounds.setdefault(trial.round, []).append(trial)
    x = [fmean(t.started for t in of) / 60 for of in rounds.values()]
    y = [fmean(math.log(value(t)) - own[t.cell] for t in of) for of in rounds.values()]
    assert len(x) == 10, "STUDENT_8 is for ten rounds"
    steep, error = line(x, y, len(x) - 2)
    return steep, steep - STUDENT_8 * error, steep + STUDENT_8 * error


def line(x: Sequence[float], y: Sequence[float], freedom: int) -> tuple[float, float]:
    """Slope of y over x and its standard error."""
    mean_x, mean_y = fmean(x), fmean(y)
    spread_x = math.fsum((a - mean_x) ** 2 for a in x)
    steep = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread_x
    left = math.fsum((b - mean_y - steep * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
    return steep, math.sqrt(left / freedom / spread_x)


def apart(run: Sequence[Paced], value: Callable[[Paced], float]) -> tuple[list[float], list[float], list[float]]:
    """What a value is made of: the cells' means, the rounds' beside them, and what is left of each trial."""
    cells = by_round(run)
    own = {cell: fmean(value(t) for t in of.values()) for cell, of in cells.items()}
    rounds = sorted({t.round for t in run})
    beside = {i: fmean(value(cells[cell][i]) - own[cell] for cell in cells) for i in rounds}
    left = [value(t) - own[t.cell] - beside[t.round] for t in run]
    return list(own.values()), list(beside.values()), left


def spread(trials: Mapping[str, Sequence[Paced]]) -> Iterator[str]:
    """Standard deviations of the logarithm of the speed, as per cent, and what share of the variance lies between
    the cells; then of single sides."""
    yield "| | between cells | between rounds | between trials | share of the cells | CPU | CUDA | Vulkan |\n"
    yield "|---|---|---|---|---|---|---|---|\n"
    for kind, run in trials.items():
        cells, rounds, left = apart(run, lambda t: math.log(t.speed))
        n, m = len(cells), len(rounds)
        rest = squares(left) / ((n - 1) * (m - 1))
        between = max(0.0, squares(rounds) / (m - 1) - rest / n)
        of_cells = max(0.0, squares([c - fmean(cells) for c in cells]) / (n - 1) - rest / m)
        row = [f"{100 * math.sqrt(part):.1f}" for part in (of_cells, between, rest)]
        row.append(f"{100 * of_cells / (of_cells + between + rest):.0f} %")
        row += [f"{100 * alone(run, side):.1f}" for side in SIDES]
        yield f"| {kind} | {' | '.join(row)} |\n"


def alone(run: Sequence[Paced], side: tuple[str, str]) -> float:
    """Standard deviation of one side's trials about their cell's mean."""
    cells = by_round([t for t in run if t.cell[2:] == side])
    logs = [[math.log(t.speed) for t in of.values()] for of in cells.values()]
    left = [value - fmean(of) for of in logs for value in of]
    return math.sqrt(squares(left) / (len(left) - len(logs)))


def squares(values: Sequence[float]) -> float:
    """Their sum."""
    return math.fsum(value * value for value in values)


def heat(trials: Mapping[str, Sequence[Paced]]) -> Iterator[str]:
    """Per cent of speed for a degree and for one more in the load average, within a round."""
    yield "| | all cells, for 1 °C | for 1 of load | all layers on the card, for 1 °C | for 1 of load |\n"
    yield "|---|---|---|---|---|\n"
    for kind, run in trials.items():
        on_card = [t for t in run if t.cell[3] == "all"]
        row = [within(part, value) for part in (run, on_card) for value in (lambda t: t.heat, lambda t: t.load)]
        yield f"| {kind} | {' | '.join(row)} |\n"


def within(run: Sequence[Paced], value: Callable[[Paced], float]) -> str:
    """The slope of the logarithm of the speed over a value, both without the means of cells and rounds."""
    cells, rounds, speeds = apart(run, lambda t: math.log(t.speed))
    *_, values = apart(run, value)
    steep, error = line(values, speeds, len(run) - len(cells) - len(rounds))
    return per_cent(steep, steep - 1.97 * error, steep + 1.97 * error)


def card(known: Mapping[str, Document]) -> Iterator[str]:
    """Least and most of what the card said of itself, a run a column: at the start of each trial, once a second and
    at its end, without the warming trials."""
    yield "| | " + " | ".join(known) + " |\n|---|" + "---|" * len(known) + "\n"
    samples = {
        name: [s for trial in run.values() if trial["cell"] != "warming" for s in trial["samples"]]
        for name, run in known.items()
    }
    for name, word in CARD.items():
        row = []
        for of in samples.values():
            low, high = (pick(sample[name] for sample in of) for pick in (min, max))
            row.append(f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}")
        yield f"| {word} | {' | '.join(row)} |\n"
    yield "| samples | " + " | ".join(f"{len(of):,}" for of in samples.values()) + " |\n"
    loads = [[trial["load"] for trial in run.values()] for run in known.values()]
    yield "| load average of the host | " + " | ".join(f"{min(of):.1f} to {max(of):.1f}" for of in loads) + " |\n"
