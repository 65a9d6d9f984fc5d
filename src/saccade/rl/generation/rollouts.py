"""Generates groups of rollouts: every episode by the one loop, tokens from an engine, code in branches of one session.

    resources = RolloutResources(engine, encoder, sandbox, store)
    rollouts, timing = await generate_rollouts(plans, resources, GenerationSettings(), seed)

Episodes are split into batches by their groups; sandboxes of one batch work while another decodes. A rollout that an
outage ended is played again, a bounded number of times; one that stays lost is given back as lost, and nothing trains
on it. A rollout that breaks through its own doing harms no other. What must hold of the tokens of every rollout is
checked here; a violation is a fault of ours, and ends the run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from saccade.episode.drive import drive
from saccade.episode.performer import Performer
from saccade.episode.plan import Plan
from saccade.episode.trajectories import trajectory
from saccade.episode.workbench import Workbench
from saccade.errors import TrainingError
from saccade.generate.base import Engine, Slot
from saccade.media.store import MediaStore
from saccade.record.settings import Settings
from saccade.record.trajectory import Trajectory
from saccade.rl.generation.branches import GroupSandbox
from saccade.rl.generation.slot_model import SlotModel
from saccade.rl.rollout import Rollout
from saccade.sandbox.base import Sandbox
from saccade.tokens.build import token_trajectory
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import TokenTrajectory
from saccade.tokens.stream import TokenStream
from saccade.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)


class GenerationSettings(Settings):
    """How episodes are spread over time; changes nothing in what an episode may say."""

    max_concurrency: PositiveInt = 128
    """Episodes that run side by side."""
    decoding_batches: PositiveInt = 2
    """Batches that decode in turns. With 1, decoding waits for every sandbox."""
    cache: PositiveFloat = 8.0
    """GiB of keys and values of the engine in this process, over all batches; episodes that do not fit at once decode
    after each other. Servers have limits of their own."""
    replays: NonNegativeInt = 2
    """How often a lost rollout is played again."""


@dataclass(frozen=True, slots=True)
class RolloutResources:
    """What rollouts are played with."""

    engine: Engine
    encoder: Encoder
    sandbox: Sandbox | None
    store: MediaStore
    tools: Toolbox | None = None


@dataclass(frozen=True, slots=True)
class RolloutTiming:
    """Where the time went, in seconds."""

    wall: float
    decoding: float
    """The engine was at work."""
    replayed: int
    """Lost rollouts that were played again."""

    @property
    def waiting(self) -> float:
        """No decoding: sandboxes and tools were waited for."""
        return max(0.0, self.wall - self.decoding)


async def generate_rollouts(
    plans: Sequence[Plan], resources: RolloutResources, settings: GenerationSettings, seed: int
) -> tuple[list[Rollout], RolloutTiming]:
    """A rollout for each plan, in their order. Plans that share a `group` are of one task.

    Raises:
        IsolationError: the sandbox refuses to start on this machine.
        MediaError: media of a task are not in the store.
        TrainingError: a gate was violated, or a task has no token form.
    """
    began, busy = time.perf_counter(), resources.engine.busy_seconds
    done: dict[str, Rollout] = {}
    replayed = 0
    for attempt in range(settings.replays + 1):
        left = [plan for plan in plans if plan.id not in done or done[plan.id].lost]
        if not left:
            break
        if attempt:
            replayed += len(left)
            _log.info("%d rollouts were lost and are played again (%d of %d).", len(left), attempt, settings.replays)
        for start in range(0, len(left), settings.max_concurrency):
            part = left[start : start + settings.max_concurrency]
            done |= {rollout.id: rollout for rollout in await _together(part, resources, settings, (seed, attempt))}
    wall = time.perf_counter() - began
    return [done[plan.id] for plan in plans], RolloutTiming(wall, resources.engine.busy_seconds - busy, replayed)


async def _together(
    plans: Sequence[Plan], resources: RolloutResources, settings: GenerationSettings, seed: tuple[int, int]
) -> list[Rollout]:
    """All `plans` at once."""
    names = list(dict.fromkeys(plan.group for plan in plans))
    groups = {name: [plan for plan in plans if plan.group == name] for name in names}
    sandboxes = {name: None if resources.sandbox is None else GroupSandbox(resources.sandbox) for name in names}
    work = []
    for number in range(min(settings.decoding_batches, len(names))):
        batch = [plan for name in names[number :: settings.decoding_batches] for plan in groups[name]]
        slots = resources.engine.slots([_seed(plan, seed) for plan in batch])
        work += [
            _episode(plan, slot, resources, sandboxes[plan.group]) for plan, slot in zip(batch, slots, strict=True)
        ]
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(item) for item in work]
    except BaseExceptionGroup as error:
        raise error.exceptions[0] from error
    finally:
        await asyncio.gather(*(sandbox.close() for sandbox in sandboxes.values() if sandbox is not None))
    return [task.result() for task in running]


async def _episode(plan: Plan, slot: Slot, resources: RolloutResources, sandbox: Sandbox | None) -> Rollout:
    workbench = Workbench(plan, sandbox, resources.store, resources.tools)
    model = SlotModel(resources.engine.name, slot, TokenStream(resources.encoder, plan.id))
    performer = Performer(model, workbench, resources.store)
    began = performer.clock()
    workbench.prepare()  # what opening takes, the engine is at work
    try:
        outcome = await drive(plan, performer)
    finally:
        slot.release()
        await workbench.close()
    finished = trajectory(plan, outcome, model=resources.engine.name, seconds=performer.clock() - began)
    if finished.lost or not finished.turns:
        return Rollout(finished)
    return Rollout(finished, checked_tokens(finished, resources.encoder, slot.ids))


def _seed(plan: Plan, seed: tuple[int, int]) -> int:
    """Of an episode: depends on the run's seed, the attempt and the episode's id alone."""
    digest = sha256(f"{seed[0]}:{seed[1]}:{plan.id}".encode()).digest()
    return int.from_bytes(digest[:8])


def checked_tokens(trajectory: Trajectory, encoder: Encoder, played: tuple[int, ...]) -> TokenTrajectory:
    """The tokens of a rollout, which are those that were `played`.

    Raises:
        TrainingError: they differ, placeholders are not as many as features, or an array has another length.
    """
    tokens = token_trajectory(trajectory, encoder)
    ids, turns, logprobs, mask = tokens.ids(), tokens.turns(), tokens.logprobs(), tokens.loss_mask()
    if not np.array_equal(ids, played):
        raise _fault(trajectory, f"its {len(ids)} tokens are not the {len(played)} that were played")
    shown = np.isin(ids, list(encoder.placeholders))
    placeholders = int(shown.sum())
    features = sum(picture.tokens for picture in tokens.pictures)
    if placeholders != features:
        raise _fault(trajectory, f"{placeholders} placeholders stand for {features} features")
    if not len(ids) == len(turns) == len(logprobs) == len(mask):
        raise _fault(trajectory, "its arrays differ in length")
    if np.isnan(logprobs[mask]).any():
        raise _fault(trajectory, "a sampled token has no log-probability")
    if mask[shown].any():
        raise _fault(trajectory, "a placeholder would be trained on")
    return tokens


def _fault(trajectory: Trajectory, what: str) -> TrainingError:
    return TrainingError(f"rollout {trajectory.id} cannot be trained on: {what}. A fault of Saccade; report it.")
