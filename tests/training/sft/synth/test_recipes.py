"""Models as teachers: alone, with a second model that densifies, and with one that turns reasoning into code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from saccade.dialects.base import load_dialect
from saccade.errors import PromptFileError, SettingsError
from saccade.models.base import Completion, MediaReader, Model, Request, Usage
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Code, Message, ToolCall
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Sampling, Trajectory, Turn
from saccade.rewards.judges.prompt import ScoreRules
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.curate.run import SourceRuns
from saccade.training.sft.synth.codify import thought_span, with_thought
from saccade.training.sft.synth.makers import atomic_category
from saccade.training.sft.synth.outcome import SynthProgress
from saccade.training.sft.synth.prompts import DiscardedError
from saccade.training.sft.synth.run import make_questions, questions_in, synthesise
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


def photos(folder: Path, rows: bool = True, count: int = 2) -> Path:
    folder.mkdir()
    lines = []
    for number in range(count):
        Image.new("RGB", (64, 48), (number * 40, 90, 20)).save(folder / f"p{number}.png")
        lines.append(json.dumps({"image": f"p{number}.png", "question": f"What is {number}?", "answer": str(number)}))
    if rows:
        (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def stored(out: Path) -> list[Trajectory]:
    return list(read_lines(out / "trajectories.jsonl", Trajectory))


def code(text: str) -> str:
    return f"<think>\nhm\n</think>\n<code>\n```python\n{text}\n```\n</code>"


async def test_reasoning_in_words_is_an_answer_at_once(tmp_path: Path) -> None:
    _, made = await run(tmp_path, "reason", {"teacher": lambda messages: REASONED}, dialect="codedance")
    for item in made:
        (turn,) = item.turns
        assert turn.action == Answer(text="no")
        assert "The gap is 3 pixels wide." in turn.text


async def test_only_right_answers_stay_and_wrong_ones_are_not_tried_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def teacher(messages: tuple[Message, ...]) -> str:
        asked.append(messages[-1].text)
        return "<think>\nx\n</think>\n<answer>\n\\boxed{0}\n</answer>"

    source = photos(tmp_path / "photos")
    settings = SynthSettings(
        sources=(str(source),), dialect="codedance", keep="right", samples=2, teacher=TeacherSettings(model="t")
    )
    progress = await synthesise(settings, tmp_path / "out", models=lambda name: ScriptedModel(teacher, name=name))
    assert (progress.kept, progress.rejected, progress.discarded) == (2, 2, {})
    assert {item.task.answer for item in stored(tmp_path / "out")} == {"0"}
    lines = (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()
    assert [json.loads(line)["detail"] for line in lines] == ["'0' for '1'"] * 2
    again = await synthesise(settings, tmp_path / "out", models=lambda name: ScriptedModel(teacher, name=name))
    assert (again.kept, again.rejected, again.rejected_before, again.skipped, len(asked)) == (0, 0, 2, 2, 4)


async def test_right_answers_need_gold_ones(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos")
    (source / "rows.jsonl").write_text('{"image": "p0.png", "question": "Why?"}\n', encoding="utf-8")
    settings = SynthSettings(
        sources=(str(source),), dialect="codedance", keep="right", teacher=TeacherSettings(model="t")
    )
    with pytest.raises(SettingsError, match="no task of the sources has one"):
        await synthesise(settings, tmp_path / "out", models=lambda name: ScriptedModel(crops_then_answers, name=name))
    assert not (tmp_path / "out").exists()


async def test_an_open_answer_is_judged_by_the_named_model(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", count=1)
    row = {"image": "p0.png", "question": "What is it?", "answer": "a zero", "open": True}
    (source / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    says = {"t": "<answer>\n\\boxed{nought}\n</answer>", "j": '{"score": 1}'}
    settings = SynthSettings(
        sources=(str(source),), dialect="codedance", keep="right", judge="j", teacher=TeacherSettings(model="t")
    )
    load = lambda name: ScriptedModel(lambda messages: says[name], name=name)  # noqa: E731
    assert (await synthesise(settings, tmp_path / "judged", models=load)).kept == 1
    assert "judge:j" in stored(tmp_path / "judged")[0].scores[0].detail
    plain = await synthesise(settings.model_copy(update={"judge": ""}), tmp_path / "plain", models=load)
    assert (plain.kept, plain.rejected) == (0, 1)
    with pytest.raises(SettingsError, match=r"kept no trajectory.*rejected\.jsonl"):
        SourceRuns([tmp_path / "plain"])
    assert "no judge is named" in " ".join(plain.sources)


async def test_thoughts_of_a_stored_run_are_written_again(tmp_path: Path) -> None:
    _, before = await run(tmp_path / "run", "solve", {"teacher": crops_then_answers})
    settings = SynthSettings(
        sources=(str(tmp_path / "run"),), dialect="vista", teacher=TeacherSettings(model="w", recipe="rewrite")
    )
    load = lambda name: ScriptedModel(thinks_anew, name=name)  # noqa: E731
    progress = await synthesise(settings, tmp_path / "out", models=load)
    after = stored(tmp_path / "out")
    assert [item.id for item in after] == [item.id for item in before]
    for old, new in zip(before, after, strict=True):
        assert [turn.action for turn in new.turns] == [turn.action for turn in old.turns]
        assert "A longer thought for turn 1." in new.turns[0].text
        assert new.scores == old.scores
        assert new.provenance.model == "teacher+w"
        assert all((tmp_path / "out" / "media").rglob(f"*{part.sha256}*") for part in new.media())
    assert (progress.kept, (await synthesise(settings, tmp_path / "out", models=load)).skipped) == (2, 2)
    with pytest.raises(SettingsError, match=r"of dialect vista@1.*, not of codedance"):
        await synthesise(settings.model_copy(update={"dialect": "codedance"}), tmp_path / "other", models=load)
    with pytest.raises(SettingsError, match="no run folder"):
        await synthesise(settings.model_copy(update={"sources": ("maze",)}), tmp_path / "other", models=load)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("show(input_image.crop((0, 0, 9, 9)).resize((90, 90)))", "transform"),
        ("view = pixels[2:9, 3:8]", "transform"),
        ("print(3 * 4 + 1)", "compute"),
        ("print(len(names))", "compute"),
        ("d = ImageDraw.Draw(im)\nd.rectangle((0, 0, 4, 4))\nim.crop((0, 0, 2, 2))", "edit"),
        ("print('hello')", None),
        ("this is no python", None),
    ],
)
def test_the_category_of_code(text: str, category: str | None) -> None:
    assert atomic_category(text) == category


async def test_categories_are_asked_for_in_turn_and_what_is_of_another_is_left_out(tmp_path: Path) -> None:
    hints: list[str] = []

    def teacher(messages: tuple[Message, ...]) -> str:
        if len(messages) > 2:
            return "<think>\nx\n</think>\n<answer>\n\\boxed{0}\n</answer>"
        hints.append(re.findall(r"Use code for one thing alone: to (\w+)", messages[-1].text)[0])
        return code("print(1 + 1)")

    settings = SynthSettings(
        sources=(str(photos(tmp_path / "photos", count=1)),),
        dialect="codedance",
        samples=3,
        teacher=TeacherSettings(model="t", atomic=("transform", "compute", "edit")),
    )
    progress = await synthesise(
        settings, tmp_path / "out", models=lambda name: ScriptedModel(teacher, name=name), workers=1
    )
    assert hints == ["see", "calculate", "draw"]
    assert (progress.kept, progress.discarded) == (1, {"other category": 2})
    (item,) = stored(tmp_path / "out")
    assert item.rollout == 1
    assert "atomic:compute" in item.task.tags
    assert all("Use code for one thing alone" not in message.text for message in item.prompt)


class Priced:
    """A model that costs a dollar for a reply."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(self, request: Request, media: MediaReader, *, on_text: object = None) -> Completion:
        return Completion("<answer>\n\\boxed{0}\n</answer>", FinishReason.STOP, usage=Usage(dollars=1.0))

    async def close(self) -> None:
        pass


async def test_spent_dollars_end_a_run_that_can_be_resumed_elsewhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def settings(dollars: float, model: str = "vllm:t@http://a:1/v1") -> SynthSettings:
        return SynthSettings(
            sources=(str(photos_at),),
            dialect="codedance",
            samples=2,
            teacher=TeacherSettings(model=model, dollars=dollars),
        )

    photos_at = photos(tmp_path / "photos")
    progress = await synthesise(settings(2.5), tmp_path / "out", models=Priced, workers=1)
    assert (progress.kept, progress.discarded) == (3, {"dollars spent": 1})
    assert "may cost 2.5" in progress.example["dollars spent"]
    assert "4 jobs" in progress.estimate
    assert "limit 2.5 dollars" in progress.estimate
    with pytest.raises(SettingsError, match=r"teacher\.model"):
        await synthesise(settings(9.0, "vllm:other@http://b:2/v1"), tmp_path / "out", models=Priced, workers=1)
    assert "another address" not in caplog.text
    more = await synthesise(settings(9.0, "vllm:t@http://b:2/v1"), tmp_path / "out", models=Priced, workers=1)
    assert (more.kept, more.skipped) == (1, 3)
    assert 'another address: teacher.model: "vllm:t@http://a:1/v1" -> "vllm:t@http://b:2/v1"' in caplog.text


def entry(**more: object) -> str:
    return json.dumps([{"question": "Which word is on the sign?", "answer": "stop", **more}])


async def test_pictures_get_questions_and_are_tasks_for_every_command(tmp_path: Path) -> None:
    source = photos(tmp_path / "sa", rows=False, count=3)
    (source / "p0.json").write_text('{"annotations": []}')  # as SA-1B has one beside each picture
    replies = iter(["no array", entry(bbox_2d=[1, 2, 30, 40]), entry(choices=["stop", "go"]), "[]"])

    def load(name: str) -> Model:
        return ScriptedModel(lambda messages: next(replies), name=name)

    settings = SynthSettings(sources=(str(source),), teacher=TeacherSettings(model="t", recipe="question", tries=1))
    progress = await make_questions(settings, tmp_path / "tasks", models=load, workers=1)
    assert (progress.asked, progress.questions, progress.discarded) == (2, 2, {"invalid output": 1})
    tasks = list(read_lines(tmp_path / "tasks" / "tasks.jsonl", Task))
    assert [task.id for task in tasks] == ["sa/p1.png/q1", "sa/p2.png/q1"]
    assert tasks[0].evidence[0].xyxy == (1, 2, 30, 40)
    assert tasks[1].choices == ("stop", "go")
    assert "asked-by=t" in tasks[0].tags
    assert [task.rpartition("/")[2] for task in open_tasks([str(tmp_path / "tasks")]).ids] == ["q1", "q1"]
    again = await make_questions(settings, tmp_path / "tasks", models=load)
    assert (again.skipped, again.asked, again.questions) == (2, 1, 0)
    with pytest.raises(SettingsError, match="folder of pictures that has none"):
        await make_questions(settings.model_copy(update={"sources": ("maze",)}), tmp_path / "x", models=load)


@pytest.mark.parametrize("reply", ["{}", entry(bbox_2d=[0, 0, 900, 900]), entry(choices=["go"]), entry(extra=1)])
def test_questions_without_form_are_not_used(reply: str, tmp_path: Path) -> None:
    from saccade.media.store import MediaStore
    from saccade.record.task import NamedMedia

    part = MediaStore(tmp_path).put_image(Image.new("RGB", (64, 48)))
    picture = Task(id="a", question="?", media=(NamedMedia(name="image_0", part=part),))
    with pytest.raises(DiscardedError, match="invalid output"):
        questions_in(reply, picture, 3, "t")


def test_settings_that_change_nothing_are_refused() -> None:
    for fields in (
        {"dialect": "vista", "teacher": {"recipe": "reason"}},
        {"dialect": "vista", "teacher": {"model": "t", "recipe": "reason", "atomic": ["edit"]}},
        {"dialect": "vista", "teacher": {"model": "t", "recipe": "rewrite", "writer": "w"}},
        {"dialect": "vista", "teacher": {"model": "t", "recipe": "question"}},
        {"teacher": {"model": "t"}},
    ):
        with pytest.raises(ValueError, match=r"leave|needs|missing"):
            SynthSettings.model_validate({"sources": ["maze"], **fields})


async def test_texts_of_recipes_are_those_of_a_file_and_the_form_is_added(tmp_path: Path) -> None:
    asked: list[str] = []

    def teacher(messages: tuple[Message, ...]) -> str:
        asked.append(messages[-1].text)
        return REASONED

    file = tmp_path / "table8.txt"
    file.write_text("Reason as table 8 says.\n")
    own = TeacherSettings(model="teacher", recipe="reason", prompt_files={"reason": str(file)})
    await run(tmp_path / "run", "reason", {"teacher": teacher}, dialect="codedance", teacher=own)
    assert asked[0].startswith("Reason as table 8 says.\n\nWrite nothing but:\n<reasoning>")
    assert "Question: " in asked[0]
    file.write_text("Other words.")
    with pytest.raises(SettingsError, match=r"table8\.txt has changed"):
        await run(tmp_path / "run", "reason", {"teacher": teacher}, dialect="codedance", teacher=own)
    file.write_text("About {picture}")
    with pytest.raises(PromptFileError, match=r"\{picture\}, which cannot be filled in there"):
        await run(tmp_path / "other", "reason", {"teacher": teacher}, dialect="codedance", teacher=own)
    assert not (tmp_path / "other").exists()


async def test_the_text_about_pictures_without_questions_has_fields(tmp_path: Path) -> None:
    asked: list[str] = []

    def reply(messages: tuple[Message, ...]) -> str:
        asked.append(messages[-1].text)
        return "[]"

    source, file = photos(tmp_path / "sa", rows=False, count=1), tmp_path / "mine.txt"
    file.write_text("{most} questions about {width}x{height}")
    own = TeacherSettings(model="t", recipe="question", prompt_files={"question": str(file)})
    settings = SynthSettings(sources=(str(source),), teacher=own)
    await make_questions(settings, tmp_path / "tasks", models=lambda name: ScriptedModel(reply, name=name))
    assert re.match(r"3 questions about \d+x\d+\n\nReply with a JSON array", asked[0])


@pytest.mark.parametrize(
    ("recipe", "name"), [("solve", "reason"), ("reason", "codify"), ("codify", "densify"), ("question", "conclude")]
)
def test_a_text_that_a_recipe_has_not_is_refused(recipe: SynthRecipe, name: Any) -> None:
    with pytest.raises(ValueError, match=f"has no text {name}"):
        TeacherSettings(model="t", recipe=recipe, prompt_files={name: "a.txt"})


async def test_the_judge_of_answers_has_a_prompt_file(tmp_path: Path) -> None:
    asked: list[str] = []

    def judge(messages: tuple[Message, ...]) -> str:
        asked.append(messages[-1].text)
        return "Judgement: yes"

    def load(name: str) -> Model:
        return ScriptedModel(judge if name == "j" else lambda messages: "<answer>\n\\boxed{zero}\n</answer>", name=name)

    source, file = photos(tmp_path / "photos"), tmp_path / "verifier.txt"
    lines = [json.loads(line) | {"open": True} for line in (source / "rows.jsonl").read_text().splitlines()]
    (source / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    file.write_text("{question} / {gold} / {answer}")
    rules = ScoreRules(prompt_file=str(file), replies={"yes": 1, "no": 0})
    settings = SynthSettings(
        sources=(str(source),), dialect="codedance", teacher=TeacherSettings(model="t"), judge="j", judge_rules=rules
    )
    progress = await synthesise(settings, tmp_path / "out", models=load)
    assert progress.right == progress.kept == len(asked)
    assert asked[0].endswith("/ zero")
    with pytest.raises(ValueError, match="judge_rules are about a judge"):
        SynthSettings(sources=("maze",), dialect="codedance", judge_rules=rules)
