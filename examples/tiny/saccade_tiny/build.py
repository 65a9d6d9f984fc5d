"""From a recipe to a trained folder: demonstrations, tokenizer, untrained checkpoint, stages of training.

    OUT/settings.toml  demonstrations/NAME/...  untrained/  stages/NAME/...  model/

A part that is there is not made again, and one that was interrupted resumes where it stopped, so the same call with
the same recipe ends as if it had never stopped. A changed recipe is refused.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

from saccade.core.settings import differences, load_settings, save_settings
from saccade.dialects.base import load_dialect
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SettingsError
from saccade.plugins.worlds.experts.demonstrator import DIRECT
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.training.launch import end_with_parent, launch
from saccade.training.settings import KeepSettings, ModelSettings, OptimizerSettings
from saccade.training.sft.examples import SftCallback
from saccade.training.sft.settings import (
    BatchSettings,
    DataSettings,
    SftLossSettings,
    SftSettings,
    SftValidationSettings,
)
from saccade.training.sft.synth.outcome import SynthProgress
from saccade_tiny.demonstrations import hold
from saccade_tiny.settings import DemonstrationRun, Stage, TinySettings

_SETTINGS = "settings.toml"
_FORWARD_TOKENS = 640
"""Of one forward pass: beyond that a CPU gains nothing, and several processes share the passes of a step."""


class BuildCallback(Protocol):
    """How a caller follows a build."""

    def part(self, name: str) -> None:
        """Hear that a part of the build begins."""

    def demonstrations(self, name: str, progress: SynthProgress) -> None:
        """Hear that a run of demonstrations made progress."""

    def trainer(self) -> SftCallback:
        """Return the callback of a stage of training."""


@dataclass(frozen=True)
class Places:
    """Where the parts of a build are."""

    root: Path

    def demonstrations(self, name: str) -> Path:
        """Return the run folder of the demonstrations of that name."""
        return self.root / "demonstrations" / name

    def stage(self, name: str) -> Path:
        """Return the folder of a stage of training."""
        return self.root / "stages" / name

    @property
    def untrained(self) -> Path:
        """The checkpoint before the first stage."""
        return self.root / "untrained"

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.root / "model"


def build(settings: TinySettings, out: Path, watch: BuildCallback, processes: int = 1) -> Path:
    """Make everything that `settings` say, in `out`; return the folder of the trained model.

    On CPUs training by several `processes`, of one thread each, is faster than by one of several threads; as many
    demonstrations are made at once. The caller must then be a program that can be imported again, and `watch` and
    `watch.trainer()` must be picklable.

    Raises:
        SettingsError: `out` was made by another recipe, or a stage names a run of demonstrations that there is not.
    """
    _check(settings)
    _claim(settings, out)
    places = Places(out)
    watch.part(f"{len(settings.demonstrations)} runs of demonstrations")
    _hold_all(settings.demonstrations, places, watch, processes)
    if not places.untrained.exists():
        watch.part("tokenizer and first weights")
        _untrained(settings, places)
    source = places.untrained
    for stage in settings.stages:
        folder = places.stage(stage.name)
        if not (folder / "model").exists():
            watch.part(f"stage {stage.name}")
            _run(stage_settings(settings, stage, source, places), folder, watch.trainer(), processes)
        source = folder / "model"
    if not places.model.exists():
        _finish(source, places)
    return places.model


def stage_settings(settings: TinySettings, stage: Stage, source: Path, places: Places) -> SftSettings:
    """Return what `saccade sft` is given for a stage."""
    return SftSettings(
        data=DataSettings(
            runs=tuple(str(places.demonstrations(name)) for name in stage.demonstrations),
            sampled_ids="text",
            most_tokens=settings.text.context,
        ),
        loss=SftLossSettings(average=stage.average),
        model=ModelSettings(
            source=str(source), vision=stage.vision, precision=settings.precision, vision_attention="eager"
        ),
        optimizer=OptimizerSettings(
            method=stage.method,
            learning_rate=stage.learning_rate,
            final_fraction=stage.final_fraction,
            warmup=stage.warmup,
            weight_decay=stage.weight_decay,
            betas=(0.9, 0.98),
        ),
        batch=BatchSettings(trajectories=stage.trajectories, tokens=_FORWARD_TOKENS),
        validation=SftValidationSettings(fraction=0.02, most=128, every=max(1, stage.steps // 2), samples=4),
        keep=KeepSettings(
            every=max(1, stage.steps // 5),
            checkpoints=1,
            tensorboard=False,
            dtype="bfloat16" if stage is settings.stages[-1] else "float32",  # half the size, once, at the end
        ),
        steps=stage.steps,
        seed=settings.seed,
    )


def _check(settings: TinySettings) -> None:
    names = {wanted.name for wanted in settings.demonstrations}
    missing = sorted({name for stage in settings.stages for name in stage.demonstrations} - names)
    if missing:
        known = ", ".join(sorted(names))
        raise SettingsError(f"a stage learns from {', '.join(missing)}, but the demonstrations are {known}")


def _claim(settings: TinySettings, out: Path) -> None:
    kept = out / _SETTINGS
    if not kept.exists():
        out.mkdir(parents=True, exist_ok=True)
        save_settings(settings, kept)
        return
    changed = [item for item in differences(load_settings(TinySettings, kept), settings) if item.name != "exams"]
    if changed:
        listed = "\n".join(f"  {item}" for item in changed)
        raise SettingsError(f"{out} was begun by another recipe:\n{listed}\nName another folder for this one.")


def _hold_all(demonstrations: Sequence[DemonstrationRun], places: Places, watch: BuildCallback, processes: int) -> None:
    """Make all runs of demonstrations, `processes` at once: drawing keeps one core busy, and no more."""
    if processes == 1:
        for wanted in demonstrations:
            _hold(wanted, places, watch)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=end_with_parent) as pool:
        # Those that run code take longest, and of them those of many tasks: nothing must wait for them in the end.
        ordered = sorted(
            demonstrations, key=lambda wanted: (load_dialect(wanted.dialect).id == DIRECT, -_tasks(wanted))
        )
        held = [pool.submit(_hold, wanted, places, watch) for wanted in ordered]
        try:
            for future in held:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _tasks(wanted: DemonstrationRun) -> int:
    return wanted.n * len(wanted.worlds)


def _hold(wanted: DemonstrationRun, places: Places, watch: BuildCallback) -> None:
    report = partial(watch.demonstrations, wanted.name)
    asyncio.run(hold(wanted, places.demonstrations(wanted.name), workers=1 + (os.cpu_count() or 1), watch=report))


def _untrained(settings: TinySettings, places: Places) -> None:
    from saccade_tiny.checkpoint import save_untrained
    from saccade_tiny.tokenizer import make_tokenizer

    tokenizer = make_tokenizer(_all(settings.demonstrations, places), settings.tokenizer, settings.text.context)
    unfinished = places.root / ".untrained.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    save_untrained(unfinished, tokenizer, settings)
    unfinished.rename(places.untrained)


def _finish(source: Path, places: Places) -> None:
    unfinished = places.root / ".model.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(source, unfinished)
    unfinished.rename(places.model)


def _all(demonstrations: tuple[DemonstrationRun, ...], places: Places) -> Iterator[Trajectory]:
    for wanted in demonstrations:
        yield from read_lines(places.demonstrations(wanted.name) / TRAJECTORIES, Trajectory)


def _run(settings: SftSettings, out: Path, watch: SftCallback, processes: int) -> None:
    resume = (out / _SETTINGS).exists()
    if processes > 1:
        launch(_train, (settings.model_copy(update={"threads": 1}), out, resume, watch), processes)
    else:
        _train(settings, out, resume, watch)


def _train(settings: SftSettings, out: Path, resume: bool, watch: SftCallback) -> None:
    from transformers.utils import logging

    from saccade.training.sft.run import train

    logging.disable_progress_bar()  # ours is there
    train(settings, out, resume=resume, callback=watch)
