"""A model that makes the same call again and again is told so, and then the episode ends as `stuck`."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.episode.support import ANSWER, CODE, FAILED, NOTHING, OK, by_hand, picture, plan, said, shows, stored_task
from tests.shared_sandbox import LentSandbox

from saccade.dialects.base import DIALECTS, Observation, load_dialect, presets
from saccade.episode.drive import run_episode
from saccade.episode.flow import EpisodeOutcome, Plan, told
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Code, ImagePart, Message, TextPart
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import EpisodeLimits, StopReason

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
