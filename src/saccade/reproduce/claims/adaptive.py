"""CodeDance's reward calls less on easy tasks than DeepEyes'; its turn-level term keeps entropy up for longer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.reproduce.claim import Claim
from saccade.reproduce.claims.looking import why_not
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, Measured
from saccade.reproduce.settings import Reproduction
from saccade.rl.train.settings import RlSettings

EASY: Final = "easy"
"""The task set that is easy."""
ADAPTIVE: Final = "codedance"
LUMP: Final = "deepeyes"
SEQUENCE: Final = "sequence-only"
AS_GOOD: Final = -0.05
"""Accuracy by which it may be worse and still counts as equal."""
LATE: Final = 0.5
"""Fraction of the steps from which on entropy is compared."""


def _expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    made = [
        Expectation("calls", f"calls on {EASY} tasks: {ADAPTIVE} minus {LUMP}", "below", 0.0),
        Expectation("accuracy", f"accuracy on {EASY} tasks: {ADAPTIVE} minus {LUMP}", "above", AS_GOOD),
    ]
    if any(arm.name == SEQUENCE for arm in settings.arms):
        says = f"entropy in the second half of the steps: {ADAPTIVE} minus {SEQUENCE}"
        made.append(Expectation("entropy", says, "above", 0.0, "blocks of steps"))
    return tuple(made)


def _wrong(settings: Reproduction, told: Mapping[str, RlSettings]) -> str:
    sets = [item.name for item in settings.task_sets]
    return "" if EASY in sets else f"it needs a task set {EASY}, and has {', '.join(sets)}"


def _measure(evidence: Evidence) -> Mapping[str, Measured]:
    settings = evidence.settings
    adaptive, lump = settings.arm(ADAPTIVE), settings.arm(LUMP)
    calls = evidence.between(adaptive, lump, lambda item: item.calls, EASY)
    found = {
        # Without pictures that come back the DeepEyes reward pays for no call.
        "calls": Measured(calls.by_seed, why_not(evidence, adaptive)),
        "accuracy": evidence.between(adaptive, lump, lambda item: item.right, EASY),
    }
    if any(arm.name == SEQUENCE for arm in settings.arms):
        found["entropy"] = evidence.between_steps(adaptive, settings.arm(SEQUENCE), "entropy", LATE)
    return found


CLAIM: Final = Claim(
    "adaptive",
    "CodeDance's adaptive reward makes fewer calls on easy tasks than the DeepEyes reward at equal or better accuracy; "
    "the turn-level term delays entropy collapse",
    "CodeDance, table 3 and figure 4",
    _expectations,
    _measure,
    (("tool_calls", "calls of a rollout"), ("entropy", "entropy of a token"), ("accuracy", "accuracy of rollouts")),
    (ADAPTIVE, LUMP),
    _wrong,
)
