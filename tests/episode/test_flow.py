"""Work side by side: bounded, given as it comes, ended by the first exception without losing what came before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from tests.episode.support import ANSWER, CODE, FAILED, LOST, NOTHING, OK, by_hand, picture, plan, said, shows

from saccade.dialects.base import load_dialect
from saccade.dialects.native import NativeDialect
from saccade.dialects.vista import VistaDialect
from saccade.episode.flow import Ask, Call, Plan, Reply, Run, Said, Stopped, as_done, flow
from saccade.episode.workbench import equipped
from saccade.models.base import Completion
from saccade.record.content import Answer, Code, ParseError, ToolCall
from saccade.record.execution import Execution
from saccade.record.trajectory import FinishReason, Sampling, StopReason, conversation


async def test_results_come_as_they_are_done_and_few_at_once() -> None:
    working = 0
    most = 0
    drawn = 0

    def items() -> Iterator[int]:
        nonlocal drawn
        for number in range(20):
            drawn += 1
            yield number

    async def work(number: int) -> int:
        nonlocal working, most
        working += 1
        most = max(most, working)
        assert drawn <= number + 4
        await asyncio.sleep(0.02 if number == 0 else 0)
        working -= 1
        return number

    came = [number async for numbers in as_done(items(), work, 3) for number in numbers]
    assert sorted(came) == list(range(20))
    assert came[0] != 0
    assert most == 3


async def test_an_exception_ends_it_after_what_came_with_it() -> None:
    cancelled: list[int] = []

    async def work(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        try:
            await asyncio.sleep(60 if number > 2 else 0)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    came: list[int] = []

    async def collect() -> None:
        async for numbers in as_done(range(9), work, 4):
            came.extend(numbers)

    with pytest.raises(ValueError, match="two"):
        await collect()
    assert set(came) <= {0, 1}
    assert cancelled
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_nothing_to_do() -> None:
    async def work(number: int) -> int:
        raise AssertionError

    assert [numbers async for numbers in as_done([], work, 3)] == []


def test_an_answer_ends_the_episode() -> None:
    effects, outcome = by_hand(plan(), [CODE, OK, ANSWER])
    assert [type(effect) for effect in effects] == [Ask, Run, Ask]
    assert outcome.stop is StopReason.ANSWERED
    assert [turn.action for turn in outcome.turns] == [Code(code="print(1)"), Answer(text="cat")]
    assert outcome.turns[0].execution == OK
    assert outcome.turns[1].observation is None


def test_the_model_reads_everything_that_came_before() -> None:
    effects, outcome = by_hand(plan(), [CODE, OK, CODE, FAILED, ANSWER])
    asked = [effect.request for effect in effects if isinstance(effect, Ask)]
    assert [len(request.messages) for request in asked] == [1, 3, 5]
    assert asked[2].messages == conversation(outcome.prompt, outcome.turns[:2])
    assert asked[2].messages[1].text == CODE
    assert "no" in asked[2].messages[4].text
    assert asked[0].stop == ("</code>",)


def test_the_models_own_name_is_the_last_that_it_gave_itself() -> None:
    named = [Said(Completion(text, FinishReason.STOP, model=name)) for text, name in ((CODE, "a-1"), (CODE, "a-2"))]
    assert by_hand(plan(), [named[0], OK, named[1], OK, ANSWER])[1].model == "a-2"


def test_no_gold_answer_in_any_message() -> None:
    effects, _ = by_hand(plan(), [CODE, OK, ANSWER])
    asked = [effect.request for effect in effects if isinstance(effect, Ask)]
    assert "gold" not in str(asked)


def test_a_text_without_an_action_is_corrected() -> None:
    effects, outcome = by_hand(plan(), [NOTHING, ANSWER])
    assert [type(effect) for effect in effects] == [Ask, Ask]
    assert isinstance(outcome.turns[0].action, ParseError)
    observation = outcome.turns[0].observation
    assert observation is not None
    assert "neither code" in observation.text


def test_a_dialect_that_does_not_correct_ends_there() -> None:
    _, outcome = by_hand(plan("pyvision-rl-image:repo"), [NOTHING])
    assert (outcome.stop, outcome.detail) == (StopReason.NO_ACTION, "")


def test_code_that_was_cut_off_is_not_run() -> None:
    effects, outcome = by_hand(plan(), [said("<code>\n```python\nprint(1)", FinishReason.LENGTH), ANSWER])
    assert not any(isinstance(effect, Run) for effect in effects)
    assert isinstance(outcome.turns[0].action, ParseError)


def test_at_the_turn_limit_the_answer_is_asked_for_once() -> None:
    effects, outcome = by_hand(plan(turns=3), [CODE, OK, CODE, OK, ANSWER])
    assert outcome.stop is StopReason.ANSWERED
    request = outcome.turns[1].request
    assert request is not None
    assert isinstance(effects[-1], Ask)
    assert effects[-1].request.messages[-1] == request
    assert outcome.turns[1].execution == OK

    _, silent = by_hand(plan(turns=3), [CODE, OK, CODE, OK, CODE])
    assert silent.stop is StopReason.TURN_LIMIT
    assert silent.turns[-1].execution is None


def test_without_a_last_request_nothing_is_run_in_the_last_turn() -> None:
    effects, outcome = by_hand(plan("pyvision-rl-image", turns=2), [CODE, OK, CODE])
    assert outcome.stop is StopReason.TURN_LIMIT
    assert len(effects) == 3
    assert outcome.turns[1].execution is None


def test_a_correction_in_the_last_turn_is_followed_by_the_request() -> None:
    _, outcome = by_hand(plan(turns=2), [NOTHING, ANSWER])
    assert outcome.stop is StopReason.ANSWERED
    assert outcome.turns[0].observation is not None
    assert outcome.turns[0].request is not None


@pytest.mark.parametrize("dialect", ["pyvision", "codedance", "codev", "vista", "native", "pyvision-rl-image", "thyme"])
@pytest.mark.parametrize("turns", [1, 2, 4])
def test_a_limit_of_turns_is_a_number_of_the_models_turns(dialect: str, turns: int) -> None:
    # A model that never answers, and never stops calling.
    spoken = load_dialect(dialect)
    action = ToolCall(name="crop", arguments={"box": [0, 0, 1, 1]}) if dialect == "vista" else Code(code="1")
    if isinstance(spoken, NativeDialect):
        call = ToolCall(name="python", arguments={"code": "1"}, call_id="c")
        wrote: Said | str = Said(Completion("", FinishReason.TOOL_CALL, tool_calls=(call,)))
    else:
        wrote = spoken.write(action, "So.")
    replies = [item for _ in range(turns - 1) for item in (wrote, OK)]
    effects, outcome = by_hand(plan(dialect, turns=turns), [*replies, wrote])
    assert outcome.stop is StopReason.TURN_LIMIT
    assert len(outcome.turns) == sum(isinstance(effect, Ask) for effect in effects) == turns
    asked = [number for number, turn in enumerate(outcome.turns) if turn.request is not None]
    assert asked == ([turns - 2] if turns > 1 and spoken.ask_for_answer() else [])


def test_pictures_beyond_the_limit_are_not_shown() -> None:
    # One picture of the task, two shown: the last call's would be the fourth.
    replies = [CODE, shows(picture(1)), CODE, shows(picture(2)), CODE, shows(picture(3))]
    _, outcome = by_hand(plan("pyvision-rl-image", images=3, turns=9), replies)
    assert outcome.stop is StopReason.IMAGE_LIMIT
    assert outcome.turns[2].execution is not None
    assert [turn.observation is None for turn in outcome.turns] == [False, False, True]
    _, asked = by_hand(plan("pyvision", images=3), [*replies, ANSWER])
    assert asked.stop is StopReason.ANSWERED
    assert asked.turns[2].request is not None


def test_pixels_beyond_the_limit_are_not_shown() -> None:
    _, outcome = by_hand(plan("pyvision-rl-image", pixels=9_999), [CODE, shows(picture(1))])
    assert outcome.stop is StopReason.PIXEL_LIMIT
    _, fits = by_hand(plan("pyvision-rl-image", pixels=10_000), [CODE, shows(picture(1)), ANSWER])
    assert fits.stop is StopReason.ANSWERED


def test_text_is_shown_although_the_task_alone_is_beyond_the_limit() -> None:
    _, outcome = by_hand(plan("pyvision-rl-image", pixels=1, images=0), [CODE, OK, ANSWER])
    assert outcome.stop is StopReason.ANSWERED


def test_the_context_limit_ends_the_episode_before_anything_is_run() -> None:
    full = said(CODE, prompt_tokens=90, sampled_tokens=10)
    _, outcome = by_hand(plan(context_tokens=100), [full])
    assert outcome.stop is StopReason.CONTEXT_LIMIT
    assert outcome.turns[0].execution is None
    answered = said(ANSWER, prompt_tokens=90, sampled_tokens=10)
    assert by_hand(plan(context_tokens=100), [answered])[1].stop is StopReason.ANSWERED


def bounds(what: Plan, replies: Sequence[Reply | Execution | str]) -> list[tuple[int | None, int | None]]:
    effects, _ = by_hand(what, replies)
    return [(item.request.context_tokens, item.request.max_tokens) for item in effects if isinstance(item, Ask)]


def test_a_turn_is_bounded_before_it_is_sampled() -> None:
    said_code = said(CODE, prompt_tokens=60, sampled_tokens=10)
    assert bounds(plan(context_tokens=100), [said_code, OK, ANSWER]) == [(100, None), (100, 30)]
    # What the sampling says is kept where it is less.
    short = replace(plan(context_tokens=100), sampling=Sampling(max_tokens=20))
    again = said(CODE, prompt_tokens=80, sampled_tokens=10)
    assert bounds(short, [said_code, OK, again, OK, ANSWER]) == [(100, 20), (100, 20), (100, 10)]
    # A backend that does not count leaves the rest unknown.
    assert bounds(plan(context_tokens=100), [CODE, OK, ANSWER]) == [(100, None), (100, None)]
    assert bounds(plan(), [said_code, OK, ANSWER]) == [(None, None), (None, None)]


def test_the_response_has_a_limit_of_its_own() -> None:
    first = said(CODE, prompt_tokens=60, sampled_tokens=10)
    assert bounds(plan(response_tokens=40), [first, OK, ANSWER]) == [(None, 40), (100, 30)]
    assert bounds(plan(response_tokens=40, context_tokens=90), [first, OK, ANSWER]) == [(90, 40), (90, 20)]
    # 60 of the prompt, 30 written, 5 shown and 5 written: 40 after the prompt.
    longer = [said(CODE, prompt_tokens=60, sampled_tokens=30), OK, said(CODE, prompt_tokens=95, sampled_tokens=5)]
    _, outcome = by_hand(plan(response_tokens=40), longer)
    assert outcome.stop is StopReason.CONTEXT_LIMIT
    assert outcome.turns[-1].execution is None


def test_more_failed_calls_than_allowed_end_the_episode() -> None:
    _, outcome = by_hand(plan("pyvision-rl-image:repo"), [CODE, FAILED])
    assert outcome.stop is StopReason.FAILED_CALL_LIMIT
    assert outcome.turns[0].execution == FAILED
    assert outcome.turns[0].observation is None
    _, once = by_hand(plan(failed_calls=1), [CODE, FAILED, CODE, OK, CODE, FAILED])
    assert (once.stop, len(once.turns)) == (StopReason.FAILED_CALL_LIMIT, 3)


def test_a_lost_execution_is_never_shown() -> None:
    _, outcome = by_hand(plan(), [CODE, LOST])
    assert outcome.stop is StopReason.SANDBOX_LOST
    assert outcome.turns[0].execution == LOST
    assert outcome.turns[0].observation is None


@pytest.mark.parametrize("replies", [[], [CODE], [CODE, OK]])
def test_a_driver_can_stop_it_anywhere(replies: list[str]) -> None:
    _, outcome = by_hand(plan(), [*replies, Stopped(StopReason.WALL_LIMIT, "late")])
    assert (outcome.stop, outcome.detail) == (StopReason.WALL_LIMIT, "late")
    assert len(outcome.turns) == bool(replies)


def test_a_wrong_kind_of_reply_is_a_mistake_of_the_driver() -> None:
    with pytest.raises(TypeError, match="Ask is answered by"):
        by_hand(plan(), [OK])
    with pytest.raises(TypeError, match="Code is answered by"):
        by_hand(plan(), [CODE, CODE])


def test_shown_pictures_are_bound_in_the_next_call_only() -> None:
    shown = picture(1)
    effects, _ = by_hand(plan("pyvision:bound"), [CODE, shows(shown), CODE, OK, CODE, OK, ANSWER])
    runs = [effect.bindings for effect in effects if isinstance(effect, Run)]
    assert runs == [{}, {"image_clue_1": shown.image}, {}]


def test_tools_find_the_pictures_under_the_names_the_model_knows() -> None:
    call = VistaDialect().write(ToolCall(name="crop", arguments={"box": [0, 0, 1, 1]}), "Look.")
    made = shows(picture(1)).model_copy(update={"value": "done"})
    effects, _ = by_hand(plan("vista"), [call, made, call, OK, VistaDialect().write(Answer(text="x"), "So.")])
    calls = [effect for effect in effects if isinstance(effect, Call)]
    assert [list(effect.pictures) for effect in calls] == [["image_0"], ["image_0", "image_1"]]
    assert [effect.shown for effect in calls] == [1, 2]


def test_native_calls_go_back_as_calls_with_their_id() -> None:
    call = ToolCall(name="python", arguments={"code": "print(1)"}, call_id="c1")
    other = call.model_copy(update={"call_id": "c2"})
    spoken = Said(Completion("Look.", FinishReason.TOOL_CALL, tool_calls=(call, other)))
    effects, outcome = by_hand(plan("native"), [spoken, OK, "<answer>cat</answer>"])
    assert isinstance(effects[1], Run)
    assert effects[1].code == "print(1)"
    second = effects[2]
    assert isinstance(second, Ask)
    assert second.request.tools == NativeDialect().functions
    assistant, result = second.request.messages[-2:]
    assert (assistant.text, assistant.calls) == ("Look.", (call,))
    assert (result.role, result.call_id) == ("tool", "c1")
    assert outcome.turns[0].calls == (call, other)


def test_a_native_call_without_a_result_does_not_go_back() -> None:
    broken = ToolCall(name="python", arguments={"cod": 1}, call_id="c1")
    spoken = Said(Completion("", FinishReason.TOOL_CALL, tool_calls=(broken,)))
    effects, outcome = by_hand(plan("native"), [spoken, "<answer>cat</answer>"])
    assert isinstance(outcome.turns[0].action, ParseError)
    assert isinstance(effects[1], Ask)
    assert all(not message.calls for message in effects[1].request.messages)
    assert all(message.parts for message in effects[1].request.messages)


def test_an_assistant_observation_continues_the_assistants_message() -> None:
    thyme = load_dialect("thyme")
    effects, _ = by_hand(
        plan("thyme"), ["<think>Look\n<code>\n```python\nprint(1)\n```\n</code>", OK, "</think>\n<answer>cat</answer>"]
    )
    second = effects[2]
    assert isinstance(second, Ask)
    assert [message.role for message in second.request.messages] == ["system", "user", "assistant"]
    assert second.request.messages[-1].text.endswith("</code><sandbox_output>1\n</sandbox_output>")
    assert thyme.ask_for_answer() is None


def test_a_text_that_json_cannot_hold_is_kept_readable() -> None:
    _, outcome = by_hand(plan(), ["\ud800" + ANSWER])
    assert outcome.turns[0].text.startswith("\ufffd")


def test_the_generator_can_be_closed_at_any_time() -> None:
    play = flow(plan())
    next(play)
    play.close()


@pytest.mark.parametrize(
    ("dialect", "body", "shape"),
    [
        ("vista", '{"tool": "crop", "box": [0, 0, 9, 9]}', "flat"),
        ("vista", '{"tool": "crop", "parameters": {"box": [0, 0, 9, 9]}}', "parameters"),
        ("vista", '{"name": "crop", "arguments": {"box": [0, 0, 9, 9]}}', "arguments"),
        ("deepeyes", '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [0, 0, 9, 9]}}', "arguments"),
    ],
)
def test_how_a_call_was_written_is_kept(dialect: str, body: str, shape: str) -> None:
    call = f"<think>Look.</think><tool_call>{body}</tool_call>"
    effects, outcome = by_hand(plan(dialect), [call, OK, "<think>So.</think><answer>x</answer>"])
    assert isinstance(effects[1], Call)
    assert [turn.call_shape for turn in outcome.turns] == [shape, ""]


def test_a_call_of_an_api_has_no_shape_of_its_own() -> None:
    dialect, _ = equipped(load_dialect("native"), ["crop"])
    call = ToolCall(name="crop", arguments={"box": [0, 0, 9, 9]}, call_id="c")
    effects, outcome = by_hand(
        plan(dialect), [Said(Completion("", FinishReason.TOOL_CALL, tool_calls=(call,))), OK, "<answer>x</answer>"]
    )
    assert isinstance(effects[1], Call)
    assert outcome.turns[0].call_shape == ""


# A model that refuses, a filter, and empty answers.

DECLINED, FILTERED = FinishReason.DECLINED, FinishReason.FILTERED


@pytest.mark.parametrize("dialect", ["pyvision", "native", "direct", "vista", "codev"])
@pytest.mark.parametrize(
    ("reply", "stop", "words"),
    [
        (said("I cannot help with that.", DECLINED), StopReason.MODEL_DECLINED, "I cannot help with that."),
        (said("<answer>\n\\boxed{no}\n</answer>", DECLINED), StopReason.MODEL_DECLINED, "no"),
        (said("", DECLINED), StopReason.MODEL_DECLINED, ""),
        (Said(Completion("", FILTERED, notes=("It is SAFETY.",))), StopReason.FILTERED, "It is SAFETY."),
        (said("half a", FILTERED), StopReason.FILTERED, ""),
    ],
)
def test_a_refusal_ends_the_episode_at_once(dialect: str, reply: Said, stop: StopReason, words: str) -> None:
    effects, outcome = by_hand(plan(dialect), [reply])
    assert (len(effects), outcome.stop, len(outcome.turns)) == (1, stop, 1)
    assert isinstance(outcome.turns[0].action, ParseError)
    assert words in outcome.detail


def test_an_empty_turn_is_asked_again_and_three_end_the_episode() -> None:
    assert by_hand(plan(), ["", ANSWER])[1].stop is StopReason.ANSWERED
    _, outcome = by_hand(plan(turns=9), [CODE, OK, "", " \n", ""])
    assert (outcome.stop, len(outcome.turns)) == (StopReason.EMPTY, 4)
    assert "wrote nothing in its last 3 turns" in outcome.detail
    assert by_hand(plan("direct"), [""])[1].stop is StopReason.EMPTY
    assert by_hand(plan(turns=9, idle_turns=2), ["", ""])[1].stop is StopReason.EMPTY
    # What was cut off by a limit of tokens, or holds words, is no empty answer.
    assert by_hand(plan("direct"), [said("", FinishReason.LENGTH)])[1].stop is StopReason.TURN_LIMIT
    assert by_hand(plan(turns=9, idle_turns=2), ["", NOTHING])[1].stop is StopReason.NO_ACTION


def test_what_was_bent_is_kept_with_its_turn() -> None:
    _, outcome = by_hand(plan(), [Said(Completion(ANSWER, FinishReason.STOP, notes=("bent",)))])
    assert outcome.turns[0].notes == ("bent",)
