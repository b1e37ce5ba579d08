"""The promise: what the documentation says about commands, files and fields is so."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stillruns.act.shim import faults
from stillruns.cli.group import VERBS
from stillruns.lab.specs import spec_file
from stillruns.model import spec as model_spec
from stillruns.redact.redactor import KINDS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("README.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
SPEC_PAGE = ROOT / "docs" / "spec.md"

ids = [str(path.relative_to(ROOT)) for path in PAGES]


def code_blocks(text: str) -> list[str]:
    """Fenced and indented code, without its fences and indent."""
    fenced = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return fenced + re.findall(r"(?:^    .*\n)+", rest, re.MULTILINE)


@pytest.mark.parametrize("script", ["pattern_table", "known_issues_page"])
def test_catalogue_page_is_fresh(script: str) -> None:
    """docs/patterns.md and docs/known-issues.md are what the catalogue says today."""
    spec = importlib.util.spec_from_file_location(script, ROOT / "scripts" / f"{script}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page()


def test_every_verb_is_documented() -> None:
    """A verb that exists is shown in use somewhere."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    missing = [verb for verb in VERBS if not re.search(rf"`?stillruns {verb}\b", text)]
    assert not missing, f"no page shows: {missing}"


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_commands_exist(path: Path) -> None:
    """A command that a page tells the reader to type uses a verb that exists."""
    text = path.read_text(encoding="utf-8")
    spans = re.findall(r"`(stillruns [^`]+)`", text)
    for place in code_blocks(text) + spans:
        for verb in re.findall(r"(?:^|\s|/)stillruns ([a-z]\S*)", place):
            assert verb in VERBS, f"{path.name}: stillruns {verb} is no command"


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_make_targets_exist(path: Path) -> None:
    """`make X` in a page is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    text = path.read_text(encoding="utf-8")
    for place in code_blocks(text) + re.findall(r"`(make [^`]+)`", text):
        for target in re.findall(r"^\s*make ([a-z][a-z-]*)", place, re.MULTILINE):
            assert target in targets, f"{path.name}: make {target} is no target"


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as the usual renderers make them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_relative_links_resolve(path: Path) -> None:
    """A link to a file of this repository leads to a file that is there, an anchor to a heading."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{path.name}: {link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{path.name}: {link} has no such heading"


@pytest.mark.parametrize(
    "path", [p for p in PAGES if ROOT / "docs" in p.parents and p.name != "README.md"], ids=lambda p: p.name
)
def test_pages_can_be_reached(path: Path) -> None:
    """No page of docs/ is an orphan: the index leads to it."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert str(path.relative_to(ROOT / "docs")) in index, f"docs/README.md does not lead to {path.name}"


def specs() -> list[tuple[str, str]]:
    """(where, text) of every spec in pages and examples."""
    found = [(path.name, path.read_text(encoding="utf-8")) for path in EXAMPLES]
    for path in PAGES:
        blocks = code_blocks(path.read_text(encoding="utf-8"))
        found += [(f"{path.name} block {n}", block) for n, block in enumerate(blocks) if "[experiment]" in block]
    return found


@pytest.mark.parametrize(("where", "text"), specs(), ids=lambda value: value[:40])
def test_specs_parse(where: str, text: str) -> None:
    """A spec that a reader may copy is valid TOML, and a valid spec."""
    document = tomllib.loads(text)
    assert {"experiment", "backend"} <= document.keys(), where
    spec_file.parse(text, ROOT / "examples" / "copied.toml")


def section(name: str) -> str:
    """One `## ` section of the spec reference."""
    text = SPEC_PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## `{re.escape(name)}`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/spec.md has no section {name}"
    return found[1]


def rows(name: str) -> dict[str, str]:
    """{field: default} of a section's table; the default is empty where the field is required."""
    table = re.findall(r"^\| `\"?([\w.-]+)\"?`((?:, `\w+`)*) \|([^|]*)\|", section(name), re.MULTILINE)
    found: dict[str, str] = {}
    for first, more, default in table:
        for field in [first, *re.findall(r"`(\w+)`", more)]:
            found[field] = default.strip().strip("`")
    return found


def fields(noun: type[Any]) -> set[str]:
    """Names of a dataclass's fields."""
    return {field.name for field in dataclasses.fields(noun)}


ELSEWHERE = {"backends", "gpu_layers", "axes", "stop", "timeouts", "hypotheses", "path", "sha256"}
"""Fields of Spec that are tables of their own, or that no file gives."""


def test_spec_reference_is_complete() -> None:
    """docs/spec.md has every field of model/spec.py, and no other."""
    assert set(rows("[experiment]")) - {"prompt_file"} == set(model_spec.Spec.__struct_fields__) - ELSEWHERE
    assert "prompt_file" in rows("[experiment]")
    assert set(rows("[[backend]]")) == fields(model_spec.BackendSpec)
    assert set(rows("[stop]")) == fields(model_spec.StopRule)
    assert set(rows("[timeouts]")) == fields(model_spec.Timeouts)
    assert set(rows("[[hypothesis]]")) - {"use"} == fields(model_spec.HypothesisSpec)


def test_spec_reference_has_the_loaders_axes() -> None:
    """[matrix] in docs/spec.md names the axes that the loader knows."""
    assert set(rows("[matrix]")) == {"gpu_layers", "env.NAME", "arg.--flag", *spec_file.AXES}


def test_spec_reference_has_the_loaders_defaults() -> None:
    """A default that docs/spec.md gives is the one that an empty field gets."""
    spec = spec_file.parse(
        '[experiment]\nname = "x"\nmodel = "synth:llama"\n[[backend]]\nid = "cpu"\n', ROOT / "examples" / "x.toml"
    )
    pairs = [("[experiment]", spec), ("[stop]", spec.stop), ("[timeouts]", spec.timeouts)]
    for name, values in pairs:
        for field, default in rows(name).items():
            if field in ("name", "model", "prompt", "prompt_file"):
                continue
            actual = spec_file.FUTILITY if field == "futility" else getattr(values, field)  # 0 without `decide`
            shown = str(actual).lower() if isinstance(actual, bool) else actual
            shown = list(actual) if isinstance(actual, tuple) else shown
            expected = f'"{shown}"' if isinstance(shown, str) and not isinstance(actual, bool) else f"{shown}"
            expected = "" if actual is None else expected.removesuffix(".0")
            assert default == expected, f"{name} {field}: docs say {default}, the loader {expected}"


def test_redaction_page_is_complete() -> None:
    """docs/redaction.md explains every kind of tag."""
    text = (ROOT / "docs" / "redaction.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)) == set(KINDS)


def test_fault_matrix_page_is_complete() -> None:
    """docs/fault-matrix.md explains every kind and phase, and has a cell for every fault of a backend."""
    text = (ROOT / "docs" / "fault-matrix.md").read_text(encoding="utf-8")
    first = set(re.findall(r"^\| `(\w+)` \|", text.split("<!--")[0], re.MULTILINE))
    assert first == {f.kind for f in faults.FAULTS} | {f.phase.value for f in faults.FAULTS}
    for backend, table in re.findall(r"<!-- generated: (\w+) -->\n(.*?)<!-- end -->", text, re.DOTALL):
        heading, _, *body = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
        cells = {
            f"{heading[i]}:{row[0].strip('`')}" for row in body for i, cell in enumerate(row) if i and cell.strip()
        }
        assert cells == {f.id for f in faults.FAULTS if f.needs in ("any", backend)}, backend


def test_only_a_version_makes_a_release(tmp_path: Path) -> None:
    """Any other argument writes no release and removes no fragment: `--help` once was one."""
    script = tmp_path / "scripts" / "changelog.py"
    fragment = tmp_path / "changelog.d" / "topic.fixed.md"
    for path, text in ((script, (ROOT / "scripts" / "changelog.py").read_text()), (fragment, "It is so.\n")):
        path.parent.mkdir()
        path.write_text(text)

    def run(*words: str) -> int:
        return subprocess.run([sys.executable, script, *words], capture_output=True, check=False).returncode

    for words in (("--help",), ("-n",), ("next",), ("",), ("0.2",), ("0.2.0", "0.3.0")):
        assert run(*words) == 2, words
    assert fragment.exists() and not (tmp_path / "CHANGELOG.md").exists()
    assert run("0.2.0") == 0
    assert not fragment.exists() and "## 0.2.0 (" in (tmp_path / "CHANGELOG.md").read_text()


def test_changelog_fragments_are_well_formed() -> None:
    """Every fragment has a topic, a known kind, and a sentence for users."""
    place = importlib.util.spec_from_file_location("changelog", ROOT / "scripts" / "changelog.py")
    assert place and place.loader
    changelog = importlib.util.module_from_spec(place)
    place.loader.exec_module(changelog)
    found = changelog.fragments(ROOT / "changelog.d")
    assert set(found) == set(changelog.KINDS)
    assert changelog.notes(found) or not any(found.values())
