"""Reinforcement learning lifts held-out accuracy on visual search by 20 points or more, with every recipe.

An arm that is trained on videos is shown beside them: its tasks are no visual search.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.reproduce.claim import Claim
from saccade.reproduce.claims.looking import why_not
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, MeasuredEffect
from saccade.reproduce.settings import Reproduction

LIFT: Final = 0.20


def _expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return tuple(
        Expectation(
            arm.name,
            f"accuracy of {arm.name} minus that of the start",
            "above",
            LIFT,
            decides="video" not in arm.dialect,
        )
        for arm in settings.arms
    )


def _measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    found = {}
    for arm in evidence.settings.arms:
        gained = evidence.gained(arm, lambda item: item.right)
        found[arm.name] = MeasuredEffect(gained.by_seed, why_not(evidence, arm))
    return found


CLAIM: Final = Claim(
    "lift",
    "RL lifts held-out accuracy on visual search by 20 points or more over its cold start, with every recipe",
    "all five papers",
    _expectations,
    _measure,
    (("accuracy", "accuracy of rollouts"), ("tool_calls", "calls of a rollout"), ("reward", "reward")),
)
