"""`python -m benchmarks rollout`: the rollout engine and the update against transformers and TRL, same work, one run.

Every episode looks several times, whatever the model writes: a question with a picture, then turns of some tokens, each
answered with a crop. The engine plays them with real sandboxes too, which shows how long decoding waits for them.
Token counts are those really sampled. Memory is the peak of this process above what there was before, sandboxes left
out; on a GPU what torch allocated there.

One peer is `generate` of transformers, at every turn on the whole context. The other is TRL's GRPOTrainer: the turns
that it samples, and its update. `make parity` installs it into a folder of its own; PYTHONPATH=.venv/parity finds it.
Its environments do not play these episodes: they need a chat template with tool calls, which Qwen2.5-VL's is not, and
continue only after a call in JSON; a `rollout_func` cannot give pictures of later turns to the loss. So it gets our
episodes: what its tool loop does for a turn (preparing all pictures, then its own generation on the whole context), and
its own training steps on the same tokens, mask, log-probabilities and advantages. Running tools and reading calls is
left out.
"""

from __future__ import annotations

import asyncio
import copy
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from PIL import Image
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging

from benchmarks.figures import Figure, Peak
from saccade.dialects.base import Dialect, Observation, Opening, load_dialect
from saccade.episode.flow import Plan
from saccade.errors import UnavailableError
from saccade.media.store import MediaStore
from saccade.models.pictures import decoded_picture
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.content import Action, Code, ImagePart, Message, TextPart
from saccade.record.execution import Execution
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, FinishReason, Sampling
from saccade.sandbox.base import Limits, Sandbox, SessionOptions
from saccade.sandbox.local import LocalSandbox
from saccade.tokens.batch import Collator, token_row
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import SegmentKind, TokenTrajectory, image_parts
from saccade.training.learner import Learner
from saccade.training.parallel import Processes
from saccade.training.rl.recipe import Recipe, RewardSettings, RlLossSettings
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.rollouts import RolloutResources, RolloutTiming, generate_rollouts
from saccade.training.rl.settings import GenerationSettings
from saccade.training.rl.step import Updater
from saccade.training.settings import ModelSettings
from saccade.training.settings import OptimizerSettings as LearnerSettings
from saccade.training.weights import Trainable, load_trainable

_CROP = "image.crop((16, 16, 72, 72)).resize((112, 112)).show()"
_SPOKEN = "pyvision-rl-image"
"""The dialect whose prompt is read."""


@dataclass(frozen=True, slots=True)
class RolloutScale:
    """Sizes of a run."""

    tasks: int = 4
    group: int = 8
    turns: int = 4
    tokens: int = 32
    """Most of a turn."""
    judged: bool = False
    """Whether it is long enough to be held against the targets."""


FULL_ROLLOUT = RolloutScale(judged=True)
QUICK_ROLLOUT = RolloutScale(tasks=2, turns=3, tokens=16)


@dataclass(frozen=True)
class Looking(Dialect):
    """A dialect in which every turn cuts the same crop out, whatever was written."""

    id: str = "looking@1"
    stop: tuple[str, ...] = ()
    session: SessionOptions = field(default_factory=SessionOptions)
    sandbox: Limits = field(default_factory=Limits)
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)

    def open(self, task: Task) -> Opening:
        """Begin as a real dialect does."""
        return Opening(load_dialect(_SPOKEN).open(task).messages, {"image": task.media[0].name}, {}, 1)

    def parse(self, text: str, finish: FinishReason) -> Action:
        return Code(code=_CROP)

    def write(self, action: Action, thought: str = "") -> str:
        """Write any action as its thought alone."""
        return thought

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """Show what came back."""
        shown = [picture.image for picture in execution.pictures]
        return Observation(_user("Here:\n", *shown, "\nGo on."), {}, pictures + len(shown))


LOOKING = Looking()


def before(tokens: TokenTrajectory, turn: int) -> TokenTrajectory:
    """Return what is read before a turn."""
    places = [at for at, segment in enumerate(tokens.segments) if segment.kind is SegmentKind.SAMPLED]
    return TokenTrajectory(tokens.id, tokens.segments[: places[turn]])


def looking_plans(scale: RolloutScale, store: MediaStore) -> list[Plan]:
    """Return groups of episodes, a noisy picture for each group."""
    sampling = Sampling(temperature=1.0, max_tokens=scale.tokens)
    limits = EpisodeLimits(turns=scale.turns)
    plans = []
    for number in range(scale.tasks):
        image = Image.effect_noise((224, 224 + 28 * (number % 2)), 64).convert("RGB")
        media = (NamedMedia(name="image", part=store.put_image(image)),)
        task = Task(id=f"look-{number}", question="What is written on the sign?", media=media)
        plans += [Plan(task, Looking(), sampling, limits, task.id, rollout) for rollout in range(scale.group)]
    return plans


def _user(*parts: Any) -> Message:
    texts = [part if isinstance(part, ImagePart) else TextPart(text=str(part)) for part in parts]
    return Message(role="user", parts=tuple(texts))


@torch.inference_mode()  # type: ignore[untyped-decorator]
def generate_turns(
    tokens: list[TokenTrajectory], scale: RolloutScale, trained: Trainable, pictures: PictureTensors
) -> tuple[int, float]:
    """Sample the turns of the same episodes, all rows of a turn together; return the number of tokens, and seconds."""
    encoder, checkpoint = trained.encoder, trained.checkpoint
    forbidden = torch.nonzero(checkpoint.forbidden)[:, 0].tolist()
    began, count = time.perf_counter(), 0
    for turn in range(scale.turns):
        rows = [before(item, turn) for item in tokens]
        longest = max(len(row.ids()) for row in rows)
        ids = torch.full((len(rows), longest), encoder.pad_id)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            row_ids = torch.from_numpy(row.ids())
            ids[number, longest - len(row_ids) :] = row_ids
            mask[number, longest - len(row_ids) :] = 1
        shown = pictures([picture for row in rows for picture in row.pictures])
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, **shown}
        given["mm_token_type_ids"] = (ids == encoder.placeholder_id).int()
        with trained.autocast():
            out = checkpoint.model.generate(
                **{name: value.to(checkpoint.device) for name, value in given.items()},
                max_new_tokens=scale.tokens,
                do_sample=True,
                top_k=0,
                suppress_tokens=forbidden,
                pad_token_id=encoder.pad_id,
            )
        count += int((out[:, longest:] != encoder.pad_id).sum())
    return count, time.perf_counter() - began


T = TypeVar("T")

INSTALL = "make parity; then PYTHONPATH=.venv/parity python -m benchmarks rollout"
_SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-12,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 1.0,
    "beta": 0.0,
    "loss_type": "dapo",
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_strategy": "no",
    "disable_tqdm": True,
}
"""As our update has it, and nothing written; the learning rate leaves the policy as it is."""


class TrlPeer:
    """One trainer over a copy of the weights."""

    def __init__(self, trained: Trainable, scale: RolloutScale, rows: int, steps: int) -> None:
        """Prepare training steps of `rows` rollouts in one forward pass; the first of `steps` is not counted.

        Raises:
            UnavailableError: TRL is not installed.
        """
        try:
            import trl
            from datasets import Dataset
        except ImportError as missing:
            raise UnavailableError(f"TRL is not installed. Run: {INSTALL}") from missing
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-bench-trl-")
        self._trained = trained
        self._scale = scale
        self._clock = _Clock()
        settings = {
            "output_dir": self._folder.name,
            "per_device_train_batch_size": rows,
            "gradient_accumulation_steps": scale.tasks * scale.group // rows,
            "num_generations": scale.group,
            "max_steps": steps,
            "max_completion_length": scale.tokens,
            "generation_kwargs": {"suppress_tokens": torch.nonzero(trained.checkpoint.forbidden)[:, 0].tolist()},
            "use_cpu": trained.checkpoint.device.type == "cpu",
            "bf16": trained.low_precision,
        }
        self._trainer: Any = _quietly(
            lambda: _prepared(trl.GRPOTrainer)(
                model=copy.deepcopy(trained.model),
                reward_funcs=lambda completions, **columns: [0.0] * len(completions),
                processing_class=trained.checkpoint.tokenizer,
                callbacks=[self._clock],
                train_dataset=Dataset.from_dict({"prompt": ["look"] * scale.tasks}),
                args=trl.GRPOConfig(**settings, **_SETTINGS),
            )
        )
        self._trainer.remove_callback(PrinterCallback)

    def turns(self, tokens: Sequence[TokenTrajectory], store: MediaStore) -> tuple[int, float]:
        """Return the number of tokens that it samples in all turns, and seconds; pictures are decoded before."""
        trainer, encoder = self._trainer, self._trained.encoder
        shown = [part for item in tokens for part in image_parts(item.pictures, "TRL's trainer")]
        decoded = {part.sha256: decoded_picture(part, store) for part in shown}
        began, count = time.perf_counter(), 0
        for turn in range(self._scale.turns):
            rows = [before(item, turn) for item in tokens]
            ids = [row.ids().tolist() for row in rows]
            images = [[decoded[picture.part.sha256] for picture in row.pictures] for row in rows]
            flat = [image for part in images for image in part]
            fields = dict(encoder.image_processor(images=flat, return_tensors="pt"))
            fields["mm_token_type_ids"] = [[int(token == encoder.placeholder_id) for token in row] for row in ids]
            sampled, _ = _quietly(partial(trainer._generate_single_turn, ids, images, fields, num_generations=1))
            count += sum(map(len, sampled))
        return count, time.perf_counter() - began

    def update(self, rollouts: Sequence[Rollout], media: MediaStore) -> float:
        """Return the seconds of a training step, the median after the first."""
        self._trainer.prepared = _batch(rollouts, self._trained, media)
        _quietly(self._trainer.train)
        return statistics.median(self._clock.seconds[1:])

    def close(self) -> None:
        """Remove what it wrote."""
        self._folder.cleanup()


def _quietly(work: Callable[[], T]) -> T:
    """Return what `work` gives, without warnings about deprecated things that it uses."""
    with warnings.catch_warnings(action="ignore"):
        return work()


def _prepared(trainer: Any) -> Any:
    """Return a subclass of the trainer that gets its rollouts from outside."""

    class Prepared(trainer):  # type: ignore[misc]
        prepared: dict[str, Any]

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            return dict(self.prepared)

    return Prepared


class _Clock(TrainerCallback):  # type: ignore[misc]
    """Takes the time of every training step, its forward passes and its optimizer's step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = 0.0

    def on_step_begin(self, *given: Any, **named: Any) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, *given: Any, **named: Any) -> None:
        self.seconds.append(time.perf_counter() - self._began)


def _batch(rollouts: Sequence[Rollout], trained: Trainable, media: MediaStore) -> dict[str, Any]:
    """Return what TRL's generation would have handed to its loss: completions begin with the first sampled token."""
    encoder = trained.encoder
    rows = [token_row(item.trained_tokens()) for item in rollouts]
    starts = [int(row.trained.argmax()) for row in rows]
    longest = max(starts)
    rest = max(len(row) - start for row, start in zip(rows, starts, strict=True))
    shape = (len(rows), rest)
    made: dict[str, Any] = {
        "prompt_ids": torch.full((len(rows), longest), encoder.pad_id),
        "prompt_mask": torch.zeros(len(rows), longest, dtype=torch.int64),
        "completion_ids": torch.full(shape, encoder.pad_id),
        "completion_mask": torch.zeros(shape, dtype=torch.int64),
        "tool_mask": torch.zeros(shape, dtype=torch.int64),
        "old_per_token_logps": torch.zeros(shape),
        "advantages": torch.zeros(shape),
    }
    for number, (rollout, row, start) in enumerate(zip(rollouts, rows, starts, strict=True)):
        ids = torch.from_numpy(row.ids)
        length = len(ids) - start
        made["prompt_ids"][number, longest - start :] = ids[:start]
        made["prompt_mask"][number, longest - start :] = 1
        made["completion_ids"][number, :length] = ids[start:]
        made["completion_mask"][number, :length] = 1
        made["tool_mask"][number, :length] = torch.from_numpy(row.trained[start:]).long()
        made["old_per_token_logps"][number, :length] = torch.from_numpy(rollout.behaviour_logprobs()[start:])
        made["advantages"][number, :length] = torch.from_numpy(rollout.token_advantages()[start:])
    all_ids = torch.cat([made["prompt_ids"], made["completion_ids"]], dim=1)
    made["mm_token_type_ids"] = (all_ids == encoder.placeholder_id).long()
    made |= PictureTensors(encoder, media)([picture for row in rows for picture in row.pictures])
    made["num_images"] = [len(row.pictures) for row in rows]
    made["num_items_in_batch"] = made["tool_mask"].sum()
    device = trained.checkpoint.device
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in made.items()}


_PASS = 16_384
"""Most tokens of a forward pass of an update, padding included."""
_UPDATES = 4
"""Updates that are timed, the first of them for nothing."""
_RATE = 1e-12
"""A learning rate that leaves the policy as it is, so that every update sees the same."""


@dataclass(frozen=True, slots=True)
class _Peer:
    """What one peer did."""

    rate: float | None = None
    """Tokens per second."""
    mib: float | None = None
    update: float | None = None
    """Seconds."""
    missing: str = ""
    """How to install it."""


def measure_rollout(
    scale: RolloutScale, source: str, threads: int, on_progress: Callable[[str], None] = lambda _: None
) -> list[Figure]:
    """Return the figures of the checkpoint `source` or of a tiny one with random weights.

    Raises:
        IsolationError: this machine cannot isolate a sandbox.
        ModelRefusedError: the checkpoint cannot be loaded.
    """
    torch.set_num_threads(threads)
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="saccade-bench-") as root:
        if not source:
            source = str(Path(root) / "tiny")
            save_tiny(Path(source), "qwen2_5_vl")
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        trained = load_trainable(ModelSettings(source=source), device, 0)
        trained.model.eval()
        store = MediaStore(Path(root) / "media")
        on_progress("the engine")
        with Peak(device) as memory:
            played, timing, split = asyncio.run(_engine(looking_plans(scale, store), trained, store))
        tokens = [item.trained_tokens() for item in played]
        on_progress("generate on the whole context")
        with Peak(device) as peer_memory:
            sampled, seconds = generate_turns(tokens, scale, trained, PictureTensors(trained.encoder, store))
        generate = _Peer(sampled / seconds, peer_memory.mib)
        on_progress("updates")
        compared = _compared(played)
        update = _update(compared, trained, store)
        on_progress("TRL")
        trl = _trl(compared, trained, scale, store)
    count = sum(int(item.loss_mask().sum()) for item in tokens)
    ours = _Peer(count / timing.decoding, memory.mib, update)
    turns = scale.tasks * scale.group * scale.turns
    figures = _sampling(ours, generate, trl)
    figures.append(
        Figure("playing, sandboxes included", turns / timing.wall, "turns/s", "generate alone", turns / seconds)
    )
    figures.append(Figure("playing, in one batch", turns / timing.wall, "turns/s", "in two", turns / split.wall))
    waiting = 100 * split.waiting / split.wall
    figures.append(Figure("waiting for sandboxes, in two batches", waiting, "%", target="≤ 10", met=waiting <= 10))
    figures += _learning(ours, trl)
    return figures if scale.judged else [replace(figure, met=None) for figure in figures]


def _sampling(ours: _Peer, generate: _Peer, trl: _Peer) -> list[Figure]:
    """Compare rates and memory of the engine and its peers."""
    assert ours.rate is not None
    assert generate.rate is not None
    full_context, theirs = "generate, whole context", trl.missing or "TRL, its turns"
    met = ours.rate >= 3 * generate.rate
    figures = [
        Figure("sampling", ours.rate, "tokens/s", full_context, generate.rate, "≥ 3 times", met),
        Figure("sampling", ours.rate, "tokens/s", theirs, trl.rate),
    ]
    if ours.mib is not None:
        figures += [
            Figure("peak memory", ours.mib, "MiB", full_context, generate.mib),
            Figure("peak memory", ours.mib, "MiB", theirs, trl.mib),
        ]
    return figures


def _learning(ours: _Peer, trl: _Peer) -> list[Figure]:
    """Compare the update with TRL's."""
    assert ours.update is not None
    met = None if trl.update is None else ours.update <= trl.update
    beside = trl.missing or "TRL, its training step"
    return [Figure("update", ours.update, "s", beside, trl.update, "≤ 1 times", met)]


async def _engine(
    plans: list[Plan], trained: Trainable, store: MediaStore
) -> tuple[list[Rollout], RolloutTiming, RolloutTiming]:
    """Play the episodes; return them, their timing, and that of the same in two batches."""
    engine = TransformersEngine(trained, store)
    async with LocalSandbox() as sandbox:
        try:
            resources = RolloutResources(engine, trained.encoder, sandbox, store)
            await _warm(plans, resources, sandbox)
            played, timing = await generate_rollouts(plans, resources, GenerationSettings(), 0)
            _, split = await generate_rollouts(plans, resources, GenerationSettings(decoding_batches=2), 0)
            return played, timing, split
        finally:
            await engine.close()


async def _warm(plans: list[Plan], resources: RolloutResources, sandbox: Sandbox) -> None:
    """Play one short episode: imports, allocations, the zygote."""
    await generate_rollouts(
        [replace(plans[0], given_limits=EpisodeLimits(turns=2))], resources, GenerationSettings(), 0
    )


def _compared(played: list[Rollout]) -> list[Rollout]:
    """Return the episodes as an update sees them, every second one good and the others bad."""
    return [item.with_advantage(1.0 - 2.0 * (number % 2)) for number, item in enumerate(played)]


def _update(rollouts: list[Rollout], trained: Trainable, store: MediaStore) -> float:
    """Return the seconds of an update, the median after the first."""
    processes = Processes(cpu=trained.checkpoint.device.type == "cpu")
    learner = Learner(trained, LearnerSettings(learning_rate=_RATE), processes)
    collate = Collator(trained.encoder, PictureTensors(trained.encoder, store), trained.model, packed=trained.packs)
    recipe = Recipe(dialect="direct", reward=RewardSettings(preset="codedance"), loss=RlLossSettings(dual_clip=0.0))
    updater = Updater(learner, collate, recipe, None, _PASS, 1.0)
    seconds = []
    for number in range(_UPDATES):
        began = time.perf_counter()
        updater.update(rollouts, number)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


def _trl(rollouts: list[Rollout], trained: Trainable, scale: RolloutScale, store: MediaStore) -> _Peer:
    tokens = [item.trained_tokens() for item in rollouts]
    longest, count = max(map(len, tokens)), len(tokens)
    rows = max(n for n in range(1, count + 1) if count % n == 0 and (n == 1 or n * longest <= _PASS))
    try:
        peer = TrlPeer(trained, scale, rows, _UPDATES)
    except UnavailableError as error:
        return _Peer(missing=str(error))
    try:
        with Peak(trained.checkpoint.device) as memory:
            sampled, seconds = peer.turns(tokens, store)
        return _Peer(sampled / seconds, memory.mib, peer.update(rollouts, store))
    finally:
        peer.close()
