from __future__ import annotations

from pathlib import Path

import pytest

from saccade.errors import ModelRefusedError, SettingsError
from saccade.models.base import Completion, Request
from saccade.models.replay import ReplayModel, replay_from_file
from saccade.models.scripted import ScriptedModel, scripted_from_file
from saccade.record.codec import write_lines
from saccade.record.content import Answer, Code, ImagePart, Message, TextPart, ToolCall
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Provenance, Sampling, TokenCounts, Trajectory, Turn

PICTURE = ImagePart(sha256="a" * 64, width=2, height=2)


class NoMedia:
    def get_bytes(self, sha256: str) -> bytes:
        raise AssertionError("no media were expected to be read")


def said(role: str, *parts: str | ImagePart) -> Message:
    return Message.model_validate(
        {"role": role, "parts": [TextPart(text=part) if isinstance(part, str) else part for part in parts]}
    )


PROMPT = (said("system", "Look."), said("user", "What is it?", PICTURE))
SEEN = said("user", "2")
STORED = Trajectory(
    id="t1",
    task=Task(id="q", question="What is it?"),
    provenance=Provenance(model="openai:x"),
    prompt=PROMPT,
    turns=(
        Turn(
            text="<code>1+1</code>",
            token_ids=(4, 5),
            logprobs=(-0.5, -1.0),
            action=Code(code="1+1"),
            observation=SEEN,
            tokens=TokenCounts(context=10, context_visual=3, sampled=2),
            finish_reason=FinishReason.STOP_STRING,
        ),
        Turn(text="<answer>2", action=Answer(text="2"), finish_reason=FinishReason.LENGTH),
    ),
)
SECOND = (*PROMPT, said("assistant", "<code>", "1+1</code>"), SEEN)


async def test_every_turn_is_played_exactly() -> None:
    model = ReplayModel(STORED)
    heard: list[str] = []
    second = await model.complete(Request(SECOND), NoMedia(), on_text=heard.append)
    first = await model.complete(Request(PROMPT), NoMedia())
    assert (first.text, first.finish) == ("<code>1+1</code>", FinishReason.STOP_STRING)
    assert (first.token_ids, first.logprobs) == ((4, 5), (-0.5, -1.0))
    assert (first.usage.prompt_tokens, first.usage.sampled_tokens, first.model) == (10, 2, "openai:x")
    assert (second.text, second.finish, heard) == ("<answer>2", FinishReason.LENGTH, ["<answer>2"])


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        (
            (PROMPT[0], said("user", "What was it?", PICTURE)),
            "message 2 differs at character 17: asked 'user: text What w",
        ),
        ((PROMPT[0], said("user", "What is it?")), "message 2"),
        ((said("user", "Look."), PROMPT[1]), "message 1"),
        (
            (*SECOND[:3], said("user", "3")),
            "asked 'user: text 3', recorded 'user: text 2'",
        ),
        (SECOND[:3], "got 3 messages; the model spoke after 2, 4"),
        ((*SECOND, SEEN), "got 5 messages"),
        ((), "got 0 messages"),
    ],
)
async def test_other_messages_are_refused_with_the_place(messages: tuple[Message, ...], where: str) -> None:
    with pytest.raises(ModelRefusedError) as caught:
        await ReplayModel(STORED).complete(Request(messages), NoMedia())
    assert where in str(caught.value)


async def test_a_difference_far_inside_long_texts_is_shown() -> None:
    long = "The same words again and again. " * 40
    recorded = STORED.model_copy(update={"prompt": (said("user", long + "Which colour?"),)})
    with pytest.raises(ModelRefusedError) as caught:
        await ReplayModel(recorded).complete(Request((said("user", long + "Which form?"),)), NoMedia())
    assert "again. Which form?'" in str(caught.value)
    assert "again. Which colour?'" in str(caught.value)
    assert len(str(caught.value)) < 500


async def test_a_native_call_is_given_again() -> None:
    call = ToolCall(name="crop", arguments={"x": 1}, call_id="c1")
    turn = Turn(text="", calls=(call,), action=call, finish_reason=FinishReason.TOOL_CALL)
    answer = await ReplayModel(STORED.model_copy(update={"turns": (turn,)})).complete(Request(PROMPT), NoMedia())
    assert answer.tool_calls == (call,)


async def test_an_episode_without_turns_says_so() -> None:
    with pytest.raises(ModelRefusedError, match="no turns"):
        await ReplayModel(STORED.model_copy(update={"turns": ()})).complete(Request(PROMPT), NoMedia())


async def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_lines(path, [STORED])
    assert (await replay_from_file(path).complete(Request(PROMPT), NoMedia())).text == "<code>1+1</code>"
    write_lines(path, [STORED, STORED])
    with pytest.raises(SettingsError, match="2 trajectories"):
        replay_from_file(path)
    with pytest.raises(SettingsError, match="No such file"):
        replay_from_file(tmp_path / "none.jsonl")


class Unread:
    def get_bytes(self, sha256: str) -> bytes:
        raise AssertionError("no media were expected to be read")


def ask(text: str = "hello there", *, stop: tuple[str, ...] = (), max_tokens: int | None = None) -> Request:
    message = Message(role="user", parts=(TextPart(text=text),))
    return Request(messages=(message,), stop=stop, sampling=Sampling(max_tokens=max_tokens))


async def test_a_list_is_played_once_and_its_end_is_an_error() -> None:
    model = ScriptedModel(["one", "two"])
    assert [(await model.complete(ask(), Unread())).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(ModelRefusedError, match="2 replies"):
        await model.complete(ask(), Unread())


async def test_a_function_sees_the_messages() -> None:
    model = ScriptedModel(lambda messages: messages[-1].text.upper())
    answer = await model.complete(ask("hi you"), Unread())
    assert (answer.text, answer.finish) == ("HI YOU", FinishReason.STOP)
    assert (answer.usage.prompt_tokens, answer.usage.sampled_tokens) == (3, 3)


async def test_a_stop_string_belongs_to_the_text() -> None:
    heard: list[str] = []
    model = ScriptedModel(["<code>x</code> and more"])
    answer = await model.complete(ask(stop=("###", "</code>")), Unread(), on_text=heard.append)
    assert (answer.text, answer.finish) == ("<code>x</code>", FinishReason.STOP_STRING)
    assert "".join(heard) == answer.text


@pytest.mark.parametrize(
    ("limit", "text", "finish"),
    [
        (3, "<code>", FinishReason.LENGTH),
        (4, "<code>x", FinishReason.LENGTH),
        (7, "<code>x</code", FinishReason.LENGTH),
        (8, "<code>x</code>", FinishReason.STOP_STRING),
    ],
)
async def test_the_token_limit_counts_before_the_stop(limit: int, text: str, finish: FinishReason) -> None:
    model = ScriptedModel(["<code>x</code> tail"])
    answer = await model.complete(ask(stop=("</code>",), max_tokens=limit), Unread())
    assert (answer.text, answer.finish, answer.usage.sampled_tokens) == (text, finish, limit)


async def test_a_text_that_just_fits_is_whole() -> None:
    answer = await ScriptedModel(["a b"]).complete(ask(max_tokens=3), Unread())
    assert (answer.text, answer.finish) == ("a b", FinishReason.STOP)


async def test_exceptions_are_raised_and_completions_given_as_they_are() -> None:
    stored = Completion("x", FinishReason.FILTERED, token_ids=(5,), model="m")
    model = ScriptedModel([ModelRefusedError("no"), stored])
    with pytest.raises(ModelRefusedError, match="no"):
        await model.complete(ask(), Unread())
    assert await model.complete(ask(), Unread()) == stored


async def test_a_file_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('["a", "b"]')
    model = scripted_from_file(path)
    assert (await model.complete(ask(), Unread())).text == "a"
    assert model.name == f"scripted:{path}"


@pytest.mark.parametrize("content", ["{}", "[1]", "nonsense", None])
def test_a_bad_file_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "script.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError, match=r"script\.json is no script"):
        scripted_from_file(path)
