"""Experts in the real sandbox: what they write runs, what they answer is right, their mistakes go wrong."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugins.worlds.running import is_right, part_for, plan_for, trajectories

from saccade.dialects.base import DIALECTS, load_dialect
from saccade.dialects.direct import DirectDialect
from saccade.episode.drive import run_episode
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Request
from saccade.plugins.worlds.experts.expert import Expert, possible_slips
from saccade.plugins.worlds.experts.plays import LONG, SHORT, PhraseTable, observed, program_cells, read, say
from saccade.plugins.worlds.experts.scene import (
    LEAST,
    STYLES,
    ExpertSettings,
    Style,
    StyleWeights,
    around,
    cells,
    elsewhere,
    groups,
    rename,
    zoom,
)
from saccade.record.content import Code, ImagePart, ToolCall
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.record.trajectory import FinishReason, Trajectory
from saccade.tasks.worlds import WORLDS, Rng, draw_sample, load_world

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
        tmp_path, sources=("circled-letter", "shape-count", "touching-circles"), dialect="codedance", n=4, seed=1
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


@pytest.mark.parametrize("dialect", ["pyvision", "codedance"])
@pytest.mark.parametrize("index", range(4))
def test_a_program_that_no_slip_changes_is_none(index: int, dialect: str, tmp_path: Path) -> None:
    part = part_for("echo", dialect, tmp_path, index=index)
    assert "Image" not in program_cells(part, 1)[0], "echo's programs read no picture"
    assert not [slip for slip in possible_slips(part, 5) if slip.window is None]


def test_a_program_that_reads_the_picture_can_go_wrong(tmp_path: Path) -> None:
    part = part_for("shape-count", "pyvision", tmp_path)
    right = program_cells(part, 1)[0]
    wrong = [slip.action.code for slip in possible_slips(part, 5) if isinstance(slip.action, Code)]
    assert wrong
    assert right not in wrong


PROGRAM = """\
from __future__ import annotations

import math


def half(n: int) -> int:
    return n // 2


# the whole
whole = 8
print(half(whole))"""


def test_names_change_as_whole_words_alone() -> None:
    assert rename("image_0.crop(image_01)", {"image_0": "picture"}) == "picture.crop(image_01)"


@pytest.mark.parametrize("cut", range(0, 101, 20))
def test_two_cells_are_the_program(cut: int, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = cells(PROGRAM, cut)
    names: dict[str, object] = {}
    exec(compile(first, "first", "exec"), names)
    exec(compile(second, "second", "exec"), names)
    assert capsys.readouterr().out == "4\n"
    assert ast.dump(ast.parse(first)) != ast.dump(ast.parse("import math"))


def test_a_program_of_one_step_stays_whole() -> None:
    assert cells("import math\nprint(math.pi)", 50) == ("import math\nprint(math.pi)",)


def test_the_program_finds_its_pictures_under_the_dialects_names(tmp_path: Path) -> None:
    sample = draw_sample(load_world("shape-count"), "train", 0)
    bound = part_for("shape-count", "pyvision", tmp_path).actions.program(sample.program)
    assert "image_clue_0" in bound
    assert "image_0" not in bound
    opened = part_for("shape-count", "thyme", tmp_path).actions.program(sample.program)
    assert "image_0 = Image.open(" in opened
    assert (
        "from PIL import Image" in opened
        or "Image" in part_for("shape-count", "thyme", tmp_path).scene.dialect.session.preload
    )


def test_crops_are_code_or_calls_as_the_dialect_has_it(tmp_path: Path) -> None:
    box = (10, 20, 90, 110)
    code = part_for("shape-count", "codedance", tmp_path).actions.look("image_0", box)
    assert isinstance(code, Code)
    assert str(box) in code.code
    call = part_for("shape-count", "vista", tmp_path).actions.look("image_0", box)
    assert isinstance(call, ToolCall)
    assert call.arguments["box"] == list(box)
    zoom = part_for("shape-count", "deepeyes", tmp_path).actions.look("image_0", box)
    assert isinstance(zoom, ToolCall)
    assert zoom.name == "image_zoom_in_tool"
    assert zoom.arguments["bbox_2d"] == list(box)


PICTURE = ExecutionPicture(image=ImagePart(sha256="a" * 64, width=9, height=9), source="figure")
ACTING = [name for name in DIALECTS.ids() if not isinstance(load_dialect(name), DirectDialect)]
CODE = [name for name in ACTING if not name.startswith(("vista", "deepeyes"))]


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("pictures", [0, 2])
def test_what_was_printed_is_read_back(name: str, pictures: int) -> None:
    dialect = load_dialect(name)
    execution = Execution(status=Status.OK, stdout="width 7\n12\n", pictures=(PICTURE,) * pictures)
    seen = read(dialect, dialect.observe(execution, 1).message.text, pictures, 1)
    assert (seen.last, seen.error, seen.pictures) == ("12", None, pictures)


@pytest.mark.parametrize("name", ACTING)
def test_a_failure_is_read_as_one(name: str) -> None:
    dialect = load_dialect(name)
    trace = "Traceback (most recent call last):\n  line 1\nNameError: name 'img' is not defined"
    seen = read(dialect, dialect.observe(Execution(status=Status.ERROR, traceback=trace), 1).message.text, 0, 1)
    assert seen.error is not None
    assert "name 'img' is not defined" in seen.error


@pytest.mark.parametrize("name", ACTING)
def test_a_request_for_the_answer_is_no_observation(name: str) -> None:
    dialect = load_dialect(name)
    shown = dialect.observe(Execution(status=Status.OK, stdout="12\n"), 1).message
    request = dialect.ask_for_answer()
    assert observed(dialect, [shown, *([] if request is None else [request])]) == shown


@pytest.mark.parametrize("name", CODE)
def test_a_call_that_says_nothing_is_no_failure(name: str) -> None:
    dialect = load_dialect(name)
    seen = read(dialect, dialect.observe(Execution(status=Status.OK), 1).message.text, 0, 1)
    assert seen.error is None


def test_the_newest_observation_of_a_joined_message_counts() -> None:
    dialect = load_dialect("thyme")
    first, second = (
        dialect.observe(Execution(status=Status.OK, stdout=f"{number}\n"), 1).message.text for number in (3, 4)
    )
    assert read(dialect, f"<think>a{first}b{second}", 0, 1).last == "4"


SIZES = st.tuples(st.integers(LEAST, 3000), st.integers(LEAST, 3000))


@given(SIZES, st.data(), st.integers(0, 2**32), st.integers(1, 6))
def test_a_window_holds_its_target_and_stays_inside(
    size: tuple[int, int], data: st.DataObject, seed: int, widen: int
) -> None:
    x0, y0 = data.draw(st.integers(0, size[0] - 1)), data.draw(st.integers(0, size[1] - 1))
    box = (x0, y0, data.draw(st.integers(x0 + 1, size[0])), data.draw(st.integers(y0 + 1, size[1])))
    window = around(Rng(seed), box, size, widen=widen)
    assert 0 <= window[0] <= box[0] < box[2] <= window[2] <= size[0]
    assert 0 <= window[1] <= box[1] < box[3] <= window[3] <= size[1]
    assert min(window[2] - window[0], window[3] - window[1]) >= LEAST
    other = elsewhere(Rng(seed), window, size)
    if other is not None:
        apart = other[2] <= window[0] or other[0] >= window[2] or other[3] <= window[1] or other[1] >= window[3]
        assert apart
        assert other[2] <= size[0]
        assert other[3] <= size[1]


def test_boxes_that_lie_together_are_one_window() -> None:
    near, far = (0, 0, 10, 10), (12, 0, 22, 10)
    assert groups([near, far], 1) == [(0, 0, 22, 10)]
    apart = [(0, 0, 10, 10), (900, 900, 910, 910)]
    assert groups(apart, 2) == apart
    assert groups(apart, 1) == []


@pytest.mark.parametrize(("side", "factor"), [(10, 16), (112, 4), (448, 1), (2000, 1)])
def test_small_windows_are_enlarged(side: int, factor: int) -> None:
    assert zoom((0, 0, side, 5), 448) == factor


SLOTS = {
    "subject": "the sign",
    "noun": "letter",
    "box": "(1, 2, 3, 4)",
    "answer": "B",
    "error": "NameError: x",
    "place": "on the left",
    "tool": "ocr",
}


def test_alternatives_nest_and_slots_come_last() -> None:
    said = {say(Rng(seed), "[a [red|blue] {what}|nothing][.|!]", what="[box|{what}]") for seed in range(60)}
    assert said == {"A red [box|{what}]", "A blue [box|{what}]", "Nothing"} or said == {
        f"{start}{end}" for start in ("A red [box|{what}]", "A blue [box|{what}]", "Nothing") for end in (".", "!")
    }


def test_a_slot_that_is_not_given_is_named() -> None:
    with pytest.raises(KeyError, match="what"):
        say(Rng(0), "{what}")


@pytest.mark.parametrize("voice", [SHORT, LONG], ids=["short", "long"])
def test_every_template_can_be_said_and_leaves_no_marks(voice: PhraseTable) -> None:
    for occasion, templates in voice.items():
        for template in templates:
            for seed in range(8):
                said = say(Rng(seed), template, **SLOTS)
                assert not re.search(r"[\[\]{}|]|  |<|`", said), (occasion, said)
                assert said[0] == said[0].upper()
