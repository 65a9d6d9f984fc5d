"""Experts in the real sandbox: what they write runs, what they answer is right, their mistakes go wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.plugins.worlds.experts.cases import is_right, plan_for, trajectories

from saccade.dialects.registry import load_dialect
from saccade.episode.drive import run_episode
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Request
from saccade.plugins.worlds.experts.expert import Expert
from saccade.plugins.worlds.experts.scene import STYLES, ExpertSettings, Style, StyleWeights
from saccade.record.content import Code, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import FinishReason, Trajectory
from saccade.tasks.worlds.base import WORLDS

ONLY: dict[Style, StyleWeights] = {
    style: StyleWeights(**{other: float(other == style) for other in STYLES}) for style in STYLES
}
IMAGE_WORLDS = [name for name in WORLDS.ids() if not name.startswith("video")]


def failures(trajectory: Trajectory) -> list[int]:
    return [
        number
        for number, turn in enumerate(trajectory.turns)
        if turn.execution is not None and turn.execution.status is not Status.OK
    ]


def thoughts(trajectory: Trajectory) -> list[str]:
    return [turn.text.partition("<code>")[0].partition("<answer>")[0] for turn in trajectory.turns]


async def test_a_mixed_run_is_right_varied_and_really_run(tmp_path: Path) -> None:
    made = await trajectories(
        tmp_path, sources=("circled-letter", "shape-count", "touching-circles"), dialect="codedance", n=6, seed=1
    )
    assert all(map(is_right, made))
    makers = Counter(item.provenance.model for item in made)
    assert makers.keys() >= {"expert:crop@1", "expert:compute@1", "expert:mistake@1"}
    said = [thought for item in made for thought in thoughts(item)]
    assert len(set(said)) > 0.8 * len(said)
    dialect = load_dialect("codedance")
    for item in made:
        assert all(turn.observation is not None for turn in item.turns[:-1])
        for turn in item.turns:
            assert dialect.parse(turn.text, turn.finish_reason or FinishReason.STOP) == turn.action
            assert (turn.execution is None) == (not isinstance(turn.action, Code))


@pytest.mark.slow
async def test_mistakes_go_wrong_and_are_repaired(tmp_path: Path) -> None:
    made = await trajectories(
        tmp_path,
        sources=("circled-letter", "shape-count"),
        dialect="codedance",
        n=5,
        expert={"styles": ONLY["mistake"].model_dump()},
    )
    assert all(map(is_right, made))
    assert {item.provenance.model for item in made} == {"expert:mistake@1"}
    failed = [item for item in made if failures(item)]
    assert failed
    assert all(failures(item) == [0] for item in failed), "the first call slips, the later ones work"
    for item in failed:
        execution, observation = item.turns[0].execution, item.turns[0].observation
        assert execution is not None
        assert execution.traceback is not None
        assert observation is not None
        kind = execution.traceback.strip().splitlines()[-1].partition(":")[0]
        assert kind in observation.text
        assert item.turns[0].text != item.turns[1].text


async def test_calls_of_tools_crop_for_real(tmp_path: Path) -> None:
    made = await trajectories(tmp_path, sources=("circled-letter", "pixel-colour"), dialect="vista", n=4)
    assert all(map(is_right, made))
    calls = [turn for item in made for turn in item.turns if isinstance(turn.action, ToolCall)]
    assert calls
    assert all(turn.execution is not None for turn in calls)
    assert any(turn.execution is not None and turn.execution.pictures for turn in calls)


async def test_an_answer_is_what_was_printed_not_the_gold(tmp_path: Path) -> None:
    plan, notes = plan_for("shape-count", "codedance", tmp_path)
    wrong = plan.task.model_copy(update={"program": "print('seven')\nprint(4711)"})
    expert = Expert.of(type(plan)(wrong, plan.dialect), notes=notes, style="compute")
    from saccade.sandbox.local import LocalSandbox

    async with LocalSandbox() as sandbox:
        played = await run_episode(type(plan)(wrong, plan.dialect), expert, sandbox, MediaStore(tmp_path))
    assert played.answer == "4711"


async def test_the_same_seed_writes_the_same(tmp_path: Path) -> None:
    async def first_turn(seed: int) -> str:
        plan, notes = plan_for("circled-letter", "pyvision", tmp_path)
        expert = Expert.of(plan, notes=notes, seed=seed)
        return (await expert.complete(Request(plan.opening.messages), MediaStore(tmp_path))).text

    assert await first_turn(5) == await first_turn(5)
    assert len({await first_turn(seed) for seed in range(12)}) > 9


def test_a_dialect_that_cannot_show_a_sample_is_named(tmp_path: Path) -> None:
    plan, notes = plan_for("video-events", "codedance", tmp_path)
    with pytest.raises(SettingsError, match=r"dialect codedance@1:paper shows pictures only"):
        Expert.of(plan, notes=notes)


def test_a_sample_that_no_style_fits_is_named(tmp_path: Path) -> None:
    plan, notes = plan_for("shape-count", "codedance", tmp_path)
    with pytest.raises(SettingsError, match=r"no expert can answer shape-count@1/train/0 in dialect codedance"):
        Expert.of(plan, notes=notes, settings=ExpertSettings(styles=ONLY["crop"]))


@pytest.mark.parametrize(
    "dialect",
    ["pyvision", "pyvision-rl-image", "pyvision-rl-image-no-hint", "codedance:repo", "codev", "thyme", "native"],
)
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_every_world_in_dialects_that_write_code(dialect: str, tmp_path: Path) -> None:
    made = await trajectories(tmp_path, sources=IMAGE_WORLDS, dialect=dialect, n=6)
    assert sum(map(is_right, made)) >= 0.95 * len(made)
    makers = Counter(item.provenance.model for item in made)
    shown = {"pyvision-rl-image-no-hint"}.isdisjoint({dialect})
    wanted = {"crop", "compute", "mistake"} | ({"direct"} if shown else set())
    assert makers.keys() == {f"expert:{style}@1" for style in wanted}
    for item in made:
        assert bool(failures(item)) <= (item.provenance.model == "expert:mistake@1")
    said = [thought for item in made for thought in thoughts(item)]
    assert len(set(said)) > 0.7 * len(said)


@pytest.mark.parametrize("dialect", ["vista", "deepeyes"])
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_world_in_dialects_that_call_tools(dialect: str, tmp_path: Path) -> None:
    made = await trajectories(tmp_path, sources=IMAGE_WORLDS, dialect=dialect, n=6)
    assert all(map(is_right, made))
    assert {item.provenance.model for item in made} >= {"expert:crop@1", "expert:mistake@1", "expert:direct@1"}


@pytest.mark.parametrize("dialect", ["pyvision-rl-video", "native"])
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_videos(dialect: str, tmp_path: Path) -> None:
    made = await trajectories(tmp_path, sources=("video-events",), dialect=dialect, n=16)
    assert sum(map(is_right, made)) >= 0.95 * len(made)
    assert {item.provenance.model for item in made} >= {"expert:compute@1", "expert:mistake@1"}


async def test_a_colour_is_answered_as_the_tool_measured_it(tmp_path: Path) -> None:
    made = await trajectories(
        tmp_path,
        sources=("pixel-colour",),
        dialect="vista",
        n=4,
        knobs={"pixel-colour": {"kinds": ["value"]}},
        expert={"styles": ONLY["consult"].model_dump()},
    )
    assert all(map(is_right, made))
    assert {item.provenance.model for item in made} == {"expert:consult@1"}
    for item in made:
        execution = item.turns[0].execution
        assert execution is not None
        assert '"mean"' in (execution.value or execution.stdout)


@pytest.mark.slow
async def test_words_and_tables_are_read(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    made = await trajectories(
        tmp_path,
        sources=("table-arithmetic", "rotated-dark-text"),
        dialect="vista",
        n=6,
        knobs={"rotated-dark-text": {"kinds": ["rotated"]}},
        expert={"styles": ONLY["consult"].model_dump()},
    )
    assert sum(map(is_right, made)) >= 0.9 * len(made)
    assert all(turn.execution is not None for item in made for turn in item.turns[:-1])
