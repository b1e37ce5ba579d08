"""The promise: targets are read as the compiler writes them, and KFD's numbers as the driver means them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.catalogue.gate_tables import tables
from stillruns.model.target import TargetId, from_kfd, from_override, parse_target
from stillruns.model.version import between, older, parse


@pytest.mark.parametrize(
    ("number", "target"),
    [(90000, "gfx900"), (90006, "gfx906"), (90010, "gfx90a"), (90012, "gfx90c"), (90402, "gfx942"),
     (100300, "gfx1030"), (110501, "gfx1151"), (80003, "gfx803"), (0, ""), (1, ""), (99_999_999, ""), (901600, "")],
)  # fmt: skip
def test_kfd_numbers(number: int, target: str) -> None:
    """Steppings above 9 are letters: 90010 is gfx90a. A CPU's 0 is no target."""
    assert from_kfd(number) == target


def test_catalogue_agrees_with_the_decoder() -> None:
    """Every KFD number and override in the catalogue decodes to a target of the catalogue."""
    for info in tables().targets.values():
        assert from_override(info.override) == info.target
        assert from_kfd(info.kfd) in tables().targets


@pytest.mark.parametrize(
    ("text", "target"), [("9.0.10", "gfx90a"), ("10.3.0", "gfx1030"), ("9.0.0", "gfx900"),
                                              ("gfx900", ""), ("9.0", ""), ("9.0.a", ""), ("9.0.16", ""), ("", "")]
)  # fmt: skip
def test_overrides(text: str, target: str) -> None:
    """9.0.10 is gfx90a; what is no version is no target."""
    assert from_override(text) == target


def test_features() -> None:
    """Feature suffixes are read in any order and written in the compiler's."""
    assert parse_target("gfx906:xnack-:sramecc+") == TargetId("gfx906", True, False)
    assert str(TargetId("gfx906", True, False)) == "gfx906:sramecc+:xnack-"
    assert parse_target("gfx9-4-generic:xnack+") == TargetId("gfx9-4-generic", None, True)
    assert parse_target("sm_61") == TargetId("sm_61")
    for wrong in ("gfx906:magic+", "gfx906:sramecc", "gfx", "906", "", "gfx906 ; rm", "sm61"):
        assert parse_target(wrong) is None


@given(st.text(max_size=40))
def test_hostile_targets(text: str) -> None:
    """No text makes the parser raise; what it accepts it writes back to the same parts."""
    found = parse_target(text)
    assert found is None or parse_target(str(found)) == found


def test_versions() -> None:
    """Candidates sort below their release, suffixes of distributions do not matter, builds compare as numbers."""
    assert between("0.12.4", "v0.12.4", "v0.24.0") and not between("0.12.3-rc0", "v0.12.4", "")
    assert older("0.33.0-rc2", "0.33.0") and older("b9840", "b10355") and between("6.4.4-4", "6.4", "6.4.4")
    assert parse("5.5.1+dfsg-7") == parse("5.5.1") and parse("none") is None and between("x", "1", "2") is None
