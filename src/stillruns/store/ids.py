"""Canonical form, digests and run ids.

The canonical form of a value is JSON as ASCII bytes: keys sorted, no white space, everything beyond ASCII escaped,
`set`s sorted, dataclasses and enums as msgspec writes them. Numbers are written so that the same number has one form:
a float with an integral value below 2**53 is written as that integer (TOML's `300` and `300.0` are the same timeout),
every other float is rounded to 6 significant digits. NaN and infinities have no canonical form.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime, timezone

import msgspec

DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
"""The text form of every digest in the store: the algorithm is part of it."""

RUN_ID = re.compile(r"\d{8}T\d{6}Z-([0-9a-f]{8})\Z")
"""UTC time and the first 8 hex digits of the digest of the canonical spec."""

_LARGEST_EXACT = 2**53

_LATER: dict[str, object] = {
    "futility": 0,
    "duration": 0,
    "concurrency": 1,
    "prompt_tokens": 0,
    "check_positions": 32,
    "check_texts": [],
}
"""Fields that specs got after their first release, with the values that change nothing: they count only where they
differ, so that an older spec keeps its digest."""


def sha256_of(data: bytes) -> str:
    """`sha256:<64 hex>` of the bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _plain(value: object) -> object:
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{value} has no canonical form")
        value = value if abs(value) < _LARGEST_EXACT and value.is_integer() else float(f"{value:.6g}")
        return int(value) if abs(value) < _LARGEST_EXACT and value.is_integer() else value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def canonical(value: object) -> bytes:
    """The canonical form (module docstring). Raises ValueError for NaN or infinity, TypeError for what JSON and
    msgspec cannot write."""
    plain = _plain(msgspec.to_builtins(value, str_keys=True, order="deterministic"))
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def digest(value: object) -> str:
    """`sha256:<64 hex>` of the canonical form."""
    return sha256_of(canonical(value))


def spec_digest(spec: object) -> str:
    """Digest of a spec (a `model.Spec` or its JSON form). Its `path` and `sha256` are taken as empty texts: where a
    spec was read from does not change what it asks."""
    plain = msgspec.to_builtins(spec, str_keys=True, order="deterministic")
    if isinstance(plain, dict):
        plain = {key: "" if key in ("path", "sha256") else value for key, value in plain.items()}
    return digest(without_later(plain))


def without_later(plain: object) -> object:
    """A spec's plain form without the fields that later versions added, where they hold the value that changes
    nothing."""
    if not isinstance(plain, dict):
        return plain
    kept = {key: value for key, value in plain.items() if not (key in _LATER and _same(value, _LATER[key]))}
    return {key: without_later(value) if key == "stop" else value for key, value in kept.items()}


def _same(value: object, default: object) -> bool:
    return (list(value) if isinstance(value, tuple) else value) == default


def run_id(at: datetime, spec_sha256: str) -> str:
    """`20261130T091500Z-1a2b3c4d`: time (aware; converted to UTC, whole seconds) and the spec's first 8 hex digits.
    Raises ValueError for a naive time or a text that is no digest."""
    if at.tzinfo is None:
        raise ValueError("a run id needs a time with a zone")
    if not DIGEST.match(spec_sha256):
        raise ValueError(f"not a digest: {spec_sha256!r}")
    return f"{at.astimezone(timezone.utc):%Y%m%dT%H%M%SZ}-{spec_sha256[7:15]}"
