"""The numbers of the rewards as papers and released code have them, and where a setting ends."""

from __future__ import annotations

from typing import Any

import pytest

from saccade.core.settings import Settings
from saccade.rewards import codedance, codev, peers, vista
from saccade.rewards.judges.answer import BoxRule
from saccade.rewards.judges.model import JudgeRules
from saccade.rewards.vista import RepetitionRule

CODEDANCE = {
    "accuracy_weight": 1.0,
    "format_weight": 0.2,
    "base": 0.5,
    "gamma": 4.0,
    "beta": 0.2,
    "tool_weight": 1.0,
    "penalty": -0.5,
    "discount": 0.2,
}
MATH = {"accuracy_weight": 1.2, "format_weight": 0.4}


@pytest.mark.parametrize(
    ("settings", "numbers"),
    [
        (codedance.PRESETS["paper"], CODEDANCE),
        (codedance.PRESETS["paper-math"], CODEDANCE | MATH | {"base": 1.0}),
        (codedance.PRESETS["repo-math"], CODEDANCE | MATH | {"base": 1.0}),
        (codev.PRESETS["paper"], {"accuracy_weight": 1.0, "tool_weight": 0.5, "redline": -1.0, "format_weight": 0.0}),
        (codev.PRESETS["with-format"], {"format_weight": 0.3}),
        (peers.DEEPEYES_PRESETS["repo"], {"accuracy_weight": 0.8, "format_weight": 0.2, "tool_weight": 1.2}),
        (peers.DEEPEYES_PRESETS["math"], MATH | {"tool_weight": 0.0}),
        (peers.PixelReasonerReward(), {"curiosity_weight": 0.5, "target": 0.3, "redundancy_weight": 0.05}),
        (peers.PRESETS["paper"], {"tool_weight": 0.1, "right_from": 1.0}),
        (peers.PRESETS["repo"], {"tool_weight": 0.1, "right_from": 0.5}),
        (peers.ThymeReward(), {"accuracy_weight": 1.0, "format_weight": 0.5, "consistency_weight": 0.5}),
        (vista.VistaReward(), {"penalties": (-1.5, -2.0, -3.0), "right_from": 1.0}),
        (
            RepetitionRule(),
            {
                "characters": (32, 64, 128),
                "digits": (128, 256, 512),
                "words": (8, 16, 32),
                "phrases": (4, 8, 16),
                "numbers": (32, 64, 128),
                "turns": (4, 8, 16),
            },
        ),
        (BoxRule(), {"full": 1, "part": 0.5, "miss": 0.25, "contained": 0.75, "touched": 0.25, "largest": 0.5}),
        (
            JudgeRules(),
            {
                "attempts": 3,
                "max_tokens": 1024,
                "concurrent": 8,
                "seconds": 600,
                "outages": 8,
                "levels": (1.0, 0.5, 0.25),
            },
        ),
    ],
    ids=lambda given: type(given).__name__,
)
def test_published_numbers(settings: Settings, numbers: dict[str, Any]) -> None:
    assert {name: settings.model_dump()[name] for name in numbers} == numbers
