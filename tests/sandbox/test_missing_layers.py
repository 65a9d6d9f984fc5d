"""Without a layer everything still works; what gets through then is what the layer's loss is said to weaken."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.sandbox.providers import NAMESPACES, linux_only

from saccade.plugins.audit.attacks import LIMITS as ATTACK_LIMITS
from saccade.plugins.audit.attacks import run_attacks
from saccade.plugins.audit.conformance import LIMITS, run_all
from saccade.sandbox.base import Limits
from saccade.sandbox.isolation import Layer
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.promises import WEAKENED, Promise

pytestmark = [linux_only, pytest.mark.timeout(1800)]

GROUPS: dict[str, tuple[Layer, ...]] = {
    "namespaces": NAMESPACES,
    **{layer.value: (layer,) for layer in Layer if layer not in (Layer.ENVIRONMENT, Layer.WORKSPACE)},
}
"""Layers that are missing together, by a name. The environment is emptied by whoever starts the processes, and the size
of the workspace is capped wherever there is a mount namespace."""
LOST: dict[str, dict[str, Promise]] = {
    # The group of the session still limits memory, but only what is touched, and by ending the call, which on a slow
    # machine its time does first.
    "rlimits": dict.fromkeys(
        (
            "limits.memory",
            "limits.open_files",
            "limits.file_size",
            "rollback.memory_error",
            "statuses.a_memory_error_of_the_program",
        ),
        Promise.BOUNDED,
    ),
    # Its programs map files, and nobody finds the mappings then.
    "inspection": {"model.any_program": Promise.SEPARATE},
}
"""Without layers: the checks of the conformance suite that need them, and the promise that is weaker then."""
ANY = [pytest.param(name, marks=() if name == "cgroup" else pytest.mark.slow) for name in GROUPS]
LOOK = "import os\nprint(x, sorted(os.listdir('.')), open('f').read())"


def sandbox(name: str, limits: Limits) -> LocalSandbox:
    """One without the layers of that name."""
    return LocalSandbox(limits=limits, require_isolation=(), without=GROUPS[name])


@pytest.mark.parametrize("name", ANY)
async def test_calls_rollbacks_and_branches(name: str) -> None:
    async with sandbox(name, Limits(wall_seconds=5)) as box:
        isolation = await box.isolation()
        for layer in GROUPS[name]:
            assert not isolation.is_on(layer)
            assert [state.detail for state in isolation.layers if state.layer is layer] == ["left out on purpose"]
        session = await box.open({"x": 1})
        assert (await session.run("open('f', 'w').write('kept')")).ok
        failed = await session.run("x = 2\nopen('f', 'w').write('bad')\nopen('g', 'w').write('bad')\n1 / 0")
        assert failed.status.value == "error"
        (twin,) = await session.branch(1)
        assert (await twin.run("x = 3\nopen('f', 'w').write('twin')\nos = 1")).ok
        assert (await session.run(LOOK)).stdout == "1 ['f'] kept\n"
        assert (await twin.run(LOOK)).stdout == "3 ['f'] twin\n"


KILLED = """
import asyncio, os
from saccade import LocalSandbox
from saccade.plugins.audit.attacks.runner import descendants
from saccade.sandbox.isolation import Layer

async def main():
    box = LocalSandbox(require_isolation=(), without=(Layer.PID_NAMESPACE,))
    fresh, used = await box.open(), await box.open()
    assert (await used.run("x = 1")).ok
    print(*descendants(), flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def test_a_killed_host_leaves_no_session_where_no_namespace_ends_them() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=100, check=False)
    left = {int(pid) for pid in done.stdout.split()}
    assert len(left) > 4, done.stderr
    end = time.monotonic() + 30
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left = {pid for pid in left if runs(pid)}
    assert left == set()


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


async def test_filters_are_not_had_without_no_new_privs_and_it_is_said() -> None:
    async with sandbox("no_new_privs", Limits()) as box:
        isolation = await box.isolation()
        off = {state.layer: state.detail for state in isolation.layers if not state.on}
        assert {Layer.NO_NEW_PRIVS, Layer.SECCOMP, Layer.LANDLOCK} <= set(off)
        assert "seccomp" in off[Layer.SECCOMP]
        assert (await (await box.open()).run("1")).layers == isolation.names


@pytest.mark.slow
async def test_processes_are_not_renumbered_where_the_zygote_could_not_look_at_them() -> None:
    async with sandbox("mount_namespace", Limits()) as box:
        states = {state.layer: state for state in (await box.isolation()).layers}
        assert not states[Layer.PID_NAMESPACE].on
        assert "/proc would show other processes" in states[Layer.PID_NAMESPACE].detail
        session = await box.open()
        assert (await session.run("x = 1")).ok
        left, right = await session.branch(2)
        assert [(await each.run("x")).value for each in (session, left, right)] == ["1"] * 3


@pytest.mark.parametrize("layer", Layer)
def test_the_docs_name_the_same_promises(layer: Layer) -> None:
    text = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text(encoding="utf-8")
    [row] = [line for line in text.splitlines() if line.startswith("| `") and f"`{layer.value}`" in line]
    assert row.split("|")[2].strip().split(", ") == [promise.value for promise in WEAKENED[layer]]


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
async def test_conformance(name: str) -> None:
    lost = LOST.get(name, {})
    assert set(lost.values()) <= {promise for layer in GROUPS[name] for promise in WEAKENED[layer]}
    outcomes = await run_all(lambda: sandbox(name, LIMITS))
    failed = {each.check.name: each.message for each in outcomes if not each.passed}
    print(*(f"{lost[check]}: {check}: {why}" for check, why in failed.items() if check in lost), sep="\n")
    assert {check: why for check, why in failed.items() if check not in lost} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
async def test_only_what_is_said_to_be_weaker_gets_through(name: str) -> None:
    async with sandbox(name, ATTACK_LIMITS) as box:
        # Not only of that name: without some layers the kernel grants others no more.
        off = [state.layer for state in (await box.isolation()).layers if not state.on]
    assert set(GROUPS[name]) <= set(off)
    weaker = {promise for layer in off for promise in WEAKENED[layer]}
    outcomes = await run_attacks(lambda: sandbox(name, ATTACK_LIMITS))
    through = [f"{each.attack.promise}: {each.attack.name}: {each.evidence}" for each in outcomes if not each.passed]
    print(*through, sep="\n")
    assert [line for line in through if line.split(":")[0] not in weaker] == []
