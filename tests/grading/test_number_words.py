"""Lists as programs write them, and lists as lines."""

from __future__ import annotations

import json

import pytest

from saccade.grading.number_words import MOST_ITEMS, literal_list
from saccade.grading.relaxed import items, lines_as_array


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('["a", 1, 2.5]', ("a", 1, 2.5)),
        (" ['a', 'b'] ", ("a", "b")),
        (r'["\u0061"]', ("a",)),
        ("('a', 1)", ("a", 1)),
        ("('a',)", ("a",)),
        ("['a', -2, 2.50, ]", ("a", -2, 2.5)),
        ("[1, 2,]", (1, 2)),
        ("['']", ("",)),
        (r"['it\'s', 'a\\b', 'c\"d']", ("it's", r"a\b", 'c"d')),
        ("[" + "1, " * (MOST_ITEMS - 1) + "1]", (1,) * MOST_ITEMS),
        ("[" + "'a'," * MOST_ITEMS + "]", ("a",) * MOST_ITEMS),
        ('["a\\u00e9", "b\\nc", 1e3]', ("a\u00e9", "b\nc", 1000.0)),
        ("(1, 2)", None),  # a point
        ("[]", None),
        ("()", None),
        ("[,]", None),
        ("a", None),
        ("['a'", None),
        ("'a']", None),
        ("['a')", None),
        ("[']", None),
        ("['a' 'b']", None),
        ("['a'; 'b']", None),
        ("['a',, 'b']", None),
        ("['a', None]", None),
        ('["a", true]', None),
        ('["a", ["b"]]', None),
        ('["a", {"b": 1}]', None),
        ('{"a": 1}', None),
        ("[" + "1, " * MOST_ITEMS + "1]", None),
        ("[" + "'a'," * (MOST_ITEMS + 1) + "]", None),
        ("[" * 100_000, None),
    ],
)
def test_lists_as_programs_write_them(text: str, wanted: tuple[str | int | float, ...] | None) -> None:
    found = literal_list(text)
    assert found == wanted
    assert wanted is None or [type(item) for item in found or ()] == [type(item) for item in wanted]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("red", "red"),
        ("x²", "x²"),
        ("\n- x" * 50_001, "\n- x" * 50_001),
        ("red\ngreen", '["red", "green"]'),
        ("- red\n- green", '["red", "green"]'),
        ("* red\n* green\n", '["red", "green"]'),
        ("1. red\n2) green\n(3) blue", '["red", "green", "blue"]'),
        ("- red", "- red"),
        ("- red\nis one", "- red\nis one"),
        ("The answer is:\n- red\n- green", 'The answer is: ["red", "green"]'),
        ("The answer is:\nred\ngreen", 'The answer is: ["red", "green"]'),
        ("These are there:\n- red\n- green", 'These are there:\n["red", "green"]'),
        ("These are there:\nred\ngreen", '["red", "green"]'),
        ("- red\n- green\nThat is all I can see here today.", '["red", "green"]\nThat is all I can see here today.'),
        ("- red\n- green\nI look again, and now it is:\n- blue\n- pink", None),
        ("```\nred\ngreen\n```", '["red", "green"]'),
        ("red\ngreen.", "red\ngreen."),
        ("red\ngreen?", "red\ngreen?"),
        ("red\n(green", "red\n(green"),
        ("red\n<b>", "red\n<b>"),
        ("<answer>red\ngreen</answer>", '<answer>["red", "green"]</answer>'),
    ],
)
def test_lists_as_lines(text: str, wanted: str | None) -> None:
    if wanted is None:
        assert lines_as_array(text).count("[") == 2
    else:
        assert lines_as_array(text) == wanted


@pytest.mark.parametrize("mark", ["", "- "])
def test_as_many_lines_as_a_list_may_have(mark: str) -> None:
    lines = [f"w{number}" for number in range(MOST_ITEMS + 2)]
    for count in (2, MOST_ITEMS, MOST_ITEMS + 1, MOST_ITEMS + 2):
        text = lines_as_array("\n".join(mark + line for line in lines[:count]))
        if mark or count <= MOST_ITEMS:
            assert json.loads(text) == lines[: min(count, MOST_ITEMS + 1)]
        else:
            assert text == "\n".join(lines[:count])
        assert (literal_list(text) is not None) is (count <= MOST_ITEMS)


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
def test_only_short_lines_are_items_without_a_mark(words: int) -> None:
    line = " ".join("w" * words)
    text = lines_as_array(f"{line}\nv")
    assert (text == json.dumps([line, "v"])) is (words <= 8)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a, b", ("a", "b")),
        ("[a, b]", ("a", "b")),
        ("(1,234,56)", ("1", "234", "56")),
        ("1,234, 56", ("1,234", "56")),
        ("5 x 6", ("5", "6")),
        ("5×6", ("5", "6")),
        ("rows={5} columns={6}", ("rows={5}", "columns={6}")),
        ("-5, 6", ("-5", "6")),
        ("- a, b", ("a", "b")),
        ("a,, b", ()),
        (", ".join("a" * MOST_ITEMS), ("a",) * MOST_ITEMS),
        (", ".join("a" * (MOST_ITEMS + 1)), ()),
    ],
)
def test_items_of_a_list(text: str, wanted: tuple[str, ...]) -> None:
    assert items(text) == wanted
