"""The weakened start: demonstrations as run folders, then a few steps of fine-tuning on them.

    START/demonstrations/NUMBER-PLAY-SET/...  sft/...  (as `saccade sft` writes it)

Every part continues where it was interrupted. Imports torch with the training; import this module late.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from saccade.core import sync
from saccade.episode.plan import Plan
from saccade.episode.run_folder import MEDIA
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.record.trajectory import EpisodeLimits
from saccade.reproduce.plays import WeakDemonstrator
from saccade.reproduce.settings import DemonstrationSet, Reproduction, StartSettings, TaskSet
from saccade.sft.experts.expert import Expert
from saccade.sft.experts.settings import ExpertSettings
from saccade.sft.synth.in_order import in_order
from saccade.sft.synth.jobs import Job, jobs
from saccade.sft.synth.resume import opened
from saccade.sft.synth.settings import SynthSettings
from saccade.sft.synth.studio import Synthesizer
from saccade.sft.train.callback import SftCallback
from saccade.sft.train.run import train
from saccade.sft.train.settings import BatchSettings, DataSettings, SftLossSettings, SftSettings, SftValidationSettings
from saccade.tasks.worlds.rng import Rng
from saccade.training.folder import SETTINGS
from saccade.training.settings import KeepSettings, ModelSettings, OptimizerSettings

_FORWARD_TOKENS = 4096
_BRIEF = ExpertSettings(verbosity="short")


def make_start(settings: Reproduction, source: str, root: Path, callback: SftCallback) -> str:
    """The checkpoint that all arms begin from: `source` itself, or what is made of it in `root`.

    Raises:
        SettingsError: a play does not fit a world, or `root` was begun with other settings.
        ModelRefusedError: the checkpoint cannot be loaded.
    """
    start = settings.start
    if not start.steps:
        return source
    out = root / "sft"
    if not (out / "model").exists():
        runs = [
            root / "demonstrations" / f"{at}-{item.play}-{item.tasks}" for at, item in enumerate(start.demonstrations)
        ]
        first = 0
        for kind, run in zip(start.demonstrations, runs, strict=True):
            sync.run(_hold(kind, settings.set_named(kind.tasks), first, run, settings.turns))
            first += kind.n
        train(_sft(start, source, runs, settings.threads), out, resume=(out / SETTINGS).exists(), callback=callback)
    return str(out / "model")


async def _hold(kind: DemonstrationSet, tasks: TaskSet, first: int, out: Path, turns: int | None) -> None:
    """Make what is missing of a set: demonstrations that end with an answer. No two sets share a task.

    Raises:
        SettingsError: not one demonstration could be played.
    """
    settings = SynthSettings(
        sources=tasks.worlds,
        dialect=kind.dialect,
        n=kind.n,
        start=first,
        knobs=tasks.knobs,
        limits=EpisodeLimits(turns=turns),
    )

    def player(job: Job, plan: Plan, notes: Mapping[str, str]) -> Model:
        seed = job.seed(settings)
        if kind.play == "consult":
            return Expert.of(plan, notes=notes, settings=_BRIEF, seed=seed, style="consult")
        return WeakDemonstrator(plan, kind, notes, Rng(seed))

    synthesizer = Synthesizer(settings, MediaStore(out / MEDIA), player=player)
    run = opened(out, settings)
    missing = [job for job in jobs(settings) if job.id not in run.done]
    if not missing:
        return
    reason = ""
    async with synthesizer:
        async for made in in_order(missing, synthesizer.make, 4):
            if made.trajectory is not None and made.trajectory.answer is not None:
                run.folder.append(made.trajectory)
            else:
                reason = reason or made.detail or "it came to no answer within its turns"
    if not run.folder.ids:
        raise SettingsError(f"no demonstration {kind.play!r} of {kind.tasks!r} could be played, as of this: {reason}")


def _sft(start: StartSettings, source: str, runs: list[Path], threads: int) -> SftSettings:
    return SftSettings(
        data=DataSettings(runs=tuple(map(str, runs)), sampled_ids="text"),
        loss=SftLossSettings(average=start.average),
        model=ModelSettings(source=source, vision="full"),
        optimizer=OptimizerSettings(method=start.method, learning_rate=start.learning_rate, warmup=0.1),
        batch=BatchSettings(trajectories=start.trajectories, tokens=_FORWARD_TOKENS),
        validation=SftValidationSettings(fraction=0.0, every=0, samples=0),
        keep=KeepSettings(every=max(1, start.steps // 4), checkpoints=1, tensorboard=False),
        steps=start.steps,
        seed=start.seed,
        threads=threads,
    )
