"""Filters that ask a model: what is asked, what counts as a verdict, what is kept on the disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.models.wire_server import WireServer, chat, slow
from tests.training.sft.curate.cases import Runs, blobs, mumbled, ran, said

from saccade.errors import ModelDeniedError, ModelLostError, ModelRefusedError, PromptFileError, SettingsError
from saccade.models.base import Completion, Request
from saccade.models.scripted import Reply, ScriptedModel
from saccade.record.content import Message, TextPart, VideoPart
from saccade.record.task import EvidenceBox, NamedMedia
from saccade.rewards.judges.client import unfenced
from saccade.training.sft.curate.filters import judged as judge_module

GOOD = json.dumps({"answer_right": True, "steps_sound": True})


class Judges:
    """A judge that answers by a function of the text it is asked, and remembers what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Message] = []
        self.says: Callable[[str], Reply] = lambda text: GOOD
        monkeypatch.setattr(judge_module, "load_model", lambda name, retry=None: ScriptedModel(self._answer, name=name))

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
    assert len(runs.curate(table("cross-check")).ids) == 5
    assert len(judges.asked) == 5
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
    with pytest.raises(SettingsError, match=f"{file.name} is no kept reply of a model; delete it"):
        runs.curate(table("cross-check"))


def test_a_prompt_file_takes_the_place_of_a_filters_text(runs: Runs, judges: Judges) -> None:
    file = runs.root / "table7.txt"
    file.write_text("By table 7: {query} | {gold}")
    runs.write(runs.trajectory("a"))
    judges.says = lambda text: '{"answer_right": true, "needs_care": true}'
    assert runs.curate(table("question-quality", prompt_file=str(file))).ids == ["a"]
    (asked,) = judges.asked
    assert asked.text.startswith("By table 7: ")
    assert asked.text.endswith('nothing else: {"answer_right": true or false, "needs_care": true or false}')
    file.write_text("By table 7: {gold} in {colour}")
    with pytest.raises(PromptFileError, match=r"\{colour\}, which cannot be filled in there\..*\{question\}, \{gold\}"):
        runs.curate(table("question-quality", prompt_file=str(file)))
    assert len(judges.asked) == 1


def test_a_judge_that_hangs_ends_the_run_and_loses_nothing(runs: Runs, server: WireServer) -> None:
    runs.write(*(runs.trajectory(str(number)) for number in range(30)))
    asked = table("cross-check", judge=f"compatible:judge@{server.url}/v1", seconds=0.5, outages=3, concurrent=2)
    for _ in range(20):  # until a machine under load gives its one reply in time
        server.will(chat(GOOD), slow(server))
        with pytest.raises(ModelLostError, match=r"gave no reply within 0\.5 s|was not asked"):
            runs.curate(asked)
        assert len(server.bodies) <= 5
        assert not runs.out.exists()
        if kept := [path for path in (runs.root / "cache").rglob("*") if path.is_file() and path.stat().st_size]:
            break
    assert len(kept) == 1
    server.will(chat(GOOD))
    assert len(runs.curate(asked | {"seconds": 60}).ids) == 30
    assert len(server.bodies) == 29


class Recorded(ScriptedModel):
    """A scripted judge that remembers whole requests."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(lambda messages: reply, name="test:judge")
        self.requests: list[Request] = []
        self.closed = 0

    async def complete(self, request: Request, *rest: Any, **more: Any) -> Completion:
        self.requests.append(request)
        return await super().complete(request, *rest, **more)

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reply], Recorded]:
    def put(reply: Reply) -> Recorded:
        model = Recorded(reply)
        monkeypatch.setattr(judge_module, "load_model", lambda name, retry=None: model)
        return model

    return put


def test_the_first_attempt_is_greedy_and_a_second_one_is_not(runs: Runs, recorded: Callable[[Reply], Recorded]) -> None:
    model = recorded("x" * 400)
    runs.write(runs.trajectory("a"))
    result = runs.curate(table("cross-check"))
    assert [request.sampling.temperature for request in model.requests] == [0.0, 0.7]
    assert {request.sampling.max_tokens for request in model.requests} == {2048}
    assert (result.undecided, result.lines[0].detail) == (["a"], "x" * 300)
    assert model.closed == 1


def test_as_many_attempts_and_tokens_as_are_set(runs: Runs, recorded: Callable[[Reply], Recorded]) -> None:
    model = recorded("hm")
    runs.write(runs.trajectory("a"))
    runs.curate(table("cross-check", attempts=3, max_tokens=7))
    assert [request.sampling.max_tokens for request in model.requests] == [7, 7, 7]
    runs.curate(table("cross-check", attempts=3, max_tokens=8))
    assert len(model.requests) == 6  # a longer reply may be a verdict: asked anew


def test_a_refused_question_is_undecided_and_the_others_are_asked(runs: Runs, judges: Judges) -> None:
    judges.says = lambda text: ModelRefusedError("too many pictures") if "What is 1?" in text else GOOD
    runs.write(*(runs.trajectory(str(n)) for n in range(3)))
    result = runs.curate(table("cross-check"))
    assert (result.ids, result.undecided) == (["0", "2"], ["1"])
    assert (result.lines[0].reason, result.lines[0].detail) == ("the judge refused the question", "too many pictures")
    assert len(judges.asked) == 3


def test_a_judge_that_refuses_everything_ends_the_run(runs: Runs, judges: Judges) -> None:
    judges.says = lambda text: ModelDeniedError("no such key")
    runs.write(runs.trajectory("a"))
    with pytest.raises(ModelDeniedError, match="no such key"):
        runs.curate(table("cross-check"))


@pytest.mark.parametrize(("iou", "kept"), [(0.75, ["a"]), (0.76, [])])
def test_the_overlap_that_evidence_needs_is_a_setting(runs: Runs, judges: Judges, iou: float, kept: list[str]) -> None:
    judges.says = lambda text: json.dumps([{"label": "x", "bbox_2d": [20, 10, 40, 30]}])
    evidence = EvidenceBox(image="photo", xyxy=(20, 10, 40, 25))
    runs.write(runs.trajectory("a", picture=runs.put(blobs(1)), task={"evidence": (evidence,)}))
    result = runs.curate(table("box-label", iou=iou))
    assert result.ids == kept
    assert [line.detail for line in result.lines] == ([] if kept else ["best overlap 0.75"])


def test_a_box_may_be_the_whole_picture_and_no_more(runs: Runs, judges: Judges) -> None:
    picture = runs.put(blobs(1))  # 96x72
    runs.write(runs.trajectory("a", picture=picture))
    for number, (box, kept) in enumerate([([0, 0, 96, 72], ["a"]), ([0, 0, 96, 73], []), ([0, 0, 97, 72], [])]):
        judges.says = lambda text, box=box: json.dumps([{"label": "all", "bbox_2d": box}])
        assert runs.curate(table("box-label", max_tokens=100 + number)).ids == kept


def test_the_gold_answer_can_be_kept_from_the_judge(runs: Runs, judges: Judges) -> None:
    part = runs.put(blobs(1))
    seen = Message(role="user", parts=(TextPart(text="shown:"), part))
    turn = ran().model_copy(update={"observation": seen})
    runs.write(runs.trajectory("a", turn, said("4"), task={"answer": "secret"}))
    runs.curate(table("cross-check", show_gold=False))
    assert "secret" not in judges.asked[0].text
    assert "shown:[picture]" in judges.asked[0].text


def test_a_video_is_not_shown_to_judges_and_a_task_without_gold_is_not_checked(runs: Runs, judges: Judges) -> None:
    clip = NamedMedia(name="clip", part=VideoPart(sha256="a" * 64, width=64, height=48, seconds=2.0, fps=4.0, frames=8))
    runs.write(runs.trajectory("video", task={"media": (clip,)}), runs.trajectory("no gold", task={"answer": None}))
    result = runs.curate(table("question-quality"))
    assert result.undecided == ["video", "no gold"]
    assert not judges.asked


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("```json\n{}\n```", "{}"),
        ("  ```\n [1,\n2]\n```\n", "[1,\n2]"),
        ("```", "```"),
        ("``````", "``````"),
        ("```json {}```", "```json {}```"),
        ("```json\n{}", "```json\n{}"),
        ("{}\n```", "{}\n```"),
    ],
)
def test_only_a_whole_fence_is_taken_off(text: str, inner: str) -> None:
    assert unfenced(text) == inner
