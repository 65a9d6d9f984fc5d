"""`direct`: what is shown and what is read, exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.dialects.direct import PRESETS, DirectDialect
from saccade.dialects.prompt_texts import Prompts
from saccade.errors import PromptFileError, SettingsError
from saccade.record.content import Answer, Code, ParseError, TextPart
from saccade.record.execution import Execution, Status
from saccade.record.task import NamedMedia
from saccade.record.trajectory import FinishReason

from .cases import GOLDEN, PHOTO, PLAN, SECRET, choice_task, plain, task, video_task

each = pytest.mark.parametrize("name", PRESETS)
REASON = PRESETS["reason"]


@each
def test_what_is_shown(name: str) -> None:
    shown = []
    for what in (task(), choice_task(), task("Is <image> the plan of <image>?", (PHOTO, PLAN))):
        opening = PRESETS[name].open(what)
        assert (dict(opening.bindings), dict(opening.files)) == ({}, {})
        shown += [str(plain(message)) for message in opening.messages]
    text = "\n".join(shown) + "\n"
    assert SECRET not in text
    assert text == Path(GOLDEN / f"direct-{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "finish", "answer"),
    [
        ("I see.\n<answer>7</answer>", FinishReason.STOP_STRING, "7"),
        ("<answer>6</answer> No: <answer>\\boxed{7}</answer>", FinishReason.STOP, "7"),
        ("The answer is 7.", FinishReason.STOP, "The answer is 7."),
        ("<answer>7", FinishReason.STOP, "<answer>7"),
        ("I count: 1, 2, 3", FinishReason.LENGTH, None),
        ("<answer>7</answer> and", FinishReason.LENGTH, "7"),
        ("", FinishReason.STOP, None),
        ("<answer>7</answer>", FinishReason.FILTERED, None),
    ],
)
def test_what_is_read(text: str, finish: FinishReason, answer: str | None) -> None:
    action = REASON.parse(text, finish)
    assert action == Answer(text=answer) if answer is not None else isinstance(action, ParseError)


def test_an_answer_in_a_thought_counts_where_thoughts_have_no_tags() -> None:
    text = "<answer>6</answer> <think>or <answer>7</answer></think>"
    assert REASON.parse(text, FinishReason.STOP) == Answer(text="7")
    assert PRESETS["think"].parse(text, FinishReason.STOP) == Answer(text="6")


@given(st.text(max_size=40))
def test_an_answer_reads_back(text: str) -> None:
    try:
        written = REASON.write(Answer(text=text), "I think.")
    except ValueError:
        return
    assert REASON.parse(written, FinishReason.STOP) == Answer(text=text)


def test_there_are_no_tools_and_no_videos() -> None:
    with pytest.raises(ValueError, match="answers alone"):
        REASON.write(Code(code="1"))
    with pytest.raises(ValueError, match="no tools"):
        REASON.observe(Execution(status=Status.OK), 1)
    with pytest.raises(SettingsError, match="video"):
        REASON.open(video_task())
    assert REASON.limits.turns == 1


def test_a_video_as_such_comes_before_the_question() -> None:
    asked = video_task()
    both = asked.model_copy(update={"media": (*asked.media, NamedMedia(name="plan", part=PLAN))})
    opening = PRESETS["video"].open(both)
    (message,) = opening.messages
    assert [type(part).__name__ for part in message.parts] == ["VideoPart", "TextPart", "ImagePart", "TextPart"]
    assert message.parts[0] == asked.media[0].part
    assert "What is it?" in message.parts[3].text  # type: ignore[union-attr]
    assert (opening.pictures, dict(opening.bindings), dict(opening.files)) == (1, {}, {})


def test_a_picture_and_a_video_keep_their_order_and_stand_where_the_question_has_them() -> None:
    clip = video_task().media[0]
    media = (NamedMedia(name="plan", part=PLAN), clip)
    before, after = (
        PRESETS["video"].open(video_task().model_copy(update={"media": media, "question": question})).messages[0].parts
        for question in ("Is it there?", "Is <image> in <video>?")
    )
    assert before[:4] == (PLAN, TextPart(text="\n"), clip.part, before[3])
    assert before[3].text.startswith("\nIs it there?")  # type: ignore[union-attr]
    assert after[:4] == (TextPart(text="Is "), PLAN, TextPart(text=" in "), clip.part)
    assert after[4].text.startswith("?")  # type: ignore[union-attr]


def test_another_prompt() -> None:
    other: DirectDialect = REASON.with_prompts(Prompts({"*": "Q: {query}"}, "mine"))
    assert other.open(task()).messages[0].text.startswith("\nQ: What is it?")
    with pytest.raises(PromptFileError):
        REASON.with_prompts(Prompts({"*": "no question"}, "mine"))
