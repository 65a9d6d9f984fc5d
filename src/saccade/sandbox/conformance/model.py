"""Programs drawn at random over every kind of state, with failures, kills and branches, held against a simple model.

    async with MySandbox(limits=LIMITS) as sandbox:
        await play(sandbox, draw(random.Random(7), 200))

Each step is a call of one of several sessions, or a branch. After it the session is asked for all it can observe, and
that must be what `world.ModelWorld` says. `play` raises `ConformanceError` at the first difference, with the steps that
led there. Steps are plain data, so that hypothesis can draw and shrink them, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from saccade.record.status import Status
from saccade.sandbox.base import Sandbox, Session
from saccade.sandbox.conformance.check import CheckGroup, ConformanceError, describe
from saccade.sandbox.conformance.world import OBSERVE, OPERATIONS, PREPARE, ModelOperation, ModelWorld, described

GROUP = CheckGroup("model")
MOST_SESSIONS = 4
STEPS = 40
"""Steps of the check; tests draw many more."""
ENDINGS = ("keep", "keep", "keep", "raise", "raise", "exit", "crash", "hang")
_ENDS = {
    "keep": ("", Status.OK),
    "raise": ("\nraise RuntimeError('fails')", Status.ERROR),
    "exit": ("\nos._exit(3)", Status.KILLED),
    "crash": ("\nimport ctypes\nctypes.string_at(0)", Status.KILLED),
    "hang": ("\nimport time\ntime.sleep(60)", Status.TIMEOUT),
}
_HANG_SECONDS = 1.0


@dataclass(frozen=True)
class ModelStep:
    """A call of session number `session` (modulo how many there are), or with `branch` a new session made of it."""

    session: int
    operations: tuple[ModelOperation, ...] = ()
    ending: str = "keep"
    branch: bool = False


def draw(chance: random.Random, count: int) -> list[ModelStep]:
    """`count` steps drawn from `chance`; one in ten is a branch, half of the calls fail."""
    names = list(OPERATIONS)
    steps = []
    for _ in range(count):
        operations = tuple(
            ModelOperation(chance.choice(names), chance.randrange(1000)) for _ in range(chance.randint(1, 6))
        )
        ending = chance.choice(ENDINGS)
        if ending == "hang" and chance.random() < 0.8:
            ending = "raise"  # each takes a second
        steps.append(ModelStep(chance.randrange(MOST_SESSIONS), operations, ending, branch=chance.random() < 0.1))
    return steps


class ModelPlay:
    """Sessions beside their models."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._sessions: list[tuple[Session, ModelWorld]] = []
        self._story_so_far: list[str] = []

    async def begin(self) -> None:
        """Open the first session."""
        session = await self._sandbox.open()
        self._sessions.append((session, ModelWorld()))
        await self._call(session, PREPARE, Status.OK)
        await self._look(0)

    async def step(self, step: ModelStep) -> None:
        """Do one step and compare. Raises `ConformanceError`."""
        index = step.session % len(self._sessions)
        session, world = self._sessions[index]
        if step.branch:
            if len(self._sessions) == MOST_SESSIONS:
                await self._sessions.pop(-1 if index == 0 else 0)[0].close()
            (twin,) = await session.branch(1)
            self._story_so_far.append(f"session {index} was branched")
            self._sessions.append((twin, world.copied()))
            await self._look(len(self._sessions) - 1)
            return
        after = world.copied()
        code = "\n".join(filter(None, (operation.apply(after) for operation in step.operations)))
        suffix, status = _ENDS[step.ending]
        kept = step.ending == "keep"
        if kept and not after.ended():
            kept, status = False, Status.REFUSED
        self._story_so_far.append(f"session {index}, which must end with {status.value}:\n{code}{suffix}")
        await self._call(session, code + suffix, status)
        if kept:
            self._sessions[index] = (session, after)
        for each in range(len(self._sessions)):
            await self._look(each)

    async def _call(self, session: Session, code: str, status: Status) -> None:
        result = await session.run(code or "pass", wall_seconds=_HANG_SECONDS if status is Status.TIMEOUT else None)
        if result.status is not status:
            raise ConformanceError(f"{self._story()}\nthe last call must end with {status.value}: {describe(result)}")

    async def _look(self, index: int) -> None:
        session, world = self._sessions[index]
        result = await session.run(OBSERVE)
        seen = described(result.stdout)
        if seen is None:
            raise ConformanceError(f"{self._story()}\nsession {index} cannot be observed: {describe(result)}")
        wanted = world.seen()
        differences = [
            f"{key}: expected {wanted[key]!r}, got {seen.get(key)!r}" for key in wanted if wanted[key] != seen.get(key)
        ]
        if differences:
            raise ConformanceError(f"{self._story()}\nthen session {index} shows\n  " + "\n  ".join(differences))

    def _story(self) -> str:
        return "\n".join(self._story_so_far[-12:])

    async def end(self) -> None:
        """Close every session."""
        for session, _world in self._sessions:
            await session.close()


async def play(sandbox: Sandbox, steps: Iterable[ModelStep]) -> None:
    """ModelPlay `steps`. Raises `ConformanceError` at the first difference between sandbox and model."""
    game = ModelPlay(sandbox)
    try:
        await game.begin()
        for step in steps:
            await game.step(step)
    finally:
        await game.end()


@GROUP.check
async def any_program(sandbox: Sandbox) -> None:
    """Programs over every kind of state, failed, killed and branched at random, leave what a simple model says."""
    await play(sandbox, draw(random.Random(30), STEPS))
