"""`saccade bench rollout`: the rollout engine and the update beside transformers and TRL, same work, one run.

Every episode looks several times: a question with a picture, then turns of some tokens, each answered with a crop. The
engine plays them with real sandboxes too, which shows how long decoding waits for them. What the model writes is not
looked at: a checkpoint with random weights does. Token counts are those really sampled. Memory is the peak of this
process above what there was before, sandboxes left out; on a GPU what torch allocated there.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers.utils import logging

from saccade.bench.loop import LoopFigure
from saccade.bench.peak import Peak
from saccade.bench.peer_generate import generate_turns
from saccade.bench.peer_trl import TrlPeer
from saccade.bench.rollout_work import RolloutScale, looking_plans
from saccade.episode.plan import Plan
from saccade.errors import UnavailableError
from saccade.generate.in_process import TransformersEngine
from saccade.media.store import MediaStore
from saccade.models.tiny import save_tiny
from saccade.record.trajectory import EpisodeLimits
from saccade.rl.generation.rollouts import GenerationSettings, RolloutResources, RolloutTiming, generate_rollouts
from saccade.rl.losses.settings import RlLossSettings
from saccade.rl.recipe import Recipe, RewardSettings
from saccade.rl.rollout import Rollout
from saccade.rl.train.step import Updater
from saccade.sandbox.base import Sandbox
from saccade.sandbox.local import LocalSandbox
from saccade.tokens.batch import Collator
from saccade.tokens.pictures import PictureTensors
from saccade.training.learner import Learner
from saccade.training.parallel import Processes
from saccade.training.settings import ModelSettings
from saccade.training.settings import OptimizerSettings as LearnerSettings
from saccade.training.weights import Trainable, load_trainable

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
        on_progress("the engine")
        with Peak(device) as memory:
            played, timing = asyncio.run(_engine(looking_plans(scale, store), trained, store))
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
        LoopFigure("playing, sandboxes included", turns / timing.wall, "turns/s", "generate alone", turns / seconds)
    )
    waiting = 100 * timing.waiting / timing.wall
    figures.append(LoopFigure("waiting for sandboxes", waiting, "%", target="≤ 10", met=waiting <= 10))
    figures += _learning(ours, trl)
    return figures if scale.judged else [replace(figure, met=None) for figure in figures]


def _sampling(ours: _Peer, generate: _Peer, trl: _Peer) -> list[LoopFigure]:
    """Rates and memory of the engine and its peers."""
    assert ours.rate is not None
    assert generate.rate is not None
    full_context, theirs = "generate, whole context", trl.missing or "TRL, its turns"
    met = ours.rate >= 3 * generate.rate
    figures = [
        LoopFigure("sampling", ours.rate, "tokens/s", full_context, generate.rate, "≥ 3 times", met),
        LoopFigure("sampling", ours.rate, "tokens/s", theirs, trl.rate),
    ]
    if ours.mib is not None:
        figures += [
            LoopFigure("peak memory", ours.mib, "MiB", full_context, generate.mib),
            LoopFigure("peak memory", ours.mib, "MiB", theirs, trl.mib),
        ]
    return figures


def _learning(ours: _Peer, trl: _Peer) -> list[LoopFigure]:
    """The update beside TRL's."""
    assert ours.update is not None
    met = None if trl.update is None else ours.update <= trl.update
    beside = trl.missing or "TRL, its training step"
    return [LoopFigure("update", ours.update, "s", beside, trl.update, "≤ 1 times", met)]


async def _engine(plans: list[Plan], trained: Trainable, store: MediaStore) -> tuple[list[Rollout], RolloutTiming]:
    engine = TransformersEngine(trained, store)
    async with LocalSandbox() as sandbox:
        try:
            resources = RolloutResources(engine, trained.encoder, sandbox, store)
            await _warm(plans, resources, sandbox)
            return await generate_rollouts(plans, resources, GenerationSettings(), 0)
        finally:
            await engine.close()


async def _warm(plans: list[Plan], resources: RolloutResources, sandbox: Sandbox) -> None:
    """One short episode: imports, allocations, the zygote."""
    await generate_rollouts(
        [replace(plans[0], given_limits=EpisodeLimits(turns=2))], resources, GenerationSettings(), 0
    )


def _compared(played: list[Rollout]) -> list[Rollout]:
    """The episodes as an update sees them, every second one good and the others bad."""
    return [item.with_advantage(1.0 - 2.0 * (number % 2)) for number, item in enumerate(played)]


def _update(rollouts: list[Rollout], trained: Trainable, store: MediaStore) -> float:
    """Seconds of an update, the median after the first."""
    processes = Processes(cpu=trained.checkpoint.device.type == "cpu")
    learner = Learner(trained, LearnerSettings(learning_rate=_RATE), processes)
    collate = Collator(trained.encoder, PictureTensors(trained.encoder, store), trained.model, packed=False)
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
