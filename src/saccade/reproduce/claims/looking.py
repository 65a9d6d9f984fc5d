"""Whether a claim about visual search can be tried at all: the start must be able to look."""

from __future__ import annotations

from typing import Final

from saccade.reproduce.evidence import Evidence
from saccade.reproduce.settings import Arm

LOOKS: Final = 0.2
"""Share of the rollouts with a crop from which a start can look: in so many a crop holds the evidence."""


def why_not(evidence: Evidence, arm: Arm) -> str:
    """Why the claim cannot be decided with this start; empty if it can."""
    start = [item for item in evidence.start(arm).values() if item.searched]
    if not start:
        return "its tasks are no visual search"
    looked = [item for item in start if item.looked]
    found = sum(item.found for item in looked)
    if not looked or found < LOOKS * len(looked):
        return f"the start cannot look: {found} of {len(looked)} rollouts with a crop held the evidence"
    return ""
