from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.tasks.benchmarks import row_files
from saccade.tasks.benchmarks.card import Fields
from saccade.tasks.benchmarks.make_task import choices_of, lettered, split_question
from saccade.tasks.benchmarks.row_files import FieldError, MediaFiles

FIELD = Fields(question="question", choices="options")
COLUMNS = Fields(question="question", choices_from="columns")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["A. chair", "B. table"], ("chair", "table")),
        (["(A) chair", "(B) table"], ("chair", "table")),
        (["A) 3", "B) 4"], ("3", "4")),
        (["A", "B", "C"], ("A", "B", "C")),
        (["A.5", "B.6"], ("5", "6")),
        (["A. chair", "C. table"], ("A. chair", "C. table")),
        (["A big dog", "B"], ("A big dog", "B")),
        (["U.S.", "U.K."], ("U.S.", "U.K.")),
        ("['3', '4']", ("3", "4")),
        ('["3", "4"]', ("3", "4")),
        ("A. 3 m; B. 4 m; C. No correct answer", ("3 m", "4 m", "No correct answer")),
        ("A: one\nB: two", ("one", "two")),
        ("A Cast iron \nB Copper\n C Steel", ("Cast iron", "Copper", "Steel")),
        ([3, 4.5, True], ("3", "4.5", "yes")),
        ({"A": "cat", "B": "dog"}, ("cat", "dog")),
        ({"B": "dog", "A": "cat", "C": None}, ("cat", "dog")),
        ('{"(a)": "cat", "(b)": "dog"}', ("cat", "dog")),
        (None, ()),
        ([], ()),
    ],
)
def test_options_of_a_field(options: object, expected: tuple[str, ...]) -> None:
    assert choices_of({"options": options}, FIELD) == expected


@pytest.mark.parametrize(
    "options",
    [
        3,
        {"A": "x"},
        {"A": "x", "C": "y"},
        {"x": "1", "y": "2"},
        "[__import__('os').system('false')]",
        "no options",
        "A dog\nA cat",
        "A dog",
    ],
)
def test_what_is_no_list_of_options(options: object) -> None:
    with pytest.raises(FieldError, match="choices"):
        choices_of({"options": options}, FIELD)


def test_columns_end_at_the_first_empty_one() -> None:
    assert choices_of({"A": "x", "B": 2.0, "C": "", "D": None}, COLUMNS) == ("x", "2")
    assert choices_of({"question": "?"}, COLUMNS) == ()
    with pytest.raises(FieldError, match="A, C"):
        choices_of({"A": "x", "C": "y"}, COLUMNS)


@pytest.mark.parametrize(
    ("question", "bare", "options"),
    [
        ("How long?\nChoices:\nA:1\nB:2", "How long?", ("1", "2")),
        ("How long? Options: (A) 1 (B) 2", "How long?", ("1", "2")),
        ("Which?\nA. red\nB. blue\nC. green", "Which?", ("red", "blue", "green")),
        ("Point A: where is B?", "Point A: where is B?", ()),
        ("Choices: none.", "Choices: none.", ()),
    ],
)
def test_options_in_a_question(question: str, bare: str, options: tuple[str, ...]) -> None:
    assert split_question(question) == (bare, options)


@given(st.text(max_size=200))
def test_any_text_splits_or_stays(text: str) -> None:
    question, options = split_question(text)
    assert options or question == text
    assert len(options) != 1


@given(
    st.lists(st.text(alphabet="abcxyz 019", min_size=1, max_size=8).map(str.strip).filter(bool), min_size=2, max_size=8)
)
def test_written_options_are_read_again(options: list[str]) -> None:
    text = "\n".join(f"{chr(65 + place)}. {option}" for place, option in enumerate(options))
    assert lettered(text) == tuple(options)


NAMED = [
    "0.jpg",
    "1",
    "sub/2.jpg",
    "there.jpg",
    "folder.jpg",
    "gone.jpg",
    "/elsewhere/sub/2.jpg",
    "",
    "a\0b",
    "?" * 2000,
]


def found(files: MediaFiles, name: str) -> bool:
    try:
        files.named(name)
    except FieldError:
        return False
    return True


def test_a_folder_that_is_asked_for_often_is_listed_and_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("0.jpg", "1.jpg", "sub/2.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "there.jpg").symlink_to(tmp_path / "0.jpg")
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nothing")
    one_by_one = MediaFiles(tmp_path, anywhere=True)
    wanted = [found(one_by_one, name) for name in NAMED]
    assert wanted == [True, True, True, True, False, False, True, False, False, False]
    monkeypatch.setattr(row_files, "_OFTEN", 2)
    listing = MediaFiles(tmp_path, anywhere=True)
    assert all([found(listing, name) for name in NAMED] == wanted for _ in range(4))
    assert {str(tmp_path), str(tmp_path / "sub")} <= set(listing._listed)
    scanned: list[object] = []
    monkeypatch.setattr(os.path, "isfile", scanned.append)
    assert found(listing, "0.jpg")
    assert not scanned
