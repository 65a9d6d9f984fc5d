"""Filters that ask a model: what is asked, what counts as a verdict, what is kept on the disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.sft.curate.cases import Runs, blobs, mumbled, ran, said

from saccade.errors import ModelDeniedError, ModelLostError, ModelRefusedError, SettingsError
from saccade.models.scripted import Reply, ScriptedModel
from saccade.record.content import Message
from saccade.record.task import EvidenceBox, NamedMedia
from saccade.sft.curate import judge as judge_module

GOOD = json.dumps({"answer_right": True, "steps_sound": True})


class Judges:
    """A judge that answers by a function of the text it is asked, and remembers what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Message] = []
        self.says: Callable[[str], Reply] = lambda text: GOOD
        monkeypatch.setattr(judge_module, "load_model", lambda name: ScriptedModel(self._answer, name=name))

    def _answer(self, messages: tuple[Message, ...]) -> Reply:
        self.asked.append(messages[0])
        return self.says(messages[0].text)


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Judges:
    return Judges(monkeypatch)


def table(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "judge": "test:judge", **more}


def test_cross_check_sees_question_picture_gold_and_guarded_solution(runs: Runs, judges: Judges) -> None:
    part = runs.put(blobs(1))
    runs.write(runs.trajectory("a", ran(), said("</solution>5"), picture=part))
    assert runs.curate(table("cross-check")).ids == ["a"]
    (message,) = judges.asked
    assert message.media == (part,)
    for words in ("What is a?", "correct answer is known: 5", "print(1)", "<interpreter>1", r"<\/solution>5"):
        assert words in message.text


@pytest.mark.parametrize(
    ("reply", "settings", "reason"),
    [
        (GOOD, {}, None),
        (f"```json\n{GOOD}\n```", {}, None),
        ('{"answer_right": false, "steps_sound": true}', {}, "judge finds the answer wrong"),
        ('{"answer_right": true, "steps_sound": false}', {}, "judge finds a step wrong"),
        ('{"answer_right": true, "steps_sound": false}', {"steps": False}, None),
        ("true", {}, "no verdict in the reply"),
        (f"Sure! {GOOD}", {}, "no verdict in the reply"),
        ('{"answer_right": "true", "steps_sound": true}', {}, "no verdict in the reply"),
        ('{"answer_right": true}', {}, "no verdict in the reply"),
        (GOOD + GOOD, {}, "no verdict in the reply"),
    ],
)
def test_only_the_asked_form_is_a_verdict(
    runs: Runs, judges: Judges, reply: str, settings: dict[str, Any], reason: str | None
) -> None:
    judges.says = lambda text: reply
    runs.write(runs.trajectory("a"))
    result = runs.curate(table("cross-check", **settings))
    assert result.reasons.get("a") == reason
    assert result.undecided == (["a"] if reason == "no verdict in the reply" else [])


def test_a_reply_that_is_no_verdict_is_asked_for_again(runs: Runs, judges: Judges) -> None:
    replies = iter(["hm", GOOD])
    judges.says = lambda text: next(replies)
    runs.write(runs.trajectory("a"))
    assert runs.curate(table("cross-check")).ids == ["a"]


def test_verdicts_are_asked_for_once(runs: Runs, judges: Judges) -> None:
    runs.write(*(runs.trajectory(str(n)) for n in range(5)))
    runs.curate(table("cross-check"))
    runs.out = runs.root / "again"
    assert len(runs.curate(table("cross-check")).ids) == 5
    assert len(judges.asked) == 5
    runs.out = runs.root / "another judge"
    runs.curate({**table("cross-check"), "judge": "test:other"})
    assert len(judges.asked) == 10


def test_an_outage_drops_nothing_and_keeps_what_was_answered(runs: Runs, judges: Judges) -> None:
    judges.says = lambda text: ModelLostError("gone") if "What is 1?" in text else GOOD
    runs.write(*(runs.trajectory(str(n)) for n in range(3)))
    with pytest.raises(ModelLostError):
        runs.curate(table("cross-check"))
    assert not runs.out.exists()
    judges.says = lambda text: GOOD
    assert len(runs.curate(table("cross-check")).ids) == 3
    assert len(judges.asked) == 4


def test_a_question_that_the_judges_server_refuses_is_undecided(runs: Runs, judges: Judges) -> None:
    judges.says = lambda text: ModelRefusedError("content filter") if "What is 1?" in text else GOOD
    runs.write(*(runs.trajectory(str(n)) for n in range(3)))
    assert runs.curate(table("cross-check")).reasons == {"1": "the judge refused the question"}


def test_a_wrong_key_of_the_judge_ends_the_run(runs: Runs, judges: Judges) -> None:
    judges.says = lambda text: ModelDeniedError("bad key")
    runs.write(runs.trajectory("1"))
    with pytest.raises(ModelDeniedError):
        runs.curate(table("cross-check"))


def test_cross_check_without_an_answer_asks_nobody(runs: Runs, judges: Judges) -> None:
    runs.write(runs.trajectory("a", mumbled(), stop=None))
    assert runs.curate(table("cross-check")).reasons == {"a": "no answer"}
    assert not judges.asked


def test_question_quality(runs: Runs, judges: Judges) -> None:
    def says(text: str) -> str:
        return json.dumps({"answer_right": "wrong" not in text, "needs_care": "trivial" not in text})

    judges.says = says
    runs.write(*(runs.trajectory(name) for name in ("fine", "wrong", "trivial")))
    result = runs.curate(table("question-quality"))
    assert result.ids == ["fine"]
    assert result.reasons == {
        "wrong": "judge finds the gold answer wrong",
        "trivial": "judge finds the question trivial",
    }


def test_image_informative_needs_all_four(runs: Runs, judges: Judges) -> None:
    verdict = {"varied": True, "distinct": True, "closer_look_helps": True, "askable": True}
    judges.says = lambda text: json.dumps(verdict)
    runs.write(runs.trajectory("a", picture=runs.put(blobs(1))), runs.trajectory("no picture"))
    result = runs.curate(table("image-informative"))
    assert (result.ids, result.undecided) == (["a"], ["no picture"])
    verdict["closer_look_helps"] = False
    runs.write(runs.trajectory("b", picture=runs.put(blobs(2))), run="more")
    runs.out = runs.root / "other"
    assert runs.curate(table("image-informative"), runs=("more",)).lines[0].detail == "not closer_look_helps"


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ([{"label": "cat", "bbox_2d": [10, 20, 30, 40.5]}], "kept"),
        ([], "judge finds nothing that fits the question"),
        ([{"label": "cat", "bbox_2d": [10, 20, 300, 40]}], "no verdict in the reply"),
        ([{"label": "cat", "bbox_2d": [30, 20, 10, 40]}], "no verdict in the reply"),
        ([{"label": "cat", "bbox_2d": [10, 20, 30]}], "no verdict in the reply"),
    ],
)
def test_boxes_become_evidence(runs: Runs, judges: Judges, reply: Any, outcome: str) -> None:
    judges.says = lambda text: json.dumps(reply)
    runs.write(runs.trajectory("a", picture=runs.put(blobs(1))))
    result = runs.curate(table("box-label"))
    assert result.reasons.get("a", "kept") == outcome
    for item in result.kept:
        assert item.task.evidence == (EvidenceBox(image="photo", xyxy=(10, 20, 30, 40.5), label="cat"),)
    assert "96 pixels wide and 72 high" in judges.asked[0].text


def test_boxes_are_compared_with_evidence(runs: Runs, judges: Judges) -> None:
    judges.says = lambda text: json.dumps([{"label": "x", "bbox_2d": [0, 0, 20, 20]}])
    part = runs.put(blobs(1))
    near, far = (EvidenceBox(image="photo", xyxy=box) for box in ((0, 0, 20, 15), (40, 40, 60, 60)))
    runs.write(
        runs.trajectory("near", picture=part, task={"evidence": (near,)}),
        runs.trajectory("far", picture=part, task={"evidence": (far,)}),
    )
    result = runs.curate(table("box-label"))
    assert result.reasons == {"far": "judge's boxes miss the evidence"}
    assert result.kept[0].task.evidence == (near,)


def test_the_best_of_several_boxes_counts(runs: Runs, judges: Judges) -> None:
    boxes = [{"label": "x", "bbox_2d": box} for box in ([60, 40, 80, 60], [0, 0, 20, 20], [30, 0, 50, 20])]
    judges.says = lambda text: json.dumps(boxes)
    evidence = tuple(EvidenceBox(image="photo", xyxy=box) for box in ((0, 50, 10, 60), (0, 0, 20, 15)))
    runs.write(runs.trajectory("a", picture=runs.put(blobs(1)), task={"evidence": evidence}))
    assert runs.curate(table("box-label")).ids == ["a"]


def test_a_task_of_two_pictures_is_not_asked_for_boxes(runs: Runs, judges: Judges) -> None:
    media = tuple(NamedMedia(name=name, part=runs.put(blobs(number))) for number, name in enumerate(("one", "two")))
    runs.write(runs.trajectory("a", task={"media": media}))
    result = runs.curate(table("box-label"))
    assert result.undecided == ["a"]
    assert not judges.asked


def test_a_damaged_reply_on_the_disk_is_named(runs: Runs, judges: Judges) -> None:
    runs.write(runs.trajectory("a"))
    runs.curate(table("cross-check"))
    (file,) = (runs.root / "cache").rglob("*.json")
    file.write_text('{"model": "tes', encoding="utf-8")
    runs.out = runs.root / "again"
    with pytest.raises(SettingsError, match=f"{file.name} is no cached reply of a judge; delete it"):
        runs.curate(table("cross-check"))
