"""CodeDance's reward calls less on easy tasks than DeepEyes'; its turn-level term keeps entropy up for longer.

Who calls nowhere calls less on easy tasks too. So the claim has two floors: accuracy must not fall below that of the
start, and hard tasks, where calls help, must still be called for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.reproduce.claim import Claim
from saccade.reproduce.claims.looking import why_not
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, MeasuredEffect
from saccade.reproduce.settings import Reproduction
from saccade.rl.train.settings import RlSettings

EASY: Final = "easy"
"""The task set that is easy."""
HARD: Final = "hard"
"""The task set in which calls help."""
ADAPTIVE: Final = "codedance"
LUMP: Final = "deepeyes"
SEQUENCE: Final = "sequence-only"
AS_GOOD: Final = -0.05
"""Accuracy by which it may be worse and still counts as equal."""
CALLED: Final = 0.5
"""Share of the hard tasks in which a policy must call to have adapted, and not only stopped calling."""
LATE: Final = 0.5
"""Fraction of the steps from which on entropy is compared."""


def _expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    expectations = [
        Expectation("calls", f"calls on {EASY} tasks: {ADAPTIVE} minus {LUMP}", "below", 0.0),
        Expectation("accuracy", f"accuracy on {EASY} tasks: {ADAPTIVE} minus {LUMP}", "above", AS_GOOD),
        Expectation("kept", f"accuracy on all tasks: {ADAPTIVE} minus its start", "above", AS_GOOD),
        Expectation("called", f"share of {HARD} tasks in which {ADAPTIVE} calls at all", "above", CALLED),
    ]
    if any(arm.name == SEQUENCE for arm in settings.arms):
        says = f"entropy in the second half of the steps: {ADAPTIVE} minus {SEQUENCE}"
        expectations.append(Expectation("entropy", says, "above", 0.0, "blocks of steps"))
    return tuple(expectations)


def _wrong(settings: Reproduction, arms: Mapping[str, RlSettings]) -> str:
    sets = [item.name for item in settings.task_sets]
    missing = [name for name in (EASY, HARD) if name not in sets]
    return f"it needs the task set(s) {', '.join(missing)}, and has {', '.join(sets)}" if missing else ""


def _measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    settings = evidence.settings
    adaptive, lump = settings.arm(ADAPTIVE), settings.arm(LUMP)
    calls = evidence.between(adaptive, lump, lambda item: item.calls, EASY)
    found = {
        # Without pictures that come back the DeepEyes reward pays for no call.
        "calls": MeasuredEffect(calls.by_seed, why_not(evidence, adaptive)),
        "accuracy": evidence.between(adaptive, lump, lambda item: item.right, EASY),
        "kept": evidence.gained(adaptive, lambda item: item.right),
        "called": evidence.of(adaptive, lambda item: float(item.calls > 0), HARD),
    }
    if any(arm.name == SEQUENCE for arm in settings.arms):
        found["entropy"] = evidence.between_steps(adaptive, settings.arm(SEQUENCE), "entropy", LATE)
    return found


CLAIM: Final = Claim(
    "adaptive",
    "CodeDance's adaptive reward makes fewer calls on easy tasks than the DeepEyes reward at equal or better accuracy, "
    "and still calls on hard ones; the turn-level term delays entropy collapse",
    "CodeDance, table 3 and figure 4",
    _expectations,
    _measure,
    (("tool_calls", "calls of a rollout"), ("entropy", "entropy of a token"), ("accuracy", "accuracy of rollouts")),
    (ADAPTIVE, LUMP),
    _wrong,
)
