"""A run of synthesis: every job that is not there yet, made side by side, kept in the order of the jobs.

A trajectory is on the disk when it is counted. A run that is killed or interrupted continues where it stood when it is
started again with the same settings, and ends as if it had never stopped. Jobs that came to nothing are tried again,
but for those whose trajectory was played and is not wanted (`rejected.jsonl`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from saccade.episode.run_folder import MEDIA
from saccade.media.store import MediaStore
from saccade.sft.synth.in_order import in_order
from saccade.sft.synth.jobs import Job
from saccade.sft.synth.made import Made
from saccade.sft.synth.report import SynthProgress
from saccade.sft.synth.resume import opened
from saccade.sft.synth.settings import SynthSettings
from saccade.sft.synth.studio import ModelLoader, Synthesizer

SynthCallback = Callable[[SynthProgress], None]
"""Hears the counts after every job."""


async def synthesise(
    settings: SynthSettings,
    out: Path,
    *,
    workers: int = 4,
    models: ModelLoader | None = None,
    watch: SynthCallback = lambda progress: None,
) -> SynthProgress:
    """Make what is missing in the run folder `out`, `workers` jobs at once, and say what came of it.

    Raises:
        SettingsError: the folder was made with other settings, or the dialect cannot hold a world's tasks.
        RegistryError: a world, dialect or model is unknown.
        ModelError, SandboxError: outages that do not end.
    """
    # Before anything is written: the names in the settings must mean something.
    synthesizer = Synthesizer(settings, MediaStore(out / MEDIA), models=models)
    run = opened(out, settings)
    listed = list(synthesizer.jobs)
    missing = [job for job in listed if job.id not in run.done and job.id not in run.rejected]
    skipped = sum(job.id in run.done for job in listed)
    progress = SynthProgress(len(listed), skipped, len(listed) - len(missing) - skipped, synthesizer.lines())
    estimate = await asyncio.to_thread(synthesizer.estimate, missing)
    progress.estimate = "" if estimate is None else estimate.line(settings.teacher.dollars)
    watch(progress)
    if not missing:
        return progress
    async with synthesizer:
        async for job, made in in_order(missing, lambda job: _named(synthesizer, job), workers):
            if made.trajectory is not None:
                run.folder.append(made.trajectory)
            elif made.final:
                run.reject(job, made)
            progress.count(made)
            watch(progress)
    return progress


async def _named(synthesizer: Synthesizer, job: Job) -> tuple[str, Made]:
    return job.id, await synthesizer.make(job)
