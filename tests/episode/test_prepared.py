"""A task made ready for an evaluation: nothing is shown otherwise unless it must be, and files must fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from tests.media import clips

from saccade.dialects.question import VideoNotShownError
from saccade.dialects.registry import load_dialect
from saccade.episode.prepared import prepared
from saccade.episode.settings import EpisodeSettings
from saccade.episode.shown import scaled_down
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import NamedMedia, Task
from saccade.tasks.frames import FrameSettings

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
    assert bool(scaled_down(picture_task(store), most, store)) is scaled  # 80 x 40


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
