"""The bounds and defaults of evaluations and protocols, as docs and schemas state them."""

from pathlib import Path

from tests.schema_numbers import numbers_of_models

GOLDEN = Path(__file__).parent / "golden" / "schemas.txt"
MODULES = (
    "saccade.evals.settings",
    "saccade.evals.protocols.findings",
    "saccade.evals.protocols.errors.records",
)


def test_bounds_and_defaults() -> None:
    assert numbers_of_models(MODULES) == GOLDEN.read_text(encoding="utf-8").splitlines()
