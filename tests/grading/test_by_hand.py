"""The formulas under the graders, worked by hand: similarity, overlap, relative accuracy, times, units, tolerance."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from tests.grading.rows import rows

from saccade.grading import anls
from saccade.grading.anls import mean_relative_accuracy, similarity
from saccade.grading.boxes import read_box
from saccade.grading.choice import _read, in_sentence
from saccade.grading.clean import LONGEST_ANSWER, clean, clipped, folded
from saccade.grading.extract import leading_number
from saccade.grading.formula import NoValueError, _matrix
from saccade.grading.number_words import Time, same_time, says_another, time_of, with_digits
from saccade.grading.options import label, options_of
from saccade.grading.quantities import Quantity, numerals, quantity, repeating_as_fraction, unit_named
from saccade.grading.registry import load_grader
from saccade.grading.text import Tolerance, number_said, same_quantity, same_text
from saccade.grading.vqa import normalised, vqa_accuracy
from saccade.grading.yes_no import asserts
from saccade.record.content import Box, iou
from saccade.record.task import AnswerType, Task


@rows(
    ("left", "right", "expected"),
    [
        ("", "", 1.0),
        ("abc", "abc", 1.0),
        ("abc", "abd", 2 / 3),
        ("kitten", "sitting", 4 / 7),
        ("ab", "a", 0.0),  # a half is not more than a half
        ("abcd", "abxy", 0.0),
        ("abcde", "abxye", 3 / 5),
        ("abc", "xabc", 3 / 4),
        ("abcdef", "bcdefa", 4 / 6),
        ("a", "b", 0.0),
        ("abc", "", 0.0),
    ],
)
def test_similarity(left: str, right: str, expected: float) -> None:
    assert similarity(left, right) == pytest.approx(expected)
    assert similarity(right, left) == pytest.approx(expected)


def test_a_text_that_is_too_long_to_be_similar_is_not_compared_sign_by_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    monkeypatch.setattr(anls, "_distance", lambda left, right: compared.append(len(left)) or 0)
    assert similarity("b" * 1_000_000, "gold") == similarity("gold", "b" * 1_000_000) == 0.0
    assert similarity("bold", "gold") == 1.0
    assert compared == [4]


def test_the_threshold_of_similarity_is_a_setting() -> None:
    assert similarity("abcd", "abxy", 0.49) == 0.5
    assert similarity("abcd", "wxyz", 0.0) == 0.0
    assert similarity("abcd", "axyz", 0.0) == 0.25
    assert similarity("abc", "abd", 0.7) == 0.0


@rows(
    ("estimate", "gold", "expected"),
    [
        ("4", "4", 1.0),
        ("3", "4", 0.6),  # an error of 0.25, the bound of 0.75
        ("5", "4", 0.6),
        ("2", "4", 0.1),  # an error of 0.5, the bound of 0.5 alone
        ("1.99", "4", 0.0),
        ("4.2", "4", 1.0),  # an error of 0.05
        ("4.21", "4", 0.9),
        ("-4", "4", 0.0),
        ("-3", "-4", 0.6),
        ("0", "0", 1.0),
        ("0.001", "0", 0.0),
    ],
)
def test_mean_relative_accuracy(estimate: str, gold: str, expected: float) -> None:
    assert mean_relative_accuracy(Fraction(estimate), Fraction(gold)) == expected


@rows(
    ("left", "right", "expected"),
    [
        ((10, 20, 30, 60), (20, 30, 40, 70), 3 / 13),  # 10 by 30 of 800 + 800 - 300
        ((1, 2, 3, 5), (1, 2, 3, 5), 1.0),
        ((0, 0, 10, 10), (2, 3, 7, 5), 0.1),
        ((0, 0, 4, 4), (4, 0, 8, 4), 0.0),
        ((0, 0, 4, 4), (0, 4, 4, 8), 0.0),
        ((0, 0, 4, 4), (9, 9, 12, 12), 0.0),
    ],
)
def test_intersection_over_union(left: Box, right: Box, expected: float) -> None:
    assert iou(left, right) == pytest.approx(expected)
    assert iou(right, left) == pytest.approx(expected)


@rows(
    ("text", "box"),
    [
        ("[1, 2, 3.5, 4]", (1, 2, 3.5, 4)),
        ("1 2 3 4", (1, 2, 3, 4)),
        ('{"label": "or", "bbox": [-1, 2, 3, 4]}', (-1, 2, 3, 4)),
        ("[1, 2, 1, 4]", None),
        ("[1, 4, 3, 4]", None),
        ("[1, 2, 3]", None),
        ("[1, 2, 3, 4, 5]", None),
        ("[1, 2, 3, 4] and [5, 6, 7, 8]", None),
        ("none", None),
    ],
)
def test_one_box(text: str, box: Box | None) -> None:
    assert read_box(text) == box


@rows(
    ("text", "time"),
    [
        ("2:10 P.M.", (14, 10, 0, "p")),
        ("2:10pm", (14, 10, 0, "p")),
        ("at 02:10:05 a.m.", (2, 10, 5, "a")),
        ("14:10", (14, 10, 0, "p")),
        ("2 o'clock", (2, 0, 0, "")),
        ("12 am", (0, 0, 0, "a")),
        ("12 pm", (12, 0, 0, "p")),
        ("12:59", (12, 59, 0, "")),
        ("13:00", (13, 0, 0, "p")),
        ("0:30", (0, 30, 0, "a")),
        ("24:00", (0, 0, 0, "a")),
        ("3 in the morning", (3, 0, 0, "a")),
        ("3 in the afternoon", (15, 0, 0, "p")),
        ("8 in the evening", (20, 0, 0, "p")),
        ("Noon.", (12, 0, 0, "p")),
        ("midnight", (0, 0, 0, "a")),
        ("12 noon", (12, 0, 0, "p")),
        ("12 midnight", (0, 0, 0, "a")),
        ("1 am", (1, 0, 0, "a")),
        ("00:05", (0, 5, 0, "a")),
        ("01:05", (1, 5, 0, "")),
        ("12:00:01", (12, 0, 1, "")),
        ("23:59:59", (23, 59, 59, "p")),
        ("14:10 h", (14, 10, 0, "p")),
        ("13 pm", None),
        ("0 am", None),
        ("2", None),
        ("2 h", None),
        ("25:00", None),
        ("2:60", None),
        ("2:10:60", None),
        ("2:1", None),
    ],
)
def test_times_of_day(text: str, time: Time | None) -> None:
    assert time_of(text) == time
    assert same_time(text, text) is (time is not None)


@rows(
    ("word", "dimension", "factor"),
    [
        ("KM", "length", "1000"),
        ("inches", "length", "0.0254"),
        ("g", "mass", "1/1000"),
        ("hr", "time", "3600"),
        ("ml", "volume", "1/1000"),
        ("cm²", "area", "1/10000"),
        ("month", "year", "1/12"),
        ("cents", "dollar", "1/100"),
        ("apples", "word:apple", "1"),
        ("berries", "word:berry", "1"),
        ("glass", "word:glass", "1"),
        ("pies", "word:pie", "1"),
        ("flies", "word:fly", "1"),
        ("ies", "word:ie", "1"),
        ("is", "word:is", "1"),
        ("cds", "word:cd", "1"),
        ("s", "time", "1"),
    ],
)
def test_units(word: str, dimension: str, factor: str) -> None:
    assert (unit_named(word).dimension, unit_named(word).factor) == (dimension, Fraction(factor))


@rows(
    ("text", "value"),
    [
        ("3 hundred", 300),
        ("3 dozen", 36),
        ("3 thousand", 3_000),
        ("3 million", 3_000_000),
        ("3 Billion", 3_000_000_000),
        ("3 trillion", 3_000_000_000_000),
        ("3 mn", 3_000_000),
        ("3bn", 3_000_000_000),
        ("3K", 3_000),
        ("3k", 3_000),
        ("3M", 3_000_000),
        ("3B", 3_000_000_000),
        ("3T", 3_000_000_000_000),
        ("0.5 million", 500_000),
        ("minus 3 thousand", -3_000),
    ],
)
def test_words_and_letters_of_scale(text: str, value: int) -> None:
    assert quantity(text) == Quantity(Fraction(value))
    assert quantity(f"{text} apples") == Quantity(Fraction(value), unit_named("apples"))


@rows(
    ("answer", "gold", "relative", "same"),
    [
        ("105", "100", "1/20", True),
        ("105.1", "100", "1/20", False),
        ("95", "100", "1/20", True),
        ("-100", "100", "1/20", False),
        ("-95", "-100", "1/20", True),
        ("100 cm", "1 m", "0", True),
        ("100 cm", "1 kg", "0", False),
        ("1", "1 kg", "0", True),
        ("5%", "0.05", "0", True),
        ("5", "5%", "0", True),
        ("0.05", "5%", "0", True),
        ("100%", "1", "0", True),
        ("1%", "1", "0", False),
        ("2%", "2", "0", True),
        ("1st", "1", "0", False),
        ("1", "1st", "0", False),
        ("about 5", "5", "0", False),
        ("about 5", "5", "1/20", True),
    ],
)
def test_quantities_that_are_the_same(answer: str, gold: str, relative: str, same: bool) -> None:
    said, wanted = quantity(answer), quantity(gold)
    assert said is not None
    assert wanted is not None
    assert same_quantity(said, wanted, Tolerance(relative=Fraction(relative))) is same


@rows(
    ("text", "unit"),
    [
        ("$ 5", "$"),
        ("$5 tickets", "$"),
        ("$5 cm", "cm"),
        ("5 square cm", "cm²"),
        ("5 cubic feet", "ft³"),
        ("5 Square Inches", "in²"),
        ("5 sq miles", "mi²"),
    ],
)
def test_the_unit_beside_a_number(text: str, unit: str) -> None:
    assert quantity(text) == Quantity(Fraction(5), unit_named(unit))


@rows(
    ("text", "value"),
    [
        ("1+2 = 3", "3"),
        ("x = 2y = 6", "6"),
        ("1/3 ≈ 0.33", "0.33"),
        (r"5.9 \approx 6", "6"),
        ("x = 5 or 6", None),
        ("maybe x = 5", None),  # what is doubted is not cut off
        ("not 6 = 5", None),
    ],
)
def test_the_last_side_of_an_equation_is_meant(text: str, value: str | None) -> None:
    assert quantity(text) == (None if value is None else Quantity(Fraction(value)))


@rows(
    ("piece", "kept"),
    [
        ("5% of the 9 cars", "5% of the"),
        ("1982 with an income of 9,000", "1982"),
        ("7 red dogs are 9 years old", "7 red dogs"),
        ("7, not 8", "7, not 8"),
        ("5 or 9", "5 or 9"),
    ],
)
def test_a_number_at_the_start_keeps_two_words(piece: str, kept: str) -> None:
    assert leading_number(piece) == kept


@rows(("name", "index"), [("1", 0), ("27", 26), ("0", None), ("28", None), ("01", None), ("A", None)])
def test_more_than_26_options_have_numbers(name: str, index: int | None) -> None:
    assert options_of(tuple(f"text {number}" for number in range(27))).index(name) == index


@rows(
    ("text", "unit"),
    [
        ("5 in", "length"),
        ("5 in.", "length"),
        ("5 IN", "length"),
        ("5 in total", ""),
        ("5 In all", ""),
        ("5 of", ""),
        ("5 is", ""),
    ],
)
def test_in_is_an_inch_where_nothing_follows_it(text: str, unit: str) -> None:
    said = quantity(text)
    assert said is not None
    assert (said.unit.dimension if said.unit else "") == unit


def test_a_tolerance_is_relative_or_absolute_whichever_is_wider() -> None:
    both = Tolerance(relative=Fraction(1, 10), absolute=Fraction(2))
    assert both.holds(Fraction(12), Fraction(10))
    assert not both.holds(Fraction(121, 10), Fraction(10))
    assert both.holds(Fraction(110), Fraction(100))
    assert not both.holds(Fraction(111), Fraction(100))
    assert not Tolerance(absolute=Fraction(1)).holds(Fraction(13), Fraction(10))
    assert not Tolerance(relative=Fraction(1, 10)).holds(Fraction(12, 10), Fraction(1))
    assert not Tolerance().holds(Fraction(11), Fraction(10))
    assert [Tolerance().exact, both.exact, Tolerance(absolute=Fraction(1)).exact] == [True, False, False]


@rows(
    ("text", "values"),
    [
        ("1,234.5 and -3/4", ["1234.5", "-3/4"]),
        ("1 3/4", ["7/4"]),
        (r"2\frac{1}{2}", ["5/2"]),
        ("1.5e3, 2 × 10^-3", ["1500", "1/500"]),
        ("10^3", ["1000"]),
        ("1e300", ["1e300"]),
        ("1e-300", ["1e-300"]),
        ("1e301", None),
        (".5", ["0.5"]),
        ("2**3", None),
        ("-$5", ["-5"]),
        ("$-5", ["-5"]),
        ("none", []),
        ("B12", None),
        ("3,5", None),
        ("1/0", None),
        ("12:30", None),
        ("1" * 61, None),
    ],
)
def test_numbers_as_they_are_written(text: str, values: list[str] | None) -> None:
    found = numerals(text)
    assert (None if found is None else [item.value for item in found]) == (
        None if values is None else [Fraction(value) for value in values]
    )


@rows(
    ("text", "plain"),
    [
        (r"0.\overline{3}", "1/3"),
        ("0.333...", "1/3"),
        ("0.1(6)", "1/6"),
        (r"1.\bar{6}", "5/3"),
        ("2.1212...", "70/33"),
        ("0.33...", "0.33..."),  # two digits are too few to tell
        ("0.5", "0.5"),
    ],
)
def test_repeating_decimals(text: str, plain: str) -> None:
    assert repeating_as_fraction(text) == plain


@rows(
    ("text", "plain"),
    [
        ("−5 “a”", '-5 "a"'),
        ("x²⁺¹", "x^2+1"),
        ("3½ ¾", "3 1/2 3/4"),
        ("1\u00a0000", "1000"),
        ("1\u00a00000", "1 0000"),
        ("a\u200bb\x07c", "ab c"),
        ("yes<|im_end|> </s>\n", "yes"),
        ("a</s>b", "a</s>b"),
        ("a\rb", "a\nb"),
    ],
)
def test_one_spelling(text: str, plain: str) -> None:
    assert clean(text) == plain


def test_what_is_read_and_shown_of_long_texts() -> None:
    assert len(clean("x" * (LONGEST_ANSWER + 1))) == LONGEST_ANSWER
    assert folded("  A \n B ") == "a b"
    assert clipped("x" * 200) == "x" * 200
    assert clipped("x" * 201) == "x" * 199 + "…"


@rows(
    ("text", "digits"),
    [
        ("three hundred", "300"),
        ("three hundred and seven", "307"),
        ("two hundred forty-one cars", "241 cars"),
        ("four thousand", "4000"),
        ("four thousand and six", "4006"),
        ("nine thousand nine hundred ninety-nine", "9999"),
        ("ten hundred", "ten hundred"),
        ("nine hundred", "900"),
        ("one hundred", "100"),
        ("zero hundred", "zero hundred"),
        ("hundred", "hundred"),
        ("thousand", "thousand"),
        ("nineteen thousand", "19000"),
        ("two thousand thousand", "two thousand thousand"),
        ("two hundred hundred", "two hundred hundred"),
        ("twenty one", "21"),
        ("ninety-nine", "99"),
        ("twenty ten", "twenty ten"),
        ("twenty twenty", "twenty twenty"),
        ("seven one", "seven one"),
        ("twenty zero", "twenty zero"),
        ("Seventy", "70"),
        ("a dozen", "12"),
        ("half a dozen", "6"),
        ("one", "1"),
        ("is one", "is 1"),
        ("no one", "no one"),
        ("it is" + " " * 18 + "one", "it is" + " " * 18 + "1"),
        ("it is" + " " * 19 + "one", "it is" + " " * 19 + "one"),
        ("of which one", "of which one"),
    ],
)
def test_spelt_numbers(text: str, digits: str) -> None:
    assert with_digits(text) == digits


@rows(
    ("text", "counts"),
    [
        ("two lines meet at 5", True),
        ("the two lines meet at 5", False),
        ("I see that these" + " " * 3 + "two lines meet at 5", False),
        ("I see that these" + " " * 4 + "two lines meet at 5", True),
        ("the lines are two", True),
        ("the two, then three", True),
        ("a dozen", True),
        ("no one", False),
        ("5", False),
    ],
)
def test_whether_a_spelt_number_counts_beside_digits(text: str, counts: bool) -> None:
    assert says_another(text) is counts


@rows(
    ("text", "found"),
    [
        ("it has a dark blue car", set()),  # two words within a longer phrase
        ("it is dark blue", {0}),
        ("it is not a very dark blue", set()),
        ("it is really dark blue in the sun", {0}),
        ("the left of dog is what matters", {1}),
        ("the left of dog house", {1}),  # three words are a phrase of their own
        ("a left of dogs", set()),
    ],
)
def test_an_option_within_a_longer_phrase(text: str, found: set[int]) -> None:
    assert options_of(("dark blue", "left of dog")).mentioned_by_text(text) == found


@rows("text", ["there are 12 dogs", "it is x", "it is 7"])
def test_options_of_one_sign_or_with_a_digit_first_are_mentioned_in_no_sentence(text: str) -> None:
    assert options_of(("12 dogs", "x", "7")).mentioned_by_text(text) == set()


@rows(
    ("rest", "tail"),
    [
        ("dark blue, so", ", so"),
        ("Dark blue", ""),
        ("darkblue", ""),
        ("dark blues", "dark blues"),
        ("a dark blue", "a dark blue"),
    ],
)
def test_what_follows_the_text_of_an_option(rest: str, tail: str) -> None:
    options = options_of(("dark blue", "7"))
    assert options.without(rest, 0) == tail
    assert options.begins(rest, 0) is (tail != rest)
    assert options.without("7.0", 1) == ""


def test_options_have_letters_up_to_26_and_then_numbers() -> None:
    assert [label(0, 26), label(25, 26), label(0, 27), label(26, 27)] == ["A", "Z", "1", "27"]
    task = Task(id="t", question="q", choices=tuple(map(str, range(27))), answer="5", answer_type=AnswerType.CHOICE)
    assert load_grader("choice").grade("5", task).reason == "option 6"  # the text goes before the number


def test_of_options_with_the_same_text_the_first_is_named() -> None:
    task = Task(id="t", question="q", choices=("dog", "cat", "cat"), answer="cat", answer_type=AnswerType.CHOICE)
    assert load_grader("choice").grade("I see that it is the cat", task).reason == "option B"


@rows(
    ("count", "named"),
    [(26, "option B"), (27, "option A")],  # of 27 options the text goes before the number
)
def test_an_option_whose_text_is_the_letter_or_number_of_another(count: int, named: str) -> None:
    labels = [label(index, count) for index in range(count)]
    task = Task(id="t", question="q", choices=(*labels[1:], labels[0]), answer=labels[0], answer_type=AnswerType.CHOICE)
    assert load_grader("choice").grade(labels[1], task).reason.startswith(named if count == 26 else "option 1 ")


def test_values_and_beginnings_of_options() -> None:
    options = options_of(("7", "5.0", "9", "x", "f(x)", ""))
    assert options.begins_with_other("5, as it is", 0)
    assert not options.begins_with_other("x is here", 0)  # a single sign begins many a sentence
    assert options.without("f(x)g", 4) == "g"
    assert options.without("a b", 5) == "a b"
    assert options_of(("x" * 200, "y")).by_value("x" * 200) == 0
    assert options_of(("x" * 201, "y")).by_value("x" * 201) is None


@rows(
    ("text", "index"),
    [("yes, so it is A", 0), ("yes, so it is B", None), ("no, so it is B", 1), ("so it is B", 1), ("it is red", None)],
)
def test_yes_and_no_with_a_letter(text: str, index: int | None) -> None:
    assert in_sentence(text, options_of(("Yes", "No"))) == index


def test_a_sentence_of_up_to_400_characters_settles_on_an_option() -> None:
    options = options_of(("blue", "red", "blue"))
    assert in_sentence("it is blue".ljust(400, "."), options) == 0
    assert in_sentence("it is blue".ljust(401, "."), options) is None
    assert in_sentence("so it is C, the color is blue", options) == 0  # two options of one text agree


@rows(
    ("text", "meant"),
    [
        ("yes, because the sign could fall", True),  # a reason may be open, and the answer is not
        ("no, it could fall", None),
        ("no, because either of them is off", False),
        ("maybe yes, because it is there", None),
    ],
)
def test_what_is_open_in_a_yes_or_a_no(text: str, meant: bool | None) -> None:
    assert asserts(text) is meant


def test_every_clause_behind_a_letter_must_fit() -> None:
    options = options_of(("red", "blue"))
    assert _read("B. It is big. The red one does not fit.", options) == 1
    assert _read("B. It is big. The red one fits.", options) is None


def test_texts_of_signs_alone_are_compared_as_they_stand() -> None:
    assert same_text(" . ", ".")
    assert not same_text(".", ";")


def test_a_stated_number_is_no_text() -> None:
    assert (number_said("5") == "5") is False


@rows(("left", "right", "same"), [("5%", "0.05", True), ("5%", "5", True), ("1st", "1", False)])
def test_stated_numbers_are_equal_where_either_may_be_the_gold_one(left: str, right: str, same: bool) -> None:
    assert (number_said(left) == number_said(right)) is (number_said(right) == number_said(left)) is same


@rows(
    ("same", "people", "credit"),
    [
        (0, 10, 0.0),
        (1, 10, 0.3),  # one set of nine is without the one who said so
        (2, 10, 0.6),
        (3, 10, 0.9),
        (4, 10, 1.0),
        (10, 10, 1.0),
        (0, 4, 0.0),
        (1, 4, 0.25),
        (2, 4, 0.5),
        (3, 4, 0.75),
        (1, 3, 1.0),  # too few to ask for three
        (0, 3, 0.0),
        (1, 1, 1.0),
    ],
)
def test_accuracy_of_vqa(same: int, people: int, credit: float) -> None:
    assert vqa_accuracy(same, people) == pytest.approx(credit)
    answers = ["yellow"] * same + ["red", "blue", "green", "pink", "white", "black", "grey", "brown", "gold", "teal"]
    task = Task(id="t", question="q", answer=json.dumps(answers[:people]))
    verdict = load_grader("vqa").grade("Yellow.", task)
    assert verdict.correct == pytest.approx(credit)
    assert verdict.reason == f"{same} of {people} people gave this answer"


@rows(
    ("text", "plain"),
    [
        ("The dog", "dog"),
        ("an apple a day", "apple day"),
        ("none", "0"),
        ("one", "1"),
        ("two", "2"),
        ("dont", "don't"),
        ("dog's", "dog 's"),
        ("1,000", "1000"),
        ("red, blue", "red blue"),
        ("left/right", "left right"),
        ("left / right", "left right"),
        ("left/ right/up", "left rightup"),
        ("left /right/up", "left rightup"),
        ("it is. So", "it is so"),
        ("2.5", "2.5"),
        ("the", "the"),
        ("?!", "?!"),
    ],
)
def test_words_as_vqa_compares_them(text: str, plain: str) -> None:
    assert normalised(text) == plain


def test_a_matrix_has_at_most_64_cells() -> None:
    assert len(_matrix("&".join("1" * 64), 0).parts) == 64
    with pytest.raises(NoValueError):
        _matrix("&".join("1" * 65), 0)
