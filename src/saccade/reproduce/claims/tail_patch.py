"""Going on with the hard but learnable tasks alone lifts accuracy after the plateau.

Compared with where the plateau was, and with training for as long over all tasks: else any further training would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.reproduce.claim import Claim
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, MeasuredEffect
from saccade.reproduce.settings import Reproduction

BASE: Final = "plateau"
TAIL: Final = "tail-patch"
FURTHER: Final = "further"


def _expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return (
        Expectation("lift", f"accuracy: {TAIL} minus {BASE}", "above", 0.0),
        Expectation("slice", f"accuracy: {TAIL} minus {FURTHER}, as many steps over all tasks", "above", 0.0),
        Expectation(
            "plateau",
            f"accuracy of {BASE}'s rollouts in the last third of its steps minus the third before",
            "below",
            0.05,
            "blocks of steps",
            decides=False,
        ),
    )


def _measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    base, tail, further = (evidence.settings.arm(name) for name in (BASE, TAIL, FURTHER))
    return {
        "lift": evidence.between(tail, base, lambda item: item.right),
        "slice": evidence.between(tail, further, lambda item: item.right),
        "plateau": evidence.later(base, "accuracy"),
    }


CLAIM: Final = Claim(
    "tail-patch",
    "tail-patch on the hard-but-learnable slice lifts accuracy after the plateau",
    "VISTA-Gym, figure 7",
    _expectations,
    _measure,
    (("accuracy", "accuracy of rollouts"), ("reward", "reward")),
    (BASE, TAIL, FURTHER),
)
