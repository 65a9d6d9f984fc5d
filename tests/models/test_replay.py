from pathlib import Path

import pytest

from saccade.errors import ModelRefusedError, SettingsError
from saccade.models.base import Request
from saccade.models.replay import ReplayModel, replay_from_file
from saccade.record.codec import write_lines
from saccade.record.content import Answer, Code, ImagePart, Message, TextPart, ToolCall
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Provenance, TokenCounts, Trajectory, Turn

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
