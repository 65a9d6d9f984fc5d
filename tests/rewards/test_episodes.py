"""Rewards on episodes that really ran: what the sandbox records is what the rules read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps
from tests.rewards.rollouts import rollout, wrote

from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, limits_with
from saccade.episode.regions import StoredPixels, regions
from saccade.errors import RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer, Code, ToolCall
from saccade.record.execution import Status
from saccade.record.task import EvidenceBox, NamedMedia, Task
from saccade.record.trajectory import Broken, FinishReason, Score, StopReason, Trajectory, Turn, total
from saccade.rewards.codev import Redline, redlines
from saccade.rewards.judges.answer import BoxJudge
from saccade.rewards.reward import (
    RewardGroup,
    as_rubric,
    boxed_answer,
    follows_protocol,
    load_reward,
    silent,
    tags_in_order,
)
from saccade.sandbox.local import LocalSandbox
from saccade.training.env import ExactMatch, Graded, Rewarded
from saccade.training.rl.rollout import broken
from saccade.training.rl.scoring import repeats, with_repeats

NEAR, FAR = (90, 90, 190, 190), (250, 150, 330, 230)


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


async def play(store: MediaStore, dialect: str, *cells: str, picture: Image.Image | None = None) -> Trajectory:
    noise = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    part = store.put_image(picture or Image.fromarray(noise))
    evidence = (EvidenceBox(image="photo", xyxy=(100, 100, 140, 140)),)
    media = (NamedMedia(name="photo", part=part),)
    task = Task(id="t", question="Which?", media=media, answer="a", evidence=evidence)
    chosen = load_dialect(dialect)
    script = [f"<think>Look.</think>\n<code>\n```python\n{cell}\n```\n</code>" for cell in cells]
    plan = Plan(task, chosen, given_limits=limits_with(chosen.limits, turns=20))
    async with LocalSandbox() as sandbox:
        episode = await run_episode(
            plan, ScriptedModel([*script, "<think>So.</think>\n<answer>a</answer>"]), sandbox, store
        )
    return episode.with_scores([Score(name="correct", value=1.0)])


def crop(box: tuple[int, int, int, int], name: str) -> str:
    return f"part = image.crop({box})\npart.save('{name}.png')\nprint('{name}.png')"


async def test_codev(store: MediaStore) -> None:
    episode = await play(
        store,
        "codev",
        crop(NEAR, "one"),
        crop(NEAR, "two"),
        crop(FAR, "three"),
        crop((300, 200, 900, 900), "four"),
        "open('notes.txt', 'w').write('x')",
        "part.nothing()",
        "print('Error: all is well')",
    )
    assert redlines(episode) == (
        (),
        (Redline.REPEATED_NOOP,),
        (),
        (),  # clamped, and so forgiven
        (Redline.SCRATCH_FILE,),
        (Redline.AVOIDABLE_ERROR,),
        (),
        (),
    )
    judge = BoxJudge(lambda trajectory: regions(trajectory, StoredPixels(store)))
    verdicts = judge.verdicts(episode)
    assert [verdict and verdict.score for verdict in verdicts] == [1, 1, 0.25, 0.25, 0, 0, 0, None]
    (reward,) = load_reward("codev")(RewardGroup((episode,), (verdicts,)))
    assert reward.turn_part("tool") == (1, -1, 0.25, 0.25, -1, -1, 0, None)
    assert reward.total == pytest.approx(1 + 0.5 * -1.5 / 7)


WHOLE = {
    "show(image)": "image.save('a.png')\nprint('a.png')",
    "copied": "import shutil\nshutil.copy(image_path, 'b.png')\nprint('b.png')",
    "another format": "image.convert('RGB').save('c.jpg', quality=80)\nprint('c.jpg')",
    "another compression": "image.save('d.png', compress_level=1)\nprint('d.png')",
    "mirrored": "image.transpose(0).save('e.png')",
    "turned": "image.rotate(90, expand=True).save('f.png')",
    "padded": "from PIL import ImageOps\nImageOps.expand(image, 30, 'white').save('g.png')",
    "smaller": "image.resize((200, 150)).save('h.png')",
    "larger": "image.resize((600, 450)).save('i.png')",
    "stretched": "image.resize((400, 200)).save('j.png')",
    "nearly whole": "image.crop((6, 4, 395, 290)).save('k.png')",
    "all of it": "image.crop((0, 0, 400, 300)).save('l.png')",
}


@pytest.mark.parametrize("kind", ["noise", "drawing"])
async def test_the_whole_picture_again_is_seen_by_its_pixels(store: MediaStore, kind: str) -> None:
    cells = [*WHOLE.values(), crop(NEAR, "near"), "image.crop((90, 90, 190, 190)).resize((300, 300)).save('zoom.png')"]
    crossed = []
    for some in (cells[:7], cells[7:]):
        episode = await play(store, "codev", *some, picture=drawing() if kind == "drawing" else None)
        assert all(turn.execution is None or turn.execution.pictures for turn in episode.turns)
        crossed += redlines(with_repeats(episode, StoredPixels(store)))[:-1]
    named = dict(zip([*WHOLE, "near", "the same, larger"], crossed, strict=True))
    assert named == {name: () if name == "near" else (Redline.REPEATED_NOOP,) for name in named}


def drawing() -> Image.Image:
    """A plain ground with a few shapes and a fine grid, as charts and diagrams have."""
    picture = Image.new("RGB", (400, 300), "white")
    draw = ImageDraw.Draw(picture)
    for place in range(20, 400, 40):
        draw.line((place, 0, place, 300), fill=(200, 200, 200))
    draw.rectangle((60, 40, 150, 160), fill=(200, 30, 40))
    draw.ellipse((110, 110, 180, 185), fill=(20, 60, 200))
    draw.polygon([(300, 280), (380, 120), (390, 290)], fill=(10, 140, 60))
    return picture


@pytest.mark.parametrize(
    "change",
    [
        lambda picture: picture.crop((0, 0, 200, 300)),
        lambda picture: picture.crop((40, 30, 360, 270)),
        lambda picture: picture.crop((90, 90, 190, 190)).resize((400, 300)),
        lambda picture: ImageOps.invert(picture),
        lambda picture: picture.rotate(45),
        lambda picture: marked(picture),
    ],
)
def test_a_part_or_a_changed_picture_repeats_nothing(change: Callable[[Image.Image], Image.Image]) -> None:
    assert not repeats(change(drawing()), drawing())


def marked(picture: Image.Image) -> Image.Image:
    copy = picture.copy()
    ImageDraw.Draw(copy).rectangle((100, 100, 200, 200), outline=(255, 0, 0), width=4)
    return copy


async def test_codedance(store: MediaStore) -> None:
    episode = await play(
        store, "codedance", "input_image.crop((0, 0, 90, 90))", "# only a comment", "1 / 0", "print('Error')"
    )
    statuses = [turn.execution and turn.execution.status for turn in episode.turns]
    assert statuses == [Status.OK, Status.OK, Status.ERROR, Status.OK, None]
    assert [silent(turn) for turn in episode.turns] == [False, True, False, False, False]
    assert broken(episode) == {Broken.EXECUTION_ERROR}
    (reward,) = load_reward("codedance")(RewardGroup((episode,)))
    assert reward.part("format").value == 0
    assert reward.part("success_rate").value == 0.75
    assert reward.turn_part("execution") == (0, 0, -0.5, 0, None)
    assert reward.turn_part("returns") == pytest.approx((-0.02, -0.1, -0.5, 0, None))


@pytest.mark.parametrize(
    ("answer", "thought", "correct", "total"), [("red", "I look.", 1, 2), ("blue", "I look.", 0, 1), ("red", "", 1, 2)]
)
def test_vistas_reward_without_tools(answer: str, thought: str, correct: float, total: float) -> None:
    direct = load_dialect("direct:think")
    text = direct.write(Answer(text=answer), thought)
    turn = Turn(text=text, action=direct.parse(text, FinishReason.STOP_STRING))
    assert turn.action == Answer(text=answer)
    (reward,) = load_reward("vista-r1")(RewardGroup((rollout(turn, correct=correct),)))
    assert reward.total == total
    # What `direct` asks for by default has no <think>, and so not VISTA's form.
    plain = load_dialect("direct").write(Answer(text=answer), "I look.")
    (formless,) = load_reward("vista-r1")(RewardGroup((rollout(wrote(plain, Answer(text=answer)), correct=correct),)))
    assert formless.total == -1


@pytest.mark.parametrize(
    ("dialect", "fits"),
    [
        ("vista", follows_protocol),
        ("pyvision-rl-image", boxed_answer),
        ("codedance", lambda item: tags_in_order(item, ("think", "code", "answer"))),
        ("codev", lambda item: tags_in_order(item, ("code", "answer"))),
        ("deepeyes", lambda item: tags_in_order(item, ("think", "tool_call", "answer"))),
    ],
)
def test_what_a_dialect_writes_has_the_form_that_its_reward_asks_for(
    dialect: str, fits: Callable[[Trajectory], bool]
) -> None:
    chosen = load_dialect(dialect)
    look = ToolCall(name="image_zoom_in_tool", arguments={"bbox_2d": [1, 2, 90, 90]})
    actions = (look if dialect in ("vista", "deepeyes") else Code(code="print(1)"), Answer(text="red"))
    texts = [chosen.write(action, "Look.") for action in actions]
    turns = [Turn(text=text, action=chosen.parse(text, FinishReason.STOP_STRING)) for text in texts]
    assert fits(rollout(*turns))
    assert not fits(rollout(wrote("</answer> Hm. <think>"), turns[1].model_copy(update={"text": "<answer>red"})))


def score(gold: str | None, answer: str | None) -> float | None:
    turns = () if answer is None else (Turn(text=answer, action=Answer(text=answer)),)
    trajectory = Trajectory(id="t", task=Task(id="t", question="?", answer=gold), turns=turns)
    (part,) = ExactMatch()(trajectory)
    assert part.name == "correct"
    return part.value


@pytest.mark.parametrize(
    ("gold", "answer"), [("Red", "red"), ("a  b", " A\nb "), ("café", "cafe\u0301"), ("Straße", "STRASSE"), ("4", "4")]
)
def test_the_same(gold: str, answer: str) -> None:
    assert score(gold, answer) == 1.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("50", "150"),
        ("4", "4.0"),
        ("red", "red."),
        ("dog", "o"),
        ("A", "(A)"),
        ("x²", "x2"),
        ("red", ""),
        ("red", None),
    ],
)
def test_not_the_same(gold: str, answer: str | None) -> None:
    assert score(gold, answer) == 0.0


def test_no_gold_no_score() -> None:
    assert score(None, "red") is None


def vista(said: str, **task: Any) -> Trajectory:
    """One thought and one answer, in VISTA's form."""
    text = f"<think>I see it.</think><answer>{said}</answer>"
    turns = (Turn(text=text, action=Answer(text=said)),)
    return Trajectory(id="t", task=Task(id="t", question="?", **task), turns=turns, stop=StopReason.ANSWERED)


@pytest.mark.parametrize(
    ("task", "answer", "value"),
    [
        ({"answer": "4", "answer_type": "number"}, "4.0", 1.0),
        ({"answer": "100", "answer_type": "number"}, "103", 0.0),
        ({"answer": "100", "answer_type": "number", "grader": "relaxed"}, "103", 1.0),
        ({}, "103", None),
    ],
)
def test_the_default_is_the_grader_of_the_task(task: dict[str, Any], answer: str, value: float | None) -> None:
    [score] = as_rubric(None)(vista(answer, **task))
    assert (score.name, score.value, score.weight) == ("correct", value, 1.0)


def test_a_grader_by_name() -> None:
    task = {"answer": "100", "answer_type": "number"}
    assert [score.value for score in Graded("relaxed")(vista("103", **task))] == [1.0]
    with pytest.raises(RegistryError, match="relaxd"):
        Graded("relaxd")


def test_a_reward_preset_by_name_is_worth_what_the_paper_says() -> None:
    """VISTA: format 1 and correct 1; format alone for a wrong answer."""
    rubric = as_rubric("vista-r1")
    scores = rubric(vista("red", answer="red"))
    assert {score.name: (score.value, score.weight) for score in scores} == {
        "correct": (1.0, 0.0),
        "reward.repetition": (0.0, 1.0),
        "reward.format": (1.0, 1.0),
        "reward.correct": (1.0, 1.0),
    }
    assert (total(scores), total(rubric(vista("blue", answer="red")))) == (2.0, 1.0)
    sparse = Rewarded("vista-r1", {"form": "sparse"})
    assert total(sparse(vista("red", answer="red"))) == 1.0


def test_rewards_that_cannot_work_here_are_refused() -> None:
    with pytest.raises(SettingsError, match="needs a judge"):
        as_rubric("codev")
    with pytest.raises(RegistryError, match="Did you mean"):
        as_rubric("vista-r2")
    with pytest.raises(SettingsError, match="forms"):
        Rewarded("vista-r1", {"forms": "sparse"})
