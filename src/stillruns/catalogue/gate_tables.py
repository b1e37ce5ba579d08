"""The strict loader of the gates' tables: CSV for the wide ones, TOML for the rest.

A column too many or too few, a key twice, a row without a source or a day: CatalogueError, which names file and line.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import TypeVar

import msgspec

from stillruns.catalogue import load, shipped
from stillruns.errors import CatalogueError
from stillruns.model.gate import Layer
from stillruns.model.gate_tables import (
    FirmwareNames,
    GateTables,
    GpuName,
    KernelEventRule,
    MesaRow,
    NvidiaArchitecture,
    PackageRow,
    RuntimeGate,
    RuntimeRow,
    SupportRow,
)
from stillruns.model.target import TargetInfo, parse_target
from stillruns.model.version import parse

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

_Form = TypeVar("_Form")

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_STATUS = "supported deprecated removed unsupported not-listed library-built-but-unsupported".split()
_GATE_KINDS = ("list", "probe", "file", "integrated", "vulkan-off", "driver-floor", "newest-cuda")


@cache
def tables() -> GateTables:
    """All tables, parsed once; raises CatalogueError for a file that breaks a rule."""
    return GateTables(
        targets=_targets(),
        gpus=_gpus(),
        support=_support(),
        runtimes=_runtimes(),
        packages=_packages(),
        nvidia=_nvidia(),
        gates=_gates(),
        events=_events(),
        firmware=toml("firmware.toml", shipped.text("firmware.toml"), "chip", FirmwareNames),
        workarounds={workaround.id: workaround for workaround in load.workarounds()},
        neighbours=_neighbours(),
        mesa=_mesa(),
    )


def _targets() -> dict[str, TargetInfo]:
    found: dict[str, TargetInfo] = {}
    for where, row in rows("targets.csv", shipped.text("targets.csv")):
        if row["target"] in found or parse_target(row["target"]) is None:
            raise CatalogueError(f"{where}: {row['target']!r} is there twice, or is no target.")
        found[row["target"]] = TargetInfo(
            target=row["target"], family=row["family"], kind=row["kind"], products=row["products"],
            codenames=row["codenames"], generic=row["generic"], xnack=row["xnack"] == "supported",
            sramecc=row["sramecc"] == "supported", kfd=_number(where, row["kfd"]), override=row["override"],
            atomics=row["atomics"], dma_bits=_number(where, row["dma_bits"]), wave=_number(where, row["wave"]),
            notes=row["notes"], source=row["source"], read_on=row["read_on"],
        )  # fmt: skip
    return found


def _neighbours() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for where, row in rows("neighbours.csv", shipped.text("neighbours.csv")):
        others = tuple(row["runs_code_of"].split(";"))
        if row["target"] in found or any(parse_target(name) is None for name in (row["target"], *others)):
            raise CatalogueError(f"{where}: {row['target']!r} is there twice, or a name is no target.")
        found[row["target"]] = others
    return found


def _mesa() -> dict[str, MesaRow]:
    found: dict[str, MesaRow] = {}
    for where, row in rows("mesa.csv", shipped.text("mesa.csv")):
        if row["target"] in found or parse_target(row["target"]) is None or parse(row["unknown_to"]) is None:
            raise CatalogueError(f"{where}: {row['target']!r} is there twice, or is no target, or has no series.")
        found[row["target"]] = MesaRow(**row)
    return found


def _gpus() -> dict[str, GpuName]:
    found: dict[str, GpuName] = {}
    for where, row in rows("gpus.csv", shipped.text("gpus.csv")):
        if not re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", row["pci_id"]) or row["pci_id"] in found:
            raise CatalogueError(f"{where}: {row['pci_id']!r} is there twice, or is no PCI id.")
        found[row["pci_id"]] = GpuName(**row)
    return found


def _support() -> tuple[SupportRow, ...]:
    found = []
    for where, row in rows("support.csv", shipped.text("support.csv")):
        if row["status"] not in _STATUS or row["stream"] not in ("production", "therock"):
            raise CatalogueError(f"{where}: status {row['status']!r} or stream {row['stream']!r} is not known.")
        if parse(row["first"]) is None or parse(row["last"]) is None:
            raise CatalogueError(f"{where}: {row['first']!r} to {row['last']!r} are no releases.")
        found.append(SupportRow(**row))
    return tuple(found)


def _runtimes() -> tuple[RuntimeRow, ...]:
    found = []
    for _, row in rows("runtime_targets.csv", shipped.text("runtime_targets.csv")):
        newest = row.pop("newest") == "yes"
        found.append(RuntimeRow(**row, newest=newest))
    return tuple(found)


def _packages() -> tuple[PackageRow, ...]:
    found = []
    for where, row in rows("packages.csv", shipped.text("packages.csv")):
        files = _number(where, row.pop("files"))
        found.append(PackageRow(**row, files=files))
    return tuple(found)


def _nvidia() -> tuple[NvidiaArchitecture, ...]:
    found = toml("nvidia.toml", shipped.text("nvidia.toml"), "architecture", NvidiaArchitecture)
    for entry in found:
        try:
            re.compile(entry.names)
        except re.error as error:
            raise CatalogueError(f"nvidia.toml, {entry.id}: names is no regular expression: {error}.") from error
    return found


def _gates() -> tuple[RuntimeGate, ...]:
    found = toml("runtime_gates.toml", shipped.text("runtime_gates.toml"), "gate", RuntimeGate)
    for entry in found:
        if entry.kind not in _GATE_KINDS:
            raise CatalogueError(f"runtime_gates.toml, {entry.id}: kind {entry.kind!r} is none of {_GATE_KINDS}.")
        if parse(entry.since) is None or (entry.until and parse(entry.until) is None):
            raise CatalogueError(f"runtime_gates.toml, {entry.id}: since or until is no version.")
        if (entry.kind in ("driver-floor", "newest-cuda")) is not entry.driver.isdigit():
            raise CatalogueError(f"runtime_gates.toml, {entry.id}: driver must be a branch for this kind alone.")
        if entry.below and not re.fullmatch(r"sm_\d+", entry.below):
            raise CatalogueError(f"runtime_gates.toml, {entry.id}: below is no target of NVIDIA's.")
    return found


def _events() -> tuple[KernelEventRule, ...]:
    found = toml("kernel_events.toml", shipped.text("kernel_events.toml"), "event", KernelEventRule)
    layers = {layer.value for layer in Layer}
    for entry in found:
        if entry.layer not in layers or entry.severity not in ("stop", "warn", "note"):
            raise CatalogueError(f"kernel_events.toml, {entry.id}: layer or severity is not known.")
        try:
            re.compile(entry.regex)
        except re.error as error:
            raise CatalogueError(f"kernel_events.toml, {entry.id}: no regular expression: {error}.") from error
    return found


def rows(file: str, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """(place, row) of a CSV table whose first line names its columns; the last two are `source` and `read_on`."""
    reader = csv.DictReader(text.splitlines(), strict=True)
    names = reader.fieldnames or []
    if list(names[-2:]) != ["source", "read_on"]:
        raise CatalogueError(f"{file}: the last columns must be source and read_on, they are {names[-2:]}.")
    try:
        for row in reader:
            where = f"{file}, line {reader.line_num}"
            if None in row or None in row.values():
                raise CatalogueError(f"{where}: {len(names)} fields are expected.")
            if not row["source"].strip() or not _DAY.match(row["read_on"]):
                raise CatalogueError(f"{where}: a row needs its source and the day when it was read.")
            yield where, row
    except csv.Error as error:
        raise CatalogueError(f"{file}, line {reader.line_num}: {error}.") from error


def toml(file: str, text: str, name: str, form: type[_Form]) -> tuple[_Form, ...]:
    """The `[[name]]` tables of a file, each with exactly the fields of `form`, ids unique."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"the catalogue file {file} cannot be read: {error}.") from error
    if set(document) != {name}:
        raise CatalogueError(f"{file} must hold [[{name}]] tables and nothing else.")
    found, seen = [], set()
    for entry in document[name]:
        known = set(form.__dataclass_fields__)  # type: ignore[attr-defined]
        if set(entry) != known:
            raise CatalogueError(
                f"{file}, {entry.get('id')}: fields {sorted(set(entry) ^ known)} are odd or missing."
            )
        if entry["id"] in seen or not entry["source"].strip() or not _DAY.match(entry["read_on"]):
            raise CatalogueError(f"{file}, {entry['id']}: the id is there twice, or source or read_on say nothing.")
        seen.add(entry["id"])
        try:
            found.append(msgspec.convert(entry, form, strict=True))
        except msgspec.ValidationError as error:
            raise CatalogueError(f"{file}, {entry['id']}: {error}.") from error
    return tuple(found)


def _number(where: str, text: str) -> int:
    if not text.isdigit():
        raise CatalogueError(f"{where}: {text!r} is no number.")
    return int(text)
