"""A run of synthesis: every job that is not there yet, made side by side, kept in the order of the jobs.

A trajectory is on the disk when it is counted. A run that is killed or interrupted continues where it stood when it is
started again with the same settings, and ends as if it had never stopped; jobs that came to nothing are tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from saccade.episode.run_folder import MEDIA
from saccade.media.store import MediaStore
from saccade.models.registry import load_model
from saccade.sft.synth.in_order import in_order
from saccade.sft.synth.jobs import job_count, jobs
from saccade.sft.synth.report import SynthProgress
from saccade.sft.synth.resume import opened
from saccade.sft.synth.settings import SynthSettings
from saccade.sft.synth.studio import ModelLoader, Studio

SynthCallback = Callable[[SynthProgress], None]
"""Hears the counts after every job."""


async def synthesise(
    settings: SynthSettings,
    out: Path,
    *,
    workers: int = 4,
    models: ModelLoader = load_model,
    watch: SynthCallback = lambda progress: None,
) -> SynthProgress:
    """Make what is missing in the run folder `out`, `workers` jobs at once, and say what came of it.

    Raises:
        SettingsError: the folder was made with other settings, or the dialect cannot hold a world's tasks.
        RegistryError: a world, dialect or model is unknown.
        ModelError, SandboxError: outages that do not end.
    """
    # Before anything is written: the names in the settings must mean something.
    studio = Studio(settings, MediaStore(out / MEDIA), models=models)
    run = opened(out, settings)
    progress = SynthProgress(job_count(settings), skipped=sum(job.id in run.done for job in jobs(settings)))
    missing = [job for job in jobs(settings) if job.id not in run.done]
    watch(progress)
    if not missing:
        return progress
    async with studio:
        async for made in in_order(missing, studio.make, workers):
            if made.trajectory is not None:
                run.folder.append(made.trajectory)
            progress.count(made)
            watch(progress)
    return progress
