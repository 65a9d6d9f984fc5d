from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.sandbox.providers import PROVIDERS, linux_only

from saccade.errors import SettingsError
from saccade.plugins.audit.attacks import ATTACKS, LIMITS, Attack, AttackRunner, choose, run_attacks
from saccade.sandbox.isolation import Layer

pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="module")]


KNOWN_BREACHES = {
    # Landlock has no right for chmod and utime, and without a user id of its own a session owns the host user's files.
    ("without_namespaces", "write_outside"): Layer.SESSION_USER,
    # A folder without a size cap is counted after the call only.
    ("without_namespaces", "disk_fill"): Layer.WORKSPACE,
    # The folder of all sessions is one of the machine's, and its times are to be seen.
    ("without_namespaces", "folders_above_the_own"): Layer.MOUNT_NAMESPACE,
}
"""(provider, attack) that gets through where this layer is off: the price of a lesser machine, told by `doctor`."""

RACES = {
    # How many files are made before the time limit ends the call depends on the disk.
    ("without_namespaces", "many_files"): Layer.WORKSPACE
}
"""The same, where it depends on the machine's speed whether the attack gets through."""


@pytest.fixture(scope="module", autouse=True)
def nothing_of_the_other_tests_is_collected() -> None:
    """The collector may start at any moment, and takes most of a second for all that a suite has made."""
    gc.collect()
    gc.freeze()


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=["local", *(pytest.param(name, marks=pytest.mark.slow) for name in PROVIDERS if name != "local")],
)
async def runner(request: pytest.FixtureRequest) -> AsyncIterator[AttackRunner]:
    async with AttackRunner(lambda: PROVIDERS[request.param](LIMITS)) as opened:
        yield opened


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
@pytest.mark.few(2, of=lambda params: params["attack"].group)
async def test_attack_fails(attack: Attack, runner: AttackRunner, request: pytest.FixtureRequest) -> None:
    outcome = await runner.run(attack)
    case = (request.node.callspec.params["runner"], attack.name)
    missing = KNOWN_BREACHES.get(case)
    race = RACES.get(case)
    if missing is not None and not await runner.has(missing):
        assert not outcome.held, f"{attack.name} is stopped without {missing.value} now: take it off the list"
    elif race is None or await runner.has(race):
        assert outcome.held, outcome.evidence
    assert outcome.neighbour_ok, f"the neighbour was harmed; {outcome.evidence}"
    assert outcome.session_survived or attack.may_lose_session, f"the session was lost; {outcome.evidence}"


async def test_the_judge_sees_a_breach(runner: AttackRunner) -> None:
    """Each kind of evidence counts: a printed breach, a secret in the output, a wrong neighbour is told apart."""
    printed = await runner.run(Attack("prints", "own", "admit it", "breach('I was there')\n"))
    assert not printed.held
    assert "I was there" in printed.evidence
    quiet = await runner.run(Attack("quiet", "own", "do nothing", "x = 1\n"))
    assert quiet.passed
    lost = await runner.run(Attack("forgets", "own", "break the own session", "import os\nos.remove('keep.txt')\n"))
    assert lost.held
    assert not lost.session_survived
    assert not lost.passed


async def test_the_judge_sees_host_side_evidence(runner: AttackRunner) -> None:
    surroundings = runner._surroundings
    assert surroundings.damage() == []
    surroundings.canary.write_text("changed")
    (surroundings.folder / "stranger").write_text("x")
    found = "; ".join(surroundings.damage())
    assert "a file of the host was changed" in found
    assert "stranger" in found
    surroundings.canary.write_text(surroundings.secrets["file"])
    (surroundings.folder / "stranger").unlink()
    assert surroundings.damage() == []
    with socket.create_server(("127.0.0.1", surroundings.free_port)):
        async with asyncio.timeout(30):
            while not surroundings._served:
                await asyncio.sleep(0.02)
    assert surroundings.damage() == ["the guest offered a service to the host's network"]
    assert surroundings.damage() == []


async def test_secret_in_the_output_is_a_breach(runner: AttackRunner) -> None:
    secret = runner._surroundings.secrets["file"]
    outcome = await runner.run(Attack("secret", "own", "print a secret", f"print({secret!r})\n"))
    assert not outcome.held
    assert "the secret of the file came back" in outcome.evidence


async def test_run_attacks_reports_in_order() -> None:
    heard: list[str] = []
    names = ["segfault", "read_passwd"]
    outcomes = await run_attacks(
        lambda: PROVIDERS["local"](LIMITS), names, on_outcome=lambda o: heard.append(o.attack.name)
    )
    assert heard == [outcome.attack.name for outcome in outcomes] == ["read_passwd", "segfault"]
    assert all(outcome.passed for outcome in outcomes)


async def test_unknown_attack_is_named() -> None:
    with pytest.raises(SettingsError, match="no_such_attack"):
        choose(["no_such_attack"])


async def test_attacks_are_many_and_compile() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 80
    for attack in ATTACKS:
        compile(attack.program, attack.name, "exec")
        assert attack.tries
