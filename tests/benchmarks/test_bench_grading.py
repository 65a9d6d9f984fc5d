"""`python -m benchmarks grading` on small files in the published forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.grading import GraderSide, figures, judge_folder, stored_answers
from saccade.errors import DataError

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "answers"
OPTIONS = "['cat', \"the dog's\", 'bird']"


def mmmu(response: object, right: bool, answer: str = "B", options: str = OPTIONS) -> dict[str, object]:
    return {"id": "x", "options": options, "answer": answer, "response": response, "if_right": right}


def mathvista(kind: str, answer: str, response: str, right: bool, **more: object) -> dict[str, object]:
    row = {"question_type": "free_form", "answer_type": kind, "choices": None, "answer": answer, "response": response}
    return {**row, "true_false": right, **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        mmmu("Answer: B", True),
        mmmu(["The answer is (B) the dog's."], False),
        mmmu("I'm sorry, I can't help with that.", True),
        mmmu("Answer: A", False),
        mmmu("Answer: J", False, answer="J"),
    ]
    (tmp_path / "some_model.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    table = {
        "1": mathvista("integer", "3", "So there are 3 bars.", True),
        "2": mathvista("float", "1.2", "1.23", True),
        "3": mathvista("list", "[1, 2]", "[2, 1]", False),
        "4": mathvista("text", "No", "(B) No", True, question_type="multi_choice", choices=["Yes", "No"]),
    }
    (tmp_path / "other.json").write_text(json.dumps(table), encoding="utf-8")
    (tmp_path / "README.md").write_text("no answers", encoding="utf-8")
    return tmp_path


def test_counts_by_who_accepts(folder: Path) -> None:
    found = {name: (judged, ungraded) for name, judged, ungraded in judge_folder(folder)}
    judged, ungraded = found["some_model.jsonl"]
    assert [one.side for one in judged] == [GraderSide.BOTH, GraderSide.OURS, GraderSide.THEIRS, GraderSide.NEITHER]
    assert [one.read for one in judged] == [True, True, False, True]
    assert ungraded == 1
    row = figures("all", judged, ungraded)
    assert (row.answers, row.agree, row.ours_alone, row.theirs_alone, row.unread) == (5, 2, 1, 1, 1)
    assert row.share(row.ours_alone) == 25
    assert [one.side for one in found["other.json"][0]] == [
        GraderSide.BOTH,
        GraderSide.BOTH,
        GraderSide.NEITHER,
        GraderSide.BOTH,
    ]


def test_command_prints_figures_and_examples_and_writes_both_files(folder: Path, tmp_path: Path) -> None:
    numbers, unread = tmp_path / "figures.txt", tmp_path / "unread.txt"
    done = CliRunner().invoke(app, ["grading", str(folder), "--out", str(numbers), "--unread", str(unread)])
    assert done.exit_code == 0, done.output
    for words in (
        "accepted by us alone: 1",
        "accepted by them alone: 1",
        "unread: 1",
        "some_model.jsonl",
        "other.json",
        "all",
    ):
        assert words in done.output
    assert [row["name"] for row in json.loads(numbers.read_text())["figures"]] == [
        "other.json",
        "some_model.jsonl",
        "all",
    ]
    assert [json.loads(line)["reason"] for line in unread.read_text().splitlines()] == ["names no single option"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", "{", "cannot be read as JSON"),
        ("a.jsonl", '{"response": "B", "answer": "B", "options": "[]"}', "row 1 of .* lacks if_right"),
        ("a.jsonl", "[1]", "row 1 of .* is no JSON object"),
        ("a.json", "[]", "holds no rows"),
        ("a.jsonl", json.dumps({**mmmu("B", True), "if_right": "yes"}), "'yes' for its official verdict"),
        ("a.txt", "", "holds no .json or .jsonl file"),
    ],
)
def test_a_file_of_no_known_form_is_an_error_that_names_the_place(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        judge_folder(tmp_path)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        judge_folder(tmp_path / "none")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the stored answers")
@pytest.mark.slow
def test_what_stored_answers_of_real_models_give() -> None:
    """Bounds, not figures: docs/grading.md has those."""
    for name, judged, ungraded in judge_folder(SHARED):
        row = figures(name, judged, ungraded)
        assert row.share(row.ours_alone) <= 0.3, name
        assert row.share(row.agree) >= 97.9, name
        assert ungraded <= 1, name
    assert len(stored_answers(SHARED / "mathvista_bard.json")) == 1_000
