"""The promise: what a log tells of its program and its model is read from that program's own lines only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.normalise import system_info
from stillruns.normalise.logs import told
from stillruns.normalise.logs.reader import visible

FORMS = (
    "\nprint_info: general.name     = ",
    "\nbuild: 1 (a) with ",
    "\nsystem_info: n_threads = 1 | CPU : ",
    "\nx msg=system CPU.0.",
)


def values(text: str) -> dict[str, str]:
    """name -> value of a short log."""
    return {t.name: t.value for t in told.read(text.encode())}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("build: 6173 (abcdef01) with cc (Ubuntu 13.3.0) 13.3.0 for x86_64-linux-gnu",
         {"compiler": "cc (Ubuntu 13.3.0) 13.3.0 for x86_64-linux-gnu"}),
        ("llm_load_print_meta: model ftype      = Q4_K - Medium", {"quantisation": "Q4_K"}),
        ("llm_load_print_meta: general.name     = a name with spaces", {"model": "a name with spaces"}),
        ("system_info: n_threads = 4 / 8 | AVX = 1 | AVX2 = 0 | FMA = 1 | ", {"cpu path": "AVX FMA"}),
        ("system_info: n_threads = 4 / 8 | CUDA : ARCHS = 610 | GRAPHS = 1 | CPU : AVX = 1 | ", {"cpu path": "AVX"}),
        ("system_info: n_threads = 4 / 8 | CUDA : USE_GRAPHS = 1 | ", {}),
        ("time=2026-01-02T03:04:05.000Z level=INFO source=ggml.go:104 msg=system CPU.0.SSE3=1 CPU.0.AVX=1 "
         "CPU.1.LLAMAFILE=1 CUDA.0.USE_GRAPHS=1 compiler=cgo(gcc)", {"cpu path": "AVX LLAMAFILE SSE3"}),
        ("some prose about print_info: arch = llama", {}),
    ],
)  # fmt: skip
def test_lines(line: str, expected: dict[str, str]) -> None:
    """Each form of a line; another backend's features are no part of the CPU's path."""
    assert values(line + "\n") == expected


def test_a_text_that_imitates_a_line() -> None:
    """In a log with time stamps, a line without one is part of a text."""
    text = "0.00.001.000 I print_info: arch = llama\nprint_info: general.name = not the program's\n"
    assert values(text) == {"architecture": "llama"}


def test_nothing() -> None:
    """No line, no value."""
    assert told.read(b"") == () and system_info.cpu_path({}) is None


def test_whose_value_it_is() -> None:
    """A load's own lines follow its first; a process that does not print a value has none."""
    lines = (
        "print_info: file type   = Q8_0\nsystem_info: n_threads = 1 / 2 | AVX = 1 | \nx\n"
        "print_info: file type   = F16\nx\n"
    )
    read = told.read(lines.encode())
    assert [told.at(read, "quantisation", start, (1, 3), 1) for start in (1, 3)] == ["Q8_0", "F16"]
    assert told.at(read, "quantisation", 5, (1, 3, 5), 1) is None
    assert told.at(read, "cpu path", 3, (1, 3), 1) == "AVX"
    assert told.at(read, "cpu path", 3, (1, 3), 2) is None, "one of two processes does not say it"


@given(st.binary(max_size=300), st.sampled_from(FORMS), st.binary(max_size=60))
def test_any_bytes(before: bytes, form: str, after: bytes) -> None:
    """Whatever stands in a log, reading it never fails, and what is told is safe to print."""
    for one in told.read(before + form.encode() + after):
        assert one.name in told.NAMES and one.value == visible(one.value)
