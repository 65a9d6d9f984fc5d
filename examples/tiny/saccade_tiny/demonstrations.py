"""Demonstrations as run folders: what `saccade synth` does, with the demonstrator in the place of its experts.

    OUT/settings.toml  trajectories.jsonl  media/  left-out.txt

A run that was interrupted is resumed, as those of `saccade synth` are. Only demonstrations that ended with the gold
answer are kept; the ids of the others are written down, since making them again would end the same.
"""

from __future__ import annotations

from pathlib import Path

from saccade.dialects.base import load_dialect
from saccade.episode.run_folder import MEDIA
from saccade.media.store import MediaStore
from saccade.plugins.worlds.experts.demonstrator import DIRECT, Demonstrator, is_search, turns_to_look
from saccade.tasks.worlds import Rng, WorldSample
from saccade.training.sft.synth.makers import Job, Jobs
from saccade.training.sft.synth.outcome import SynthProgress, may_pass, opened
from saccade.training.sft.synth.prompts import in_order, is_right
from saccade.training.sft.synth.run import SampleCheck, SynthCallback, Synthesizer
from saccade.training.sft.synth.settings import ExpertStopped, SynthSettings
from saccade_tiny.settings import DemonstrationRun
from saccade_tiny.wordings import reworded

LEFT_OUT = "left-out.txt"


def check_length(most: int | None, dialect: str) -> SampleCheck:
    """Refuse searches of more than `most` turns: most are too long for a run of short ones, and storing their pictures
    would take most of its time.
    """

    def check(job: Job, sample: WorldSample) -> None:
        if most is None or not is_search(job.world, len(sample.evidence)) or dialect == DIRECT:
            return
        picture = sample.media[sample.evidence[0].image]
        if turns_to_look((picture.width, picture.height), sample.notes) > most:
            raise ExpertStopped(f"it takes more than {most} turns")

    return check


async def hold(
    wanted: DemonstrationRun, out: Path, *, workers: int = 4, watch: SynthCallback = lambda progress: None
) -> SynthProgress:
    """Make the demonstrations that are missing in the run folder `out`.

    Raises:
        SettingsError: the folder was made with other settings, or a knob is wrong.
        RegistryError: a world or a dialect is unknown.
    """
    settings = synth_settings(wanted)
    synthesizer = Synthesizer(
        settings,
        MediaStore(out / MEDIA),
        player=lambda job, plan, notes: Demonstrator(plan, notes),
        wording=(lambda job, task: reworded(task, Rng(job.seed(settings)))) if wanted.reword else None,
        check=check_length(settings.limits.turns, load_dialect(settings.dialect).id),
    )
    run = opened(out, settings)
    over = run.done | _left_out(out / LEFT_OUT)
    jobs = Jobs(settings)
    missing = [job for job in jobs if job.id not in over]
    progress = SynthProgress(len(jobs), skipped=len(over))
    if not missing:
        return progress
    async with synthesizer:
        left = iter(missing)
        async for made in in_order(missing, synthesizer.make, workers):
            job = next(left)
            if made.trajectory is not None and is_right(made.trajectory):
                run.folder.append(made.trajectory)
            elif not may_pass(made):
                _leave_out(out / LEFT_OUT, job.id)
            progress.count(made)
            watch(progress)
    return progress


def _left_out(path: Path) -> set[str]:
    """Return the ids; a last line that a kill has cut short is none."""
    if not path.exists():
        return set()
    return {line[:-1] for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")}


def _leave_out(path: Path, job: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{job}\n")


def synth_settings(wanted: DemonstrationRun) -> SynthSettings:
    """Return the settings of the run folder: those that `saccade synth` would save."""
    settings = wanted.model_dump(exclude={"name", "reword", "turns", "worlds"})
    return SynthSettings.model_validate({**settings, "sources": wanted.worlds, "limits": {"turns": wanted.turns}})
