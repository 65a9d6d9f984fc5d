"""Filters that look at one trajectory, and what a person decided about it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.training.sft.curate.cases import Result, Runs, blobs, mumbled, ran, said

from saccade.errors import RegistryError, SettingsError, UnavailableError
from saccade.media.modes import POLICIES
from saccade.media.store import MediaStore
from saccade.record.content import Message, TextPart, VideoPart, VideoSample
from saccade.record.execution import Status
from saccade.record.task import AnswerType, NamedMedia
from saccade.record.trajectory import Provenance, StopReason
from saccade.training.sft.curate.filters.episodes import READINGS
from saccade.training.sft.review import DecisionLog, ReviewDecision


def test_low_scores_go_and_missing_ones_are_undecided(runs: Runs) -> None:
    runs.write(
        runs.trajectory("right", correct=1.0), runs.trajectory("wrong", correct=0.5), runs.trajectory("unscored")
    )
    result = runs.curate({"name": "score"})
    assert result.ids == ["right"]
    assert result.reasons == {"wrong": "correct below 1", "unscored": "no score correct"}
    assert result.undecided == ["unscored"]
    stays = runs.curate({"name": "score", "undecided": "keep"})
    assert (stays.ids, stays.undecided) == (["right", "unscored"], ["unscored"])
    assert [line.kept for line in stays.lines] == [False, True]
    named = runs.curate({"name": "score", "score": "tools"})
    assert [line.detail for line in named.lines] == ["scores: correct", "scores: correct", "scores: none"]


@pytest.mark.parametrize(
    ("answer", "fields", "settings", "kept"),
    [
        ("5", {}, {}, True),
        ("5.0", {}, {}, False),
        ("  A  Cat ", {"answer": "a cat"}, {}, True),
        ("A Cat", {"answer": "a cat"}, {"fold": False}, False),
        ("B", {"answer": "red", "choices": ("blue", "red"), "answer_type": AnswerType.CHOICE}, {}, True),
        ("(B).", {"answer": "red", "choices": ("blue", "red"), "answer_type": AnswerType.CHOICE}, {}, True),
        ("A", {"answer": "red", "choices": ("blue", "red"), "answer_type": AnswerType.CHOICE}, {}, False),
        ("B", {"answer": "B", "choices": ("A", "B", "C")}, {}, True),
        ("B", {"answer": "red", "choices": ("blue", "red")}, {"letters": False}, False),
        ("C", {"answer": "red", "choices": ("blue", "red")}, {}, False),
        ("Z", {"answer": "red", "choices": ("blue", "red")}, {}, False),
        ("A", {"answer": "blue", "choices": ("blue", "red")}, {}, True),
        ("C", {"answer": "C", "choices": ("blue", "red")}, {}, True),  # past the choices: a text as any other
        (" A Cat ", {"answer": "A Cat"}, {"fold": False}, False),
        ("\uff21 cat", {"answer": "a cat"}, {}, True),  # a letter of full width
    ],
)
def test_exact_answer(runs: Runs, answer: str, fields: dict[str, Any], settings: dict[str, Any], kept: bool) -> None:
    runs.write(runs.trajectory("one", said(answer), task=fields))
    assert bool(runs.curate({"name": "exact-answer", **settings}).ids) is kept


def test_exact_answer_without_a_gold_or_an_answer(runs: Runs) -> None:
    runs.write(
        runs.trajectory("no gold", task={"answer": None}),
        runs.trajectory("no answer", mumbled(), stop=StopReason.NO_ACTION),
    )
    result = runs.curate({"name": "exact-answer"})
    assert result.undecided == ["no gold"]
    assert result.reasons["no answer"] == "no answer"


def test_tool_turns(runs: Runs) -> None:
    unseen = ran().model_copy(update={"execution": None, "observation": None})
    runs.write(
        runs.trajectory("two", ran(), ran(status=Status.ERROR), said("5")),
        runs.trajectory("one", ran(), unseen, stop=StopReason.TURN_LIMIT),
        runs.trajectory("none"),
        runs.trajectory("four", ran(), ran(), ran(), ran(), said("5")),
    )
    assert runs.curate({"name": "tool-turns", "at_most": 3}).ids == ["two"]
    dropped = runs.curate({"name": "tool-turns", "at_least": 0, "at_most": 1}).reasons
    assert dropped["two"] == "more than 1 tool turns"


def test_ended(runs: Runs) -> None:
    runs.write(
        runs.trajectory("good"),
        runs.trajectory("long", ran(), ran(), ran(), said("5")),
        runs.trajectory("cut", ran(), stop=StopReason.TURN_LIMIT),
        runs.trajectory("running", ran(), stop=None),
    )
    result = runs.curate({"name": "ended", "turns": 3})
    assert result.ids == ["good"]
    assert result.reasons["cut"] == "ended as turn_limit"
    assert result.reasons["running"] == "ended as not yet"


def test_outages_of_ours_always_go(runs: Runs) -> None:
    runs.write(
        runs.trajectory("good", correct=1.0),
        runs.trajectory("lost", ran(), stop=StopReason.SANDBOX_LOST, stop_detail="it died"),
    )
    result = runs.curate({"name": "score", "undecided": "keep"})
    assert result.ids == ["good"]
    assert (result.lines[0].filter, result.lines[0].detail) == ("lost", "it died")
    assert ([item.seen for item in result.report.filters], result.report.read, result.report.kept) == ([2, 1], 2, 1)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"at_most": 0, "recovered": False}, ["clean"]),
        ({"at_most": 1, "recovered": False}, ["clean", "mended", "given up", "mumbled"]),
        ({}, ["clean", "mended", "mumbled", "twice"]),
        ({"at_most": 1}, ["clean", "mended", "mumbled"]),
    ],
)
def test_error_turns(runs: Runs, settings: dict[str, Any], kept: list[str]) -> None:
    bad = ran(status=Status.ERROR)
    runs.write(
        runs.trajectory("clean", ran(), said("5")),
        runs.trajectory("mended", bad, ran(), said("5")),
        runs.trajectory("given up", bad, said("5")),
        runs.trajectory("mumbled", mumbled(), said("5")),
        runs.trajectory("twice", bad, ran(status=Status.TIMEOUT), ran(), said("5")),
    )
    assert runs.curate({"name": "errors", **settings}).ids == kept


def test_well_formed(runs: Runs) -> None:
    other = said("5").model_copy(update={"text": "<answer>\n\\boxed{6}\n</answer>"})
    runs.write(
        runs.trajectory("good", ran(), said("5")),
        runs.trajectory("other", other),
        runs.trajectory("stranger", provenance=Provenance(dialect="klingon")),
    )
    result = runs.curate({"name": "well-formed"})
    assert result.ids == ["good"]
    assert result.reasons["other"] == "a turn reads otherwise"
    assert result.undecided == ["stranger"]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"images": 2}, True),
        ({"images": 1}, False),
        ({"images": 0}, False),
        ({"pixels": 200}, True),
        ({"pixels": 199}, False),
        # 40 characters, 80 tokens; 2 pictures of 4 tokens; 4 frames of the clip, 2 steps of 17 by 23
        ({"tokens": 872, "characters_per_token": 0.5}, True),
        ({"tokens": 871, "characters_per_token": 0.5}, False),
        # 64 tokens a picture; 2 steps of 15 by 20, each with two marks and a time of 13 characters
        ({"tokens": 798, "characters_per_token": 1, "picture_budget": "qwen3-vl"}, True),
        ({"tokens": 797, "characters_per_token": 1, "picture_budget": "qwen3-vl"}, False),
    ],
)
def test_what_is_just_within_a_budget_stays(runs: Runs, settings: dict[str, Any], kept: bool) -> None:
    clip = VideoPart(sha256="a" * 64, width=640, height=480, seconds=2.0, fps=4.0, frames=8)
    stored = MediaStore(runs.root / "run" / "media").path(clip.sha256)
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"a clip, which nobody opens")
    shown = Message(role="user", parts=(runs.put(blobs(1, (10, 10))), TextPart(text="x" * 30), clip))
    turn = said("5").model_copy(
        update={
            "text": "y" * 4,
            "observation": Message(role="user", parts=(runs.put(blobs(2, (10, 10))), TextPart(text="z" * 6))),
        }
    )
    runs.write(runs.trajectory("one", turn, prompt=(shown,)))
    result = runs.curate({"name": "budget", **settings})
    assert bool(result.ids) is kept, result.lines


def clip_shown(runs: Runs, **fields: Any) -> Message:
    """A message that shows a clip, which nobody opens."""
    clip = VideoPart.model_validate(
        {"sha256": "a" * 64, "width": 1280, "height": 720, "seconds": 60.0, "fps": 30.0, "frames": 1800, **fields}
    )
    stored = MediaStore(runs.root / "run" / "media").path(clip.sha256)
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.write_bytes(b"a clip")
    return Message(role="user", parts=(clip,))


@pytest.mark.parametrize(("budget", "tokens"), [("qwen2.5-vl", 43_202), ("qwen3-vl", 11_520)])
def test_a_minute_of_video_counts_as_a_plan_of_training_counts_it(runs: Runs, budget: str, tokens: int) -> None:
    """43,200 features in one block, and 11,400 in 60 steps of two marks each; texts here are nothing."""
    runs.write(runs.trajectory("one", prompt=(clip_shown(runs),)))
    settings = {"name": "budget", "picture_budget": budget, "characters_per_token": 1e9}
    assert runs.curate({**settings, "tokens": tokens}).ids == ["one"]
    result = runs.curate({**settings, "tokens": tokens - 1})
    assert result.ids == []
    assert result.lines[0].detail == f"0 of text, 0 of pictures, {tokens} of videos"


def test_chosen_frames_count_alone_and_what_cannot_be_shown_goes(runs: Runs) -> None:
    short = clip_shown(runs, sample=VideoSample(indices=(0, 900), pixels=28 * 28 * 4))
    runs.write(runs.trajectory("short", prompt=(short,)), runs.trajectory("line", prompt=(clip_shown(runs, height=1),)))
    result = runs.curate({"name": "budget", "tokens": 30})
    assert result.ids == ["short"]
    assert result.reasons["line"] == "the model's processor refuses a picture or a video"


def test_a_video_that_is_only_opened_by_code_costs_nothing(runs: Runs) -> None:
    (clip,) = clip_shown(runs).media
    prompt = (Message(role="user", parts=(TextPart(text="x"),)),)
    runs.write(runs.trajectory("one", prompt=prompt, task={"media": (NamedMedia(name="video", part=clip),)}))
    assert runs.curate({"name": "budget", "tokens": 100}).ids == ["one"]


def test_every_pixel_budget_has_its_reading_of_videos() -> None:
    assert set(READINGS) == {name for name, budget in POLICIES.items() if budget is not None}
    # Pixels of all frames together: min_pixels and max_pixels, shortest_edge and longest_edge of the published files.
    edges = {name: (reading.rules.shortest_edge, reading.rules.longest_edge) for name, reading in READINGS.items()}
    assert edges == {"qwen2.5-vl": (3136, 12_845_056), "qwen3-vl": (4096, 25_165_824)}


def test_a_budget_with_a_tokenizer_counts_its_tokens(runs: Runs) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder = runs.root / "tokenizer"
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(folder)
    turn = said("5").model_copy(update={"text": "a b a"})
    runs.write(runs.trajectory("one", turn, prompt=(Message(role="user", parts=(TextPart(text="b b"),)),)))
    for tokens, kept in ((5, ["one"]), (4, [])):
        assert runs.curate({"name": "budget", "tokens": tokens, "tokenizer": str(folder)}).ids == kept


def test_a_budget_that_cannot_be_counted_is_refused(runs: Runs, tmp_path: Path) -> None:
    runs.write(runs.trajectory("one"))
    with pytest.raises(SettingsError, match="has no tokens"):
        runs.curate({"name": "budget", "picture_budget": "none"})
    with pytest.raises(RegistryError, match="no pixel budget 'qwen2'"):
        runs.curate({"name": "budget", "picture_budget": "qwen2"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError, match="empty cannot be loaded"):
        runs.curate({"name": "budget", "tokenizer": str(tmp_path / "empty")})


def test_bounds_belong_to_what_is_kept(runs: Runs) -> None:
    runs.write(*(runs.trajectory(f"{n} turns", *[ran()] * (n - 1), said("5"), correct=n / 4) for n in range(1, 5)))
    for table, kept in [
        ({"name": "ended", "turns": 2}, [1, 2]),
        ({"name": "tool-turns"}, [3, 4]),
        ({"name": "tool-turns", "at_least": 1, "at_most": 2}, [2, 3]),
        ({"name": "tool-turns", "at_least": 0, "at_most": 0}, [1]),
        ({"name": "score", "at_least": 0.5}, [2, 3, 4]),
    ]:
        assert runs.curate(table).ids == [f"{n} turns" for n in kept]


def test_successful_turns_are_those_that_ended_well(runs: Runs) -> None:
    shown = ran().model_copy(update={"execution": None})  # data of another project: what came back, no execution
    runs.write(
        runs.trajectory("two", ran(), ran(status=Status.ERROR), ran(), said("5")),
        runs.trajectory("shown", shown, shown, said("5")),
    )
    assert runs.curate({"name": "tool-turns"}).ids == ["two", "shown"]
    result = runs.curate({"name": "tool-turns", "successful": True})
    assert result.ids == ["two"]
    assert [(line.reason, line.detail) for line in result.lines] == [("fewer than 2 tool turns", "0")]


def test_well_formed_by_another_dialect_and_with_parse_errors(runs: Runs) -> None:
    runs.write(runs.trajectory("good", ran(), said("5")))
    assert runs.curate({"name": "well-formed", "dialect": "direct"}).ids == []
    with pytest.raises(RegistryError, match="klingon"):
        runs.curate({"name": "well-formed", "dialect": "klingon"})
    runs.write(runs.trajectory("mumbled", mumbled(), said("5")))
    for allowed, kept in [(False, []), (True, ["mumbled"])]:
        assert runs.curate({"name": "well-formed", "parse_errors": allowed}).ids == kept


def test_a_text_that_was_corrected_is_no_tool_turn(runs: Runs) -> None:
    mumble = mumbled().model_copy(update={"observation": Message(role="user", parts=(TextPart(text="Write code."),))})
    runs.write(runs.trajectory("one", mumble, mumble, ran(), said("5")))
    result = runs.curate({"name": "tool-turns"})
    assert [line.detail for line in result.lines] == ["1"]


def test_code_that_a_stored_run_names_as_its_dialect_is_not_run(runs: Runs, tmp_path: Path) -> None:
    file = tmp_path / "spoken.py"
    file.write_text(
        "from dataclasses import replace\nfrom pathlib import Path\nfrom saccade.dialects.pyvision import PRESETS\n"
        "Path(__file__).with_suffix('.ran').touch()\nMINE = replace(PRESETS['repo'], id='spoken-there')\n"
    )
    runs.write(runs.trajectory("one", provenance=Provenance(dialect=f"{file}:MINE")))
    assert runs.curate({"name": "well-formed"}).undecided == ["one"]
    assert not file.with_suffix(".ran").exists()
    assert runs.curate({"name": "well-formed", "dialect": f"{file}:MINE"}).ids == ["one"]
    assert file.with_suffix(".ran").exists()


def test_a_tokenizer_needs_transformers(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.write(runs.trajectory("a"))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UnavailableError, match=r"saccade-vlm\[local\].*an estimate"):
        runs.curate({"name": "budget", "tokens": 9, "tokenizer": "any"})


def test_a_shown_video_is_not_counted_without_transformers(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.write(runs.trajectory("a", prompt=(clip_shown(runs),)))

    def missing(*_: object) -> int:
        raise ModuleNotFoundError("No module named 'transformers'")

    monkeypatch.setattr(type(READINGS["qwen2.5-vl"]), "tokens", missing)
    with pytest.raises(UnavailableError, match=r"to count videos needs transformers.*saccade-vlm\[local\]"):
        runs.curate({"name": "budget", "tokens": 9})


COLOURS = {"answer": "red", "choices": ("red", "blue"), "answer_type": AnswerType.CHOICE}


def decide(folder: Path, id_: str, verdict: str, **fields: Any) -> None:
    folder.mkdir(exist_ok=True)
    DecisionLog(folder).add(ReviewDecision(id=id_, verdict=verdict, decided=datetime.now(UTC), **fields))  # type: ignore[arg-type]


def curated(runs: Runs, *reviews: Path) -> Result:
    return runs.curate({"name": "reviewed", "reviews": [str(review) for review in reviews]})


def test_what_was_dropped_goes_and_what_is_open_is_undecided(runs: Runs) -> None:
    folder = runs.write(*(runs.trajectory(id_) for id_ in ("good", "bad", "open", "taken_back")))
    decide(folder, "good", "keep")
    decide(folder, "bad", "drop", note="blurred")
    decide(folder, "taken_back", "drop")
    decide(folder, "taken_back", "open")
    result = curated(runs, folder)
    assert (result.ids, result.undecided) == (["good"], ["open", "taken_back"])
    assert result.kept[0] == runs.trajectory("good"), "as it was"
    assert (result.lines[0].reason, result.lines[0].detail) == ("dropped by a person", "blurred")


def test_of_two_reviews_the_last_named_counts(runs: Runs, tmp_path: Path) -> None:
    folder = runs.write(runs.trajectory("a"), runs.trajectory("b"))
    for id_ in "ab":
        decide(folder, id_, "drop")
    decide(tmp_path / "second", "a", "keep")
    assert curated(runs, folder, tmp_path / "second").ids == ["a"]


def test_a_corrected_answer_is_graded_anew_where_there_was_a_grade(runs: Runs) -> None:
    folder = runs.write(
        runs.trajectory("now_right", said("7"), correct=0.0),
        runs.trajectory("now_wrong", said("5"), correct=1.0),
        runs.trajectory("ungraded", said("7")),
    )
    for id_ in ("now_right", "now_wrong", "ungraded"):
        decide(folder, id_, "keep", answer="7")
    kept = curated(runs, folder).kept
    assert [trajectory.task.answer for trajectory in kept] == ["7", "7", "7"]
    assert [[score.value for score in trajectory.scores] for trajectory in kept] == [[1.0], [0.0], []]
    assert kept[0].task.question == "What is now_right?"


def test_only_a_question_that_nobody_played_is_corrected(runs: Runs) -> None:
    folder = runs.write(runs.trajectory("played"))
    decide(folder, "played", "keep", question="Which colour?")
    with pytest.raises(SettingsError, match="the question of played was corrected after it was played"):
        curated(runs, folder)
    runs.write(runs.trajectory("new").model_copy(update={"turns": ()}))
    decide(folder, "new", "keep", question="Which colour?")
    task = curated(runs, folder).kept[0].task
    assert (task.question, task.answer) == ("Which colour?", "5")


def test_a_choice_is_corrected_to_one_of_the_choices(runs: Runs) -> None:
    folder = runs.write(runs.trajectory("a", task=COLOURS))
    decide(folder, "a", "keep", answer="green")
    with pytest.raises(SettingsError, match=r"'green' is none of the choices \['red', 'blue'\]"):
        curated(runs, folder)
    decide(folder, "a", "keep", answer="blue")
    assert curated(runs, folder).kept[0].task.answer == "blue"
