"""RL with typed tools beats RL without them, from one start, on tasks whose answer the eye does not give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.reproduce.claim import Claim
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, MeasuredEffect
from saccade.reproduce.settings import Reproduction

WITH: Final = "with-tools"
WITHOUT: Final = "without-tools"


def _expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return (
        Expectation("tools", f"accuracy: {WITH} minus {WITHOUT}", "above", 0.0),
        Expectation("training", f"accuracy of {WITH} minus that of its start", "above", 0.0),
        Expectation("calls", f"calls of {WITH} minus those of its start", "above", 0.0, decides=False),
        Expectation("eye", f"accuracy of {WITHOUT} minus that of its start", "above", 0.0, decides=False),
    )


def _measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    tools, without = evidence.settings.arm(WITH), evidence.settings.arm(WITHOUT)
    return {
        "tools": evidence.between(tools, without, lambda item: item.right),
        "training": evidence.gained(tools, lambda item: item.right),
        "calls": evidence.gained(tools, lambda item: item.calls),
        "eye": evidence.gained(without, lambda item: item.right),
    }


CLAIM: Final = Claim(
    "tools",
    "reinforcement learning with typed tools comes to a higher accuracy than without",
    "VISTA-Gym, table 2",
    _expectations,
    _measure,
    (("accuracy", "accuracy of rollouts"), ("tool_calls", "calls of a rollout"), ("reward", "reward")),
    (WITH, WITHOUT),
)
