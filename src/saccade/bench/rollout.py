"""`saccade bench rollout`: the rollout engine beside `generate` on the whole context at every turn, same work, one run.

Every episode looks several times: a question with a picture, then turns of some tokens, each answered with a crop. The
engine plays them with real sandboxes too, which shows how long decoding waits for them. What the model writes is not
looked at: a checkpoint with random weights does. Token counts are those really sampled.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers.utils import logging

from saccade.bench.loop import LoopFigure
from saccade.dialects.base import Observation, Opening
from saccade.dialects.registry import load_dialect
from saccade.episode.plan import Plan
from saccade.media.store import MediaStore
from saccade.models.tiny import save_tiny
from saccade.record.action import Action, Code
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.execution import Execution
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.record.turn import FinishReason
from saccade.rl.engines.in_process import TransformersEngine
from saccade.rl.play.rollouts import Played, PlaySettings, Stage, Timing, play
from saccade.sandbox.base import Sandbox, SessionOptions
from saccade.sandbox.limits import Limits
from saccade.sandbox.local import LocalSandbox
from saccade.tokens.build import token_trajectory
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import Kind, TokenTrajectory
from saccade.training.settings import ModelSettings
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


FULL_ROLLOUT = RolloutScale()
QUICK_ROLLOUT = RolloutScale(tasks=2, turns=3, tokens=16)


@dataclass(frozen=True)
class Looking:
    """A dialect in which every turn cuts the same crop out, whatever was written."""

    id: str = "looking@1"
    stop: tuple[str, ...] = ()
    session: SessionOptions = field(default_factory=SessionOptions)
    sandbox: Limits = field(default_factory=Limits)
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)

    def open(self, task: Task) -> Opening:
        """As a real dialect begins."""
        return Opening(load_dialect(_SPOKEN).open(task).messages, {"image": task.media[0].name}, {}, 1)

    def parse(self, text: str, finish: FinishReason) -> Action:
        """The crop."""
        return Code(code=_CROP)

    def write(self, action: Action, thought: str = "") -> str:
        """Nothing else can be said."""
        return thought

    def observe(self, execution: Execution, pictures: int) -> Observation:
        """What came back."""
        shown = [picture.image for picture in execution.pictures]
        return Observation(_user("Here:\n", *shown, "\nGo on."), {}, pictures + len(shown))

    def correct(self, reason: str, pictures: int) -> Observation | None:
        """Never needed."""
        return None

    def ask_for_answer(self) -> Message | None:
        """Never."""
        return None


def measure_rollout(
    scale: RolloutScale, source: str, threads: int, told: Callable[[str], None] = lambda _: None
) -> list[LoopFigure]:
    """The figures, of the checkpoint `source` or of a tiny one with random weights.

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
        plans = _plans(scale, store)
        told("the engine")
        played, timing = asyncio.run(_engine(plans, trained, store))
        told("generate on the whole context")
        tokens = [token_trajectory(item.trajectory, trained.encoder) for item in played]
        pictures = PictureTensors(trained.encoder, store)
        pictures([picture for item in tokens for picture in item.pictures])  # decoded once, for both
        sampled, seconds = _generate(tokens, scale, trained, pictures)
    ours = sum(int(item.loss_mask().sum()) for item in tokens)
    turns = scale.tasks * scale.group * scale.turns
    waiting = 100 * timing.waiting / timing.wall
    fast, slow = ours / timing.decoding, sampled / seconds
    judged = scale == FULL_ROLLOUT
    beside = "generate, whole context"
    return [
        LoopFigure("sampling", fast, "tokens/s", beside, slow, "≥ 3 times", fast >= 3 * slow if judged else None),
        LoopFigure("playing, sandboxes included", turns / timing.wall, "turns/s", "generate alone", turns / seconds),
        LoopFigure("waiting for sandboxes", waiting, "%", target="≤ 10", met=waiting <= 10 if judged else None),
    ]


async def _engine(plans: list[Plan], trained: Trainable, store: MediaStore) -> tuple[list[Played], Timing]:
    engine = TransformersEngine(trained, store)
    async with LocalSandbox() as sandbox:
        try:
            stage = Stage(engine, trained.encoder, sandbox, store)
            await _warm(plans, stage, sandbox)
            return await play(plans, stage, PlaySettings(), 0)
        finally:
            await engine.close()


async def _warm(plans: list[Plan], stage: Stage, sandbox: Sandbox) -> None:
    """One short episode: imports, allocations, the zygote."""
    await play([replace(plans[0], given_limits=EpisodeLimits(turns=2))], stage, PlaySettings(), 0)


@torch.inference_mode()  # type: ignore[untyped-decorator]
def _generate(
    tokens: list[TokenTrajectory], scale: RolloutScale, trained: Trainable, pictures: PictureTensors
) -> tuple[int, float]:
    """The same episodes with `generate`: at every turn all rows from their beginning; tokens sampled, and seconds."""
    encoder, checkpoint = trained.encoder, trained.checkpoint
    forbidden = torch.nonzero(checkpoint.forbidden)[:, 0].tolist()
    began, count = time.perf_counter(), 0
    for turn in range(scale.turns):
        rows = [_before(item, turn) for item in tokens]
        longest = max(len(row.ids()) for row in rows)
        ids = torch.full((len(rows), longest), encoder.pad_id)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            found = torch.from_numpy(row.ids())
            ids[number, longest - len(found) :] = found
            mask[number, longest - len(found) :] = 1
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


def _before(tokens: TokenTrajectory, turn: int) -> TokenTrajectory:
    """What is read before a turn."""
    places = [at for at, segment in enumerate(tokens.segments) if segment.kind is Kind.SAMPLED]
    return TokenTrajectory(tokens.id, tokens.segments[: places[turn]])


def _plans(scale: RolloutScale, store: MediaStore) -> list[Plan]:
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
