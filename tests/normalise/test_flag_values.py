"""The promise: a flag is called an integer, a number or a closed list only where its handler says so."""

from __future__ import annotations

import pytest

from stillruns.normalise.flag_values import choices, kind


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("[](common_params & params, int value) { params.n_ctx = value; }", "integer"),
        ("[](common_params & params, const std::string & value) { params.t = std::stof(value); }", "number"),
        ("auto p = parse_int_range(argv[i]); params.n_prompt.insert(p);", "integers"),
        ("[](common_params & params, const std::string & value) { params.model = value; }", ""),
        (
            '(common_params & params, int value) { if (value == "auto") { x = -1; } else { x = std::stoi(value); } }',
            "",
        ),
    ],
)
def test_kind(handler: str, expected: str) -> None:
    """What std:: function the handler calls decides; a handler that also compares words is any text."""
    assert kind(handler) == expected


CHAIN = """(common_params & params, const std::string & value) {
  if (value == "none") { a(); } else if (value == "layer") { b(); } else { throw std::invalid_argument("bad"); }
}"""


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (CHAIN, ("none", "layer")),
        (CHAIN.replace('throw std::invalid_argument("bad");', "c(value);"), ()),
        (CHAIN.replace("a();", "params.x = std::stoi(value);"), ()),
        ("if (is_truthy(value)) {} else { throw std::runtime_error(x); }", ("on", "enabled", "true", "1")),
        ("{ params.model = value; }", ()),
    ],
)
def test_choices(handler: str, expected: tuple[str, ...]) -> None:
    """A chain of comparisons is a closed list only when it ends in an error and nothing else reads the text."""
    assert choices(handler) == expected
