from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.cases import CLIP, PHOTO, PLAN, choice_task

from saccade.dialects.question import TagGuard, question_text, split_at_media, split_at_pictures
from saccade.record.task import AnswerType, Task


@pytest.mark.parametrize(
    ("text", "pictures", "expected"),
    [
        ("Is it?", 2, ("Is it?",)),
        ("<image> or <image>?", 2, (0, " or ", 1, "?")),
        ("<image 2> or <image 1>?", 2, (1, " or ", 0, "?")),
        ("<IMAGE_PLACE_HOLDER_1>then<IMAGE_PLACE_HOLDER_0>", 2, (1, "then", 0)),
        ("<image 1> and again <image 1>", 2, (0, " and again <image 1>")),
        ("<image 3> <image 0>", 2, ("<image 3> <image 0>",)),
        ("<image><image>", 1, (0, "<image>")),
        ("", 1, ()),
        ("<video> and <image>", 1, ("<video> and ", 0)),
    ],
)
def test_placeholders(text: str, pictures: int, expected: tuple[str | int, ...]) -> None:
    assert split_at_pictures(text, pictures) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<video>, then <image> or <image>?", (1, ", then ", 0, " or ", 2, "?")),
        ("<image 2> in <video>, not <video>", (2, " in ", 1, ", not <video>")),
        ("Which?", ("Which?",)),
    ],
)
def test_placeholders_of_pictures_and_videos(text: str, expected: tuple[str | int, ...]) -> None:
    assert split_at_media(text, (PHOTO, CLIP, PLAN)) == expected


@given(
    st.lists(st.sampled_from(["<image>", "<image 1>", "<image 9>", "<IMAGE_PLACE_HOLDER_2>", "a", "<"])).map("".join),
    st.integers(0, 3),
)
def test_each_picture_at_most_once_and_no_text_lost(text: str, pictures: int) -> None:
    pieces = split_at_pictures(text, pictures)
    numbers = [piece for piece in pieces if isinstance(piece, int)]
    assert len(numbers) == len(set(numbers))
    assert all(0 <= number < pictures for number in numbers)
    rest = text
    for piece in pieces:
        if isinstance(piece, str):
            assert piece in rest
            rest = rest[rest.index(piece) + len(piece) :]


def test_choices() -> None:
    assert question_text(choice_task()) == "Which?\nA. red\nB. blue"
    many = tuple(f"c{number}" for number in range(30))
    text = question_text(Task(id="m", question="Which?", choices=many, answer_type=AnswerType.CHOICE))
    assert text.splitlines()[1] == "1. c0"
    assert text.splitlines()[-1] == "30. c29"
    for number, last in ((26, "Z. c25"), (27, "27. c26")):
        text = question_text(Task(id="m", question="Which?", choices=many[:number], answer_type=AnswerType.CHOICE))
        assert text.splitlines()[-1] == last


GUARD = TagGuard(["code", "interpreter", r"image_clue_\d+"])
PIECES = st.lists(
    st.sampled_from(
        ["<", ">", "\\", "/", " ", "code", "INTERPRETER", "image_clue_3", "<|im_end|>", "|", "<code>", "x", "\n"]
    )
).map("".join)


def test_tags_get_a_backslash() -> None:
    assert GUARD.escape("a</interpreter> <|im_start|>") == "a<\\/interpreter> <\\|im_start|>"
    assert GUARD.escape("< / CODE >") == "<\\ / CODE >"
    assert GUARD.tags("<image_clue_12><b></code>") == ("<image_clue_12>", "</code>")


def test_ordinary_text_is_not_changed() -> None:
    for text in ("if a < b and c > d:", "<html><b>x</b>", "<\\n>", "List<code_t>", "<codec>", "a <|> b", "<\\textbf>"):
        assert GUARD.escape(text) == text


@given(PIECES | st.text())
def test_no_tag_is_left(text: str) -> None:
    escaped = GUARD.escape(text)
    assert GUARD.tags(escaped) == ()


def test_long_hostile_text_does_not_hang() -> None:
    for piece in ("<", " ", "\\", "<image_clue_", "<|a", "1"):
        for text in (f"<{piece * 100_000}", f"<image_clue_1{piece * 100_000}", f"<|{piece * 100_000}"):
            assert GUARD.tags(GUARD.escape(text)) == ()
