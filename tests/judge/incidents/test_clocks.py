"""The promise: times of different forms are compared where both tell enough, and never otherwise."""

from __future__ import annotations

import pytest

from stillruns.judge.incidents.clocks import apart

ISO = "2026-03-07T01:19:01.500+09:00"


@pytest.mark.parametrize(
    ("one", "other", "seconds"),
    [
        (ISO, "2026-03-06T16:19:01.5Z", 0),
        (ISO, "2026-03-07T01:19:02,500+0900", 1),
        (ISO, "Mar 07 01:19:03", 1.5),
        (ISO, " 3月 07 01:19:03", 1.5),
        (ISO, "3월 07 01:19:03", 1.5),
        (ISO, "März 07 01:19:03", 1.5),
        (ISO, "Mär 07 01:19:03", 1.5),
        (ISO, "mars 07 01:19:03", 1.5),
        (ISO, "Sat Mar  7 01:19:03 2026", 1.5),
        (ISO, "2026-03-07 01:19:03", 1.5),
        (ISO, "1772813941500000", 0),
        ("juin 30 23:59:59", "juil. 01 00:00:00", 1),
        ("août 08 01:00:00", "Aug 08 01:00:01.250000", 1.25),
        ("févr. 08 01:00:00", "Feb 08 01:00:00", 0),
        ("déc. 08 01:00:00", "Dez 08 01:00:00", 0),
        ("Okt 08 01:00:00", "oct. 08 01:00:00", 0),
        ("123.456789", "124.456789", 1),
        ("123.456789", ISO, None),
        ("2026-03-07T01:19:01Z", "Mar 07 01:19:01", None),
        ("nonsense", ISO, None),
        ("", ISO, None),
    ],
)
def test_apart(one: str, other: str, seconds: float | None) -> None:
    """Instants by their zones, a journal's short form by what it prints on the host; UTC against a host's clock and
    the kernel's ring against a calendar cannot be compared."""
    got = apart(one, other)
    assert got == (None if seconds is None else pytest.approx(seconds))
    assert apart(other, one) == got
