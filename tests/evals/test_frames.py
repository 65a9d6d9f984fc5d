"""Uniformly sampled frames in place of videos: the baseline that looks once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.evals.support import oracle, settings
from tests.media import clips

from saccade.evals.protocols.base import load_protocol
from saccade.evals.protocols.study import Study, study
from saccade.evals.run import evaluate
from saccade.media.store import MediaStore
from saccade.record.codec import write_lines
from saccade.record.content import ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.tasks.media import FrameSettings, framed

pytest.importorskip("av", reason="the extra `video` is not installed")


def video_task(store: MediaStore) -> Task:
    part = store.put_video(clips.h264(60))  # 25 frames per second
    return Task(id="t0", question="Which?", media=(NamedMedia(name="clip", part=part),), answer="3", source="clips")


def numbers(task: Task, store: MediaStore) -> list[int]:
    parts = [item.part for item in task.media if isinstance(item.part, ImagePart)]
    assert len(parts) == len(task.media)
    return [clips.number_of(store.open(part).decode().resize((clips.WIDTH, clips.HEIGHT))) for part in parts]


@pytest.mark.parametrize(
    ("chosen", "note", "expected"),
    [
        (FrameSettings(fps=1), "1 fps", [0, 25, 50]),
        (FrameSettings(fps=5, most=3), "5 fps", [0, 30, 59]),
        (FrameSettings(count=2), "2 frames", [0, 59]),
    ],
)
def test_frames_stand_in_place_of_the_video(
    chosen: FrameSettings, note: str, expected: list[int], tmp_path: Path
) -> None:
    store = MediaStore(tmp_path)
    task = framed(video_task(store), chosen, store)
    assert (task.id, chosen.rate) == ("t0", note)
    assert numbers(task, store) == expected
    assert task.media[0].name == "clip@0.00s#0"


def test_without_frames_nothing_changes(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    task = video_task(store)
    assert framed(task, FrameSettings(), store) is task
    with pytest.raises(ValidationError, match="one of the two"):
        FrameSettings(fps=1, count=2)


async def test_a_baseline_at_two_rates(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    write_lines(_made(tasks) / "tasks.jsonl", [video_task(MediaStore(tasks / "media"))])
    points = []
    for fps in (1.0, 5.0):
        run = tmp_path / f"{fps:g}"
        await evaluate(settings(tasks, frames={"fps": fps}), run, player=oracle)
        found = (await study(run, Study((load_protocol("tokens"),))))["tokens"]
        assert found.about.frames == f"{fps:g} fps"
        points.append((found.total.pictures.value, found.total.visual.value))
    # A frame of 128×64 becomes one of 140×56, which is 5×2 tokens.
    assert points == [(3, 30), (12, 120)]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
