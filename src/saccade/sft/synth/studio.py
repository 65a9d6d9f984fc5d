"""Everything that one process needs to make trajectories: dialect, sandbox, store, and the maker with its models.

    async with Studio(settings, store) as studio:
        made = await studio.make(job)

Jobs may be made side by side. Samples are drawn in threads, so that drawing and playing overlap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Self

from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.episode.equip import equipped
from saccade.episode.settings import sandbox_at
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.hosted import patient
from saccade.models.registry import load_model
from saccade.models.sampling import check_sampling
from saccade.record.action import Code
from saccade.record.task import Task
from saccade.record.trajectory import StopReason
from saccade.sft.experts.plays import ExpertStopped
from saccade.sft.experts.styles import UnfitSampleError
from saccade.sft.synth.codify import CodifyMaker
from saccade.sft.synth.densify import DensifyMaker
from saccade.sft.synth.jobs import Job, knobs_by_world
from saccade.sft.synth.made import DiscardedError, Made, graded
from saccade.sft.synth.makers import ExpertMaker, Maker, SynthResources, TeacherMaker
from saccade.sft.synth.settings import SynthSettings
from saccade.tasks.worlds.base import World, WorldSample, draw_sample, store_sample
from saccade.tasks.worlds.registry import load_world

ModelLoader = Callable[[str], Model]
"""A model by its name."""


class Studio:
    """Makes the trajectories of jobs."""

    def __init__(self, settings: SynthSettings, store: MediaStore, *, models: ModelLoader = load_model) -> None:
        """Nothing is started before it is entered.

        Raises:
            RegistryError: a world, a dialect or a tool is unknown.
            SettingsError: a knob is wrong, or the dialect offers no tools.
        """
        self.settings = settings
        check_sampling(settings.teacher.model, settings.teacher.sampling)
        check_sampling(settings.teacher.writer or settings.teacher.model, settings.teacher.writer_sampling)
        self._store = store
        self._models: ModelLoader = lambda name: patient(models(name), settings.retry)
        spoken = settings.session.applied(load_dialect(settings.dialect), settings.sandbox)
        self._dialect, self._tools = equipped(spoken, settings.tools)
        self._worlds: dict[str, World[Any]] = {world.id: world for world in map(load_world, settings.worlds)}
        self._knobs = knobs_by_world(settings)
        self._stack = AsyncExitStack()
        self._maker: Maker | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(sandbox_at(self.settings.sandbox, self._dialect.sandbox))
            self._maker = self._made_for(
                SynthResources(self.settings, self._dialect, self._tools, sandbox, self._store)
            )
            stack.push_async_callback(self._maker.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def make(self, job: Job) -> Made:
        """Draw the sample, play the episode, grade it.

        Raises:
            SettingsError: the dialect cannot hold the task.
            IsolationError: the sandbox refuses to start on this machine.
        """
        assert self._maker is not None, "a studio is entered before it is used"
        world = self._worlds[job.world]
        sample = await asyncio.to_thread(draw_sample, world, job.split, job.index, self._knobs[job.world])
        try:
            self._check(job, sample)
            task = await asyncio.to_thread(_stored, sample, self._store, job)
            played = await self._maker.make(job, task, sample.notes)
        except DiscardedError as error:
            return Made(None, error.kind, error.detail)
        except UnfitSampleError as error:
            return Made(None, "no style fits", str(error))
        except ExpertStopped as error:
            return Made(None, "not to be shown", str(error))
        if played.lost or played.stop is StopReason.CANCELLED:
            return Made(None, str(played.stop), played.stop_detail)
        return Made(graded(played))

    def _check(self, job: Job, sample: WorldSample) -> None:
        """Raise `ExpertStopped` for a sample that need not be stored, since nothing would come of it."""

    def _made_for(self, stage: SynthResources) -> Maker:
        teacher = self.settings.teacher
        if not teacher.model:
            return ExpertMaker(stage)
        model = self._models(teacher.model)
        if teacher.recipe == "solve":
            return TeacherMaker(stage, model)
        writer = self._models(teacher.writer) if teacher.writer else model
        if teacher.recipe == "codify":
            _check_writes_code(stage.dialect)
            return CodifyMaker(stage, model, writer)
        return DensifyMaker(stage, TeacherMaker(stage, model), writer)


def _check_writes_code(dialect: Dialect) -> None:
    try:
        dialect.write(Code(code="print(1)"))
    except ValueError as error:
        raise SettingsError(
            f"recipe codify writes code, and dialect {dialect.id} cannot ({error}). "
            "Use codedance, pyvision, codev or thyme."
        ) from error


def _stored(sample: WorldSample, store: MediaStore, job: Job) -> Task:
    return store_sample(sample, store, task_id=job.task_id, split=job.split)
