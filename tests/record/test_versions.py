"""The version of the stored form: no field changes without a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from saccade.episode.run_folder import NumberedTurn
from saccade.evals.protocols.findings import Findings
from saccade.evals.verdicts import Verdicts
from saccade.record.base import SCHEMA_VERSION
from saccade.record.trajectory import Trajectory
from saccade.training.sft.curate.report import CurateReport

GOLDEN = Path(__file__).parent / "golden"
STORED = (Trajectory, NumberedTurn, Verdicts, Findings, CurateReport)


def fields(kind: type[BaseModel]) -> Iterator[str]:
    """A line for each field of `kind` and of what it holds, with its type and what it is where nothing is said."""
    schema = kind.model_json_schema(mode="serialization")
    for name, model in {kind.__name__: schema, **schema.get("$defs", {})}.items():
        for field, about in model.get("properties", {}).items():
            said = {key: value for key, value in about.items() if key not in ("title", "description", "$defs")}
            yield f"{name}.{field} {said}"


def test_fields_of_a_version_stay_as_they_are() -> None:
    now = sorted({line for kind in STORED for line in fields(kind)})
    golden = GOLDEN / f"fields-{SCHEMA_VERSION}.txt"
    assert golden.is_file(), f"write the fields of this version to {golden.name}"
    assert now == golden.read_text(encoding="utf-8").splitlines(), (
        "stored records have other fields: raise SCHEMA_VERSION (record/base.py), and write the fields anew"
    )
