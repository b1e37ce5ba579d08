"""The promise: what a source tree reads is found with its line, and llama.cpp's tables are read as they are meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillruns.normalise.env_reads import reads, table_flags

FILES = {
    "a.go": b'package a\nvar x = os.Getenv("A_GO")\nvar y = envconfig.Bool("B_GO")\nos.Setenv("C_SET", "1")\n'
    b'cmd.Flags().BoolP("verbose", "v", false, "x")\nslog.String("NOT_THIS", "")\n',
    "config.go": b'package envconfig\nvar z = Bool("D_GO")\n',
    "a_test.go": b'var x = os.Getenv("TEST_ONLY")\n',
    "b.cpp": b'// c\nauto v = std::getenv("E_CPP");\nauto w = getenv(\n  "F_CPP");\n',
    "c.py": b"import os\nos.environ.get('G_PY')\nos.environ['H_PY']\n",
    "CMakeLists.txt": b'option(I_CM "help" OFF)\nset(J_CM ON CACHE BOOL "")\nset(K_NOT 1)\n'
    b"llama_option_depr(WARNING L_OLD L_NEW)\nif($ENV{M_CM})\n",
    "d.sh": b"x=${N_SH:-1}\n",
    "tests/t.cpp": b'getenv("TEST_ONLY")\n',
    "notes.txt": b'getenv("NO")\n',
}


def test_every_language() -> None:
    """Each read with kind, name and line; tests, other files and look-alikes are left out."""
    found = {(r.kind, r.names[0], r.path, r.line) for r in reads(FILES.items(), "p", "v1")}
    assert found == {
        ("env-read", "A_GO", "a.go", 2),
        ("env-read", "B_GO", "a.go", 3),
        ("env-set", "C_SET", "a.go", 4),
        ("flag", "--verbose", "a.go", 5),
        ("env-read", "D_GO", "config.go", 2),
        ("env-read", "E_CPP", "b.cpp", 2),
        ("env-read", "F_CPP", "b.cpp", 4),
        ("env-read", "G_PY", "c.py", 2),
        ("env-read", "H_PY", "c.py", 3),
        ("cmake-option", "I_CM", "CMakeLists.txt", 1),
        ("cmake-option", "J_CM", "CMakeLists.txt", 2),
        ("cmake-gone", "L_OLD", "CMakeLists.txt", 4),
        ("env-read", "M_CM", "CMakeLists.txt", 5),
        ("env-read", "N_SH", "d.sh", 1),
    }


TABLE = """
    add_opt(common_arg(
        {"-x", "--exa"}, "N",
        "help", [](common_params & params, int value) { params.x = value; }
    ).set_env("LLAMA_ARG_EXA").set_examples({LLAMA_EXAMPLE_SERVER, LLAMA_EXAMPLE_CLI}));
    add_opt(common_arg(
        {"--kvo"}, {"-nkvo", "--no-kvo"},
        "help", [](common_params & params, bool value) { params.k = value; }
    ));
    add_opt(common_arg(
        {"--lora"}, "FNAME",
        "help", [](common_params & params, const std::string & value) { params.l.push_back(value); }
    ).set_excludes({LLAMA_EXAMPLE_SERVER}));
"""


def test_argument_table() -> None:
    """Names, negatives, programs, what a second one does, and the line of the names."""
    first, second, third = table_flags("common/arg.cpp", TABLE)
    assert (first.names, first.env, first.programs) == (("-x", "--exa"), "LLAMA_ARG_EXA", ("SERVER", "CLI"))
    assert (first.repeat, first.line, first.hint) == ("last", 3, "N")
    assert (second.negatives, second.repeat) == (("-nkvo", "--no-kvo"), "switch")
    assert (third.repeat, third.excluded) == ("append", ("SERVER",))


BENCH = """
            if (arg == "-h" || arg == "--help") {
                exit(0);
            } else if (arg == "-ngl" || arg == "--n-gpu-layers") {
                if (++i >= argc) { break; }
                params.n.insert(params.n.end(), p.begin(), p.end());
            }
"""


def test_bench() -> None:
    """llama-bench collects: `-ngl 1 -ngl 99` measures both."""
    found = list(table_flags("tools/llama-bench/llama-bench.cpp", BENCH))
    assert [(f.names, f.repeat, f.line) for f in found] == [
        (("-h", "--help"), "switch", 2),
        (("-ngl", "--n-gpu-layers"), "append", 4),
    ]


@pytest.mark.parametrize("name", ["a.go", "b.cpp", "CMakeLists.txt", "c.py", "common/arg.cpp", "x/llama-bench.cpp"])
@given(data=st.binary(max_size=200))
def test_broken_source(name: str, data: bytes) -> None:
    """Bytes that are no source give no error."""
    list(reads([(name, data + b'\nadd_opt(common_arg({"-a"')], "p", ""))
