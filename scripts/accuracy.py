"""`make accuracy`: how often `stillruns autopsy` reads logs right, field by field.

Two sets: the golden logs of tests/golden/autopsy (written with the patterns: no measure of quality), and, when they
are there, ../shared/data/incidents (labelled by people who had not seen the patterns) and ../shared/data/h200. For
each field: right, unknown, wrong; labels whose answer is not in the log at all (unlogged); fields that the label
leaves open (beyond). A label may disagree with what the program can honestly say: such cases stand in DISPUTED with
the reason, are counted apart, and printed.

Every table counts both ways. `of logged`: right among the labels whose answer stands in the log, a disputed one not
being right. `of all`: right among all labels; what the log does not carry counts against the program, and a disputed
label as wrong (`wrong too`). Exit status 1 when anything is wrong, when an entry of ELSEWHERE or DISPUTED is not
needed, or when a label that is said not to be in the log has its very word there and nobody says why that is no
answer.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stillruns.judge.incidents import fields as incident_fields
from stillruns.lab import autopsy
from stillruns.model.autopsy import Autopsy
from stillruns.model.server_log import Runner, ServerLog
from stillruns.report import autopsy_json

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("STILLRUNS_SHARED", ROOT.parent / "shared")) / "data"
FIELDS = ("outcome", "phase", "backend", "component", "target", "requested", "applied")
GOALS = {"outcome": 0.95, "backend": 0.95, "requested": 0.90, "applied": 0.90, "phase": 0.80, "component": 0.80}

COLUMNS = ("right", "unknown", "wrong", "disputed", "unlogged", "beyond")

WORDS: tuple[tuple[str, str], ...] = (
    ("ggml backend", "ggml backend"),
    ("radv|amdvlk|vulkan driver", "Vulkan driver"),
    ("kernel driver|job time-out|kernel time-out", "kernel driver"),
    ("user configuration", "configuration"),
    ("files not shipped|files not in the image", "configuration"),
    ("rocblas|tensile", "rocBLAS"),
    ("ollama", "Ollama"),
    ("vllm", "vLLM"),
    ("level zero", "SYCL driver"),
    ("platform", "hardware"),
)
"""Words in the labels' free text -> components."""

PLAIN = ("outcome", "phase", "backend", "target")

DISPUTED: dict[tuple[str, str], str] = {
    (
        "018",
        "phase",
    ): "the label's stages know no reserve: the KV cache is allocated after the load, with the context",
    ("041", "phase"): "the label's warm-up includes it, but graph_reserve itself says that it reserves",
    ("069", "outcome"): "ggml's CUDA error handler always aborts; 064 and 094 with the same lines are labelled abort",
    ("073", "component"): "no line of Ollama stands in the excerpt; the label is from the thread",
    ("104", "backend"): "what ran is the CPU, as the log says; the label names what should have run",
}
"""(case, field) -> why the label is not what the program should say."""

ELSEWHERE: dict[str, tuple[str, tuple[str, ...]]] = {
    "003": ("the frame with the batch is cut out of the excerpt", ("phase",)),
    "004": ("no card is named; the unit's name is no evidence", ("target",)),
    "024": ("no device, buffer or library line", ("backend", "target")),
    "026": ("no device line, no frame", ("backend", "component", "target")),
    "031": ("two lines: a layer count and an exit code", ("backend", "component", "target", "requested")),
    "034": ("no device line", ("target",)),
    "036": ("no device line, no command line", ("target", "requested")),
    "037": ("no device line", ("target",)),
    "049": ("the log ends; that the machine hung is the reporter's word", ("outcome", "component", "requested")),
    "050": ("no card is named", ("target",)),
    "064": ("two lines; in 2024 ROCm builds said CUDA error too", ("phase", "backend", "target", "requested")),
    "069": ("no card is named", ("target",)),
    "073": ("no line after the KV cache", ("phase",)),
    "076": ("no device line; the variable is the reporter's word", ("backend", "component", "target")),
    "077": ("nonsense that no rule can tell from text", ("outcome", "phase", "component", "requested")),
    "078": ("no device line", ("target",)),
    "082": (
        "no line shows what ran; the card that is listed was not used, says the label",
        ("outcome", "phase", "backend"),
    ),
    "088": ("two lines of a load", ("outcome", "backend", "target", "requested")),
    "092": ("no device or library line", ("backend",)),
    "094": ("no device line, no command line", ("target", "requested")),
    "098": ("two lines; the file is built for CUDA and HIP", ("phase", "backend", "target", "requested")),
    "100": ("three lines; the file was built for CUDA and HIP", ("backend", "target", "requested")),
    "104": ("the log ends in the load", ("outcome", "component")),
    "108": ("PyTorch's watchdog says CUDA on ROCm too", ("backend",)),
    "110": ("no line before the error", ("phase",)),
    "115": (
        "two abridged lines of documentation; what ran then is not shown",
        ("outcome", "backend", "component"),
    ),
}
"""Labels whose answer stands in the issue's prose and not in the log, each looked at by hand: case -> (why, fields).
Unknown is the right answer there; they are counted in a column of their own."""

NO_ANSWER: dict[tuple[str, str], str] = {
    ("082", "backend"): "a card that is listed; the label itself says that the CPU did the work",
    ("100", "backend"): "ggml-cuda.cu and its functions are compiled for HIP too",
}
"""(case, field) of ELSEWHERE whose very word stands in the log -> why that is no answer all the same."""


@dataclass
class Tally:
    """Counts of one set."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in FIELDS})
    lines: list[str] = field(default_factory=list)
    used: set[tuple[str, str]] = field(default_factory=set)
    """Entries of ELSEWHERE and DISPUTED that were needed."""

    def add(self, case: str, name: str, expected: Any, got: Any) -> None:
        """One field of one case; an expectation of None is not judged."""
        if expected is None:
            if got not in (None, "unknown"):
                self.counts[name]["beyond"] += 1
                self.lines.append(f"  beyond   {case} {name}: label says unknown, program says {got}")
            return
        wanted = expected if isinstance(expected, list) else [expected]
        wanted = [*wanted, "auto"] if -1 in wanted else wanted
        values = got if isinstance(got, list) else [got]
        if expected == "unknown" and got in (None, "unknown"):
            verdict = "right"  # a golden log that promises no answer
        elif got in (None, "unknown") or values == ["unknown"] or not values:
            verdict = "unlogged" if name in ELSEWHERE.get(case, ("", ()))[1] else "unknown"
        elif any(value in wanted for value in values):
            verdict = "right"
        else:
            verdict = "disputed" if (case, name) in DISPUTED else "wrong"
        self.counts[name][verdict] += 1
        if verdict in ("unlogged", "disputed"):
            self.used.add((case, name))
        if verdict != "right":
            why = f" ({DISPUTED[case, name]})" if verdict == "disputed" else ""
            why = f" ({ELSEWHERE[case][0]})" if verdict == "unlogged" else why
            self.lines.append(f"  {verdict:<8} {case} {name}: label {expected}, program {got}{why}")


def summary(found: Autopsy) -> dict[str, Any]:
    """The one answer that a label wants: the first incident, else what the last request or runner shows."""
    document = autopsy_json.document(found)
    incidents = document["incidents"]
    if incidents:
        first = incidents[0]
        reasons = first["unknown"]
        return {
            "outcome": first["outcome"],
            "phase": first["phase"],
            "backend": first["backend"],
            "component": first["component"],
            "target": first["target"],
            "requested": first["requested_layers"],
            "applied": applied(first["applied_layers"], first["total_layers"]),
            "why": reasons,
        }
    last = [s for s in found.servers if s.runners] or list(found.servers)
    for server in last[-1:]:
        runner = server.runners[-1] if server.runners else None
        answered = [r for r in server.requests if (r.status == 200 or r.tokens)]
        ended = bool(server.clean_end or answered)
        on = [b.value for b in runner.backends] or [runner.backend.value] if runner else ["unknown"]
        device = used_targets(server, runner)
        return {
            "outcome": "ok" if ended else "unknown",
            "phase": "unknown",
            "backend": on,
            "component": None,
            "target": device,
            "requested": runner.requested_layers if runner else None,
            "applied": applied(runner.applied_layers, runner.total_layers) if runner else None,
            "why": {} if ended else {"outcome": "nothing in the log shows an end, good or bad"},
        }
    return dict.fromkeys(FIELDS, "unknown") | {"why": {"all": "no server in this log"}}


def used_targets(server: ServerLog, runner: Runner | None) -> list[str] | str | None:
    """The target of the device that was used, as the judge would name it; of several backends, each one's."""
    cards = autopsy.knowledge().cards
    if runner is not None and len(runner.backends) > 1:
        devices = [d for d in server.devices if d.backend in runner.backends]
        return sorted({t for d in devices if (t := incident_fields.target(d, server, cards)[0])})
    device = incident_fields.device(server, runner, runner.backend, None) if runner else None
    return incident_fields.target(device, server, cards)[0]


def applied(got: int | None, total: int | None) -> str | None:
    """`12/25`, or None."""
    return None if got is None else f"{got}/{total}" if total is not None else str(got)


def expectation(case: dict[str, Any]) -> dict[str, Any]:
    """A label's free text as values; None where the label itself is unknown."""
    expect = case["expect"]
    note = str(expect.get("component_note") or "").lower()
    parts = list(dict.fromkeys(name for words, name in WORDS if re.search(words, note)))
    if expect["outcome"] == "ok" and note == "none":
        parts = []
    asked = re.match(r"-?\d+|all", str(expect.get("requested_layers")))
    layers = re.match(r"\d+/\d+", str(expect.get("applied_layers")))
    plain = {
        name: None if expect[name] == "unknown" else expect[name]
        for name in ("outcome", "phase", "backend", "target")
    }
    wanted: Any = None
    if asked:
        wanted = int(asked[0]) if asked[0] != "all" else ["all", -1]
    return {**plain, "component": parts or None, "requested": wanted, "applied": layers[0] if layers else None}


def read(path: Path) -> Autopsy:
    """One log."""
    return autopsy.perform((str(path),), io.BytesIO())


def incidents() -> Tally | None:
    """The labelled logs, when they are there."""
    folder = SHARED / "incidents"
    if not folder.is_dir():
        return None
    tally = Tally()
    for label in sorted(folder.glob("*.json")):
        case = json.loads(label.read_text())
        wanted, got = expectation(case), summary(read(label.with_suffix(".log")))
        for name in FIELDS:
            tally.add(case["id"], name, wanted[name], got[name])
        tally.lines += said_all_the_same(case["id"], label.with_suffix(".log"), wanted)
        if got["why"]:
            tally.lines += [f"           {case['id']} says: {k}: {v}" for k, v in got["why"].items() if wanted.get(k)]
    return tally


def said_all_the_same(case: str, path: Path, wanted: dict[str, Any]) -> list[str]:
    """Labels of ELSEWHERE whose very word stands in the log: a reader must say why that is no answer."""
    text = path.read_text(errors="replace").lower()
    found = []
    for name in ("backend", "target"):
        words = wanted[name] if isinstance(wanted[name], list) else [wanted[name]]
        if name not in ELSEWHERE.get(case, ("", ()))[1] or not any(w and w in text for w in words):
            continue
        why = NO_ANSWER.get((case, name), "")
        found.append(
            f"  {'in log' if why else 'LOOK':<8} {case} {name}: {wanted[name]} stands in the log"
            + f" ({why})" * bool(why)
        )
    return found


def h200() -> Tally | None:
    """Real llama-server logs whose condition is in the file name."""
    folder = SHARED / "h200"
    if not folder.is_dir():
        return None
    tally = Tally()
    for path in sorted(folder.glob("*.log")):
        found = re.match(r"\w+-(?P<backend>cuda|vulkan)-ngl(?P<ngl>\d+)", path.name)
        if not found:
            continue
        got = summary(read(path))
        offload = int(found["ngl"]) > 0
        tally.add(path.stem, "outcome", "ok", got["outcome"])
        tally.add(path.stem, "backend", found["backend"] if offload else "cpu", got["backend"])
        layers = str(got["applied"] or "").split("/")[0]
        if 0 < int(found["ngl"]) < 99:
            tally.add(path.stem, "applied", found["ngl"], layers or None)
    return tally


def golden() -> Tally:
    """The golden logs: the author's own, a regression test and no measure."""
    tally = Tally()
    for path in sorted((ROOT / "tests" / "golden" / "autopsy").glob("*.expect.json")):
        case = json.loads(path.read_text())
        got = summary(read(path.with_name(path.name.replace(".expect.json", ".raw"))))
        for name in FIELDS:
            if name in case["expect"]:
                tally.add(path.name.split(".")[0], name, case["expect"][name], got[name])
    return tally


def show(title: str, tally: Tally, goals: bool) -> int:
    """Print one table, counted both ways; returns how many are wrong."""
    print(f"\n{title}")
    head = "".join(f"{word:>10}" for word in COLUMNS)
    print(f"  {'field':<10}{head}{'of logged':>16}{'of all':>14}{'wrong too':>11}  goal")
    for name in FIELDS:
        count = tally.counts[name]
        logged = count["right"] + count["unknown"] + count["wrong"] + count["disputed"]
        every = logged + count["unlogged"]
        if not every and not count["beyond"]:
            continue
        row = "".join(f"{count[word]:>10}" for word in COLUMNS)
        narrow, wide = (_share(count["right"], total) for total in (logged, every))
        strict = count["wrong"] + count["disputed"]
        goal = _goal(name, goals, count, logged, every)
        print(f"  {name:<10}{row}{narrow:>16}{wide:>14}{strict:>11}  {goal}")
    print("\n".join(tally.lines))
    return sum(count["wrong"] for count in tally.counts.values())


def _share(right: int, total: int) -> str:
    return f"{right}/{total} {right / total:.1%}" if total else "-"


def _goal(name: str, goals: bool, count: Counter[str], logged: int, every: int) -> str:
    """`80%: met, not of all`."""
    if not goals or name not in GOALS:
        return ""
    narrow = bool(logged) and count["right"] / logged >= GOALS[name]
    wide = bool(every) and count["right"] / every >= GOALS[name]
    return f"{GOALS[name]:.0%}: " + ("met both ways" if wide else "met of logged only" if narrow else "missed")


def stale(tally: Tally) -> list[str]:
    """Entries of the lists above that nothing needs: an excuse must not outlive its case."""
    listed = {(case, name) for case, (_, names) in ELSEWHERE.items() for name in names} | set(DISPUTED)
    return [f"  STALE    {case} {name} is excused and needs no excuse" for case, name in sorted(listed - tally.used)]


def main() -> int:
    """Print every set that is there."""
    wrong = show("Golden logs (written by the patterns' author)", golden(), False)
    for title, tally in (("Labelled incidents (../shared/data/incidents)", incidents()), ("H200 logs", h200())):
        if tally is None:
            print(f"\n{title}: not there, skipped")
        else:
            wrong += show(title, tally, True)
            if title.startswith("Labelled"):
                left = stale(tally)
                print("\n".join(left))
                wrong += len(left) + sum("  LOOK" in line for line in tally.lines)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
