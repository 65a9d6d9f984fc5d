"""What a model asks for in the numbers it learned is what is cut out, however small the picture is shown."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.episode.support import ANSWER, CODE, FAILED, NOTHING, OK, by_hand, picture, plan, said, shows, stored_task
from tests.shared_sandbox import LentSandbox

from saccade.dialects.base import DIALECTS, Observation, load_dialect, presets
from saccade.dialects.boxes import BoxSpace, Seen, in_pixels
from saccade.episode.drive import run_episode
from saccade.episode.flow import EpisodeOutcome, Plan, told
from saccade.episode.prepared import prepared
from saccade.episode.regions import StoredPixels, regions
from saccade.episode.settings import EpisodeSettings
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Code, ImagePart, Message, TextPart, ToolCall
from saccade.record.execution import Execution, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, StopReason, Trajectory

SIZES = [(1200, 900), (901, 599), (303, 1201), (1500, 200), (190, 170)]
SHOWN = 40_000
"""Pixels shown: all but the last picture are scaled down."""
BLOCKS = 5
"""The red patch lies on a grid of so many cells a side."""


def patch(store: MediaStore, size: tuple[int, int], cell: tuple[int, int]) -> tuple[ImagePart, tuple[int, ...]]:
    """A white picture with one red cell, and the cell's box."""
    width, height = size
    box = tuple(
        round(edge * side / BLOCKS)
        for edge, side in zip((*cell, cell[0] + 1, cell[1] + 1), (*size, *size), strict=True)
    )
    image = Image.new("RGB", (width, height), "white")
    image.paste((255, 0, 0), (box[0], box[1], box[2], box[3]))
    return store.put_image(image), box


def numbers(box: tuple[int, ...], size: tuple[int, int], space: BoxSpace, shown: ImagePart) -> list[int]:
    """The box as a model that sees the shown picture writes it: whole numbers."""
    sides = {
        BoxSpace.FULL: size,
        BoxSpace.SHOWN: (shown.width, shown.height),
        BoxSpace.THOUSAND: (1000, 1000),
    }[space]
    return [round(edge * sides[at % 2] / size[at % 2]) for at, edge in enumerate(box)]


def play(store: MediaStore, part: ImagePart, texts: Any, **given: Any) -> Trajectory:
    """Play what `texts` makes of the shown picture."""
    settings = EpisodeSettings(model="m", media={"shown_pixels": SHOWN}, **given)
    task = Task(id="t", question="Which colour?", media=(NamedMedia(name="photo", part=part),))
    dialect, tools = settings.spoken()
    ready = prepared(task, dialect, settings, store)
    plan = Plan(ready.task, ready.dialect, shown=ready.shown, opened=ready.opening)
    (shown,) = [part for message in plan.opening.messages for part in message.media]
    assert isinstance(shown, ImagePart)
    box: Any = None if dialect.offers_tools else LentSandbox(dialect.sandbox)
    return asyncio.run(run_episode(plan, ScriptedModel(texts(shown)), box, store, tools=tools))


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def redness(store: MediaStore, part: ImagePart) -> float:
    """The share of the picture that is red."""
    image = store.open(part).decode().convert("RGB")
    pixels = image.resize((50, 50), Image.Resampling.BOX).tobytes()
    return sum(pixels[at] > 200 and pixels[at + 1] < 128 for at in range(0, len(pixels), 3)) / 2500


@pytest.mark.few(5, of=lambda params: params["space"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cell", [(2, 3), (0, 0), (4, 4), (4, 0)])
@pytest.mark.parametrize("space", BoxSpace)
def test_the_patch_is_what_is_cut_out(
    tmp_path: Path, size: tuple[int, int], cell: tuple[int, int], space: BoxSpace
) -> None:
    store = MediaStore(tmp_path)
    part, box = patch(store, size, cell)

    def texts(shown: ImagePart) -> list[str]:
        wanted = numbers(box, size, space, shown)
        return [call("image_zoom_in_tool", bbox_2d=wanted), "<answer>red</answer>"]

    played = play(store, part, texts, dialect="deepeyes", boxes=space.value)
    assert played.answer == "red"
    execution = played.turns[0].execution
    assert execution is not None
    (cut,) = execution.pictures
    assert redness(store, cut.image) > 0.85
    assert cut.image.width == pytest.approx(box[2] - box[0], abs=10)
    assert cut.image.height == pytest.approx(box[3] - box[1], abs=10)
    # The record has the numbers of the model, and tells where it looked in the picture itself.
    assert played.provenance.boxes == space.value
    (region,) = regions(played, StoredPixels(store))
    assert region.box == pytest.approx(box, abs=6)


@pytest.mark.parametrize("space", BoxSpace)
def test_the_whole_picture_is_the_whole_picture(space: BoxSpace) -> None:
    for width, height in SIZES:
        full = ImagePart(sha256="a" * 64, width=width, height=height)
        shown = ImagePart(sha256="b" * 64, width=width // 3, height=height // 3 + 1)
        seen = {"image_0": Seen(full, shown)}
        sides = (1000, 1000) if space is BoxSpace.THOUSAND else (shown.width, shown.height)
        whole = [0, 0, *((width, height) if space is BoxSpace.FULL else sides)]
        mapped = in_pixels(ToolCall(name="crop", arguments={"box": whole}), space, seen)
        assert mapped.arguments == {"box": [0, 0, width, height]}


def test_a_crop_is_counted_in_its_own_pixels(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    part, box = patch(store, (1200, 900), (2, 3))
    assert box == (480, 540, 720, 720)

    def texts(shown: ImagePart) -> list[str]:
        half = [0, shown.height / 2, shown.width, shown.height]
        return [
            call("crop", image="image_0", box=half),
            # image_1 has 1200 x 450 pixels and is shown as it is: the patch lies at 480..720, 90..270 in it
            call("crop", image="image_1", box=[480, 90, 720, 270]),
            "<answer>red</answer>",
        ]

    def thousandths(shown: ImagePart) -> list[str]:
        return [
            call("crop", image="image_0", box=[0, 500, 1000, 1000]),
            call("crop", image=2, box=[400, 200, 600, 600]),
            "<answer>red</answer>",
        ]

    for space, written in (("shown", texts), ("thousand", thousandths)):
        played = play(store, part, written, dialect="vista:tools-only", boxes=space, tools=("crop",))
        cuts = [turn.execution.pictures[0].image for turn in played.turns[:2] if turn.execution]
        assert [(cut.width, cut.height) for cut in cuts] == [(1200, 450), (240, 180)]
        assert redness(store, cuts[1]) == 1
        assert [region.box for region in regions(played, StoredPixels(store))] == [(0, 450, 1200, 900), box]


@pytest.mark.parametrize("size", SIZES)
def test_code_of_thyme_finds_the_picture_as_it_is_shown(tmp_path: Path, size: tuple[int, int]) -> None:
    store = MediaStore(tmp_path)
    part, box = patch(store, size, (2, 3))

    def texts(shown: ImagePart) -> list[str]:
        wanted = numbers(box, size, BoxSpace.SHOWN, shown)
        code = f"image = Image.open(image_path)\nprint(image.size)\nimage.crop({tuple(wanted)}).save('cut.png')"
        return [f"<think>I look.\n<code>\n```python\n{code}\n```\n</code>", "</think>\n<answer>red</answer>"]

    played = play(store, part, texts, dialect="thyme")
    execution = played.turns[0].execution
    assert execution is not None
    (shown,) = played.prompt[-1].media
    assert execution.stdout == f"{(shown.width, shown.height)}\n"
    assert f"{shown.width}x{shown.height}" in played.prompt[-1].text
    assert redness(store, execution.pictures[0].image) > 0.85
    (region,) = [found for found in regions(played, StoredPixels(store)) if found.said]
    assert region.box == pytest.approx(box, abs=6)


def test_the_prompt_says_what_boxes_count(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    part, _ = patch(store, (2000, 1500), (2, 3))
    own = load_dialect("deepeyes")
    assert own.with_boxes(BoxSpace.SHOWN) == own
    for space, words in (("shown", "as it is shown"), ("thousand", "from 0 to 1000"), ("full", "full-size picture")):
        for dialect in ("deepeyes", "vista", "native"):
            played = play(store, part, lambda _: ["<answer>a</answer>"], dialect=dialect, boxes=space)
            told = "\n".join(message.text for message in played.prompt)
            assert words in told
    for dialect, why in (("pyvision", "fixes what boxes count"), ("thyme", "has code and no typed calls")):
        with pytest.raises(SettingsError, match=why):
            load_dialect(dialect).with_boxes(BoxSpace.THOUSAND)


def test_what_is_no_box_stays_as_it_is() -> None:
    full = ImagePart(sha256="a" * 64, width=200, height=100)
    seen = {"image_0": Seen(full, full.model_copy(update={"width": 100, "height": 50}))}

    def mapped(**arguments: Any) -> Any:
        return in_pixels(ToolCall(name="draw", arguments=arguments), BoxSpace.SHOWN, seen).arguments

    for arguments in (
        {"box": [0.1, 0.2, 0.3, 0.4], "units": "normalized"},
        {"box": "left"},
        {"box": None},
        {"box": [1, 2, 3, "4"], "image": "image_0"},
        {"box": [1, 2, 3, 4], "image": "image_7"},
        {"fill": [1, 2, 3, 4], "scale": 2},
    ):
        assert mapped(**arguments) == arguments
    assert mapped(box=[1, 2, 3.5, 4], image=1) == {"box": [2, 4, 7, 8], "image": 1}
    assert mapped(points=[[1, 2], [3, 4]], labels=[1, 0]) == {"points": [[2, 4], [6, 8]], "labels": [1, 0]}
    shapes = [{"kind": "point", "at": [5, 6], "color": [1, 2, 3]}, {"kind": "box", "box": [1, 1, 2, 2]}]
    assert mapped(shapes=shapes) == {
        "shapes": [{"kind": "point", "at": [10, 12], "color": [1, 2, 3]}, {"kind": "box", "box": [2, 2, 4, 4]}]
    }


TIMEOUT = Execution(status=Status.TIMEOUT, traceback="longer than 10 s")
SAME = "This is the same call 3 times in a row, and it "


def again(code: str, result: Execution, times: int) -> list[str | Execution]:
    return [part for _ in range(times) for part in (code, result)]


def shown(outcome: EpisodeOutcome) -> list[str]:
    return [turn.observation.text if turn.observation else "" for turn in outcome.turns]


def test_the_fifth_of_the_same_calls_ends_it() -> None:
    _, outcome = by_hand(plan(), [CODE, FAILED] * 5)
    assert outcome.stop is StopReason.STUCK
    assert len(outcome.turns) == 5
    assert outcome.turns[-1].execution == FAILED
    assert outcome.detail == "This is the same call 5 times in a row, and it fails in the same way."
    first, second, third, fourth, last = shown(outcome)
    assert first == second
    assert "same call" not in first
    assert f"{SAME}fails in the same way. Do something else, or answer." in third
    assert "same call 4 times in a row" in fourth
    assert last == ""


@pytest.mark.parametrize("result", [OK, FAILED, TIMEOUT, shows(picture(1))])
@pytest.mark.parametrize("dialect", ["pyvision", "pyvision-rl-image", "codedance", "codev", "thyme", "native"])
def test_every_dialect_tells_the_model(dialect: str, result: Execution) -> None:
    speaks = load_dialect(dialect)
    code = speaks.write(Code(code="print(1)"), "")
    _, outcome = by_hand(plan(speaks, turns=20), [code, result] * 5)
    assert outcome.stop is StopReason.STUCK
    told_text = shown(outcome)[2]
    assert SAME in told_text
    plain = shown(outcome)[1].rstrip()
    if plain.endswith(">"):  # the line stands inside the tag that closes the observation
        assert told_text.rstrip().endswith(plain[plain.rfind("<") :])


@pytest.mark.parametrize(
    "replies",
    [
        [*[CODE, FAILED] * 4, CODE, OK, *[CODE, FAILED] * 4, ANSWER],
        [part for number in range(8) for part in (CODE.replace("1", str(number)), FAILED)] + [ANSWER],
        [part for number in range(8) for part in (CODE, shows(picture(number)))] + [ANSWER],
        [part for number in range(8) for part in (CODE, OK.model_copy(update={"stdout": f"{number}\n"}))] + [ANSWER],
    ],
)
def test_what_differs_is_no_repetition(replies: list[str | Execution]) -> None:
    _, outcome = by_hand(plan(), replies)
    assert outcome.stop is StopReason.ANSWERED


def test_turns_without_a_call_and_addresses_in_memory_change_nothing() -> None:
    printed = [
        OK.model_copy(
            update={"stdout": f"<object at 0x7f{number:010x}>\n", "notes": (f"{number}",), "stderr": f"{number} it/s"}
        )
        for number in range(5)
    ]
    _, outcome = by_hand(plan(), [part for each in printed for part in (NOTHING, CODE, each)])
    assert outcome.stop is StopReason.STUCK


async def test_a_program_that_fails_in_the_same_way_is_stuck(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    what = plan(of=stored_task(store))
    code = CODE.replace("print(1)", "def f():\n    return nothing\nprint(object())\nf()")
    played = await run_episode(what, ScriptedModel([code] * 9), LentSandbox(None), store)
    assert (played.stop, len(played.turns)) == (StopReason.STUCK, 5)
    shows_it = CODE.replace("print(1)", "plt.plot([1, 2])\nplt.show()")
    played = await run_episode(what, ScriptedModel([shows_it] * 9), LentSandbox(None), store)
    assert (played.stop, len(played.turns)) == (StopReason.STUCK, 5)
    counts = CODE.replace("print(1)", "n = globals().get('n', 0) + 1\nprint(n)")
    played = await run_episode(what, ScriptedModel([*[counts] * 7, ANSWER]), LentSandbox(None), store)
    assert played.stop is StopReason.ANSWERED


def test_the_limit_is_a_setting() -> None:
    _, outcome = by_hand(plan(repeated_calls=2), [CODE, OK] * 2)
    assert outcome.stop is StopReason.STUCK
    _, outcome = by_hand(plan(repeated_calls=1000), [*again(CODE, OK, 7), ANSWER])
    assert outcome.stop is StopReason.ANSWERED
    limits = EpisodeLimits(repeated_calls=None)
    _, outcome = by_hand(Plan(plan().task, plan().dialect, given_limits=limits), [*again(CODE, OK, 7), ANSWER])
    assert outcome.stop is StopReason.ANSWERED
    assert "same call" not in "".join(shown(outcome))


def test_the_papers_small_limits_come_first() -> None:
    small = [
        f"{name}:{preset}".rstrip(":")
        for name in DIALECTS.ids()
        for preset in presets(name) or ("",)
        if (load_dialect(f"{name}:{preset}".rstrip(":")).limits.turns or 99) <= 5
    ]
    assert {"codev@1", "deepeyes@1:train", "thyme@1:eval", "vista@1:paper"} <= set(small)
    speaks = load_dialect("codev")
    _, outcome = by_hand(plan(speaks), [*again(speaks.write(Code(code="1"), ""), FAILED, 4), "<answer>a</answer>"])
    assert outcome.stop is StopReason.ANSWERED


def test_a_line_stands_at_the_end_of_what_is_shown() -> None:
    image = ImagePart(sha256="a" * 64, width=2, height=2)
    for parts, wanted in (
        ((TextPart(text="<out>a\n</out>\n"),), ["<out>a\nL\n</out>\n"]),
        ((TextPart(text="<out>a</out>"),), ["<out>a\nL\n</out>"]),
        ((TextPart(text="a\n"),), ["a\nL\n"]),
        ((), ["L\n"]),
        ((TextPart(text="<out>"), image, TextPart(text="</out>")), ["<out>", image, "\nL\n</out>"]),
        ((image,), [image, "\nL\n"]),
        ((TextPart(text="```output\na\n```\n"),), ["```output\na\nL\n```\n"]),
    ):
        said_so = told(Observation(Message(role="user", parts=parts), {}, 0), "L")
        assert [getattr(part, "text", part) for part in said_so.message.parts] == wanted


LEFT = '<tool_call>\n{"name": "python", "arguments": {"code": "print(1)"}}\n</tool_call>'


def test_a_call_left_in_the_text_is_made_and_noted(caplog: pytest.LogCaptureFixture) -> None:
    what = plan("native")
    _, outcome = by_hand(what, [LEFT, OK, f"{LEFT}\n{LEFT}", OK, "<answer>blue</answer>"])
    assert outcome.stop is StopReason.ANSWERED
    assert [turn.action.kind for turn in outcome.turns] == ["code", "code", "answer"]
    assert outcome.turns[0].text == LEFT
    (note,) = outcome.turns[0].notes
    assert "--tool-call-parser hermes" in note
    assert outcome.turns[2].notes == ()
    assert "Only the first of the calls was made." in shown(outcome)[1]
    mistral = '[TOOL_CALLS][{"name": "python", "arguments": {"code": "print(1)"}}]'
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            by_hand(what, [mistral, OK, "<answer>blue</answer>"])
    (said_once,) = [record.getMessage() for record in caplog.records]
    assert "--tool-call-parser mistral" in said_once


def test_a_call_that_cannot_be_read_is_corrected_and_the_end_names_the_option() -> None:
    broken = '<tool_call>\n{"name": "python", "arguments": {"code": "print(1)\n</tool_call>'
    _, outcome = by_hand(plan("native"), [broken] * 4)
    assert outcome.stop is StopReason.NO_ACTION
    assert "The arguments of the call are no JSON object." in shown(outcome)[0]
    assert "--tool-call-parser hermes" in outcome.detail


def test_a_call_that_came_apart_is_not_noted() -> None:
    from saccade.episode.flow import Said
    from saccade.models.base import Completion
    from saccade.record.content import ToolCall
    from saccade.record.trajectory import FinishReason

    call = ToolCall(name="python", arguments={"code": "1"}, call_id="c")
    _, outcome = by_hand(
        plan("native"), [Said(Completion("", FinishReason.TOOL_CALL, (call,))), OK, said("<answer>a</answer>")]
    )
    assert [turn.notes for turn in outcome.turns] == [(), ()]
