"""The promise: help texts of llama.cpp's tools, of llama-bench and of cobra become options with their lines."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_parts import llama_server
from stillruns.model.installed import HelpOption
from stillruns.normalise.program_help import read

COMPOSED = """usage: x [options]

-h,    --help                           print usage
-fa,   --flash-attn [on|off|auto]       set it ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
--mmap, --no-mmap                       DEPRECATED in favor of `--load-mode`: whether to map (default: enabled)
                                        (env: LLAMA_ARG_MMAP)
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to offload (default: enabled)
-lm,   --load-mode MODE                 mode (default: auto)
                                        - auto: as it comes
                                        - none: plain

                                        (env: LLAMA_ARG_NOT_OURS)
-ctk,  --cache-type-k TYPE              type
                                        allowed values: f32, f16
-ngl,  --gpu-layers N                   either an exact number, 'auto', or 'all' (default: auto)
  -ot --override-tensor <pattern>=<type>;...
  -r, --repetitions <n>                       number of times (default: 5)
      --format string   Response format (e.g. json)
"""


def by_name(text: str) -> dict[str, HelpOption]:
    """Every option under each of its names."""
    return {name: option for option in read(text)[1] for name in option.names}


def test_composed() -> None:
    """Names, negatives, placeholders, accepted values, defaults, variables, deprecation, line numbers."""
    options = by_name(COMPOSED)
    assert options["-fa"].values == ("on", "off", "auto")
    assert options["-fa"].env == "LLAMA_ARG_FLASH_ATTN"
    assert (options["--mmap"].deprecated, options["--mmap"].instead) == (True, "--load-mode")
    assert options["--mmap"].negatives == ("--no-mmap",)
    assert options["-kvo"].negatives == ("-nkvo", "--no-kv-offload")
    assert (options["-lm"].values, options["-lm"].default) == (("auto", "none"), "auto")
    assert options["-lm"].env == ""  # a blank line ends an option
    assert options["-ctk"].values == ("f32", "f16")
    assert (options["-ngl"].hint, options["-ngl"].values) == ("N", ())
    assert options["--override-tensor"] is options["-ot"]
    assert options["-r"].default == "5"
    assert options["--format"].hint == "string"
    lines = COMPOSED.split("\n")
    for option in options.values():
        assert option.names[0] in lines[option.line - 1]


@pytest.mark.engine
def test_real_server() -> None:
    """The real build's help: the options that recipes use are there, with values and variables."""
    server = llama_server()
    assert server
    text = subprocess.run([server, "--help"], capture_output=True, text=True, timeout=240, check=True).stdout
    options = by_name(text)
    assert len(options) > 150
    assert options["-ngl"].env == "LLAMA_ARG_N_GPU_LAYERS"
    assert options["--flash-attn"].values == ("on", "off", "auto")
    assert options["-sm"].values[:3] == ("none", "layer", "row")
    assert "q8_0" in options["-ctk"].values
    assert options["-nkvo"].negatives


@given(st.text(alphabet=st.sampled_from("-ab A<>[]|{}(),=:\n  \t'`1")))
def test_hostile(text: str) -> None:
    """Anything can be read; every option lies on its line."""
    lines, options = read(text)
    for option in options:
        assert option.names[0] in lines[option.line - 1]


GONE = """--draft, --draft-max N                  the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
                                        (env: LLAMA_ARG_DRAFT_MAX)
--spec-size N                           the argument has been removed. use the respective
                                        --spec-ngram-*-size-n or --spec-mod-n-match
--spec-type none,draft-simple,draft-eagle3,draft-mtp,draft-dflash,draft-dspark,ngram-simple,ngram-map-k
                                        comma-separated list of types (default:
                                        none)
--reasoning-format FORMAT               whether and in which format; one of:
                                        - none: leaves them
                                        - deepseek: puts them elsewhere
                                        (default: auto)
--fim-qwen-1.5b-default                 a preset
"""


def test_listed_but_removed() -> None:
    """An option that is listed only to stop the program says so, with the whole flag that replaces it."""
    options = by_name(GONE)
    assert (options["--draft-max"].removed, options["--draft"].instead) == (True, "--spec-draft-n-max")
    assert (options["--spec-size"].removed, options["--spec-size"].instead) == (True, "--spec-mod-n-match")
    assert not options["--spec-type"].removed


def test_values_in_every_form() -> None:
    """A list as the placeholder, and a list of which the default is no part: both are all that is taken."""
    options = by_name(GONE)
    assert options["--spec-type"].values[:2] == ("none", "draft-simple")
    assert options["--reasoning-format"].values == ("none", "deepseek", "auto")
    assert "--fim-qwen-1.5b-default" in options
