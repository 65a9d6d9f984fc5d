"""`python -m benchmarks local`: a checkpoint in this process as `ask` and `eval` use it, in turns and side by side.

Every episode shows a picture and then, after each turn, a crop of it, so its context grows; nothing is run in between.
What the model writes is not looked at. Counted are the tokens really sampled.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image

from benchmarks.figures import Figure
from saccade.dialects.base import load_dialect
from saccade.errors import ModelRefusedError
from saccade.media.store import MediaStore
from saccade.models.base import Model, Request
from saccade.models.registry import load_model
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.content import ImagePart, Message, Part, TextPart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Sampling

_SPOKEN = "pyvision-rl-image"
"""The dialect whose prompt is read."""


@dataclass(frozen=True, slots=True)
class LocalScale:
    """Sizes of a run."""

    turns: int = 6
    tokens: int = 48
    """Most of a turn."""
    episodes: int = 8
    """Side by side."""


FULL_LOCAL = LocalScale()
QUICK_LOCAL = LocalScale(turns=3, tokens=16)


@dataclass(frozen=True, slots=True)
class _Played:
    seconds: float
    processor: float
    """Seconds of the processor, which a busy machine changes little."""
    sampled: int
    turns: int


def measure_local(
    scale: LocalScale, source: str = "", threads: int = 1, on_progress: Callable[[str], None] = lambda what: None
) -> list[Figure]:
    """Measure every figure; `source` is a checkpoint's folder, empty for a small one with random weights."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as root:
        if not source:
            source = str(Path(root) / "tiny")
            save_tiny(Path(source))
        return asyncio.run(_measured(scale, source, MediaStore(Path(root) / "media"), on_progress))


async def _measured(
    scale: LocalScale, source: str, store: MediaStore, on_progress: Callable[[str], None]
) -> list[Figure]:
    model = load_model(f"local:{source}")
    try:
        await _episode(model, LocalScale(turns=1, tokens=2), store, 99)  # loads the checkpoint
        on_progress("one episode")
        one = await _timed(model, scale, store, [0])
        on_progress(f"{scale.episodes} episodes side by side")
        many = await _timed(model, scale, store, range(1, scale.episodes + 1))
    finally:
        await model.close()
    both = (("one episode", one, 1), (f"{scale.episodes} episodes side by side", many, scale.episodes))
    return [figure for what, played, episodes in both for figure in _figures(what, played, episodes * scale.turns)]


def _figures(what: str, played: _Played, turns: int) -> list[Figure]:
    return [
        Figure(what, played.seconds, "s"),
        Figure(f"{what}, processor", played.processor, "s"),
        Figure(f"{what}, turns before the context was full", played.turns, "", "asked for", turns),
        Figure(f"{what}, tokens", played.sampled, ""),
        Figure(f"{what}, tokens of a second", played.sampled / played.seconds, "1/s"),
    ]


async def _timed(model: Model, scale: LocalScale, store: MediaStore, numbers: range | list[int]) -> _Played:
    began, processor = time.perf_counter(), time.process_time()
    played = await asyncio.gather(*(_episode(model, scale, store, number) for number in numbers))
    sampled, turns = (sum(column) for column in zip(*played, strict=True))
    return _Played(time.perf_counter() - began, time.process_time() - processor, sampled, turns)


async def _episode(model: Model, scale: LocalScale, store: MediaStore, number: int) -> tuple[int, int]:
    """Count tokens that were sampled, and turns: fewer than asked for where the checkpoint's context is full before."""
    image = Image.effect_noise((224, 168), 20 + 5 * number).convert("RGB")
    shown = _stored(store, image)
    task = Task(id=f"t{number}", question="Which colour is it?", media=(NamedMedia(name="image_0", part=shown),))
    messages = load_dialect(_SPOKEN).open(task).messages
    sampled = 0
    for turn in range(scale.turns):
        sampling = Sampling(max_tokens=scale.tokens, temperature=1.0, seed=100 * number + turn)
        try:
            said = await model.complete(Request(messages, sampling=sampling), store)
        except ModelRefusedError:
            if not turn:
                raise
            return sampled, turn
        sampled += said.usage.sampled_tokens or 0
        crop = _stored(store, image.crop((8 * turn, 16, 8 * turn + 84, 100)))
        messages = (
            *messages,
            _message("assistant", said.text or "."),
            _message("user", "Here:\n", crop, "\nContinue."),
        )
    return sampled, scale.turns


def _stored(store: MediaStore, image: Image.Image) -> ImagePart:
    return store.put_image(image)


def _message(role: str, *parts: str | ImagePart) -> Message:
    shown: list[Part] = [TextPart(text=part) if isinstance(part, str) else part for part in parts]
    return Message.model_validate({"role": role, "parts": shown})
