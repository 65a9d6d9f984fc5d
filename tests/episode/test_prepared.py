"""A task made ready for an evaluation: nothing is shown otherwise unless it must be, and files must fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.media import clips
from tests.tasks.sources.files import jsonl

from saccade.cli.main import main
from saccade.dialects.base import load_dialect
from saccade.dialects.question import VideoNotShownError
from saccade.episode.ask import AskSettings
from saccade.episode.prepared import prepared, prepared_to_ask
from saccade.episode.settings import EpisodeSettings
from saccade.episode.shown import scaled_down
from saccade.episode.task_media import check_graders, grader_problems
from saccade.errors import SettingsError
from saccade.evals.run import open_sources
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.tasks.media import FrameSettings
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.tasks import check_rewards
from saccade.training.sft.synth.makers import Jobs
from saccade.training.sft.synth.settings import SynthSettings

DIRECT = load_dialect("direct")


def picture_task(store: MediaStore) -> Task:
    part = store.put_image(Image.new("RGBA", (80, 40), (255, 0, 0, 90)))
    return Task(id="t", question="Which?", media=(NamedMedia(name="photo", part=part),))


def video_task(store: MediaStore) -> Task:
    pytest.importorskip("av", reason="the extra `video` is not installed")
    return Task(id="t", question="Which?", media=(NamedMedia(name="clip", part=store.put_video(clips.h264(60))),))


def test_a_picture_of_usual_size_is_shown_as_it_is(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    task = picture_task(store)
    ready = prepared(task, DIRECT, EpisodeSettings(model="m"), store)
    assert (ready.task, ready.shown, ready.notes) == (task, {}, ())


def test_a_large_one_is_shown_small_with_its_transparency(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    task = picture_task(store)
    settings = EpisodeSettings.model_validate({"model": "m", "media": {"shown_pixels": 800}})
    ready = prepared(task, DIRECT, settings, store)
    (shown,) = ready.shown.values()
    assert (shown.part.width, shown.part.height, shown.part.mode) == (40, 20, "RGBA")
    assert ready.task == task


@pytest.mark.parametrize(("most", "scaled"), [(3200, False), (3199, True)])
def test_a_picture_is_scaled_from_one_pixel_too_many_on(tmp_path: Path, most: int, scaled: bool) -> None:
    store = MediaStore(tmp_path)
    assert bool(scaled_down(picture_task(store), most, store, load_dialect("native"))) is scaled  # 80 x 40


@pytest.mark.parametrize(
    ("width", "changes", "more"),
    [
        (10_000, {}, 0), (10_001, {}, 8 * 100_010_000),
        (10_001, {"session": {"memory_bytes": 1 << 30}}, (1 << 30) - (2 << 30)),
        (10_001, {"sandbox": "http://127.0.0.1:9"}, 0),
    ],
)  # fmt: skip
def test_a_call_may_use_more_memory_for_a_very_large_picture(
    tmp_path: Path, width: int, changes: dict[str, Any], more: int
) -> None:
    part = ImagePart(sha256="a" * 64, width=width, height=10_000)
    small = ImagePart(sha256="b" * 64, width=9, height=9)
    media = (NamedMedia(name="scan", part=part), NamedMedia(name="small", part=small))
    task = Task(id="t", question="Which?", media=media)
    settings = AskSettings.model_validate(
        {"model": "m", "dialect": "pyvision", "media": {"shown_pixels": 1 << 40}, **changes}
    )
    dialect, _ = settings.spoken()
    ready = prepared_to_ask(task, dialect, settings, MediaStore(tmp_path))
    assert ready.dialect.sandbox.memory_bytes == load_dialect("pyvision").sandbox.memory_bytes + more
    says = ("a call may use 2.9 GB of memory, for the large picture (session.memory_bytes)",)
    assert ready.notes == (says if more > 0 else ())


@pytest.mark.parametrize(
    ("dialect", "frames", "says"),
    [
        ("direct", {"count": 1}, "clip is shown as 1 frame (evenly; 1.16 s to 1.16 s); "),
        ("direct", {"count": 2}, "clip is shown as 2 frames (evenly; 0.00 s to 2.36 s); "),
        ("direct:video", {"fps": 1}, "clip is shown as one video of 3 frames (1 fps, at most "),
    ],
)
def test_frames_that_are_shown_are_said(tmp_path: Path, dialect: str, frames: dict[str, Any], says: str) -> None:
    store = MediaStore(tmp_path)
    settings = AskSettings.model_validate({"model": "m", "frames": frames})
    ready = prepared_to_ask(video_task(store), load_dialect(dialect), settings, store)
    (note,) = ready.notes
    assert note.startswith(says)
    assert note.endswith("; frames.fps and frames.most choose others")


def test_a_baseline_must_say_which_frames_it_saw(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    task = video_task(store)
    with pytest.raises(VideoNotShownError, match=r"frames\.fps=1"):
        prepared(task, DIRECT, EpisodeSettings(model="m"), store)
    ready = prepared(task, DIRECT, EpisodeSettings(model="m", frames=FrameSettings(count=2)), store)
    assert [item.frame.index for item in ready.task.media if item.frame] == [0, 59]
    assert ready.shown == {}  # a word about frames would be another prompt than the one that is compared


def test_a_video_that_no_session_has_room_for_is_refused(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    task = video_task(store)
    settings = EpisodeSettings.model_validate(
        {"model": "m", "dialect": "pyvision-rl-video", "session": {"file_bytes": 10}}
    )
    dialect, _ = settings.spoken()
    with pytest.raises(SettingsError, match=r"clip has .* may have 10\. Allow more with session\.file_bytes"):
        prepared(task, dialect, settings, store)
    remote = EpisodeSettings(model="m", dialect="pyvision-rl-video", sandbox="http://127.0.0.1:9")
    assert prepared(task, load_dialect("pyvision-rl-video"), remote, store).task == task


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """Tasks of which two name a grader that there is not, one has it behind a judge, and one names code."""
    graders = ["", "relaxed@1", "relxed@1", "relxed@1", "judge", "judge|relaxed@1", "judge|nope@1", "own.py:G"]
    graders += ["relaxed@1:tolerance=0.1", "relaxed@1:tol=1"]
    listed = [{"question": f"{at}?", "answer": "1", "grader": grader} for at, grader in enumerate(graders)]
    return str(jsonl(tmp_path / "rows.jsonl", listed))


def test_each_is_named_with_its_number_and_its_reason(rows: str) -> None:
    said = list(grader_problems(open_tasks([rows]).parts))
    assert [text.partition(" (the first")[0].removeprefix(f"{rows}: ") for text in said] == [
        "2 tasks name the grader 'relxed@1'",
        "1 task names the grader 'judge|nope@1'",
        "1 task names the grader 'own.py:G'",
        "1 task names the grader 'relaxed@1:tol=1'",
    ]
    assert "/rows-2)" in said[0]
    assert "Did you mean 'relaxed@1'" in said[0]
    assert "is not run by itself" in said[2]
    assert "is no parameter of grader relaxed" in said[3]


def evaluated(rows: str) -> object:
    return open_sources(EvalSettings(sources=(rows,), model="scripted:s.json"))


def synthesised(rows: str) -> object:
    return Jobs(SynthSettings(sources=(rows,), dialect="direct"))


def trained(rows: str) -> object:
    return check_rewards(open_tasks([rows]), RewardSettings(preset="codedance@1"))


@pytest.mark.parametrize("take", [evaluated, synthesised, trained])
def test_every_command_refuses_them_before_the_first_sample(rows: str, take: Callable[[str], object]) -> None:
    with pytest.raises(SettingsError, match="2 tasks name the grader 'relxed@1'"):
        take(rows)


def test_another_grader_for_all_makes_them_of_no_account(rows: str) -> None:
    assert open_sources(EvalSettings(sources=(rows,), model="scripted:s.json", grader="text@1"))
    check_rewards(open_tasks([rows]), RewardSettings(preset="codedance@1", grader="text@1"))
    check_graders(open_tasks(["visual-search"]).parts)


def test_the_check_of_tasks_says_so_and_fails(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "check", rows]) == 1
    said = capsys.readouterr().err
    assert "2 tasks name the grader 'relxed@1'" in said
    assert "broken rows: 4" in said
