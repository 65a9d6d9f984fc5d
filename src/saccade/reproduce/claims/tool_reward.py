"""With the outcome alone as the reward calls fall; with the accumulative tool reward they rise and stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.reproduce.claim import Claim
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, MeasuredEffect
from saccade.reproduce.settings import Reproduction

OUTCOME: Final = "outcome-only"
ACCUMULATIVE: Final = "accumulative"
STAY: Final = -0.15
"""Calls of a rollout by which the last third of the steps may lie below the third before it."""


def _expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return (
        Expectation("fall", f"calls of {OUTCOME} minus those of the start", "below", 0.0),
        Expectation("rise", f"calls of {ACCUMULATIVE} minus those of the start", "above", 0.0),
        Expectation(
            "stay",
            f"calls of {ACCUMULATIVE} in the last third of its steps minus the third before",
            "above",
            STAY,
            "blocks of steps",
        ),
        Expectation("apart", f"calls of {ACCUMULATIVE} minus those of {OUTCOME}", "above", 0.0, decides=False),
        Expectation("accuracy", f"accuracy of {ACCUMULATIVE} minus that of {OUTCOME}", "above", 0.0, decides=False),
    )


def _measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    outcome, accumulative = evidence.settings.arm(OUTCOME), evidence.settings.arm(ACCUMULATIVE)
    return {
        "fall": evidence.gained(outcome, lambda item: item.calls),
        "rise": evidence.gained(accumulative, lambda item: item.calls),
        "stay": evidence.later(accumulative, "tool_calls"),
        "apart": evidence.between(accumulative, outcome, lambda item: item.calls),
        "accuracy": evidence.between(accumulative, outcome, lambda item: item.right),
    }


CLAIM: Final = Claim(
    "tool-reward",
    "with outcome-only reward tool calls fall; with the accumulative tool reward they rise and stay",
    "PyVision-RL, figure 7",
    _expectations,
    _measure,
    (("tool_calls", "calls of a rollout"), ("accuracy", "accuracy of rollouts"), ("response_length", "tokens written")),
    (OUTCOME, ACCUMULATIVE),
)
