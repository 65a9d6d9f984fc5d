"""The video dialect in the real sandbox: a program finds the reader under its name and shows frames of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.media import clips
from tests.sandbox.providers import linux_only

from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.workbench import equipped
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer, Code, ImagePart, ToolCall
from saccade.record.execution import Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import StopReason
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.media import task_from_files

pytest.importorskip("av", reason="the extra `video` is not installed")

CELLS = (
    "print(len(video_clue_0), video_clue_0.get_avg_fps())\n"
    "frame = video_clue_0[17].asnumpy()\n"
    "plt.figure(figsize=(frame.shape[1] / 50, frame.shape[0] / 50), dpi=50)\n"
    "plt.axes((0, 0, 1, 1)).axis('off')\nplt.imshow(frame)\nplt.show()",
    "VideoReader('video_clue_0.mp4', ctx=cpu(0))[60]",
)


@linux_only
async def test_a_program_looks_at_the_video(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    part = store.put_video(clips.h264(60))
    task = Task(id="t", question="What happens?", media=(NamedMedia(name="clip", part=part),), answer="it counts")
    dialect = load_dialect("pyvision-rl-video")
    replies = [*(dialect.write(Code(code=cell), "I look.") for cell in CELLS), dialect.write(Answer(text="it counts"))]
    async with LocalSandbox(limits=dialect.sandbox) as sandbox:
        trajectory = await run_episode(Plan(task, dialect), ScriptedModel(replies), sandbox, store)
    first, second, _ = trajectory.turns
    assert (trajectory.stop, trajectory.answer) == (StopReason.ANSWERED, "it counts")
    assert first.execution is not None
    assert first.execution.stdout.strip() == "60 25.0"
    assert first.observation is not None
    [shown] = [item for item in first.observation.media if isinstance(item, ImagePart)]
    assert clips.number_of(store.open(shown).decode()) == 17
    assert second.execution is not None
    assert second.execution.status is Status.ERROR
    assert "the video has 60, from 0 to 59" in (second.execution.traceback or "")


async def test_a_typed_tool_gives_frames(tmp_path: Path) -> None:
    path = tmp_path / "clip.webm"
    path.write_bytes(clips.vp9(40))
    store = MediaStore(tmp_path / "media")
    dialect, tools = equipped(load_dialect("native"), ["select_frames"])
    call = ToolCall(name="select_frames", arguments={"frames": [3, 17]})
    plan = Plan(task_from_files("Which number?", [path], store), dialect)
    texts = [dialect.write(call, "I look."), "<answer>3</answer>"]
    trajectory = await run_episode(plan, ScriptedModel(texts), None, store, tools=tools)
    execution = trajectory.turns[0].execution
    assert execution is not None
    assert execution.status is Status.OK, execution
    shown = [store.open(picture.image).decode() for picture in execution.pictures]
    assert [clips.number_of(frame) for frame in shown] == [3, 17]
