"""Packs the evidence of docs/lab/h200.md out of the store that the card's runs filled.

    python scripts/lab_evidence.py STORE FAULTS...

STORE is that of the matrices, FAULTS those of the selftests. Writes into docs/lab/h200: store.tar.xz and
drivers.tar.xz (whole runs, each a store of its own when unpacked), faults-store.tar.xz (the selftests in one store,
without their core files and memory maps, from which nothing on the page comes), and of the two runs that are too
large for the folder report-q8_0.json.xz and report-q4_0.json.xz (what `stillruns report --json` says of them),
quantised.trials.json.xz (what their records say of time and of the card), all-layers.json.xz (the distributions that
their checks with all layers on a device saw) and quantised.raw.tar.xz (log and answer of the first trial of each cell
without a device, and with all layers on one).
Within an archive blobs of one kind and cell stand side by side: they differ in few bytes.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from lab_page import BROKEN, DRIFT, F16, FAULTS, FOLDER, HIDDEN, Q4_0, Q8_0, all_layers, model_of, report
from lab_speeds import facts

FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 128 << 20, "lc": 4, "pb": 0}]


def main() -> None:
    """All files anew."""
    store, *faults = map(Path, sys.argv[1:])
    put("store.tar.xz", archive(packed(store, (F16, DRIFT))))
    put("drivers.tar.xz", archive(packed(store, (HIDDEN, BROKEN))))
    selftests: dict[str, bytes] = {}
    for each in faults:
        selftests |= packed(each, tuple(FAULTS.values()), without=("core", "maps"))
    put("faults-store.tar.xz", archive(dict(sorted(selftests.items(), key=is_blob))))
    for name, run in (("q8_0", Q8_0), ("q4_0", Q4_0)):
        put(f"report-{name}.json.xz", json.dumps(report(store, run), separators=(",", ":")).encode())
    known = {name: facts(store, run) for name, run in (("Q8_0", Q8_0), ("Q4_0", Q4_0))}
    put("quantised.trials.json.xz", json.dumps(known, separators=(",", ":")).encode())
    seen = {run: all_layers(store, run) for run in (Q8_0, Q4_0)}
    put("all-layers.json.xz", json.dumps(seen, separators=(",", ":")).encode())
    put("quantised.raw.tar.xz", archive(dict(sorted(raw(store, (Q8_0, Q4_0)), key=by_kind))))


def put(name: str, content: bytes) -> None:
    """Compressed, and how large it became."""
    small = lzma.compress(content, format=lzma.FORMAT_XZ, filters=FILTERS)
    (FOLDER / name).write_bytes(small)
    print(f"{name}: {len(small):,} bytes of {len(content):,}")


def packed(store: Path, runs: tuple[str, ...], without: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Those runs' journals and blobs, by their place in a store; without the blobs of some kinds of evidence."""
    journals = [path for path in sorted((store / "journal").iterdir()) if first_run(path) in runs]
    order: dict[str, tuple[str, str, int]] = {}
    for journal in journals:
        for line in journal.read_bytes().splitlines():
            body = json.loads(line)["body"]
            record = body.get("record")
            cell = str(record.get("cell")) if isinstance(record, dict) else ""
            for kind, blob in blobs(body, ""):
                if kind not in without:
                    order.setdefault(f"blobs/sha256/{blob[:2]}/{blob}", (kind, cell, len(order)))
    names = ["VERSION", *(f"journal/{path.name}" for path in journals)]
    names += [name for name in sorted(order, key=order.__getitem__) if (store / name).is_file()]
    return {name: (store / name).read_bytes() for name in names}


def is_blob(pair: tuple[str, bytes]) -> bool:
    """Blobs come after the journals, in the order in which they were packed."""
    return pair[0].startswith("blobs/")


def raw(store: Path, runs: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """(`qwen35-Q4_0/cuda-all.log`, content) of the first trial of each cell that is wholly on one side."""
    seen: set[str] = set()
    for journal in sorted((store / "journal").iterdir()):
        for line in journal.read_bytes().splitlines() if first_run(journal) in runs else ():
            record = json.loads(line)["body"].get("record")
            cell = re.match(r"backend=(\w+),gpu_layers=(none|all),", record["cell"]) if record else None
            if record is None or cell is None or record["cell"] in seen:
                continue
            seen.add(record["cell"])
            model, kind = model_of(model_file(record["argv"]))
            for evidence in record["evidence"]:
                name = {"stderr": "log", "response": "answer.json"}.get(evidence["kind"])
                if name:
                    digest = evidence["sha256"].removeprefix("sha256:")
                    content = (store / "blobs" / "sha256" / digest[:2] / digest).read_bytes()
                    yield f"{model}-{kind}/{cell[1]}-{cell[2]}.{name}", content


def model_file(argv: list[str]) -> str:
    """`synth:qwen35?...type=Q4_0` of the file that the server was given."""
    stem = Path(argv[argv.index("-m") + 1]).name
    model, _, rest = stem.partition("-")
    return f"synth:{model}?{rest.replace('-type', '&type=').partition('-seed')[0]}"


def by_kind(pair: tuple[str, bytes]) -> tuple[str, str]:
    """Logs stand beside logs, answers beside answers."""
    return pair[0].partition(".")[2], pair[0]


def archive(files: dict[str, bytes]) -> bytes:
    """As tar writes them, with nothing of this machine."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.USTAR_FORMAT) as packing:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packing.addfile(entry, io.BytesIO(content))
    return held.getvalue()


def first_run(journal: Path) -> str:
    """The run that a journal file is of."""
    with journal.open("rb") as lines:
        return str(json.loads(next(lines))["run"])


def blobs(value: object, kind: str) -> Iterator[tuple[str, str]]:
    """(kind of evidence, digest) of everything that looks like a blob's name."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from blobs(inner, str(value.get("kind") or kind))
    elif isinstance(value, list):
        for inner in value:
            yield from blobs(inner, kind)
    elif isinstance(value, str) and value.startswith("sha256:") and len(value) == 71:
        yield kind, value[7:]


if __name__ == "__main__":
    main()
