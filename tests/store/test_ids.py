"""The promise: equal values have one canonical form and one digest, whatever their key order or number type."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillruns.model.spec import Spec
from stillruns.store.ids import canonical, digest, run_id, sha256_of, spec_digest

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_form() -> None:
    """Keys sorted, no white space, ASCII; integral floats as integers, others with 6 significant digits."""
    value = {"b": 300.0, "a": [0.1 + 0.2, 1.23456789e-7, -0.0, True, None], "é": ("x",)}
    assert canonical(value) == b'{"a":[0.3,1.23457e-07,0,true,null],"b":300,"\\u00e9":["x"]}'


def test_nouns_and_sets() -> None:
    """Dataclasses, enums, tuples and sets have a form; a set's does not depend on hashing."""
    spec = Spec("n", "q", "m.gguf", "p", (), (0, "all"))
    assert json.loads(canonical(spec))["timeouts"]["load"] == 300
    assert canonical({"s": frozenset("hgfedcba")}) == b'{"s":["a","b","c","d","e","f","g","h"]}'


@settings(max_examples=60, deadline=None)
@given(values)
def test_survives_json(value: object) -> None:
    """A value that went through a JSON file keeps its digest, and a form is its own fixed point."""
    form = canonical(value)
    assert canonical(json.loads(json.dumps(value))) == form
    assert canonical(json.loads(form)) == form


@given(st.dictionaries(st.text(), st.integers()))
def test_order_of_keys(value: dict[str, int]) -> None:
    """Key order does not matter."""
    assert digest(dict(reversed(value.items()))) == digest(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_form(value: float) -> None:
    """NaN and infinity are refused: JSON has no word for them."""
    with pytest.raises(ValueError, match="no canonical form"):
        canonical({"a": [value]})


def test_spec_digest_is_about_what_is_asked() -> None:
    """Neither the file's place nor a digest written into the spec changes its digest; a seed does."""
    spec = Spec("n", "q", "m.gguf", "p", (), (0,))
    other = Spec("n", "q", "m.gguf", "p", (), (0,), path="/x.toml", sha256="sha256:00")
    assert spec_digest(spec) == spec_digest(other)
    assert spec_digest(spec) != spec_digest(Spec("n", "q", "m.gguf", "p", (), (0,), seed=2))


def test_run_id() -> None:
    """UTC time in whole seconds and 8 digits; another zone's time is converted; a naive one is refused."""
    sha256 = sha256_of(b"")
    at = datetime(2026, 11, 30, 10, 15, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert run_id(at, sha256) == "20261130T091500Z-e3b0c442"
    with pytest.raises(ValueError, match="zone"):
        run_id(datetime(2026, 11, 30), sha256)
    with pytest.raises(ValueError, match="not a digest"):
        run_id(at, "e3b0c442")
