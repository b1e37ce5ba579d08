"""The read side: records of the journal as the nouns of `model`.

Field names that this version does not know are passed over, so records of a newer minor version can be read.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator

import msgspec

from stillruns.errors import StoreDamaged
from stillruns.model.absence import Absence
from stillruns.model.process import CoreNotes, CoreResult
from stillruns.model.trial import TrialRecord
from stillruns.store.record import Record
from stillruns.store.store import Store


def _mirror() -> type[msgspec.Struct]:
    """TrialRecord's fields with `core` left raw: msgspec cannot tell two dataclasses in a union apart."""
    hints = typing.get_type_hints(TrialRecord)
    fields: list[tuple[str, typing.Any] | tuple[str, typing.Any, typing.Any]] = []
    for field in dataclasses.fields(TrialRecord):
        kind = dict[str, typing.Any] if field.name == "core" else hints[field.name]
        if field.default is not dataclasses.MISSING:
            fields.append((field.name, kind, field.default))
        elif field.default_factory is not dataclasses.MISSING:
            fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
        else:
            fields.append((field.name, kind))
    return msgspec.defstruct("TrialRecordFields", fields, kw_only=True)


_FIELDS = _mirror()


def encode_trial(record: TrialRecord) -> dict[str, object]:
    """The JSON-able form, for `trial_ended {record: ...}`."""
    plain = msgspec.to_builtins(record, str_keys=True, order="deterministic")
    assert isinstance(plain, dict)
    return plain


def decode_trial(plain: object) -> TrialRecord:
    """The inverse of `encode_trial`. Raises msgspec.ValidationError for what is no trial record."""
    fields = msgspec.convert(plain, _FIELDS)
    values = {name: getattr(fields, name) for name in _FIELDS.__struct_fields__}
    core = values["core"]
    values["core"] = _core(core)
    return TrialRecord(**values)


def _core(plain: dict[str, object]) -> CoreResult:
    if "reason" in plain:
        return msgspec.convert(plain, Absence)
    return msgspec.convert(plain, CoreNotes)


def _trial(record: Record) -> TrialRecord:
    try:
        return decode_trial(record.body.get("record"))
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreDamaged(
            f"record {record.seq} of {record.writer} holds no trial that this version can read ({error}); "
            "upgrade stillruns if a newer one wrote it."
        ) from error


def iter_trials(store: Store, run: str) -> Iterator[TrialRecord]:
    """The run's ended trials in the order in which they ended, one at a time: for runs of any length."""
    for record in store.records(run, "trial_ended"):
        yield _trial(record)


def trials(store: Store, run: str) -> tuple[TrialRecord, ...]:
    """All of `iter_trials` at once (about 20 KB of memory a trial)."""
    return tuple(iter_trials(store, run))
