"""Hostile programs that try to break out of a sandbox, and a judge that decides by evidence whether they did.

For the owner of a sandbox: `saccade doctor --attack` runs the list on this machine. An attack that holds here proves
nothing about attacks that are not in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from saccade.errors import SettingsError
from saccade.sandbox.attacks.attack import Attack
from saccade.sandbox.attacks.branches import BRANCHES
from saccade.sandbox.attacks.facts import FACTS
from saccade.sandbox.attacks.files import FILES
from saccade.sandbox.attacks.floods import FLOODS
from saccade.sandbox.attacks.forging import RUNTIME
from saccade.sandbox.attacks.kernel import KERNEL
from saccade.sandbox.attacks.network import NETWORK
from saccade.sandbox.attacks.processes import PROCESSES
from saccade.sandbox.attacks.reports import REPORTS
from saccade.sandbox.attacks.resources import RESOURCES
from saccade.sandbox.attacks.rest import REST
from saccade.sandbox.attacks.rollback import ROLLBACK
from saccade.sandbox.attacks.runner import LIMITS, AttackOutcome, AttackRunner
from saccade.sandbox.attacks.secrets import SECRETS
from saccade.sandbox.attacks.standing import STANDING
from saccade.sandbox.attacks.wire import WIRE
from saccade.sandbox.audit import Audit
from saccade.sandbox.base import Sandbox

__all__ = ["ATTACKS", "AUDIT", "LIMITS", "Attack", "AttackOutcome", "AttackRunner", "choose", "run_attacks"]

ATTACKS: tuple[Attack, ...] = (
    *(*FILES, *SECRETS, *FACTS, *NETWORK, *PROCESSES, *REST, *RESOURCES, *FLOODS, *KERNEL),
    *(*ROLLBACK, *STANDING, *BRANCHES, *RUNTIME, *REPORTS, *WIRE),
)
"""Every attack, in the order of the groups."""


def choose(names: Collection[str] | None) -> tuple[Attack, ...]:
    """The attacks of these names, or all. Raises `SettingsError` for an unknown name."""
    if names is None:
        return ATTACKS
    unknown = sorted(set(names) - {attack.name for attack in ATTACKS})
    if unknown:
        raise SettingsError(
            f"no attacks of these names: {', '.join(unknown)}. The names are in saccade.sandbox.attacks."
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
