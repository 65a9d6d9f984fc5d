"""Demonstrations as run folders."""

import asyncio
from pathlib import Path

import pytest
from tests.plugins.worlds.experts.cases import NEAR

from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.record.codec import read_lines
from saccade.record.trajectory import StopReason, Trajectory
from saccade.training.sft.synth.jobs import Job
from saccade.training.sft.synth.made import Made
from saccade.training.sft.synth.run import Synthesizer
from saccade_tiny.demonstrations import LEFT_OUT, hold
from saccade_tiny.settings import DemonstrationRun

SMALL = {"kinds": ["dot"], "megapixels": [0.1, 0.1], "signs": 2, "conjunction": 0, "plate_percent": 220}


async def test_a_task_that_cannot_be_shown_does_not_end_a_run_of_demonstrations(tmp_path: Path) -> None:
    """A sign that is larger than the parts which are looked at, beside echoes that can be shown."""
    wanted = DemonstrationRun(
        name="x", worlds=("visual-search", "echo"), n=2, knobs={"visual-search": SMALL | {"detail": 90}}
    )
    progress = await hold(wanted, tmp_path)
    assert progress.done == progress.total == 4
    kept = [trajectory.task.source for trajectory in read_lines(tmp_path / TRAJECTORIES, Trajectory)]
    assert [source.partition("@")[0] for source in kept] == ["echo", "echo"]
    again = await hold(wanted, tmp_path)
    assert (again.skipped, again.done) == (4, 4)


@pytest.mark.parametrize("reason", [StopReason.SANDBOX_LOST, StopReason.CANCELLED])
async def test_what_an_outage_took_is_made_when_the_run_goes_on(
    reason: StopReason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(synthesizer: Synthesizer, job: Job) -> Made:
        return Made(None, reason.value, "gone")

    wanted = DemonstrationRun(name="x", worlds=("echo",), n=2)
    with monkeypatch.context() as broken:
        broken.setattr(Synthesizer, "make", lost)
        assert (await hold(wanted, tmp_path)).discarded == {reason.value: 2}
    assert (await hold(wanted, tmp_path)).kept == 2


async def test_a_run_can_leave_out_what_takes_long(tmp_path: Path) -> None:
    knobs = {"visual-search": SMALL | {"detail": 24}}
    lengths = {}
    for turns in (None, 12):
        wanted = DemonstrationRun(name="x", worlds=("visual-search",), n=3, turns=turns, knobs=knobs)
        await hold(wanted, tmp_path / str(turns))
        made = read_lines(tmp_path / str(turns) / TRAJECTORIES, Trajectory)
        lengths[turns] = {trajectory.id: len(trajectory.turns) for trajectory in made}
    assert lengths[12] == {name: count for name, count in lengths[None].items() if count <= 12}
    assert 0 < len(lengths[12]) < len(lengths[None])


async def test_pictures_of_what_is_left_out_are_not_stored(tmp_path: Path) -> None:
    knobs = {"visual-search": SMALL | {"detail": 24}}
    wanted = DemonstrationRun(name="x", worlds=("visual-search",), n=6, turns=3, knobs=knobs)
    progress = await hold(wanted, tmp_path)
    assert (progress.kept, progress.discarded) == (0, {"not to be shown": 6})
    assert not list((tmp_path / MEDIA).rglob("*.*"))
    assert len((tmp_path / LEFT_OUT).read_text().splitlines()) == 6


@pytest.mark.slow
async def test_a_run_is_played_and_gone_on_with(tmp_path: Path) -> None:
    wanted = DemonstrationRun(
        name="x", worlds=("visual-search", "touching-circles"), n=2, knobs={"visual-search": NEAR}
    )
    progress = await hold(wanted, tmp_path, workers=2)
    assert (progress.kept, progress.right) == (4, 4)
    again = await hold(wanted.model_copy(update={"n": 3}), tmp_path, workers=2)
    assert (again.skipped, again.kept) == (4, 2)
    played = await asyncio.to_thread(lambda: list(read_lines(tmp_path / "trajectories.jsonl", Trajectory)))
    assert len(played) == 6
    looked = next(item for item in played if item.task.source == "visual-search@1")
    shown = [turn.execution.pictures[0].image for turn in looked.turns if turn.execution is not None]
    assert all(72 <= (picture.width * picture.height) ** 0.5 <= 168 for picture in shown)
    assert [turn.text.count("\nseen = ") for turn in looked.turns] == [0, *[1] * (len(shown) - 1), 0]
    assert looked.answer == looked.task.answer
