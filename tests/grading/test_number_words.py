"""Numbers in words, groups of digits and other languages; lists as programs write them, and as lines."""

from __future__ import annotations

import json
from fractions import Fraction

from tests.grading.rows import rows

from saccade.grading.number_words import MOST_ITEMS, literal_list
from saccade.grading.quantities import quantity
from saccade.grading.relaxed import items, lines_as_array


@rows(
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


@rows(
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


@rows("mark", ["", "- "])
def test_as_many_lines_as_a_list_may_have(mark: str) -> None:
    lines = [f"w{number}" for number in range(MOST_ITEMS + 2)]
    for count in (2, MOST_ITEMS, MOST_ITEMS + 1, MOST_ITEMS + 2):
        text = lines_as_array("\n".join(mark + line for line in lines[:count]))
        if mark or count <= MOST_ITEMS:
            assert json.loads(text) == lines[: min(count, MOST_ITEMS + 1)]
        else:
            assert text == "\n".join(lines[:count])
        assert (literal_list(text) is not None) is (count <= MOST_ITEMS)


@rows("words", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
def test_only_short_lines_are_items_without_a_mark(words: int) -> None:
    line = " ".join("w" * words)
    text = lines_as_array(f"{line}\nv")
    assert (text == json.dumps([line, "v"])) is (words <= 8)


@rows(
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


@rows(
    ("text", "value"),
    [
        ("1 500", "1500"),
        ("1'500", "1500"),
        ("1_500", "1500"),
        ("1\\,500", "1500"),
        ("1 234 567", "1234567"),
        ("1,23,456", "123456"),
        ("1.234,56", "1234.56"),
        ("1.234.567", "1234567"),
        ("1 234,5", "1234.5"),
        ("3,5 cm", "3.5"),
        ("€3,50", "3.5"),
        ("١٥٠٠", "1500"),
        ("१२३", "123"),
        ("๑๒", "12"),
        ("thousand five hundred", "1500"),
        ("fifteen hundred", "1500"),
        ("3,5", None),
        ("1 50", None),
        ("12 1234", None),
    ],
)
def test_groups_of_digits_where_they_can_mean_one_number(text: str, value: str | None) -> None:
    found = quantity(text)
    assert (None if found is None else found.value) == (None if value is None else Fraction(value))


@rows(
    ("text", "value"),
    [
        ("1 h 30 min", 90),
        ("1h30", 90),
        ("1 hour and 30 minutes", 90),
        ("one hour thirty minutes", 90),
        ("2m 30s", 150),
        ("5'11\"", 71),
        ("5 ft 11 in", 71),
        ("2 m 30 cm", 230),
        ("1 lb 4 oz", 20),
        ("2 years and 3 months", 27),
        ("$3 and 50 cents", Fraction(7, 2)),
        ("3 dollars and 50 cents", Fraction(7, 2)),
        ("3 euros and 50 cents", Fraction(7, 2)),
        ("5 feet and 3 apples", None),
        ("3 cm and 4 cm", None),
        ("30 min 1 h", None),
        ("1 h 90 min", None),
        ("not 1 h 30 min", None),
    ],
)
def test_amounts_in_two_units_are_one(text: str, value: Fraction | int | None) -> None:
    found = quantity(text)
    assert (None if found is None else found.value) == value


@rows(
    ("text", "value"),
    [
        *(
            ("II", 2),
            ("IV", 4),
            ("XIV", 14),
            ("MCMXCIV", 1994),
            ("I", None),
            ("MIX", None),
            ("CD", None),
            ("IIX", None),
        ),
        *(("three and a quarter", Fraction(13, 4)), ("two and two thirds", Fraction(8, 3)), ("half", Fraction(1, 2))),
        *(("five sixteenths", Fraction(5, 16)), ("third", None), ("half of them", None)),
    ],
)
def test_roman_numerals_and_fractions_in_words(text: str, value: Fraction | int | None) -> None:
    found = quantity(text)
    assert (None if found is None else found.value) == value


@rows(
    ("text", "value"),
    [
        *(
            ("7个", 7),
            ("共有7个", 7),
            ("七个", 7),
            ("二十一", 21),
            ("一百零五个", 105),
            ("两千", 2000),
            ("3.5万", 35000),
        ),
        *(("3万人", 30000), ("图中有三只猫", 3), ("这是一个三角形", None), ("第7个", 7), ("三角形", None)),
        *(
            ("超过7个", None),
            ("7个以上", None),
            ("7厘米", 7),
            ("七つ", 7),
            ("ななつ", 7),
            ("7人", 7),
            ("7개", 7),
            ("일곱 개", 7),
        ),
        *(("7 Stück", 7), ("sieben", 7), ("sieben Hunde", 7), ("hay siete perros", 7), ("семь собак", 7)),
        *(("un perro", None), ("un", 1), ("tujuh", 7), ("bảy", 7), ("เจ็ด", 7), ("সাতটি", 7), ("सात", 7), ("سبعة", 7)),
    ],
)
def test_numbers_of_other_languages(text: str, value: int | None) -> None:
    found = quantity(text)
    assert (None if found is None else found.value) == value


@rows(
    "text",
    """there are no dogs/I don't see any dogs./The image does not contain any dogs./None are red/I see no dogs/没有狗
    /图中没有狗。/No hay perros./Es gibt keine Hunde./Il n'y a pas de chiens./Нет собак/собак нет/Não há cães
    /Non ci sono cani/Nie ma psów/Köpek yok/犬はいません。/개가 없습니다./Không có con chó nào/ไม่มีสุนัข/Tidak ada anjing
    /لا توجد كلاب/هیچ سگی وجود ندارد/कोई कुत्ता नहीं है।/কোনো কুকুর নেই।/کوئی کتا نہیں ہے۔""".replace("\n    ", "").split(
        "/"
    ),
)
def test_a_denial_counts_nothing(text: str) -> None:
    found = quantity(text)
    assert found is not None
    assert found.value == 0


@rows(
    "text",
    [
        "none of the above",
        "There is no answer",
        "没有答案",
        "Es gibt keine Antwort",
        "No hay suficiente información",
        "答案不是0",
    ],
)
def test_a_denial_that_counts_nothing_at_all(text: str) -> None:
    assert quantity(text) is None
