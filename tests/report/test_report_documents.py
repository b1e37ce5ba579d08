"""The promise: what `--json` prints keeps its schema in docs/schemas, and a schema has the fields of its noun."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from program import ROOT, stillruns
from real_parts import llama_server
from stillruns.model.agreement import Agreement
from stillruns.model.applied import Applied, FactorApplied
from stillruns.model.evidence import Evidence
from stillruns.model.exchange import Exchange
from stillruns.model.once_result import OnceResult
from stillruns.model.outcome import Outcome, OutcomeKind
from stillruns.model.phase import Phase
from stillruns.model.process import CoreNotes, ProcessEnd
from stillruns.model.selftest import FaultResult, SelftestResult
from stillruns.model.trial import Sighting, TrialRecord
from stillruns.model.verdict import TrialVerdict

SCHEMAS = ROOT / "docs" / "schemas"
ONCE, TRIAL, SELFTEST = (json.loads((SCHEMAS / f"{n}.json").read_text()) for n in ("once", "trial", "selftest"))
RECORD = TRIAL["$defs"]["record"]["properties"]
VERDICT = TRIAL["$defs"]["verdict"]["properties"]

NOUNS: list[tuple[str, dict[str, Any], type[Any], set[str]]] = [
    ("once", ONCE["properties"], OnceResult, {"schema", "markdown", "-refs"}),
    ("applied", ONCE["$defs"]["applied"]["properties"], Applied, set()),
    (
        "factor",
        ONCE["$defs"]["applied"]["properties"]["factors"]["additionalProperties"]["properties"],
        FactorApplied,
        set(),
    ),
    ("outcome", ONCE["$defs"]["outcome"]["properties"], Outcome, set()),
    ("record", RECORD, TrialRecord, set()),
    ("sighting", RECORD["sighting"]["properties"], Sighting, set()),
    ("end", RECORD["end"]["oneOf"][1]["properties"], ProcessEnd, set()),
    ("exchange", TRIAL["$defs"]["exchange"]["properties"], Exchange, set()),
    ("core", RECORD["core"]["oneOf"][1]["properties"], CoreNotes, set()),
    ("evidence", RECORD["evidence"]["items"]["properties"], Evidence, set()),
    ("verdict", VERDICT, TrialVerdict, set()),
    ("agreement", VERDICT["agreement"]["oneOf"][1]["properties"], Agreement, set()),
    ("selftest", SELFTEST["properties"], SelftestResult, {"schema"}),
    ("fault", SELFTEST["$defs"]["result"]["properties"], FaultResult, set()),
]
"""Name, the schema's properties, the noun, and what the document has more (or, with -, less) than it."""


@pytest.mark.parametrize(("properties", "noun", "apart"), [n[1:] for n in NOUNS], ids=[n[0] for n in NOUNS])
def test_a_schema_has_the_fields_of_its_noun(properties: dict[str, Any], noun: type[Any], apart: set[str]) -> None:
    """A field that is added to a noun is added to the schema, or the document would break it."""
    fields = {f.name for f in dataclasses.fields(noun)} - {name[1:] for name in apart if name.startswith("-")}
    assert set(properties) == fields | {name for name in apart if not name.startswith("-")}


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_schemas_are_schemas(path: Path) -> None:
    """Each is valid JSON Schema and says which document it is for."""
    schema = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"stillruns.{path.stem}/1"
    assert schema["properties"]["schema"] == {"const": schema["$id"]}


def test_words_of_the_nouns() -> None:
    """Outcomes and phases in the schemas are those of the program."""
    for schema in (ONCE, TRIAL):
        assert set(schema["$defs"]["outcome"]["properties"]["kind"]["enum"]) == {k.value for k in OutcomeKind}
        assert set(schema["$defs"]["phase"]["enum"]) == {p.value for p in Phase}


def document(*words: str, status: int = 0) -> Any:
    """What a verb prints with `--json`."""
    done = stillruns(*words)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_any_command(tmp_path: Path) -> None:
    """A program that is no llama.cpp program, once and shown: both documents keep their schemas."""
    store = ["--store", str(tmp_path / "s")]
    once = document("run", "--json", *store, "--", "sh", "-c", "echo x; kill -SEGV $$")
    jsonschema.validate(once, ONCE)
    assert (once["program"], once["outcome"]["signal"]) == ("", "SIGSEGV")
    shown = document("show", once["trial"], "--json", *store)
    jsonschema.validate(shown, TRIAL)
    assert shown["record"]["end"]["signal"] == "SIGSEGV"


@pytest.mark.engine()
@pytest.mark.slow()
@pytest.mark.usefixtures("shim")  # which skips without a compiler
def test_real_servers(tmp_path: Path) -> None:
    """A llama-server that is well, one that cannot load its model, and one that is made to crash."""
    store = ["--store", str(tmp_path / "s")]
    matrix = document("selftest", "--kind", "segv", "--phase", "decode", "--json", *store)
    jsonschema.validate(matrix, SELFTEST)
    [fault] = matrix["results"]
    assert fault["right"], fault
    table = document("report", matrix["run"], "--json", *store)
    jsonschema.validate(table, json.loads((SCHEMAS / "run.json").read_text()))
    assert [c["passed"] for c in table["cells"]] == [2, 1, 0], "the references and a control pass, the fault does not"
    crashed = document("show", fault["trial"], "--json", *store)
    jsonschema.validate(crashed, TRIAL)
    assert crashed["verdict"]["outcome"]["kind"] == "crash"
    well = document("show", f"{matrix['run']}.0001", "--json", *store)
    jsonschema.validate(well, TRIAL)
    assert well["verdict"]["agreement"]["verdict"] == "reference"
    server = str(llama_server())
    once = document(
        "run", "--json", *store, "--", server, "-m", str(tmp_path / "gone.gguf"), "-ngl", "9", "--port", "18433"
    )
    jsonschema.validate(once, ONCE)
    factors = once["applied"]["factors"]
    assert (factors["backend"]["asked"], factors["gpu_layers"]["got"]) == ("a GPU", None)
    assert factors["model"]["got"] is None
    assert "does not say it was loaded" in factors["model"]["why"]
    assert "applied unknown" in once["markdown"].splitlines()[0]
