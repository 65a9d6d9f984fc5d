"""Run a world's own program on a sample, in this process: it is our code, not a model's."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from hashlib import sha256
from pathlib import Path
from typing import Any

from PIL import Image

from saccade.dialects.base import load_dialect
from saccade.episode.drive import equipped
from saccade.episode.flow import Plan
from saccade.media.store import MediaStore
from saccade.plugins.worlds.experts.plays import ExpertPart
from saccade.plugins.worlds.experts.scene import ExpertScene, ExpertSettings
from saccade.record.trajectory import Trajectory
from saccade.tasks.worlds import Rng, WorldSample, draw_sample, load_world, store_sample
from saccade.training.sft.synth.run import synthesise
from saccade.training.sft.synth.settings import SynthSettings


def printed(program: str, **names: Any) -> str:
    """The last line that a program prints."""
    out, space = io.StringIO(), {"__name__": "__main__", **names}
    with redirect_stdout(out):
        exec(program, space)
    space.clear()  # its functions know it, and it holds pictures of many megabytes: a cycle for the collector
    return out.getvalue().rstrip("\n").rpartition("\n")[2]


def printed_answer(sample: WorldSample, **bindings: Any) -> str:
    """The last line that the sample's program prints; `bindings` replace media of the same name."""
    return printed(sample.program, **{**sample.media, **bindings})


def pixels_digest(sample: WorldSample) -> str:
    """The first 16 digits of the sha256 of question, answer, and size, mode and raw pixels of every picture."""
    digest = sha256(f"{sample.question}|{sample.answer}".encode())
    for medium in sample.media.values():
        if isinstance(medium, Image.Image):
            digest.update(f"{medium.size}{medium.mode}".encode())
            digest.update(medium.tobytes())
    return digest.hexdigest()[:16]


NEAR = {"kinds": ["letter", "dot"], "megapixels": [0.4, 0.4], "detail": 20, "signs": 2, "conjunction": 0}
"""Knobs of a search that is over soon."""


def plan_for(world: str, dialect: str, root: Path, index: int = 0) -> tuple[Plan, dict[str, str]]:
    """The plan of a sample, and the sample's notes."""
    drawn = load_world(world)
    sample = draw_sample(drawn, "train", index)
    task = store_sample(sample, MediaStore(root), task_id=f"{drawn.id}/train/{index}", split="train")
    return Plan(task, equipped(load_dialect(dialect))[0]), dict(sample.notes)


def part_for(world: str, dialect: str, root: Path, *, index: int = 0, seed: int = 0, **settings: Any) -> ExpertPart:
    """The part of an expert on a sample."""
    plan, notes = plan_for(world, dialect, root, index)
    chosen = ExpertSettings.model_validate(settings)
    return ExpertPart.of(ExpertScene(plan.task, plan.dialect, plan.opening, Rng(seed), chosen, notes))


async def trajectories(out: Path, **settings: Any) -> list[Trajectory]:
    """What a run of these settings makes; no job may come to nothing."""
    from saccade.record.codec import read_lines

    progress = await synthesise(SynthSettings.model_validate(settings), out, workers=3)
    assert not progress.discarded, progress.example
    return list(read_lines(out / "trajectories.jsonl", Trajectory))


def is_right(trajectory: Trajectory) -> bool:
    """Whether it was scored as right."""
    return [score.value for score in trajectory.scores if score.name == "correct"] == [1.0]
