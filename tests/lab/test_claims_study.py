"""The promise: a published study is judged from its raw files, and a verdict follows when the files say otherwise."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from stillruns.lab import claiming, importing
from stillruns.lab.specs import hypothesis_file
from stillruns.lab.studies import studying
from stillruns.model.claim import Claim, ClaimVerdict, Frozen
from stillruns.store.opening import open_store

JOURNAL = "ollama_journal_since_start.txt"
MODEL = "study, qwen3.5:2b"


def judged(folder: Path, store_dir: Path) -> dict[str, dict[str, Claim]]:
    """about -> id -> claim, of the library over the imported folder."""
    with open_store(store_dir) as store:
        importing.run(folder, store, "study")
        runs = studying.names(store)["study"]
        sets = claiming.of_study(store, "study", runs, hypothesis_file.library())
    return {s.about: {c.id: c for c in s.claims} for s in sets}


@pytest.fixture()
def study(shared: Path, tmp_path: Path) -> Path:
    """A copy of the study's run folders that may be changed."""
    place = tmp_path / "study"
    shutil.copytree(shared / "data" / "vega-hbmx", place)
    place.chmod(0o755)
    for path in place.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place


def rewrite(study: Path, change: Callable[[str], str], names: str = "*") -> None:
    """Change the text of every journal."""
    for path in study.glob(f"{names}/{JOURNAL}"):
        path.write_bytes(
            change(path.read_bytes().decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        )


def test_the_published_study(study: Path, tmp_path: Path) -> None:
    """What the runs show, and what they do not."""
    claims = judged(study, tmp_path / "store")[MODEL]
    assert {c.frozen for c in claims.values()} == {Frozen.AFTER}

    unusable = claims["gpu-unusable"]
    assert unusable.verdict is ClaimVerdict.REFUTED
    rocm = [c for c in unusable.counts if c.cell in ("backend=rocm,num_gpu=1", "backend=rocm,num_gpu=2")]
    assert [sum(getattr(c, name) for c in rocm) for name in ("applied", "crashed", "passed", "output_unknown")] == [
        6,
        0,
        3,
        3,
    ]
    assert "on vulkan, phi4-mini:latest passed 1 of 1" in unusable.warnings[0]
    assert unusable.sides == (
        "vulkan, 3 cells with layers on the device: applied 10, crashed 10, failed 10, passed 0, output unknown 0",
        "rocm, 2 cells with layers on the device: applied 6, crashed 0, failed 0, passed 3, output unknown 3",
        "no run shows the device computing faster than the CPU: of the cells with layers on it, 2 of 5 have a speed "
        "to compare, and none of these is faster",
    )
    assert unusable.driver == "amdgpu 6.18.16-1-lts or radv on amdgpu 6.18.16-1-lts"
    assert not unusable.driver_unknown
    assert len(unusable.blocks) == 5
    assert {(b.servers, b.boots) for b in unusable.blocks} == {(1, None)}
    assert any("one server process, ollama-vega-vulkan[1416], started the runners" in w for w in unusable.shared)

    assert claims["num-gpu-is-gpu-count"].verdict is ClaimVerdict.REFUTED

    path = claims["vulkan-path-unstable"]
    assert path.verdict is ClaimVerdict.CONFOUNDED
    whole = path.tests[0]
    assert sorted([(whole.left_failed, whole.left_n), (whole.right_failed, whole.right_n)]) == [(0, 6), (10, 10)]
    assert whole.fisher == pytest.approx(1.2e-4, abs=1e-5)
    assert path.contrasts[0].differs_in == (
        "backend: vulkan against rocm",
        "version: 0.16.3 to 0.17.4 against 0.17.6 to 0.17.7",
    )
    assert any("lies between the versions" in text for text in path.known_issues)
    assert "quantisation Q8_0" in path.scope
    assert path.evidence[0].text.endswith("SIGSEGV: segmentation violation")

    timed = claims["crash-time-deterministic"]
    assert timed.verdict is ClaimVerdict.REFUTED
    assert "the client measured 7.61 to 7.64 s, of which 5.30 to 5.33 s are a wait" in timed.why
    assert any("died 4.14 to 4.17 s after" in text and "9.80 to 9.84 s" in text for text in timed.warnings)

    all_layers = claims["works-with-all-layers"]
    assert all_layers.verdict is ClaimVerdict.VOID
    assert all_layers.untested == (
        "backend=rocm,num_gpu=-1: no trial was applied (asked num_gpu=-1, but no load was started)",
    )
    faster = claims["gpu-computes-faster"]
    assert faster.verdict is ClaimVerdict.INCONCLUSIVE
    assert sum("no faster than the CPU" in text for text in faster.warnings) == 2


def test_equal_versions_make_the_contrast_clean(study: Path, tmp_path: Path) -> None:
    """With the call sites of one release on both sides, the difference is the backend's."""
    sites = {
        "server.go:431": "server.go:430",
        "server.go:247": "server.go:246",
        "sched.go:491": "sched.go:489",
        "sched.go:498": "sched.go:496",
        "sched.go:566": "sched.go:565",
        "runner.go:1284": "runner.go:1302",
        "runner.go:1411": "runner.go:1429",
        "runner.go:1446": "runner.go:1464",
    }
    rewrite(study, lambda text: re.sub(r"source=([\w.]+:\d+)", lambda m: f"source={sites.get(m[1], m[1])}", text))
    path = judged(study, tmp_path / "store")[MODEL]["vulkan-path-unstable"]
    assert path.verdict is ClaimVerdict.SUPPORTED
    assert path.contrasts[0].status == "clean"
    assert path.contrasts[0].differs_in == ("backend: vulkan against rocm",)


def test_removed_versions_are_unknown(study: Path, tmp_path: Path) -> None:
    """Without call sites nobody knows the release, and the contrast is not clean."""
    rewrite(study, lambda text: re.sub(r"source=([\w.]+):\d+", r"source=\1:0", text))
    path = judged(study, tmp_path / "store")[MODEL]["vulkan-path-unstable"]
    assert path.verdict is ClaimVerdict.INCONCLUSIVE
    assert path.contrasts[0].status == "unknown"
    assert path.contrasts[0].unknown == ("version: unknown against unknown",)


def test_ports_and_pids_mean_nothing(study: Path, tmp_path: Path) -> None:
    """Other pids and ports: the same verdicts, counts and contrasts."""
    before = judged(study, tmp_path / "before")[MODEL]

    def other(text: str) -> str:
        text = re.sub(r"\[(\d{3,6})\]: ", lambda m: f"[{int(m[1]) + 100_000}]: ", text)
        return re.sub(r"(127\.0\.0\.1:|--port )(\d{5})", lambda m: f"{m[1]}{int(m[2]) - 7}", text)

    rewrite(study, other)
    after = judged(study, tmp_path / "after")[MODEL]
    assert {n: (c.verdict, [(r.cell, r.applied, r.crashed) for r in c.counts]) for n, c in before.items()} == {
        n: (c.verdict, [(r.cell, r.applied, r.crashed) for r in c.counts]) for n, c in after.items()
    }
    assert [c.contrasts for c in before.values()] == [c.contrasts for c in after.values()]


def test_an_unload_before_minus_one_is_applied(study: Path, tmp_path: Path) -> None:
    """A load of its own before the request with -1, with all layers: then it was tested, and it passed."""
    for name in ("012643", "201305", "012538"):
        rewrite(study, load_again, f"*_{name}")
    claims = judged(study, tmp_path / "store")[MODEL]
    row = next(c for c in claims["gpu-unusable"].counts if c.cell == "backend=rocm,num_gpu=-1")
    assert (row.applied, row.void) == (3, 0)
    assert claims["works-with-all-layers"].verdict is ClaimVerdict.SUPPORTED


def load_again(text: str) -> str:
    """The last load of the ROCm server once more, after the request that it served, for -1 and with all layers."""
    lines = text.splitlines()
    mine = [i for i, line in enumerate(lines) if "ollama-rocm" in line]
    posts = [i for i in mine if "| POST " in lines[i]]
    served, before = posts[-2], posts[-3]
    block = [lines[i] for i in mine if before < i < served]
    first = stamp(block[0]) or next(s for s in map(stamp, block) if s)
    ended = datetime.strptime(re.search(r"\d{4}/\d\d/\d\d - \d\d:\d\d:\d\d", lines[served])[0], "%Y/%m/%d - %H:%M:%S")  # type: ignore[index]
    shift = ended + timedelta(seconds=0.1) - first
    again = [later(line, shift) for line in block]
    again = [
        line.replace("requested=2", "requested=-1")
        .replace("offloaded 2/25", "offloaded 25/25")
        .replace("offloading 2 repeating", "offloading 24 repeating")
        .replace("output layer to CPU", "output layer to GPU")
        .replace("GPULayers:2[", "GPULayers:25[")
        for line in again
    ]
    return "\n".join([*lines[: served + 1], *again, *lines[served + 1 :]]) + "\n"


def stamp(line: str) -> datetime | None:
    """The time that the server itself printed."""
    found = re.search(r"time=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})", line)
    return datetime.fromisoformat(found[1]) if found else None


def later(line: str, shift: timedelta) -> str:
    """The same line, printed later."""
    at = stamp(line)
    if at is None:
        return line
    moved = (at + shift).isoformat(timespec="milliseconds")
    return line.replace(at.isoformat(timespec="milliseconds"), moved)
