"""Models as teachers: alone, with a second model that densifies, and with one that turns reasoning into code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from saccade.dialects.registry import load_dialect
from saccade.errors import SettingsError
from saccade.models.base import Model
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Code, Message, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import FinishReason, Sampling, Trajectory, Turn
from saccade.training.sft.synth.codify import thought_span, with_thought
from saccade.training.sft.synth.made import DiscardedError
from saccade.training.sft.synth.outcome import SynthProgress
from saccade.training.sft.synth.run import synthesise
from saccade.training.sft.synth.settings import SynthRecipe, SynthSettings, TeacherSettings

Reply = Callable[[tuple[Message, ...]], str]
CALL = '<think>hm</think><tool_call>{"tool": "crop", "image": "image_0", "box": [5, 5, 60, 60]}</tool_call>'


def crops_then_answers(messages: tuple[Message, ...]) -> str:
    """A teacher in `vista`."""
    return CALL if messages[-1].text.count("```output") == 0 else "<think>ok</think><answer>yes</answer>"


def thinks_anew(messages: tuple[Message, ...]) -> str:
    """A writer that follows the form."""
    turns = re.findall(r"\n\nTurn (\d+):", messages[-1].text)
    return "\n".join(f'<thought turn="{turn}">A longer thought for turn {turn}.</thought>' for turn in turns)


async def run(
    out: Path, recipe: SynthRecipe, replies: dict[str, Reply], dialect: str = "vista", **more: object
) -> tuple[SynthProgress, list[Trajectory]]:
    """A run of one world with these scripted models."""
    writer = "writer" if "writer" in replies else ""
    settings = SynthSettings(
        sources=("touching-circles",),
        dialect=dialect,
        n=2,
        teacher=TeacherSettings(model="teacher", recipe=recipe, writer=writer),
    )

    def load(name: str) -> Model:
        return ScriptedModel(replies[name], name=name)

    progress = await synthesise(settings.model_copy(update=more), out, models=load)
    lines = out / "trajectories.jsonl"
    return progress, list(read_lines(lines, Trajectory)) if lines.exists() else []


async def test_a_teacher_plays_the_dialect_and_is_scored(tmp_path: Path) -> None:
    teacher = TeacherSettings(model="teacher", sampling=Sampling(temperature=0.7, seed=10))
    progress, made = await run(tmp_path, "solve", {"teacher": crops_then_answers}, n=3, samples=2, teacher=teacher)
    assert progress.kept == 6
    assert {item.provenance.model for item in made} == {"teacher"}
    assert [item.provenance.sampling.seed for item in made] == [10, 11] * 3
    assert [item.group for item in made] == [item.task.id for item in made]
    assert [item.rollout for item in made] == [0, 1] * 3
    for item in made:
        assert isinstance(item.turns[0].action, ToolCall)
        assert item.turns[0].execution is not None
        assert [score.value for score in item.scores] == [float(item.task.answer == "yes")]


async def test_densified_thoughts_leave_actions_to_the_byte(tmp_path: Path) -> None:
    _, plain = await run(tmp_path / "plain", "solve", {"teacher": crops_then_answers})
    progress, dense = await run(tmp_path / "dense", "densify", {"teacher": crops_then_answers, "writer": thinks_anew})
    assert progress.makers == {"teacher+writer": 2}
    for before, after in zip(plain, dense, strict=True):
        for number, (old, new) in enumerate(zip(before.turns, after.turns, strict=True), 1):
            assert new.text == old.text.replace("hm", f"A longer thought for turn {number}.").replace(
                "ok", f"A longer thought for turn {number}."
            )
            assert new.action == old.action
            assert new.observation == old.observation


async def test_a_writer_without_form_is_counted_and_never_used(tmp_path: Path) -> None:
    asked = 0

    def rambles(messages: tuple[Message, ...]) -> str:
        nonlocal asked
        asked += 1
        return "Of course! Here they are."

    progress, made = await run(tmp_path, "densify", {"teacher": crops_then_answers, "writer": rambles})
    assert made == []
    assert progress.discarded == {"invalid output": 2}
    assert asked == 4, "each is asked for twice"


REASONED = "<reasoning>The gap is 3 pixels wide.</reasoning>\n<answer>no</answer>"
CONCLUSION = "<thought>It printed the size.</thought><answer>yes</answer>"


def step(code: str) -> str:
    return f"<step><thought>Measure it.</thought><code>\n{code}\n</code></step>"


def codifies(code: str) -> Reply:
    def reply(messages: tuple[Message, ...]) -> str:
        if "Your steps were run" in messages[-1].text:
            assert "384" in "".join(message.text for message in messages[:-1])
            return CONCLUSION
        assert "The gap is 3 pixels wide." in messages[-1].text
        assert "`input_image`: image_0" in messages[-1].text
        return step(code)

    return reply


async def test_reasoning_becomes_code_that_is_run(tmp_path: Path) -> None:
    writer = codifies("print(input_image.size, 384)")
    replies: dict[str, Reply] = {"teacher": lambda messages: REASONED, "writer": writer}
    progress, made = await run(tmp_path, "codify", replies, dialect="codedance")
    assert progress.makers == {"teacher+writer": 2}
    for item in made:
        first, last = item.turns
        assert isinstance(first.action, Code)
        assert first.execution is not None
        assert first.execution.status is Status.OK
        assert "384" in first.execution.stdout
        assert last.action == Answer(text="yes")


@pytest.mark.parametrize(
    ("teacher", "code", "kind"),
    [
        ("I think it is no.", "print(1)", "invalid output"),
        (REASONED, "print(", "invalid output"),
        (REASONED, "print(384)\nraise ValueError(384)", "code failed"),
    ],
)
async def test_reasoning_that_cannot_be_used_is_counted(teacher: str, code: str, kind: str, tmp_path: Path) -> None:
    replies: dict[str, Reply] = {"teacher": lambda messages: teacher, "writer": codifies(code)}
    progress, made = await run(tmp_path, "codify", replies, dialect="codedance")
    assert made == []
    assert progress.discarded == {kind: 2}


async def test_reasoning_cannot_become_code_in_a_dialect_of_tools(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"dialect vista@1 cannot"):
        await run(tmp_path, "codify", {"teacher": lambda messages: REASONED})


SPOKEN: Sequence[tuple[str, str, str]] = [
    ("vista", CALL, "hm"),
    ("codev", "<think>hm\n<code>\n```python\nprint(1)\n```\n</code>", "hm"),
    ("pyvision", "hm\n\n<code>\n```python\nprint(1)\n```\n</code>", "hm"),
    ("codedance", "<think>hm</think>\n<answer>7</answer>", "hm"),
    ("deepeyes", "<answer>7</answer>", ""),
]


@pytest.mark.parametrize(("dialect", "text", "thought"), SPOKEN)
def test_the_thought_is_found_in_every_kind_of_turn(dialect: str, text: str, thought: str) -> None:
    start, end = thought_span(text)
    assert text[start:end] == thought
    spoken = load_dialect(dialect)
    turn = Turn(text=text, action=spoken.parse(text, FinishReason.STOP_STRING), finish_reason=FinishReason.STOP_STRING)
    rewritten = with_thought(turn, spoken, "anew")
    assert rewritten.text == text[:start] + "anew" + text[end:]
    assert rewritten.action == turn.action


def test_a_thought_that_changes_the_action_is_refused() -> None:
    spoken = load_dialect("codedance")
    text = "<think>hm</think>\n<answer>7</answer>"
    turn = Turn(text=text, action=spoken.parse(text, FinishReason.STOP), finish_reason=FinishReason.STOP)
    with pytest.raises(DiscardedError, match="changed what its turn does"):
        with_thought(turn, spoken, "</think>\n```python\nprint(1)\n```\n")
