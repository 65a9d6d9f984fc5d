"""TAPO raises the rate of faithful tool use over a reward of accuracy alone, measured by gold boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.reproduce.claim import Claim
from saccade.reproduce.claims.looking import why_not
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, MeasuredEffect
from saccade.reproduce.settings import Reproduction

TAPO: Final = "tapo"
ACCURACY: Final = "accuracy-only"


def _expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return (
        Expectation("faithful", f"faithful rate (right, evidence cut out): {TAPO} minus {ACCURACY}", "above", 0.0),
        Expectation("accuracy", f"accuracy: {TAPO} minus {ACCURACY}", "above", 0.0, decides=False),
    )


def _measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    tapo, accuracy = evidence.settings.arm(TAPO), evidence.settings.arm(ACCURACY)
    faithful = evidence.between(tapo, accuracy, lambda item: item.faithful)
    return {
        "faithful": MeasuredEffect(faithful.by_seed, why_not(evidence, tapo, lambda item: item.boxed)),
        "accuracy": evidence.between(tapo, accuracy, lambda item: item.right),
    }


CLAIM: Final = Claim(
    "faithful",
    "TAPO raises the faithful tool-use rate over accuracy-only",
    "CodeV, table 5",
    _expectations,
    _measure,
    (
        ("accuracy", "accuracy of rollouts"),
        ("reward/tool", "mean verdict on calls"),
        ("tool_calls", "calls of a rollout"),
    ),
    (TAPO, ACCURACY),
)
