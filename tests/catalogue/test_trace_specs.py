"""The promise of the trace catalogue: it loads, and every claim in it names stages that exist."""

from __future__ import annotations

import pytest

from stillruns.catalogue import trace_specs
from stillruns.errors import CatalogueError


def test_shipped_data_loads() -> None:
    """Bridges and specs pass their own checker."""
    assert trace_specs.bridges().max_rows <= 200
    assert "num_gpu" in trace_specs.specs()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"colour": "red"}, "unknown keys: colour"),
        ({"source": None}, "lacks source"),
        (
            {"stages": [{"id": "a", "roles": ["flag"], "path": "", "last_seen": "v1", "code": "("}]},
            "no regular expression",
        ),
        ({"meaning": [{"text": "x", "when": ["nowhere"]}]}, "stages that the spec lacks: nowhere"),
        (
            {"meaning": [{"text": "see {a}"}], "stages": [{"id": "a", "roles": [], "path": "", "last_seen": ""}]},
            "not require",
        ),
    ],
)
def test_bad_spec_is_refused(change: dict[str, object], said: str) -> None:
    """An unknown key, a missing source, a bad pattern, a stage that is not there: file and fault are named."""
    spec = {"option": "x", "subject": "y", "source": "z", "read_on": "2026-11-30", **change}
    with pytest.raises(CatalogueError, match=r"f\.toml") as caught:
        trace_specs._spec("f.toml", {k: v for k, v in spec.items() if v is not None})
    assert said in str(caught.value)
