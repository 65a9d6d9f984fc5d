"""Runs of experts: continued exactly, refused with other settings, broken off by a kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from saccade.errors import ModelRefusedError, SettingsError
from saccade.media.decode import MediaSettings
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart
from saccade.record.trajectory import Trajectory
from saccade.training.sft.synth.makers import Jobs
from saccade.training.sft.synth.prompts import (
    DiscardedError,
    conclusion_in,
    in_order,
    reasoning_in,
    steps_in,
    thoughts_in,
)
from saccade.training.sft.synth.run import synthesise
from saccade.training.sft.synth.settings import SynthSettings, TeacherSettings

SETTINGS = SynthSettings(sources=("circled-letter", "touching-circles"), dialect="vista", n=4)


def stored(root: Path) -> list[dict[str, Any]]:
    """The trajectories of a run, without their times."""
    found = []
    for trajectory in read_lines(root / "trajectories.jsonl", Trajectory):
        data = trajectory.model_dump(mode="json")
        del data["created"], data["seconds"], data["provenance"]["settings"]
        for turn in data["turns"]:
            del turn["model_seconds"], turn["execution_seconds"]
            if turn["execution"]:
                del turn["execution"]["timings"]
        found.append(data)
    return found


async def test_a_run_holds_its_jobs_in_order_and_goes_on(tmp_path: Path) -> None:
    first = await synthesise(SETTINGS, tmp_path / "a", workers=3)
    assert (first.kept, first.right, first.skipped) == (8, 8, 0)
    again = await synthesise(SETTINGS, tmp_path / "a", workers=1)
    assert (again.kept, again.skipped) == (0, 8)
    more = await synthesise(SETTINGS.model_copy(update={"n": 5}), tmp_path / "a")
    assert (more.kept, more.skipped) == (2, 8)
    await synthesise(SETTINGS.model_copy(update={"n": 5}), tmp_path / "b", workers=1)
    assert stored(tmp_path / "a") == stored(tmp_path / "b")
    ids = [item["id"] for item in stored(tmp_path / "a")]
    assert ids[:3] == ["circled-letter@1/train/0#0", "touching-circles@1/train/0#0", "circled-letter@1/train/1#0"]


@pytest.mark.parametrize("dialect", ["codedance", "deepeyes", "codev"])
async def test_boxes_of_a_data_set_become_crops(dialect: str, tmp_path: Path) -> None:
    data = tmp_path / "signs"
    data.mkdir()
    picture = Image.radial_gradient("L").convert("RGB").resize((640, 480))
    picture.save(data / "a.png")
    rows: list[dict[str, object]] = [
        {"question": "Which word is there?", "answer": "EXIT", "boxes": [[100, 120, 220, 180]]},
        {"question": "Which two colours?", "answer": "grey", "boxes": [[10, 10, 60, 60], [500, 400, 560, 460]]},
        {"question": "Which word is nowhere?", "answer": "EXIT"},
        {"question": "Which word is lost?", "boxes": [[100, 120, 220, 180]]},
        {"question": "What is it all?", "answer": "a blob", "boxes": [[0, 0, 640, 480]]},
    ]
    (data / "questions.jsonl").write_text("".join(json.dumps({"image": "a.png", **row}) + "\n" for row in rows))
    settings = SynthSettings(sources=(str(data),), dialect=dialect, n=9)
    progress = await synthesise(settings, tmp_path / "out")
    made = list(read_lines(tmp_path / "out" / "trajectories.jsonl", Trajectory))
    whole = dialect == "deepeyes"  # a tool that only crops may be shown everything
    assert (progress.kept, progress.right) == (len(made), len(made)) == (2 + whole, 2 + whole)
    assert progress.discarded == {"no style fits": 3 - whole}
    first = next(item for item in made if item.task.answer == "EXIT")
    assert first.provenance.model.startswith(("expert:crop", "expert:mistake"))
    shown = [part for turn in first.turns if turn.execution for part in turn.execution.pictures]
    assert shown
    assert first.answer == "EXIT"


async def test_large_pictures_are_shown_smaller_and_kept_whole(tmp_path: Path) -> None:
    small = SETTINGS.model_copy(update={"n": 1, "media": MediaSettings(shown_pixels=5_000)})
    made = await synthesise(small, tmp_path)
    assert made.right == 2, "an expert's boxes count pixels of the whole picture"
    for trajectory in read_lines(tmp_path / "trajectories.jsonl", Trajectory):
        shown = [part for message in trajectory.prompt for part in message.media if isinstance(part, ImagePart)]
        whole = [item.part for item in trajectory.task.media if isinstance(item.part, ImagePart)]
        assert max(part.width * part.height for part in shown) <= 5_000 < min(p.width * p.height for p in whole)
        assert "shown scaled down" in "".join(message.text for message in trajectory.prompt)


async def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    small = SETTINGS.model_copy(update={"n": 1})
    await synthesise(small, tmp_path)
    with pytest.raises(SettingsError, match=r"seed: 0 -> 7"):
        await synthesise(small.model_copy(update={"seed": 7}), tmp_path)
    assert len(stored(tmp_path)) == 2


async def test_a_run_of_an_older_world_is_not_gone_on_with(tmp_path: Path) -> None:
    await synthesise(SETTINGS, tmp_path)
    lines = tmp_path / "trajectories.jsonl"
    lines.write_text(lines.read_text().replace("circled-letter@1/", "circled-letter@0/"))
    with pytest.raises(SettingsError, match=r"circled-letter@0.*newer"):
        await synthesise(SETTINGS.model_copy(update={"n": 5}), tmp_path)


async def test_a_run_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "trajectories.jsonl").write_text("")
    with pytest.raises(SettingsError, match="another command"):
        await synthesise(SETTINGS, tmp_path)


async def test_a_line_that_was_cut_short_is_made_again(tmp_path: Path) -> None:
    await synthesise(SETTINGS, tmp_path / "whole")
    await synthesise(SETTINGS, tmp_path / "cut")
    lines = tmp_path / "cut" / "trajectories.jsonl"
    lines.write_bytes(lines.read_bytes()[:-400])
    progress = await synthesise(SETTINGS, tmp_path / "cut")
    assert progress.kept == 1
    assert stored(tmp_path / "cut") == stored(tmp_path / "whole")


async def test_cancelling_keeps_what_there_is(tmp_path: Path) -> None:
    done = asyncio.Event()
    settings = SETTINGS.model_copy(update={"n": 200})
    run = asyncio.create_task(
        synthesise(settings, tmp_path, workers=1, watch=lambda p: done.set() if p.kept >= 2 else None)
    )
    await done.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    kept = len(stored(tmp_path))
    assert 2 <= kept < 400


async def test_samples_that_no_style_fits_are_counted(tmp_path: Path) -> None:
    experts = {"longest_program": 0, "direct_difficulty": 0}
    settings = SynthSettings(sources=("circled-letter", "maze"), dialect="codedance", n=2, expert=experts)
    progress = await synthesise(settings, tmp_path)
    assert progress.kept == 2
    assert progress.discarded == {"no style fits": 2}
    assert "maze@1/train/0" in progress.example["no style fits"]


async def test_outages_in_a_row_end_the_run(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"n": 50, "teacher": TeacherSettings(model="broken")})
    script = ScriptedModel(lambda messages: ModelRefusedError("no such key"))
    with pytest.raises(ModelRefusedError, match=r"8 jobs in a row .*no such key"):
        await synthesise(settings, tmp_path, models=lambda name: script)


def started(out: Path, n: int) -> tuple[list[str], subprocess.Popen[bytes]]:
    """`saccade synth` in a process of its own, as a command and running, with some trajectories on the disk."""
    program = "import sys; from saccade.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "synth", "circled-letter", "shape-count", "--dialect", "codedance"]
    command += ["--n", str(n), "--workers", "3", "--out"]
    run = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = out / "trajectories.jsonl"
    deadline = time.monotonic() + 60
    while (not lines.exists() or lines.read_bytes().count(b"\n") < 5) and time.monotonic() < deadline:
        time.sleep(0.05)
    return command, run


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_never_killed(tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    command, run = started(cut, 12)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert 5 <= (cut / "trajectories.jsonl").read_bytes().count(b"\n") < 24
    for target in (cut, tmp_path / "whole"):
        subprocess.run([*command, str(target)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert stored(cut) == stored(tmp_path / "whole")
    assert len(stored(cut)) == 24


@pytest.mark.slow
def test_ctrl_c_keeps_whole_trajectories(tmp_path: Path) -> None:
    _, run = started(tmp_path / "run", 2000)
    os.kill(run.pid, signal.SIGINT)
    assert run.wait(30) == 130
    assert 5 <= len(stored(tmp_path / "run")) < 4000


def test_worlds_take_turns_and_ids_are_those_of_tasks() -> None:
    settings = SynthSettings(sources=("maze", "shape-count@1", "maze@1"), dialect="codedance", n=2, start=5, samples=2)
    made = list(Jobs(settings))
    assert len(made) == len(Jobs(settings)) == 8
    assert [job.id for job in made][:4] == [
        "maze@1/train/5#0",
        "shape-count@1/train/5#0",
        "maze@1/train/5#1",
        "shape-count@1/train/5#1",
    ]
    assert len({job.seed(settings) for job in made}) == 8


def test_knobs_are_checked_by_their_world() -> None:
    def settings(knobs: dict[str, dict[str, object]]) -> SynthSettings:
        return SynthSettings(sources=("visual-search",), dialect="codedance", knobs=knobs)

    assert len(Jobs(settings({"visual-search": {"signs": 3, "kinds": ["dot"]}})))
    with pytest.raises(SettingsError, match="sign"):
        Jobs(settings({"visual-search": {"sgns": 3}}))
    with pytest.raises(SettingsError, match="knobs are given for maze, but the worlds are visual-search"):
        Jobs(settings({"maze": {}}))


def test_an_unknown_world_is_named() -> None:
    with pytest.raises(SettingsError, match="maze"):
        list(Jobs(SynthSettings(sources=("mase",), dialect="codedance")))


def test_a_writer_needs_a_recipe_and_a_recipe_a_teacher() -> None:
    with pytest.raises(ValueError, match="needs a teacher"):
        TeacherSettings(recipe="densify")
    with pytest.raises(ValueError, match="has no writer"):
        TeacherSettings(model="a", writer="b")


async def test_results_come_in_order_and_few_at_once() -> None:
    busy = most = 0

    async def work(item: int) -> int:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(7 - item % 7):
            await asyncio.sleep(0)
        busy -= 1
        return item * item

    assert [result async for result in in_order(range(50), work, 3)] == [n * n for n in range(50)]
    assert most == 3


async def test_a_failure_comes_at_its_place_and_ends_the_rest() -> None:
    cancelled: list[int] = []

    async def work(item: int) -> int:
        if item == 1:
            raise ValueError("one")
        try:
            await asyncio.sleep(0 if item == 0 else 60)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise
        return item

    results = []
    stream = in_order(range(4), work, 4)
    results.append(await anext(stream))
    with pytest.raises(ValueError, match="one"):
        await anext(stream)
    assert results == [0]
    assert cancelled == [2, 3]


def test_well_formed_texts_are_read() -> None:
    assert thoughts_in('<thought turn="1"> a </thought>\n<thought turn="2">b</thought>', 2) == ("a", "b")
    assert reasoning_in("<reasoning>one and one</reasoning>\n<answer>2</answer>\n") == ("one and one", "2")
    assert conclusion_in("<thought>so</thought><answer> 2 </answer>") == ("so", "2")
    (step,) = steps_in("<step>\n<thought>add</thought>\n<code>\nif True:\n    print(1)\n</code>\n</step>")
    assert (step.thought, step.code) == ("add", "if True:\n    print(1)")


@pytest.mark.parametrize(
    "text",
    [
        "",
        '<thought turn="1">a</thought>',
        '<thought turn="2">a</thought><thought turn="1">b</thought>',
        'Sure! <thought turn="1">a</thought><thought turn="2">b</thought>',
        '<thought turn="1">a</thought><thought turn="2"> </thought>',
        '<thought turn="1">a</thought><thought turn="2">x <code>1</code></thought>',
        '<thought turn="1">a</thought><thought turn="2">' + "x" * 7000 + "</thought>",
    ],
)
def test_thoughts_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(DiscardedError, match="invalid output"):
        thoughts_in(text, 2)


@pytest.mark.parametrize(
    "text",
    [
        "no steps",
        "<step><thought>a</thought><code>print(</code></step>",
        "<step><thought>a</thought><code>```python\nprint(1)\n```</code></step>",
        "<step><thought>a</thought><code>print(1)</code></step> and so on",
        "<step><thought></thought><code>print(1)</code></step>",
    ],
)
def test_steps_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(DiscardedError, match="invalid output"):
        steps_in(text)


@pytest.mark.parametrize(
    "text", ["<answer>2</answer>", "<thought>a</thought>", "<thought>a</thought><answer>2</answer>!"]
)
def test_a_conclusion_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(DiscardedError, match="invalid output"):
        conclusion_in(text)
