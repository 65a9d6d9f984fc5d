"""Tasks whose pictures or videos a dialect cannot show end a run before its first sample, or are said at its start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.evals.support import oracle
from tests.evals.support import settings as evaluation
from tests.tasks.sources.files import jsonl, picture, video

from saccade.dialects.base import load_dialect
from saccade.episode.task_media import check_media
from saccade.errors import SettingsError
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.tasks.media import FrameSettings
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.synth.run import Synthesizer
from saccade.training.sft.synth.settings import SynthSettings

PICTURE, VIDEO = {"image": "a.png"}, {"video": "b.mp4"}


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., str]:
    """A file of tasks that show what is asked for."""
    picture(tmp_path / "set" / "a.png")
    video(tmp_path / "set" / "b.mp4")

    def of(*shown: dict[str, str]) -> str:
        rows = [{"question": f"{at}?", "answer": "1", "grader": "text@1", **media} for at, media in enumerate(shown)]
        return str(jsonl(tmp_path / "set" / "rows.jsonl", rows))

    return of


def eval_of(rows: str, dialect: str, **changes: object) -> EvalSettings:
    return evaluation(rows).model_copy(update={"dialect": dialect, **changes})


async def evaluated(rows: str, dialect: str, tmp_path: Path) -> object:
    return await evaluate(eval_of(rows, dialect), tmp_path / "run", player=oracle)


async def synthesised(rows: str, dialect: str, tmp_path: Path) -> object:
    made = SynthSettings.model_validate(
        {"sources": [rows], "dialect": dialect, "teacher": {"model": "scripted:none.json"}}
    )
    return Synthesizer(made, MediaStore(tmp_path / "run" / "media"))


async def trained(rows: str, dialect: str, tmp_path: Path) -> object:
    return check_media(open_tasks([rows]).parts, load_dialect(dialect))


TAKES = pytest.mark.parametrize("take", [evaluated, synthesised, trained])


@TAKES
async def test_videos_in_a_dialect_for_pictures_are_refused_before_anything_is_written(
    take: Callable[..., object], source: Callable[..., str], tmp_path: Path
) -> None:
    rows = source(VIDEO, VIDEO, VIDEO, VIDEO)
    with pytest.raises(SettingsError, match="4 of 4 tasks hold videos") as refused:
        await take(rows, "direct", tmp_path)  # type: ignore[misc]
    said = str(refused.value)
    assert "(set/rows-0, set/rows-1, set/rows-2, ...)" in said
    assert "direct@1:reason shows pictures only" in said
    assert "direct:video" in said
    assert ("frames.fps" in said) is (take is evaluated)  # where there is such a setting
    assert not (tmp_path / "run").exists()


@TAKES
async def test_pictures_in_a_dialect_for_videos_are_refused(
    take: Callable[..., object], source: Callable[..., str], tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="2 of 2 tasks hold no video") as refused:
        await take(source(PICTURE, PICTURE), "pyvision-rl-video", tmp_path)  # type: ignore[misc]
    assert "pyvision-rl-image" in str(refused.value)


async def test_of_a_mixed_source_what_can_be_played_is_and_the_rest_is_said(
    source: Callable[..., str], tmp_path: Path
) -> None:
    rows = source(PICTURE, VIDEO, PICTURE)
    made = await evaluated(rows, "direct", tmp_path)
    assert (made.progress.played, dict(made.progress.kinds)) == (2, {"VideoNotShownError": 1})  # type: ignore[attr-defined]
    assert any("1 of 3 tasks holds a video (set/rows-1)" in notice for notice in made.progress.notices)  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="1 of 3 tasks holds a video"):  # there one task would end the run
        await synthesised(rows, "direct", tmp_path)
    with pytest.raises(SettingsError, match="1 of 3 tasks holds a video"):
        await trained(rows, "direct", tmp_path)


@pytest.mark.parametrize("dialect", ["direct:video", "native", "pyvision-rl-video"])
async def test_what_takes_videos_takes_them(dialect: str, source: Callable[..., str]) -> None:
    check_media(open_tasks([source(VIDEO, VIDEO)]).parts, load_dialect(dialect))


def test_frames_are_pictures(source: Callable[..., str]) -> None:
    parts, frames = open_tasks([source(VIDEO)]).parts, FrameSettings(count=4)
    check_media(parts, load_dialect("direct"), frames)
    check_media(parts, load_dialect("direct:video"), frames)
    check_media(parts, load_dialect("thyme"), frames)
    with pytest.raises(SettingsError, match=r"frames are shown \(frames\.count=4\)"):  # there would be no video left
        check_media(parts, load_dialect("pyvision-rl-video"), frames)
    with pytest.raises(SettingsError, match="holds no video"):
        check_media(open_tasks([source(PICTURE)]).parts, load_dialect("pyvision-rl-video"), frames)


def test_as_many_tasks_as_are_named_have_no_dots_behind_them(source: Callable[..., str]) -> None:
    with pytest.raises(SettingsError, match=r"3 of 3 tasks hold videos \(set/rows-0, set/rows-1, set/rows-2\), and"):
        check_media(open_tasks([source(VIDEO, VIDEO, VIDEO)]).parts, load_dialect("direct"))


def test_worlds_are_known_by_their_first_task() -> None:
    check_media(open_tasks(["visual-search", "echo"]).parts, load_dialect("direct"))
    with pytest.raises(SettingsError, match=r"video-events.*: 2 of 2 tasks hold videos"):
        check_media(open_tasks(["video-events"]).parts, load_dialect("thyme"))
    with pytest.raises(SettingsError, match=r"visual-search.* hold no video"):
        check_media(open_tasks(["visual-search"]).parts, load_dialect("pyvision-rl-video"))
