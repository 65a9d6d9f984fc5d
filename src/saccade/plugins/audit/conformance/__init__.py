"""Does a sandbox provider behave? About a hundred named checks that any provider must pass.

In pytest, with a fixture `sandbox` of your provider, opened with `LIMITS`:

    @pytest.mark.parametrize("check", [c for c in CHECKS if not c.closes], ids=lambda c: c.name)
    async def test_conformance(check, sandbox):
        await check(sandbox)

or anywhere: `outcomes = await run_all(lambda: MySandbox(limits=LIMITS))`.

One check plays programs drawn at random against a model; `model.play` and `model.draw` play as many as are wanted.
The checks do not try to break out (that is `saccade.plugins.audit.attacks`) and do not measure speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from saccade.errors import SettingsError
from saccade.plugins.audit.conformance import limit_checks, model, output, rollback
from saccade.plugins.audit.conformance.check import LIMITS, Check, ConformanceError
from saccade.sandbox.base import Sandbox

__all__ = ["CHECKS", "LIMITS", "Check", "CheckResult", "ConformanceError", "run_all"]

CHECKS: tuple[Check, ...] = tuple(
    check
    for group in (
        *(rollback.STATE, rollback.ROLLBACK, rollback.BRANCHES, model.GROUP),
        *(output.IMAGES, output.VIDEOS, output.CAPTURES, output.OUTPUT),
        *(limit_checks.LIMITS_GROUP, limit_checks.STATUSES, limit_checks.CONCURRENCY),
    )
    for check in group.checks
)
"""Every check, in the order of the groups."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check. `message` is empty if it passed; `seconds` is wall time."""

    check: Check
    passed: bool
    message: str
    seconds: float


async def run_all(open_sandbox: Callable[[], Sandbox], names: Collection[str] | None = None) -> list[CheckResult]:
    """Run the checks (those of `names`, or all) and tell what each found; a failing check does not stop the rest.

    `open_sandbox` gives a fresh sandbox that is not yet entered. One is shared by all checks but those that close
    theirs; after a failure the next check gets a fresh one. Raises `SettingsError` for an unknown name.
    """
    chosen = _choose(names)
    outcomes: list[CheckResult] = []
    shared = [check for check in chosen if not check.closes]
    while shared:
        async with open_sandbox() as sandbox:
            while shared:
                outcomes.append(await _run_one(shared.pop(0), sandbox))
                if not outcomes[-1].passed:
                    break
    for check in chosen:
        if check.closes:
            async with open_sandbox() as sandbox:
                outcomes.append(await _run_one(check, sandbox))
    return outcomes


def _choose(names: Collection[str] | None) -> list[Check]:
    if names is None:
        return list(CHECKS)
    unknown = sorted(set(names) - {check.name for check in CHECKS})
    if unknown:
        raise SettingsError(
            f"no checks of these names: {', '.join(unknown)}. "
            "The names are in saccade.plugins.audit.conformance.CHECKS."
        )
    return [check for check in CHECKS if check.name in names]


async def _run_one(check: Check, sandbox: Sandbox) -> CheckResult:
    started = time.monotonic()
    message = ""
    try:
        await check(sandbox)
    except ConformanceError as error:
        message = str(error)
    except Exception as error:  # a provider that raises has failed the check, whatever it raises
        message = f"the provider raised {type(error).__name__}: {error}"
    return CheckResult(check, not message, message, time.monotonic() - started)
