"""Writes the tables of docs/lab/h200.md anew from the evidence beside it, judged by this version.

    python scripts/lab_page.py            rewrite the page's tables
    python scripts/lab_page.py --check    exit 1 when they are not what the evidence gives

The evidence in docs/lab/h200: three stores (store.tar.xz: the F16 matrix and the hunt for the drift; drivers.tar.xz:
two runs with a Vulkan driver hidden and replaced; faults-store.tar.xz: two selftests), what `stillruns report --json`
said of the quantised matrices (report-q8_0.json.xz, report-q4_0.json.xz), what their records say of time and of the
card (quantised.trials.json.xz), the distributions of their checks (all-layers.json.xz), and what `stillruns selftest
--json` printed (faults.tar.xz); and 24 logs of two other builds (two-builds.tar.xz). scripts/lab_evidence.py packs
all that comes out of stores.
"""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "scripts")]

import lab_faults  # noqa: E402
import lab_speeds  # noqa: E402

from stillruns.judge.answers import divergence  # noqa: E402  (the program of this checkout, installed or not)
from stillruns.lab.runs import distributions, judging, reading  # noqa: E402
from stillruns.model.divergence import Path as Way  # noqa: E402
from stillruns.model.exchange import Answered, TokenProb  # noqa: E402
from stillruns.store.opening import open_store  # noqa: E402
from stillruns.store.view import decode_trial  # noqa: E402

PAGE = ROOT / "docs" / "lab" / "h200.md"
FOLDER = ROOT / "docs" / "lab" / "h200"
F16, DRIFT = "20261130T154551Z-32176caa", "20261130T155403Z-e276099b"
Q8_0, Q4_0 = "20261130T155517Z-61defecd", "20261130T160431Z-811dad39"
HIDDEN, BROKEN = "20261130T160235Z-9b92c626", "20261130T160245Z-6c427bd1"
FAULTS = {"cuda": "20261130T161156Z-f6ab22ae", "vulkan": "20261130T161156Z-d9164d3e"}
LAYERS = (0, 1, 2, 12, "all")
WAYS = {"prompt": Way.PROMPT, "decode": Way.DECODE}

Document = dict[str, Any]
Chains = dict[str, dict[str, list[list[Any]]]]
"""`llama cuda` -> way -> positions: [[token, log-probability], ...], best first."""


def main() -> None:
    """Rewrite the page, or compare with it."""
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="stillruns-lab-") as folder:
        made = page(text, tables(Path(folder)))
    if sys.argv[1:] == ["--check"]:
        sys.exit(made != text)
    PAGE.write_text(made, encoding="utf-8")


def page(text: str, made: dict[str, str]) -> str:
    """The page with each `<!-- generated: NAME -->` block replaced."""
    for name, body in made.items():
        head, _, rest = text.partition(f"<!-- generated: {name} -->\n")
        text = f"{head}<!-- generated: {name} -->\n{body}<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text


def tables(folder: Path) -> dict[str, str]:
    """Every table by its name; `folder` is for the unpacked stores."""
    store, drivers, injected = (unpacked(folder, name) for name in ("store", "drivers", "faults-store"))
    runs = {
        "F16": report(store, F16),
        "Q8_0": packed_json("report-q8_0.json.xz"),
        "Q4_0": packed_json("report-q4_0.json.xz"),
    }
    seen = packed_json("all-layers.json.xz")
    known = {"F16": lab_speeds.facts(store, F16), **packed_json("quantised.trials.json.xz")}
    between = {"F16": all_layers(store, F16), "Q8_0": seen[Q8_0], "Q4_0": seen[Q4_0]}
    return {
        **{f"matrix-{kind}": "".join(matrix(document)) for kind, document in runs.items()},
        **{f"claims-{kind}": "".join(claims(document)) for kind, document in runs.items()},
        **{f"distances-{way}": "".join(distances(way, runs, between)) for way in WAYS},
        "drift": "".join(drift(report(store, DRIFT), asked_again(store, DRIFT))),
        "drivers": "".join(told(report(drivers, HIDDEN), report(drivers, BROKEN))),
        "pace-said": "".join(said(runs, "pace")),
        "two-builds": "".join(two_builds(folder)),
        **injections(injected),
        **lab_speeds.tables(
            {kind: lab_speeds.paced(document, known[kind]) for kind, document in runs.items()},
            known,
            lab_speeds.prompt_times(store, F16),
        ),
        "repeats": repeats(store, F16, [runs["Q8_0"], runs["Q4_0"]]),
    }


def said(runs: Mapping[str, Document], kind: str) -> Iterator[str]:
    """What `report` says of whole runs."""
    for name, document in runs.items():
        for warning in document["warnings"]:
            if warning["kind"] == kind:
                yield f"- {name}: {warning['text']}.\n"


def two_builds(folder: Path) -> Iterator[str]:
    """What the hypotheses of the Q8_0 matrix come to on the logs of two builds: those that compare the backends, the
    same for each of the three models."""
    place, store = unpacked(folder, "two-builds"), folder / "imported"
    stillruns("import", str(place), store=store)
    document = stillruns("claims", "--hypotheses", str(FOLDER / "matrix-q8_0.toml"), store=store)
    told: dict[tuple[str, str, str], int] = {}
    for claim in document["claims"]:
        differs = [text for text in claim["differs_in"] if not text.startswith("backend: ")]
        if len(differs) < len(claim["differs_in"]):
            key = (claim["text"], claim["verdict"], ", ".join(sorted(text.partition(":")[0] for text in differs)))
            told[key] = told.get(key, 0) + 1
    yield "| hypothesis | verdict | beside the backend they differ in | models |\n|---|---|---|---|\n"
    for key, count in told.items():
        yield f"| {' | '.join(key)} | {count} of 3 |\n"


def injections(store: Path) -> dict[str, str]:
    """The tables about injected faults."""
    reports = {backend: report(store, run) for backend, run in FAULTS.items()}
    return {
        "faults": "".join(lab_faults.faults(lab_faults.printed(FOLDER / "faults.tar.xz"))),
        "components": "".join(lab_faults.components(reports)),
        "aftermath": lab_faults.aftermath(store, FAULTS, reports),
    }


def unpacked(folder: Path, name: str) -> Path:
    """One of the packed stores."""
    place = folder / name
    with tarfile.open(FOLDER / f"{name}.tar.xz") as packed:
        packed.extractall(place, filter="data") if hasattr(tarfile, "data_filter") else packed.extractall(place)
    return place


def packed_json(name: str) -> Document:
    """One of the packed documents."""
    found: Document = json.loads(lzma.decompress((FOLDER / name).read_bytes()))
    return found


def report(store: Path, run: str) -> Document:
    """One run of a store, as the program reports it."""
    return stillruns("report", run, store=store)


def stillruns(*argv: str, store: Path) -> Document:
    """What a verb says in JSON."""
    command = [sys.executable, "-m", "stillruns", *argv, "--json", "--store", str(store)]
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""})
    found: Document = json.loads(done.stdout)
    return found


def model_of(name: str) -> tuple[str, str]:
    """(`qwen35`, `F16`) of a synthetic model's name."""
    named = re.match(r"synth:(\w+)\?.*type=(\w+)", name)
    assert named is not None, name
    return named[1], named[2]


def matrix(document: Document) -> Iterator[str]:
    """Passed of applied, tokens per second (median, least and most of the trials) and output, a model and backend a
    row."""
    cells = [c for c in document["cells"] if c["note"] != "reference"]
    yield "| model | backend | " + " | ".join(f"{n} layer{'' if n == 1 else 's'}" for n in LAYERS) + " |\n"
    yield "|---|---|" + "---|" * len(LAYERS) + "\n"
    for model in dict.fromkeys(model_of(c["axes"]["model"]) for c in cells):
        for backend in ("cpu", "cuda", "vulkan"):
            mine = [c for c in cells if model_of(c["axes"]["model"]) == model and c["backend"] == backend]
            row = {c["gpu_layers"]: c for c in mine}
            row.setdefault(0, row.get("none", {}))
            yield f"| {' '.join(model)} | {backend} | " + " | ".join(shown(row.get(n)) for n in LAYERS) + " |\n"


def shown(cell: Document | None) -> str:
    """One cell's text."""
    if not cell:
        return ""
    speed = cell["tokens_per_second"]
    rate = f"{speed['median']:.0f} ({speed['low']:.0f} to {speed['high']:.0f})" if speed else "-"
    return f"{cell['passed']}/{cell['applied']}, {rate}, {cell['output']}"


def distances(way: str, runs: Mapping[str, Document], between: Mapping[str, Chains]) -> Iterator[str]:
    """The teacher-forced checks on one path: KL divergence from the CPU's distributions, in nats, and of Vulkan's
    from CUDA's."""
    yield "| model | CPU's second path | cuda 1 | cuda 12 | cuda all | vulkan 1 | vulkan 12 | vulkan all | vulkan "
    yield "against cuda, all |\n|---|---|---|---|---|---|---|---|---|\n"
    seen, floor = ("seen", "floor") if way == "prompt" else ("decode", "decode_floor")
    for kind, document in runs.items():
        for name in dict.fromkeys(model_of(check["model"])[0] for check in document["checks"]):
            found = {}
            for check in document["checks"]:
                if model_of(check["model"])[0] == name and not check["cell"].startswith("backend=cpu"):
                    backend, layers = re.findall(r"(?:backend|gpu_layers)=(\w+)", check["cell"])
                    found[backend, layers] = check
            row = [kl(found["cuda", "1"][floor])]
            row += [kl(found[b, n][seen]) for b in ("cuda", "vulkan") for n in ("1", "12", "all")]
            row.append(kl(apart(between[kind], name, way)))
            yield f"| {name} {kind} | {' | '.join(row)} |\n"


def kl(seen: Document | None) -> str:
    """Mean and largest."""
    return f"{seen['kl_mean']:.1e}, {seen['kl_max']:.1e}" if seen else "-"


def apart(chains: Chains, name: str, way: str) -> Document | None:
    """Vulkan's distributions against CUDA's, both with all layers on the card."""
    ours, theirs = (
        [TokenProb(top[0][0], top[0][1], tuple((t, p) for t, p in top)) for top in chains[f"{name} {backend}"][way]]
        for backend in ("vulkan", "cuda")
    )
    found = divergence.measure(ours, theirs, ())
    return {"kl_mean": found.kl_mean, "kl_max": found.kl_max} if found else None


def all_layers(store: Path, run: str) -> Chains:
    """What the checks with all layers on a device saw."""
    found: Chains = {}
    with open_store(store, create=False) as opened:
        start = judging.opening(opened, run)
        judged = judging.Judged(opened, run, start.plans, start.spec.backends, start.engines)
        for plan in start.plans:
            checked = judged.checked.get(distributions.PREFIX + plan.id)
            if plan.condition.gpu_layers == "all" and checked is not None:
                name = model_of(str(plan.condition.axes["model"]))[0]
                found[f"{name} {plan.condition.backend_id}"] = {
                    way: [[list(pair) for pair in prob.top] for chain in checked.of(path) for prob in chain.positions]
                    for way, path in WAYS.items()
                }
    return found


def asked_again(store: Path, run: str) -> dict[str, float]:
    """KL divergence, in nats, between two answers of one server to the same tokens, by side: to the first request of
    a check, and to the first of its decode path, whose tokens are the same and which comes after all of the prompt
    path's. Only where the check has as many positions on both paths is the first one kept."""
    found = {}
    with open_store(store, create=False) as opened:
        start = judging.opening(opened, run)
        judged = judging.Judged(opened, run, start.plans, start.spec.backends, start.engines)
        for plan in start.plans:
            checked = judged.checked.get(distributions.PREFIX + plan.id)
            if checked is not None:
                first, again = (checked.of(path)[0].positions[:1] for path in (Way.PROMPT, Way.DECODE))
                seen = divergence.measure(again, first, ())
                assert seen is not None
                found[plan.condition.backend_id] = seen.kl_mean
    return found


def drift(document: Document, again: Mapping[str, float]) -> Iterator[str]:
    """The checks of the hunt: what lay on the CPU, how far the rest computed, and whether one server gave the same
    tokens the same answer twice."""
    yield "| on the CPU | prompt path | one token at a time | verdict | the same 29 tokens, 1st and 17th request |\n"
    yield "|---|---|---|---|---|\n"
    kept = {
        "vulkan": "nothing",
        "but-block-0": "block 0",
        "but-block-3": "block 3",
        "but-attn-qkv-0": "`attn_qkv` of block 0",
        "but-ssm-0": "the `ssm` weights of block 0",
        "but-ffn-0": "the feed-forward of block 0",
    }
    for check in document["checks"]:
        side = check["cell"].partition("backend=")[2].partition(",")[0]
        twice = f"{again[side]:.1e}" if again[side] else "the same"
        yield f"| {kept[side]} | {kl(check['seen'])} | {kl(check['decode'])} | {check['verdict']} | {twice} |\n"


def claims(document: Document) -> Iterator[str]:
    """Each hypothesis and its verdict."""
    yield "| hypothesis | verdict |\n|---|---|\n"
    for claim in document["claims"]:
        yield f"| {claim['text']} | {claim['verdict']} |\n"


def told(*documents: Document) -> Iterator[str]:
    """The runs in which the Vulkan driver was hidden or replaced."""
    yield "| side | applied | passed | outcomes | what was said |\n|---|---|---|---|---|\n"
    for document in documents:
        for cell in document["cells"]:
            ended = ", ".join(f"{n} {kind}" for kind, n in cell["outcomes"].items()) or "-"
            note = cell["note"] or "-"
            trials = f"{cell['applied']}/{cell['trials']}"
            yield f"| {cell['backend']} | {trials} | {cell['passed']} | {ended} | {note} |\n"


def repeats(store: Path, run: str, others: Sequence[Document]) -> str:
    """In how many cells all trials gave the same tokens and the same log-probabilities to the last printed digit; of
    runs whose answers are not here, the same distance from the CPU's."""
    with open_store(store, create=False) as opened:
        start = judging.opening(opened, run)
        answers: dict[str, set[str]] = {plan.id: set() for plan in start.plans if not plan.is_reference}
        for record in opened.records(run=run, kind="trial_ended"):
            trial = decode_trial(record.body["record"])
            if trial.cell in answers:
                told = reading.read(opened, trial).answered
                answers[trial.cell].add(repr(told.probs) if isinstance(told, Answered) else trial.trial)
    distances: dict[str, set[str]] = {}
    for document in others:
        for trial in document["trials"]:
            if not trial["cell"].startswith("reference"):
                distances.setdefault(trial["cell"], set()).add(trial["output_why"])
    quantised = f"in {alike(distances)} of {len(distances)} quantised ones they are equally far from the CPU."
    return (
        f"In {alike(answers)} of {len(answers)} F16 cells all ten trials gave the same log-probabilities to the last "
        f"printed digit; {quantised}\n"
    )


def alike(seen: Mapping[str, set[str]]) -> int:
    """Cells of which only one thing was seen."""
    return sum(len(different) == 1 for different in seen.values())


if __name__ == "__main__":
    main()
