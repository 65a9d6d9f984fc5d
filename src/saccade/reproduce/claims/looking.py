"""Whether a claim about looking can be tried at all: the start must be able to cut out what is evidence.

A start that never cuts anything out shows neither; then what was trained from it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from saccade.reproduce.evidence import Evidence
from saccade.reproduce.exam_answers import ExamAnswer
from saccade.reproduce.settings import Arm

LOOKS: Final = 0.2
"""Share of the rollouts with a crop from which a policy can look: in so many a crop holds the evidence."""


def searched(item: ExamAnswer) -> bool:
    """Whether a task is visual search."""
    return item.searched


def why_not(evidence: Evidence, arm: Arm, asks: Callable[[ExamAnswer], bool] = searched) -> str:
    """Why the claim cannot be decided with this start; empty if it can. Tasks that `asks` is false of do not count."""
    start = [item for item in evidence.start(arm).values() if asks(item)]
    if not start:
        return "none of its tasks asks for a look"
    who, looked = "the start", [item for item in start if item.looked]
    if not looked:
        who = "what was trained from a start that never looks"
        trained = (item for seed in evidence.settings.seeds for item in evidence.exam(arm, seed).values())
        looked = [item for item in trained if item.looked]
    found = sum(item.saw_evidence for item in looked)
    if not looked or found < LOOKS * len(looked):
        return f"{who} cannot look: {found} of {len(looked)} rollouts with a crop held the evidence"
    return ""
