"""The promise: a flag is called an integer, a number or a closed list only where its handler says so."""

from __future__ import annotations

import pytest

from stillruns.normalise.flag_values import choices, kind

OR_AUTO = 'if (value == "auto") { x = -1; } else { x = std::stoi(value); }'
CHAIN = """(common_params & params, const std::string & value) {
  if (value == "none") { a(); } else if (value == "layer") { b(); } else { throw std::invalid_argument("bad"); }
}"""


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("[](common_params & params, int value) { params.n_ctx = value; }", "integer"),
        ("[](common_params & params, const std::string & value) { params.t = std::stof(value); }", "number"),
        ("auto p = parse_int_range(argv[i]); params.n_prompt.insert(p);", "integers"),
        ("auto p = string_split<std::string>(argv[i], ','); x = { std::stoi(p[0]), std::stoi(p[1]) };", "integers"),
        ("[](common_params & params, const std::string & value) { params.model = value; }", ""),
        (OR_AUTO, "integer"),
        (OR_AUTO.replace("std::stoi(value)", "parse_mode(std::stoi(value))"), ""),
    ],
)
def test_kind(handler: str, expected: str) -> None:
    """What std:: function the handler calls decides; one that has another parser as well is any text."""
    assert kind(handler) == expected


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (CHAIN, ("none", "layer")),
        (CHAIN.replace('throw std::invalid_argument("bad");', "c(value);"), ()),
        (CHAIN.replace("a();", "params.x = parse_mode(value);"), ()),
        (OR_AUTO, ("auto",)),
        ("if (is_truthy(value)) {} else { throw std::runtime_error(x); }", ("on", "enabled", "true", "1")),
        ("{ params.model = value; }", ()),
    ],
)
def test_choices(handler: str, expected: tuple[str, ...]) -> None:
    """A chain of comparisons is a closed list only when it ends in an error; or the words beside an integer."""
    assert choices(handler) == expected
