"""Versions of the stored form: files of earlier ones are read, and no field changes without a new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from saccade.episode.journal import NumberedTurn
from saccade.evals.protocols.findings import Findings
from saccade.evals.rows import _rows
from saccade.evals.verdicts import Verdicts
from saccade.record.base import READABLE_VERSIONS, SCHEMA_VERSION, Record
from saccade.record.codec import dumps, loads, read_ids, read_lines
from saccade.record.content import VideoPart
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.report import CurateReport

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
        "stored records have other fields: raise SCHEMA_VERSION (record/base.py), read the earlier ones, and keep the "
        "fields of the new version beside those of the old"
    )


def test_a_file_of_version_1_is_read_and_written_as_of_today() -> None:
    file = GOLDEN / "version-1.jsonl"
    assert '"schema_version":1,' in file.read_text(encoding="utf-8")
    (trajectory,) = read_lines(file, Trajectory)
    assert list(read_ids(file, Trajectory)) == [row.id for row in _rows(file)] == ["t#0"]
    video = trajectory.task.media[0].part
    assert isinstance(video, VideoPart)
    assert video.sample is None
    assert trajectory.schema_version == SCHEMA_VERSION == max(READABLE_VERSIONS)
    assert loads(dumps(trajectory), Trajectory) == trajectory


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: str(kind.__name__))
def test_every_stored_form_reads_earlier_versions(kind: type[Record]) -> None:
    about = kind.model_fields["schema_version"]
    assert about.default == SCHEMA_VERSION
    assert about.metadata == Trajectory.model_fields["schema_version"].metadata != []
