"""Play episodes in a worker of verl: its servers are the engine, and calls that belong together make a group.

Needs no verl to be imported; `saccade.plugins.verl.loop` is the class that verl calls. Imports torch; import it late.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from uuid import uuid4

import torch
from PIL import Image

from saccade.core.settings import load_settings
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.run_folder import MEDIA
from saccade.errors import ModelLostError, ModelRefusedError, TrainingError
from saccade.media.store import MediaStore
from saccade.models.base import MediaReader
from saccade.models.local_weights import CheckpointTokens, load_tokens
from saccade.models.pictures import decoded_picture
from saccade.plugins.verl.mapping import located, verl_of
from saccade.plugins.verl.said import keep_warnings
from saccade.record.content import ImagePart
from saccade.record.task import Task
from saccade.sandbox.base import Sandbox
from saccade.sandbox.registry import sandbox_at
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import LEFT_OUT, BrokenTasks
from saccade.tasks.sources.task_set import open_tasks
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import PromptPicture, image_parts
from saccade.tokens.turn import ContextFullError, SampledTurn, Slot, TurnRequest, TurnState, start_turn
from saccade.tools.toolbox import Toolbox
from saccade.training.rl.engines.server import BusyClock
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.rollouts import RolloutResources, RolloutTiming, WatchedPlay, generate_rollouts, group_plans
from saccade.training.rl.scoring import Scorer, load_scorer
from saccade.training.rl.settings import RlSettings
from saccade.training.rl.tasks import TaskList, as_list, validation_tasks
from saccade.training.settings import SETTINGS

# verl 0.9.1 decodes the ids of a rollout and gives the text, with all pictures, to the checkpoint's processor, of whose
# output it takes the pictures' tensors alone (`AgentLoopWorker._compute_multi_modal_inputs`). In that text a program
# that printed `<|image_pad|>` has a placeholder without a picture, and the rollout is lost. Placeholders of real
# pictures are not in it: they are special tokens, which decoding skips. So the processor is given the text without any.


def without(text: str, tokens: tuple[str, ...]) -> str:
    """Return `text` in which none of `tokens` is spelled, also by what stood around another one."""
    before = None
    while before != text:
        before = text
        for token in tokens:
            text = text.replace(token, "")
    return text


def keep_text_plain(processor: Any) -> None:
    """Let `processor` see no placeholder in a text from now on; idempotent."""
    kind = type(processor)
    if not issubclass(kind, _Plain):
        processor.__class__ = type(kind.__name__, (_Plain, kind), {})


class _Plain:
    """Before a processor of transformers, under its name, by which verl knows it."""

    def __call__(self, images: Any = None, text: Any = None, **more: Any) -> Any:
        names = (getattr(self, f"{kind}_token", None) for kind in ("image", "video"))
        tokens = tuple(name for name in names if name)
        plain = without(text, tokens) if isinstance(text, str) else [without(one, tokens) for one in text]
        return super().__call__(images=images, text=plain, **more)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """A policy whose weights are verl's: the parts needed to ask for turns and to read them."""

    checkpoint: CheckpointTokens
    encoder: Encoder

    @property
    def forbidden(self) -> list[int]:
        """Ids that must not be sampled."""
        return [int(token) for token in torch.nonzero(self.checkpoint.forbidden)[:, 0]]


def load_policy(source: str) -> TokenPolicy:
    """Return the tokens of the checkpoint in the folder `source`, or of that name on the hub.

    Raises `ModelRefusedError`: they cannot be loaded; `TrainingError`: its chat template does not write its family's
    frame.
    """
    tokens = load_tokens(source)
    return TokenPolicy(tokens, Encoder.of(tokens))


T = TypeVar("T")


@dataclass
class _Group(Generic[T]):
    numbers: set[int] = field(default_factory=set)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    played: asyncio.Task[Sequence[T]] | None = None


class GroupTable(Generic[T]):
    """Collects the calls of each group, as verl asks for each rollout by itself; for one event loop."""

    def __init__(self, seconds: float) -> None:
        """Let a group take `seconds` until all of its calls are there."""
        self._seconds = seconds
        self._groups: dict[str, _Group[T]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    async def join(self, uid: str, number: int, count: int, play: Callable[[], Awaitable[Sequence[T]]]) -> T:
        """Return the result of `play` for call `number` (from 0) of the `count` calls of the group `uid`.

        `play` of the last call is awaited, once for all of them.

        Raises `TrainingError`: a call came twice, too many came, or the others did not come in time; `Exception`: what
        `play` raises, for each call of the group.
        """
        group = self._groups.setdefault(uid, _Group())
        if number in group.numbers or not 0 <= number < count:
            raise TrainingError(f"verl asked for rollout {number} of {count} of a group twice, or for one too many")
        group.numbers.add(number)
        if len(group.numbers) == count:
            del self._groups[uid]
            group.played = asyncio.ensure_future(_run(play))
            group.complete.set()
        try:
            async with asyncio.timeout(self._seconds):
                await group.complete.wait()
        except TimeoutError as error:
            self._groups.pop(uid, None)
            raise TrainingError(
                f"of a group's {count} rollouts verl asked for {len(group.numbers)} within {self._seconds:g} s; it "
                "must give all of them to one worker"
            ) from error
        if group.played is None:
            raise TrainingError("a group is whole and was not played. A fault of Saccade; report it.")
        return (await asyncio.shield(group.played))[number]


async def _run(play: Callable[[], Awaitable[Sequence[T]]]) -> Sequence[T]:
    return await play()


_BANNED = -1e9
_KEPT_PICTURES = 64
_ABORTED = "aborted"
_FIELD = "saccade"


class VerlClient(Protocol):
    """As much of verl's `LLMServerClient` as is used."""

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,
    ) -> Any:
        """Return a `TokenOutput`: `token_ids`, `log_probs`, `stop_reason`, `extra_fields`."""


class VerlEngine:
    """An engine over verl's servers, one for each group of rollouts; records the versions of the weights that sampled.

    The client is verl 0.9.1's `LLMServerClient`: placeholders are sent expanded, sampling parameters are vLLM's. Ids
    that may not be sampled get a bias of -1e9. A request that fails, is aborted or exceeds its time limit is an outage,
    so its episode is played again. Log-probabilities are those of the distribution that is sampled, as verl sets its
    servers (`processed_logprobs`).
    """

    name = "verl"
    in_process = False

    def __init__(self, client: VerlClient, policy: TokenPolicy, media: MediaReader, most: int, seconds: float) -> None:
        """`most` tokens of a sequence are served; a turn may take `seconds`."""
        self.client = client
        self.policy = policy
        self.most = most
        self.seconds = seconds
        self.bias = dict.fromkeys(policy.forbidden, _BANNED)
        self.versions: list[int] = []
        """Steps of the weights that sampled; empty before the first turn."""
        self.busy = BusyClock()
        self._media = media
        self._image = lru_cache(_KEPT_PICTURES)(self._prepared)

    @property
    def busy_seconds(self) -> float:
        """Seconds in which at least one turn was at a server."""
        return self.busy.seconds

    def slots(self, seeds: Sequence[int]) -> list[Slot]:
        """Return slots that know nothing of each other; the servers batch their turns."""
        return [VerlSlot(self, seed) for seed in seeds]

    def image(self, part: ImagePart) -> Image.Image:
        """Return a picture at the size that the policy sees. Raises MediaError for one that cannot be read."""
        return self._image(part)

    async def update_weights(self, save: Callable[[Path], object]) -> None:
        """Do nothing: verl gives its servers new weights."""

    async def close(self) -> None:
        """Do nothing: the servers are verl's."""

    def _prepared(self, part: ImagePart) -> Image.Image:
        encoder = self.policy.encoder
        return encoder.family.prepared(decoded_picture(part, self._media), encoder.image_processor)


class VerlSlot:
    """A `base.Slot` that sends its whole context with every turn; the same server gets all of them."""

    def __init__(self, engine: VerlEngine, seed: int) -> None:
        self._engine = engine
        self._seed = seed
        self._turns = 0
        self._request = uuid4().hex
        self._pictures: tuple[PromptPicture, ...] = ()
        self.ids: tuple[int, ...] = ()

    async def generate(self, request: TurnRequest) -> SampledTurn:
        engine, delta = self._engine, request.delta
        read = (*self.ids[: len(self.ids) - delta.dropped], *delta.ids)
        pictures = (*self._pictures, *delta.pictures)
        turn = start_turn(engine.policy, request, len(read), engine.most)
        parts = image_parts(pictures, engine.name)
        images = await asyncio.to_thread(lambda: [engine.image(part) for part in parts])
        output = await self._asked(read, images, self._sampling(request, turn))
        self._check(output)
        for token, logprob in zip(output.token_ids, output.log_probs, strict=True):
            turn.take(token, logprob)
            if turn.finish is not None:
                break
        if not turn.ids:
            raise ContextFullError(f"verl's server has no room for a token after {len(read)}")
        done = turn.done()
        self.ids, self._pictures, self._turns = (*read, *done.ids), pictures, self._turns + 1
        return done

    def release(self) -> None:
        """Do nothing: the servers hold nothing for a slot."""

    def _sampling(self, request: TurnRequest, turn: TurnState) -> dict[str, Any]:
        digest = sha256(f"{self._seed}:{self._turns}".encode()).digest()
        given: dict[str, Any] = {
            "temperature": request.temperature,
            "top_p": 1.0,
            "top_k": -1,
            "repetition_penalty": 1.0,
            "logprobs": True,
            "max_tokens": turn.left,
            "stop_token_ids": sorted(turn.ends),
            "logit_bias": self._engine.bias,
            "seed": int.from_bytes(digest[:6]),
        }
        # A stop string ends a turn here, on ids; the server only must not drop it.
        return given | ({"stop": list(request.stop), "include_stop_str_in_output": True} if request.stop else {})

    async def _asked(self, read: tuple[int, ...], images: list[Image.Image], sampling: dict[str, Any]) -> Any:
        engine = self._engine
        try:
            with engine.busy.running():
                async with asyncio.timeout(engine.seconds):
                    return await engine.client.generate(
                        self._request, prompt_ids=list(read), sampling_params=sampling, image_data=images or None
                    )
        except TimeoutError as error:
            raise ModelLostError(
                f"a turn took longer than {engine.seconds:g} s at verl's servers (trainer.turn_seconds)"
            ) from error
        except Exception as error:  # Ray gives whatever the server raised, or that its process is gone
            raise ModelLostError(f"a turn failed at verl's servers: {type(error).__name__}: {error}") from error

    def _check(self, output: Any) -> None:
        """Raises ModelError for an answer that cannot be trained on."""
        engine = self._engine
        if output.stop_reason == _ABORTED:
            raise ModelLostError("verl's server broke a turn off.")
        if output.log_probs is None or len(output.log_probs) != len(output.token_ids):
            raise ModelRefusedError("verl's server gave tokens without a log-probability for each.")
        if banned := [token for token in output.token_ids if token in engine.bias]:
            raise ModelRefusedError(f"verl's server sampled id {banned[0]} in spite of its bias.")
        for name in ("min_global_steps", "max_global_steps"):
            if (version := output.extra_fields.get(name)) is not None:
                engine.versions.append(int(version))


@dataclass(frozen=True, slots=True)
class AskedRollout:
    """One call of verl's."""

    uid: str
    """Of the group, new each time a task comes."""
    number: int
    """Of the rollout in the group, from 0."""
    place: int
    """Of the task in the sequence of epochs; in the list of held-out tasks where it is one."""
    task: str
    validation: bool


@dataclass(frozen=True, slots=True)
class PlayedRollout:
    """One rollout with its reward."""

    rollout: Rollout
    engine: VerlEngine
    """That of its group."""
    timing: RolloutTiming
    """That of its group."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A rollout and what playing its group took, on its way to the sampler in the extra fields of verl's output."""

    rollout: Rollout
    decoding: float
    """Seconds of the group's in which a turn was at a server."""
    waiting: float
    """Other seconds of the group's."""
    replayed: int
    """Rollouts of the group that were played again."""

    def packed(self) -> dict[str, bytes]:
        return {_FIELD: pickle.dumps(self)}

    @staticmethod
    def unpacked(fields: Mapping[str, Any]) -> Carried:
        """Unpack from the extra fields of an agent loop's output; both ends are processes of one run."""
        carried = pickle.loads(fields[_FIELD])
        assert isinstance(carried, Carried)
        return carried


class EpisodeWorker:
    """Plays and scores whole groups in one process, which holds tasks, a sandbox and rewards but no weights."""

    def __init__(
        self, settings: RlSettings, out: Path, sandbox: Sandbox, dialect: Dialect, tools: Toolbox | None
    ) -> None:
        self.settings, recipe = settings, settings.recipe
        self.groups: GroupTable[PlayedRollout] = GroupTable(verl_of(settings).turn_seconds)
        self.store = MediaStore(out / "rollouts" / MEDIA, limits=recipe.media.limits)
        self.policy = load_policy(located(settings.model.source))
        self._scorer = load_scorer(shared_limits(settings), self.store, out / "judge")
        self._sandbox, self._dialect, self._tools = sandbox, dialect, tools
        tasks = as_list(open_tasks(settings.sources, SourceDefaults(split="train", most=settings.tasks.most)))
        self._tasks = replace(tasks, broken=BrokenTasks(len(tasks.ids), settings.tasks.most_broken, out / LEFT_OUT))
        self._held_out = validation = held_out(settings)
        if validation is not None:
            broken = BrokenTasks(len(validation.ids), settings.tasks.most_broken, out / f"validation-{LEFT_OUT}")
            self._held_out = replace(validation, broken=broken)
        own = settings.generation.max_concurrency // (verl_of(settings).workers * recipe.rollout.group_size)
        self._alive = out / "verl" / "alive"  # whose time tells the command that something was played
        self._room = asyncio.Semaphore(max(1, own))

    async def play(self, asked: AskedRollout, client: VerlClient) -> PlayedRollout:
        """Return the rollout that is asked for, once all of its group are.

        Raises `TrainingError`: a gate was violated, or not all of its group were asked for; `SaccadeError`: whatever
        ends a run with our own trainer too.
        """
        settings = self.settings
        count = settings.validation.samples if asked.validation else settings.recipe.rollout.group_size
        return await self.groups.join(asked.uid, asked.number, count, lambda: self._group(asked, client, count))

    async def _group(self, asked: AskedRollout, client: VerlClient, count: int) -> Sequence[PlayedRollout]:
        async with self._room:
            task = await asyncio.to_thread(self._make, asked)
            settings, recipe = self.settings, self.settings.recipe
            engine = VerlEngine(
                client,
                self.policy,
                self.store,
                recipe.limits.context_tokens or self.policy.checkpoint.context_tokens,
                verl_of(settings).turn_seconds,
            )
            resources = RolloutResources(engine, self.policy.encoder, self._sandbox, self.store, self._tools)
            group, first = (task.id, 0) if asked.validation else (f"{task.id}@{asked.place}", asked.place * count)
            held_out = settings.validation
            watched = WatchedPlay(held_out.temperature, held_out.limits) if asked.validation else None
            numbers = range(first, first + count)
            plans = await asyncio.to_thread(
                group_plans, recipe, self._dialect, task, numbers, group, self.store, watched
            )
            played, timing = await generate_rollouts(plans, resources, settings.generation, recipe.seed)
            scored = await self._scorer_of(asked)(played, trained_on=not asked.validation)
            self._alive.touch()
            return [PlayedRollout(rollout, engine, timing) for rollout in scored]

    def _make(self, asked: AskedRollout) -> Task:
        tasks = self._held_out if asked.validation else self._tasks
        assert tasks is not None  # there are no rows of held-out tasks without them
        if (task := tasks.made(asked.task, self.store)) is not None:
            return task
        # verl counts on a group for each row: in place of a task that cannot be made the next one is played.
        at = tasks.ids.index(asked.task)
        for name in (*tasks.ids[at + 1 :], *tasks.ids[:at]):
            if (task := tasks.made(name, self.store)) is not None:
                return task
        raise TrainingError(f"no task can be made; {LEFT_OUT} in the run's folder says why.")

    def _scorer_of(self, asked: AskedRollout) -> Scorer:
        if not asked.validation:
            return self._scorer
        return replace(self._scorer, answers=replace(self._scorer.answers, grader=self.settings.validation.grader))


async def open_worker(out: Path) -> EpisodeWorker:
    """Return the worker of this process, for the run in `out`.

    Raises `SaccadeError`: what the settings name cannot be had on this machine.
    """
    keep_warnings(out)
    settings = load_settings(RlSettings, out / SETTINGS)
    torch.set_num_threads(settings.threads or torch.get_num_threads())
    recipe = settings.recipe
    dialect, tools = recipe.equipped(settings.session.applied(load_dialect(recipe.dialect), settings.sandbox))
    # Open until the process ends: Ray ends it, and the sandbox's processes end with it.
    sandbox = await sandbox_at(settings.sandbox, dialect.sandbox).__aenter__()
    return await asyncio.to_thread(EpisodeWorker, settings, out, sandbox, dialect, tools)


def held_out(settings: RlSettings) -> TaskList | None:
    """Return the tasks that the run is watched on; None for none. Raises as `open_tasks`."""
    validation = settings.validation
    if not validation.every:
        return None
    return validation_tasks(validation.source, settings.sources, validation.tasks)


def shared_limits(settings: RlSettings) -> RewardSettings:
    """Return the reward with this worker's part of what a judge may be asked and cost."""
    reward, workers = settings.recipe.reward, verl_of(settings).workers
    rules = reward.judge_rules
    own = {
        "concurrent": max(1, rules.concurrent // workers),
        "dollars": None if rules.dollars is None else rules.dollars / workers,
    }
    return reward.model_copy(update={"judge_rules": rules.model_copy(update=own)})
