"""What became of the faults injected on the card: tables for scripts/lab_page.py out of docs/lab/h200.

faults.tar.xz holds what `stillruns selftest --json` printed, and of what was cut off the lines that told so;
faults-store.tar.xz the trials of the two whole selftests, without core files and memory maps, judged anew here.
"""

from __future__ import annotations

import itertools
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stillruns.model.phase import Phase
from stillruns.store.opening import open_store

Document = dict[str, Any]
Rows = dict[tuple[str, str], dict[str, str]]
"""(kind, backend) -> phase -> what was judged."""
CUT = "cut off"
PHASES = [phase.value for phase in Phase if phase.value not in ("discover", "unknown")]


def printed(archive: Path) -> dict[str, bytes]:
    """What was printed, by name."""
    with tarfile.open(archive) as packed:
        found = {member.name: packed.extractfile(member) for member in packed.getmembers()}
        return {name: stream.read() for name, stream in sorted(found.items()) if stream}


def faults(files: dict[str, bytes]) -> Iterator[str]:
    """What was judged of each injected fault; bold where that was wrong, `cut off` where it was asked and did not
    come to its end, empty where the combination makes no sense."""
    judged: Rows = {}
    for name, text in files.items():
        for result in json.loads(text)["results"] if name.endswith(".json") else ():
            said = result["judged"] if result["right"] else f"**{result['judged']}**"
            by_phase = judged.setdefault((result["kind"], result["backend"]), {})
            by_phase[result["phase"]] = said.removesuffix(f" in {result['phase']}")
    for name in files:
        asked = re.fullmatch(r"faults-(\w+?)-(hang|flood)(?:-(\w+))?\.err", name)
        for phase in ([asked[3]] if asked[3] else PHASES) if asked else ():
            judged.setdefault((asked[2], asked[1]), {}).setdefault(phase, CUT)  # type: ignore[index]
    yield "| kind | backend | " + " | ".join(PHASES) + " |\n|---|---|" + "---|" * len(PHASES) + "\n"
    for (kind, backend), row in sorted(judged.items(), key=lambda item: (item[0][1], kinds(judged, item[0][0]))):
        yield f"| `{kind}` | {backend} | " + " | ".join(row.get(phase, "") for phase in PHASES) + " |\n"


def kinds(judged: Rows, kind: str) -> int:
    """The place of a kind among all, those of the whole selftests first."""
    whole = [k for (k, _), row in judged.items() if CUT not in row.values()]
    return whole.index(kind) if kind in whole else len(whole) + (kind == "flood")


def components(reports: dict[str, Document]) -> Iterator[str]:
    """Which parts a trial with that fault was laid to, a kind a row: `unknown` where nothing points anywhere, which
    is right of a fault that lies in the injecting library."""
    blamed: dict[str, dict[str, dict[str, None]]] = {}
    for backend, document in reports.items():
        for trial in document["trials"]:
            kind = trial["cell"].partition(":")[2]
            if ":" in trial["cell"] and trial["outcome"] != "ok":
                said = ", ".join(trial["components"])
                blamed.setdefault(said, {}).setdefault(kind, {})[backend] = None
    yield "| laid to | kinds |\n|---|---|\n"
    for said, of in sorted(blamed.items(), key=lambda item: (-len(item[1]), item[0])):
        shown = (
            f"`{kind}`{'' if len(sides) == len(reports) else ' on ' + ' '.join(sides)}" for kind, sides in of.items()
        )
        yield f"| {said} | {', '.join(sorted(shown))} |\n"


def aftermath(store: Path, runs: dict[str, str], reports: dict[str, Document]) -> str:
    """What a fault left behind, and how the trials after it fared."""
    ended, killed, forks = 0, 0, 0
    with open_store(store, create=False) as opened:
        for run in runs.values():
            for record in opened.records(run=run, kind="trial_ended"):
                trial: Any = record.body["record"]
                left = trial["end"]["orphans_killed"]
                ended, killed, forks = (
                    ended + 1,
                    killed + left,
                    forks + (left > 0 and trial["cell"].endswith(":fork")),
                )
    trials = [trial for document in reports.values() for trial in ordered(document)]
    after = [b for a, b in itertools.pairwise(trials) if fault(a) and a["run"] == b["run"]]
    passed = sum(trial["passed"] for trial in after)
    computed = sum(trial["phase"] in ("prompt", "decode", "teardown") for trial in after)
    return (
        f"All {ended} processes of these two runs came to an end; {killed} orphans were found and killed, two after "
        f"each of the {forks} `fork`s and none elsewhere. Of the {len(after)} trials that came straight after a "
        f"fault on their backend, {computed} came as far as the prompt or further on the card, {passed} of them "
        f"(with `fork`, or without a fault) to a right answer; the others were made to die before.\n"
    )


def ordered(document: Document) -> list[Document]:
    """A run's trials in the order in which they were made, each with its run."""
    return [{**trial, "run": document["run"]} for trial in sorted(document["trials"], key=lambda t: t["order"])]


def fault(trial: Document) -> bool:
    """Whether something was injected that ended it or spoiled its answer."""
    return ":" in trial["cell"] and not trial["passed"]
