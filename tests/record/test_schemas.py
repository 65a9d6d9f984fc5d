"""The bounds and defaults of records, as docs and schemas state them."""

from pathlib import Path

from tests.schema_numbers import numbers_of_models

GOLDEN = Path(__file__).parent / "golden" / "schemas.txt"
MODULES = (
    "saccade.record.task",
    "saccade.record.trajectory",
    "saccade.record.turn",
    "saccade.record.content",
    "saccade.record.execution",
    "saccade.record.score",
    "saccade.record.action",
)


def test_bounds_and_defaults() -> None:
    assert numbers_of_models(MODULES) == GOLDEN.read_text(encoding="utf-8").splitlines()
