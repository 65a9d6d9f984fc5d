"""Judges: exact where boxes are known, strict where a model speaks, and never a silent zero."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from tests.report.cases import Scene
from tests.rewards.rollouts import GOLD, SEARCH, answered, lost, part, ran, rollout

from saccade.episode.regions import Region, StoredPixels, regions
from saccade.errors import ModelDeniedError, ModelLostError, ModelRefusedError, RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.exchanges import KeptModel
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Message, area, iou
from saccade.record.execution import Status
from saccade.record.task import EvidenceBox
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.answer import BoxJudge, BoxRule, ConsistencyJudge, containment
from saccade.rewards.judges.client import AskRules, client_of
from saccade.rewards.judges.model import JudgeContext, JudgeRules, ModelJudge, judged, make_judge, unjudged
from saccade.rewards.judges.prompt import Scale, ScoreQuestion, ScoreRules
from saccade.rewards.reward import JudgeVerdict, NoVerdict, calls


class NoMedia:
    def get_bytes(self, sha256: str) -> bytes:
        raise AssertionError("a scripted model reads no pictures")


def at(*box: float, turn: int = 0, name: str = "photo") -> Region:
    return Region(turn, name, (box[0], box[1], box[2], box[3]), seen=True, said=True)


def finding(*found: Region) -> Callable[[Trajectory], tuple[Region, ...]]:
    return lambda trajectory: found


LOOKED = rollout(ran("a", "a"), answered(), task=SEARCH)
x0, y0, x1, y1 = GOLD.xyxy


@pytest.mark.parametrize(
    ("box", "score"),
    [
        ((x0, y0, x1, y1), 1.0),
        ((90, 90, 200, 200), 1.0),
        ((100, 100, 140, 130), 1.0),
        ((100, 100, 140, 129), 0.5),
        ((100, 100, 110, 140), 0.5),
        ((100, 100, 109, 140), 0.25),
        ((200, 200, 240, 240), 0.25),
        ((0, 0, 400, 300), 0.25),
        ((0, 0, 300, 200), 1.0),
        ((0, 0, 301, 200), 0.25),
        ((120, 120, 120, 120), 0.25),
    ],
)
def test_box_judge(box: tuple[float, ...], score: float) -> None:
    assert BoxJudge(finding(at(*box))).verdicts(LOOKED) == (JudgeVerdict(score=score), None)


def test_box_judge_takes_the_best_region_of_the_turn_and_of_no_other() -> None:
    two = rollout(ran("a", "a"), ran("b", "b"), answered(), task=SEARCH)
    judge = BoxJudge(finding(at(0, 0, 9, 9), at(*GOLD.xyxy), at(0, 0, 9, 9, turn=1)))
    assert [verdict and verdict.score for verdict in judge.verdicts(two)] == [1.0, 0.25, None]


def test_box_judge_without_a_picture_a_region_or_gold() -> None:
    judge = BoxJudge(finding())
    silent = rollout(ran("a"), ran("b", "b", status=Status.LOST), answered(), task=SEARCH)
    assert [verdict and verdict.score for verdict in judge.verdicts(silent)] == [0.0, None, None]
    assert judge.verdicts(LOOKED)[0] == JudgeVerdict(score=0.25, detail="no part of a picture was cut out")
    unknown = BoxJudge(finding(at(*GOLD.xyxy))).verdicts(rollout(ran("a", "a"), answered()))
    assert unknown == (JudgeVerdict(invalid=NoVerdict.NO_EVIDENCE), None)


def test_box_judge_looks_at_the_picture_that_is_meant() -> None:
    other = BoxJudge(finding(at(*GOLD.xyxy, name="other")), BoxRule(miss=0.0))
    assert other.verdicts(LOOKED)[0] == JudgeVerdict(score=0.0)


async def test_box_judge_is_a_judge() -> None:
    judge = BoxJudge(finding(at(*GOLD.xyxy)))
    assert await judge.judge(LOOKED, calls(LOOKED)) == judge.verdicts(LOOKED)


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ('{"score": 1}', 1.0),
        ('```json\n{"score": 0.5}\n```', 0.5),
        (' {"score": 0.25}\n', 0.25),
        ("1", None),
        ('The score is {"score": 1}', None),
        ('{"score": "1"}', None),
        ('{"score": 0.9}', None),
        ('{"score": 1, "why": "clear"}', None),
        ('{"score": true}', None),
        ('{"score": null}', None),
        ("", None),
    ],
)
def test_only_the_asked_form_is_a_score(reply: str, score: float | None) -> None:
    assert ScoreQuestion(ScoreRules(), "?", Scale((1.0, 0.5, 0.25)), ()).read(reply) == score


async def test_model_judge_asks_again_and_then_says_that_it_got_no_verdict() -> None:
    judge = ModelJudge(ScriptedModel(["Good!", '{"score": 1}']), NoMedia())
    assert await judge.judge(LOOKED, calls(LOOKED)) == (JudgeVerdict(score=1), None)
    stubborn = ModelJudge(ScriptedModel(["Good!", "Fine!"]), NoMedia(), JudgeRules(attempts=2))
    (verdict, _) = await stubborn.judge(LOOKED, calls(LOOKED))
    assert verdict == JudgeVerdict(invalid=NoVerdict.MALFORMED, detail="Fine!")


async def test_model_judge_sees_the_question_and_the_pictures_alone() -> None:
    seen: list[Message] = []

    def reply(messages: tuple[Message, ...]) -> str:
        seen.extend(messages)
        return '{"score": 0.5}'

    secret = rollout(ran("SECRET", "a", stdout="SECRET\n"), answered("SECRET"), task=SEARCH)
    await ModelJudge(ScriptedModel(reply), NoMedia()).judge(secret, calls(secret))
    (message,) = seen
    assert [item.sha256 for item in message.media] == [part("a").sha256]
    assert SEARCH.question in message.text
    assert "SECRET" not in message.text


async def test_model_judge_without_a_picture_asks_nobody() -> None:
    judge = ModelJudge(ScriptedModel([]), NoMedia())
    (verdict, nothing) = await judge.judge(rollout(ran("a"), answered(), task=SEARCH), (0,))
    assert verdict is not None
    assert verdict.score == 0
    assert nothing is None


async def test_an_outage_or_a_refusal_is_a_verdict_of_its_own_and_a_wrong_key_ends_the_run() -> None:
    lost = ModelJudge(ScriptedModel([ModelLostError("down")]), NoMedia())
    assert (await lost.judge(LOOKED, calls(LOOKED)))[0] == JudgeVerdict(invalid=NoVerdict.OUTAGE, detail="down")
    thin = ModelJudge(ScriptedModel([ModelRefusedError("too thin")]), NoMedia())
    assert (await thin.judge(LOOKED, calls(LOOKED)))[0] == JudgeVerdict(invalid=NoVerdict.REFUSED, detail="too thin")
    refused = ModelJudge(ScriptedModel([ModelDeniedError("bad key")]), NoMedia())
    with pytest.raises(ModelDeniedError):
        await refused.judge(LOOKED, calls(LOOKED))


async def test_a_picture_that_is_not_there_is_a_verdict_and_no_end(tmp_path: Path) -> None:
    asked = Reader(['{"score": 1}'])
    (verdict, none) = await ModelJudge(asked, MediaStore(tmp_path)).judge(LOOKED, calls(LOOKED))
    assert none is None
    assert verdict is not None
    assert (verdict.score, verdict.invalid) == (None, NoVerdict.UNSEEN)


class Reader(ScriptedModel):
    """Reads every picture before it says anything, as a real backend does."""

    async def complete(self, request: Request, media: MediaReader, **named: Any) -> Completion:
        for message in request.messages:
            for picture in message.media:
                media.get_bytes(picture.sha256)
        return await super().complete(request, media, **named)


async def test_replies_are_kept_on_the_disk(tmp_path: Path) -> None:
    first = ModelJudge(KeptModel(ScriptedModel(["?", '{"score": 1}']), tmp_path), NoMedia())
    assert await first.judge(LOOKED, calls(LOOKED)) == (JudgeVerdict(score=1), None)
    again = ModelJudge(KeptModel(ScriptedModel([]), tmp_path), NoMedia())
    assert await again.judge(LOOKED, calls(LOOKED)) == (JudgeVerdict(score=1), None)


class AlwaysOne:
    """A judge to which every call shows everything."""

    async def judge(self, trajectory: Trajectory, turns: Collection[int]) -> tuple[JudgeVerdict | None, ...]:
        return tuple(JudgeVerdict(score=1) if number in turns else None for number in range(len(trajectory.turns)))


async def test_judged_asks_about_what_counts() -> None:
    judge = AlwaysOne()
    asked = rollout(ran("a"), answered())
    group = await judged(judge, (asked, lost(ran("a"))))
    assert group.verdicts == ((JudgeVerdict(score=1), None), (None,))
    assert (await judged(None, (asked,))).verdicts == ()
    assert (await judged(judge, (asked,), lambda trajectory: False)).verdicts == ((None, None),)


def test_boxes_are_found_in_what_code_really_cut_out(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    task = scene.task(evidence=(EvidenceBox(image="photo", xyxy=(100, 100, 140, 140)),))
    near, far = (90, 90, 190, 190), (200, 100, 300, 200)
    turns = [
        scene.ran(f"crop = image_clue_0.crop({box}).resize((200, 200))\nplt.imshow(crop)\nplt.show()", scene.picture)
        for box in (near, far)
    ]
    pasted = scene.ran("show(find_it())", scene.picture.crop(near))
    episode = scene.episode(*turns, pasted, task=task)
    judge = BoxJudge(lambda trajectory: regions(trajectory, StoredPixels(scene.store)))
    assert [verdict and verdict.score for verdict in judge.verdicts(episode)] == [1.0, 0.25, 1.0]


def test_a_verdict_is_a_score_or_a_reason() -> None:
    for fields in ({}, {"score": 1.0, "invalid": NoVerdict.OUTAGE}):
        with pytest.raises(ValueError, match="either"):
            JudgeVerdict.model_validate(fields)


@pytest.mark.parametrize("name", ["contained", "touched", "largest"])
def test_a_fraction_of_a_box_is_above_0_and_at_most_1(name: str) -> None:
    assert getattr(BoxRule.model_validate({name: 1.0}), name) == 1.0
    for wrong in (0.0, 1.01, -0.5):
        with pytest.raises(ValueError, match=name):
            BoxRule.model_validate({name: wrong})


def test_boxes_and_regions_at_their_edges() -> None:
    assert (area((0, 0, 0.5, 0.5)), area((5, 5, 4, 9)), area((5, 5, 9, 4))) == (0.25, 0, 0)
    assert (iou((0, 0, 0.5, 0.5), (0, 0, 0.5, 0.5)), iou((1, 1, 1, 1), (1, 1, 1, 1))) == (1.0, 0.0)
    assert (containment(GOLD, at(*GOLD.xyxy)), containment(GOLD, at(*GOLD.xyxy, name="other"))) == (1.0, 0.0)
    judge = BoxJudge(finding())
    two = SEARCH.model_copy(update={"evidence": (GOLD, EvidenceBox(image="photo", xyxy=(300, 200, 320, 220)))})
    assert judge.level(two, at(*GOLD.xyxy)) == 1.0
    assert judge.level(SEARCH.model_copy(update={"evidence": ()}), at(*GOLD.xyxy)) == 0.25


async def test_a_judge_is_asked_each_time_warmer(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[float | None] = []

    class Warm(ScriptedModel):
        async def complete(self, request: Request, media: MediaReader, **more: Any) -> Completion:
            asked.append(request.sampling.temperature)
            return await super().complete(request, media, **more)

    judge = ConsistencyJudge(Warm(["x" * 400] * 3, name="warm"))
    verdict = await judge.verdict(rollout(answered()))
    assert (verdict.invalid, verdict.detail) == (NoVerdict.MALFORMED, "x" * 300)
    assert asked == pytest.approx([0.0, 0.7, 0.8])
    assert "The judge warm gave no verdict (malformed)" in caplog.text


async def test_thoughts_without_an_answer_are_not_compared() -> None:
    asked: list[str] = []

    def reply(messages: tuple[Message, ...]) -> str:
        asked.append(messages[0].text)
        return '{"score": 1}'

    judge = ConsistencyJudge(ScriptedModel(reply))
    assert await judge.verdict(rollout(ran())) == JudgeVerdict(score=0.0, detail="no answer was given")
    assert asked == []
    for length, shown in ((16_000, "y" * 16_000), (16_001, "..." + "y" * 16_000)):
        turn = answered().model_copy(update={"text": "y" * length})
        kept = await judge.scored(rollout(turn))
        assert (kept.scores[-1].value, kept.scores[-1].weight) == (1.0, 0.0)
        assert f'"{shown}"' in asked[-1]


def test_without_a_judge_every_call_says_that_nobody_was_asked() -> None:
    assert unjudged([LOOKED]).verdicts == ((JudgeVerdict(invalid=NoVerdict.NOT_ASKED), None),)


def test_a_limit_that_is_there_is_kept() -> None:
    once = client_of(ScriptedModel(["x"]), AskRules(concurrent=2))
    assert client_of(once, AskRules(concurrent=3)) is once
    assert once.rules.concurrent == 2


def test_judges_by_name(tmp_path: Path) -> None:
    context = JudgeContext(store=MediaStore(tmp_path), model=None, rules=JudgeRules())
    with pytest.raises(SettingsError, match="judge_model"):
        make_judge("model", context)
    own = tmp_path / "judging.py"
    own.write_text(
        "class J:\n    async def judge(self, trajectory, turns): ...\nMADE = J()\ndef seven(context): return 7\n"
    )
    assert type(make_judge(f"{own}:MADE", context)).__name__ == "J"
    with pytest.raises(RegistryError, match="seven made no judge: it gave"):
        make_judge(f"{own}:seven", context)
