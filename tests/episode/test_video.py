"""A scripted model samples frames of a real video in its program, and sees them; no frame is in the context before."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.media.clips import READ, clip, number_of

from saccade.dialects.registry import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.equip import equipped
from saccade.episode.plan import Plan
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.action import Answer, Code, ToolCall
from saccade.record.content import VideoPart
from saccade.record.status import Status
from saccade.sandbox.local import LocalSandbox
from saccade.tasks.from_files import task_from_files

CELLS = (
    "print(len(video_clue_0), round(video_clue_0.get_avg_fps()))\n"
    "frames = video_clue_0.get_batch([3, 17]).asnumpy()\nprint([number_of(f) for f in frames])\n"
    "for f in frames:\n    plt.figure(); plt.imshow(f); plt.show()",
    "video_clue_0[10**6]",
    "print(number_of(video_clue_0[-1].asnumpy()))",
)


@pytest.mark.parametrize(("codec", "suffix"), [("libx264", "mp4"), ("libvpx-vp9", "webm")])
async def test_frames_are_found_by_the_program(codec: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"clip.{suffix}"
    path.write_bytes(clip(codec, suffix, 40))
    store = MediaStore(tmp_path / "media")
    dialect = load_dialect("pyvision-rl-video")
    texts = [dialect.write(Code(code=code), "I look.") for code in (READ + CELLS[0], *CELLS[1:])]
    plan = Plan(task_from_files("Which number comes last?", [path], store), dialect)
    async with LocalSandbox(limits=dialect.sandbox) as box:
        trajectory = await run_episode(plan, ScriptedModel([*texts, dialect.write(Answer(text="39"))]), box, store)
    assert trajectory.answer == "39", trajectory
    assert not any(message.media for message in trajectory.prompt)
    first, second, third = (turn.execution for turn in trajectory.turns[:3])
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.stdout == "40 25\n[3, 17]\n"
    assert len(first.pictures) == 2
    assert second.status is Status.ERROR
    assert third.stdout == "39\n"
    assert isinstance(trajectory.task.media[0].part, VideoPart)
    assert all(part in store for part in trajectory.media())


async def test_frames_by_a_typed_tool(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(clip("libx264", "mp4", 40))
    store = MediaStore(tmp_path / "media")
    dialect, tools = equipped(load_dialect("native"), ["select_frames"])
    call = ToolCall(name="select_frames", arguments={"frames": [3, 17]})
    plan = Plan(task_from_files("Which number?", [path], store), dialect)
    texts = [dialect.write(call, "I look."), "<answer>3</answer>"]
    trajectory = await run_episode(plan, ScriptedModel(texts), None, store, tools=tools)
    execution = trajectory.turns[0].execution
    assert execution is not None
    assert execution.status is Status.OK, execution
    assert [number_of(store.open(picture.image).decode()) for picture in execution.pictures] == [3, 17]
