"""Hostile programs that try to break out of a sandbox, and a judge that decides by evidence whether they did.

For the owner of a sandbox: `saccade doctor --attack` runs the list on this machine. An attack that holds here proves
nothing about attacks that are not in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from saccade.errors import SettingsError
from saccade.plugins.audit.attacks.attack import Attack
from saccade.plugins.audit.attacks.files import FACTS, FILES, REST
from saccade.plugins.audit.attacks.floods import FLOODS, NETWORK, RESOURCES
from saccade.plugins.audit.attacks.forging import REPORTS, RUNTIME, WIRE
from saccade.plugins.audit.attacks.processes import KERNEL, PROCESSES, STANDING
from saccade.plugins.audit.attacks.rollback import BRANCHES, ROLLBACK
from saccade.plugins.audit.attacks.runner import LIMITS, AttackOutcome, AttackRunner
from saccade.plugins.audit.attacks.secrets import RESTORED, SECRETS
from saccade.sandbox.base import Sandbox
from saccade.sandbox.registry import Audit

__all__ = ["ATTACKS", "AUDIT", "LIMITS", "Attack", "AttackOutcome", "AttackRunner", "choose", "run_attacks"]

ATTACKS: tuple[Attack, ...] = (
    *(*FILES, *SECRETS, *FACTS, *NETWORK, *PROCESSES, *REST, *RESOURCES, *FLOODS, *KERNEL),
    *(*ROLLBACK, *RESTORED, *STANDING, *BRANCHES, *RUNTIME, *REPORTS, *WIRE),
)
"""Every attack, in the order of the groups."""


def choose(names: Collection[str] | None) -> tuple[Attack, ...]:
    """Return the attacks of these names, or all. Raises `SettingsError` for an unknown name."""
    if names is None:
        return ATTACKS
    unknown = sorted(set(names) - {attack.name for attack in ATTACKS})
    if unknown:
        raise SettingsError(
            f"no attacks of these names: {', '.join(unknown)}. The names are in saccade.plugins.audit.attacks."
        )
    return tuple(attack for attack in ATTACKS if attack.name in names)


async def run_attacks(
    open_sandbox: Callable[[], Sandbox],
    names: Collection[str] | None = None,
    *,
    on_outcome: Callable[[AttackOutcome], None] | None = None,
) -> list[AttackOutcome]:
    """Run the attacks (those of `names`, or all) one after the other; `on_outcome` hears of each when it is judged.

    `open_sandbox` gives a fresh sandbox that is not yet entered, best with `LIMITS`.
    """
    outcomes = []
    async with AttackRunner(open_sandbox) as runner:
        for attack in choose(names):
            outcomes.append(await runner.run(attack))
            if on_outcome is not None:
                on_outcome(outcomes[-1])
    return outcomes


AUDIT = Audit(limits=LIMITS, choose=choose, run=run_attacks)
"""Registered as `attacks` in the entry point group `saccade.audits`."""
