"""Generate groups of rollouts: tokens from an engine, code in branches of one session.

    resources = RolloutResources(engine, encoder, sandbox, store)
    rollouts, timing = await generate_rollouts(plans, resources, GenerationSettings(), seed)

Episodes can be split into batches by their groups; sandboxes of one then work while another decodes. A rollout that an
outage ended is played again, a bounded number of times; one that stays lost is returned as lost, and nothing trains on
it. A rollout that breaks harms no other. The tokens of each rollout are checked; a violation is a bug, ending the run.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from saccade.dialects.base import Dialect
from saccade.episode.drive import Performer, Workbench, drive, trajectory
from saccade.episode.flow import Plan, limits_with
from saccade.episode.shown import scaled_down
from saccade.errors import ContextLimitError, SandboxClosedError, SandboxError, SettingsError, TrainingError
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, Sampling, Trajectory
from saccade.sandbox.base import Binding, Limits, Sandbox, Session, SessionOptions
from saccade.sandbox.isolation import Isolation
from saccade.tokens.batch import TokenStream, token_trajectory
from saccade.tokens.segments import Encoder, TokenTrajectory
from saccade.tokens.turn import ContextFullError, Engine, Slot, TurnRequest
from saccade.tools.toolbox import Toolbox
from saccade.training.rl.recipe import Recipe
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.settings import GenerationSettings


class GroupSandbox:
    """A `Sandbox` for the rollouts of one task: opening gives a branch of one session, opened once.

    Branches share nothing that is written afterwards. Closing it leaves the provider open.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._root: Session | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    @property
    def limits(self) -> Limits:
        return self._sandbox.limits

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> Session:
        """Branch the group's session, which the first call opens: arguments must be the same each time.

        Raises `SandboxError`: the sandbox failed; the next call opens the session anew.
        """
        async with self._lock:
            if self._closed:
                raise SandboxClosedError("the sandbox of this group was closed; its episodes are over")
            if self._root is None:
                self._root = await self._sandbox.open(bindings, files=files, options=options)
            try:
                return (await self._root.branch(1))[0]
            except SandboxError:
                root, self._root = self._root, None
                await root.close()
                raise

    async def isolation(self) -> Isolation:
        return await self._sandbox.isolation()

    async def close(self) -> None:
        """Close the group's session; idempotent. Its branches live until they are closed."""
        self._closed = True
        root, self._root = self._root, None
        if root is not None:
            await root.close()

    async def __aenter__(self) -> GroupSandbox:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class SlotModel:
    """A slot of an engine as the `Model` of one episode: sends the slot what is new, and keeps what was sampled."""

    def __init__(self, name: str, slot: Slot, stream: TokenStream) -> None:
        self.name = name
        self._slot = slot
        self._stream = stream
        self._visual = 0
        """Tokens of pictures and videos read so far."""

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Sample the next turn; `on_text` is called once, with all of it.

        Raises `ContextLimitError`: what is to be read leaves no room; `SettingsError`: the sampling cuts the
        distribution, and no loss could say how likely a token was; `TrainingError`: a message has no token form.
        """
        check_sampling(request.sampling)
        delta = self._stream.prompt_delta(request.messages)
        self._visual += sum(picture.tokens for picture in delta.pictures)
        turn_request = TurnRequest(
            delta,
            request.stop,
            1.0 if request.sampling.temperature is None else request.sampling.temperature,
            request.max_tokens,
            request.context_tokens,
        )
        try:
            turn = await self._slot.generate(turn_request)
        except ContextFullError as error:
            raise ContextLimitError(str(error)) from error
        self._stream.add_sampled(turn.ids, turn.text)
        if on_text is not None:
            on_text(turn.text)
        return Completion(
            text=turn.text,
            finish=turn.finish,
            token_ids=turn.ids,
            logprobs=turn.logprobs,
            usage=Usage(prompt_tokens=turn.context, sampled_tokens=len(turn.ids), visual_tokens=self._visual),
            model=self.name,
        )

    async def close(self) -> None:
        self._slot.release()


def check_sampling(sampling: Sampling) -> None:
    """Raise `SettingsError` for rollouts that would not be drawn from the policy itself."""
    if sampling.top_k or (sampling.top_p is not None and sampling.top_p < 1.0):
        raise SettingsError(
            "rollouts are drawn from the whole distribution: top_k and top_p would cut it, and the loss could not know "
            "how likely a token was. Leave both out of rollout.sampling."
        )
    own = [name for name in ("reasoning", "extra_body", "extra_headers") if getattr(sampling, name) is not None]
    if own:
        raise SettingsError(
            f"rollout.sampling.{own[0]} is for models behind an API; rollouts are sampled token by token. Leave it out."
        )


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RolloutResources:
    """The engine, sandbox, media and tools that rollouts use."""

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
    """Time in which the engine was at work."""
    replayed: int
    """Lost rollouts that were played again."""

    @property
    def waiting(self) -> float:
        """Time without decoding: sandboxes and tools were waited for."""
        return max(0.0, self.wall - self.decoding)


async def generate_rollouts(
    plans: Sequence[Plan], resources: RolloutResources, settings: GenerationSettings, seed: int
) -> tuple[list[Rollout], RolloutTiming]:
    """Generate a rollout for each plan, in their order. Plans that share a `group` are of one task.

    Raises `IsolationError`: the sandbox refuses to start on this machine; `MediaError`: media of a task are not in the
    store; `TrainingError`: a gate was violated, or a task has no token form.
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
    """Generate all `plans` at once."""
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
    workbench.prepare()  # the engine works meanwhile
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
    """Derive the seed of an episode from the run's seed, the attempt and the episode's id."""
    digest = sha256(f"{seed[0]}:{seed[1]}:{plan.id}".encode()).digest()
    return int.from_bytes(digest[:8])


def checked_tokens(trajectory: Trajectory, encoder: Encoder, played: tuple[int, ...]) -> TokenTrajectory:
    """Return the tokens of a rollout, checked against those that were `played`.

    Raises `TrainingError`: they differ, placeholders are not as many as features, or an array has another length.
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


@dataclass(frozen=True, slots=True)
class WatchedPlay:
    """How held-out tasks are played otherwise than those that are trained on."""

    temperature: float
    limits: EpisodeLimits
    """Those that are set count in place of the rollouts'."""


def group_plans(
    recipe: Recipe,
    dialect: Dialect,
    task: Task,
    numbers: Iterable[int],
    group: str,
    store: MediaStore,
    watched: WatchedPlay | None = None,
) -> list[Plan]:
    """Plan the episodes of a task that are compared with each other, for any trainer.

    A number of `numbers` is used once for a task in a run. Pictures above `media.shown_pixels` are shown smaller.
    Raises `MediaError`: such a picture cannot be decoded.
    """
    sampling, limits = recipe.rollout.sampling, recipe.rollout.limits or EpisodeLimits()
    given = limits_with(dialect.limits, **limits.model_dump())
    if watched is not None:
        sampling = sampling.model_copy(update={"temperature": watched.temperature})
        given = limits_with(given, **watched.limits.model_dump())
    shown = scaled_down(task, recipe.media.shown_pixels, store, dialect)
    return [Plan(task, dialect, sampling, given, group, number, shown=shown) for number in numbers]
