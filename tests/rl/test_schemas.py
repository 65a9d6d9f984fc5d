"""The bounds and defaults of RL: recipes, rules, losses, engines, as docs and schemas state them."""

from pathlib import Path

from tests.schema_numbers import numbers_of_models

GOLDEN = Path(__file__).parent / "golden" / "schemas.txt"
MODULES = (
    "saccade.rl.recipe",
    "saccade.rl.losses.settings",
    "saccade.rl.select.plain",
    "saccade.rl.select.curriculum",
    "saccade.rl.select.oversample",
    "saccade.rl.advantages.rules",
    "saccade.rl.train.settings",
    "saccade.rl.train.curriculum",
    "saccade.rl.engines.settings",
    "saccade.rl.generation.rollouts",
)


def test_bounds_and_defaults() -> None:
    assert numbers_of_models(MODULES) == GOLDEN.read_text(encoding="utf-8").splitlines()
