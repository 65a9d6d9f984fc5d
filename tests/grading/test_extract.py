from __future__ import annotations

from tests.grading.rows import rows

from saccade.grading.clean import clean, marked, unwrapped
from saccade.grading.extract import final_answer
from saccade.grading.quantities import quantity
from saccade.grading.text import number_said
from saccade.grading.wrappers import insides


@rows(
    ("text", "answer"),
    [
        ("<answer>\n\\boxed{\\frac{1}{2}}\n</answer>", "\\frac{1}{2}"),
        ("\\boxed{a_{1} = {b}}", "a_{1} = {b}"),
        ("first \\boxed{\\{1, 2\\}} then", "\\{1, 2\\}"),
        ("The answer is Mt. Everest. It is high.", "Mt. Everest"),
        ("The answer is B. It has wings.", "B. It has wings"),
        ("The answer is forty. It has wings.", "forty"),
        ("The correct option is **(C)**.", "(C)"),
        ("Answer:\n\n5 cm", "5 cm"),
        ("rows={5} columns={6}", "rows=5, columns=6"),
        ("The answer is rows={5} columns={6}.", "rows=5, columns=6"),
        ("The count is {3}.", "3"),
        ("Let me look again.\n\n$12$", "12"),
        ("<think>{1} or {2}</think>The result: {2}", "2"),
        ("</think>5", "5"),
        ("1</think>2</THINK>5", "5"),
        ("é</think>5", "5"),
        ("5<think>6", "5"),
        ("2:10 P.M.", "2:10 P.M."),
        ("one big black cat\ndog", "dog"),
        ("**" + "x" * 1_996 + "**", "x" * 1_996),
        ("<answer>cut off by a stop string", "cut off by a stop string"),
        ("\\boxed{5} and again \\boxed{5}", "5"),
        ("The answer is Paris, the capital.\nAnswer: Paris", "Paris"),
        ("The answer is a cat, the black one.\nAnswer: a cat", "a cat"),
        ("So the answer is the city of Paris.\nAnswer: paris", "paris"),
        ('The answer is "New York", a city.\nAnswer: New York', "New York"),
        ("The answer is B2, the bomber.\nAnswer: B2", "B2"),
        ("<answer>A</answer> so <answer>a</answer>", "a"),
        ("The correct answer for the left is 4, and the correct answer for the right one is 5", "5"),
    ],
)
def test_finds(text: str, answer: str) -> None:
    assert final_answer(text).text == answer


@rows(
    ("text", "why"),
    [
        ("", "empty"),
        ("<answer> </answer>", "empty"),
        ("<think>5", "empty"),
        ("It is 5. \\boxed{}", "empty"),
        ("5 dogs\nAnswer:", "empty"),
        ("\\boxed{1} \\boxed{2}", "different answers"),
        ("<answer>1</answer><answer>2</answer>", "different answers"),
        ("<answer>\\boxed{1} \\boxed{2}</answer>", "different answers"),
        ("The answer is A. The answer is B.", "different answers"),
        ("{1} {2}", "different answers"),
        ("The answer is Paris or Rome.\nAnswer: Paris", "different answers"),
        ("The answer is not Paris.\nAnswer: Paris", "different answers"),
        ("The answer is Parisian.\nAnswer: Paris", "different answers"),
        ("Answer: Paris, the capital.\nAnswer: Paris", "different answers"),
        ("The answer is Paris, the capital.\nSo the answer is Paris.", "different answers"),
        ("The answer is 5 dogs.\nAnswer: 5", "different answers"),
        ("cat\ndog", "different answers"),
        ("a big cat\ndog", "different answers"),
        ("A. The cat sleeps.\nB. The dog sleeps.", "different answers"),
        ("x " * 2_000, "longer than 2000"),
        ("Paris" + "\\!" * 1_000 + " is not it", "longer than 2000"),  # what is beyond the bound is not cut off
        ("Answer: Paris" + "\\!" * 1_000 + " is not it", "longer than 2000"),
        ("x" * 200_001, "longer than 200000"),
    ],
)
def test_refuses(text: str, why: str) -> None:
    found = final_answer(text)
    assert found.text is None
    assert why in found.problem


@rows("lines", [0, 1, 40])
def test_a_phrase_that_leads_to_a_box_is_that_box_on_any_line(lines: int) -> None:
    text = "I look.\n" * lines + "The answer is \\boxed{5}, twice the other.\nThat is all."
    assert final_answer(text).text == "5"


def test_three_of_the_other_answers_and_the_last_are_named() -> None:
    found = final_answer(" ".join(f"<answer>{number}</answer>" for number in range(1, 7)))
    assert found.problem == "different answers were given: '1', '2', '3', '6'"
    found = final_answer("".join(f"<answer>{letter * 41}</answer>" for letter in "ab"))
    assert found.problem == f"different answers were given: '{'a' * 40}', '{'b' * 40}'"


def test_a_last_line_of_code_is_read_whole_or_not_at_all() -> None:
    assert final_answer("```\n```" + "x" * 1_997, number_said, prose=True).text == "```" + "x" * 1_997
    assert final_answer("```\n```" + "x" * 1_998, number_said, prose=True).problem.startswith(
        "the final answer is longer"
    )


@rows(
    ("text", "parts"),
    [
        ("a</answer>b", []),
        ("a</answer>b<answer>c", ["c"]),
        ("<answer>a<answer>b</answer>c", ["a<answer>b"]),
        ("<answer>a</answer>b</answer><ANSWER>c", ["a", "c"]),
    ],
)
def test_what_stands_in_tags(text: str, parts: list[str]) -> None:
    assert insides(text) == parts


def test_formula_braces_are_no_answer_braces() -> None:
    assert final_answer("x^{2} + \\frac{1}{2} y_{3}").text == "x^{2} + \\frac{1}{2} y_{3}"


@rows(
    ("text", "plain"),
    [
        ("10⁻³", "10^-3"),
        ("3½ and ⅔", "3 1/2 and 2/3"),
        ("−5–6", "-5-6"),
        ("１２", "12"),
        ("a\u200bb\x00c", "ab c"),
        ("‘q’ “r”", "'q' \"r\""),
        ("\ud800x", "\ufffdx"),
        ("1\u202f234", "1234"),
    ],
)
def test_one_spelling(text: str, plain: str) -> None:
    assert clean(text) == plain


@rows(
    ("text", "plain"),
    [
        ("**5**.", "5"),
        ("$\\text{B}$", "B"),
        ("\\(30^{\\circ}\\)", "30°"),
        ("'quoted.'", "quoted"),
        ("$5", "$5"),
        ("*a* and *b*", "*a* and *b*"),
        ("wait...", "wait..."),
        ("a\\text{b}", "a b"),
        ("a1\\text{b}", "a1b"),
        ("1a\\text{b}", "1a b"),
        ("\\text{b~c}", "b c"),
        ("```python\nx\n```", "x"),
        ("`x`", "x"),
        ("\"'**x**'\".", "x"),
        ("***x***", "x"),
        ("**x", "x"),
        ("x**", "x"),
        ("**x** and **y**", "x and y"),
        ("\\$5\\%", "$5%"),
        ("P.M.", "P.M."),
        ("is P.M.", "is P.M."),
        ("x.", "x"),
        ("ab.c.", "ab.c"),
        ("''", "''"),
        ("'x'", "x"),
        ("'a' or 'b'", "'a' or 'b'"),
    ],
)
def test_markup_goes(text: str, plain: str) -> None:
    assert unwrapped(text) == plain


@rows("text", ["Answer: Answer: 5", "Answer: ** Answer: 5", "The answer is: answer: 5"])
def test_a_mark_that_only_leads_to_the_next_one_says_nothing(text: str) -> None:
    assert [item.text for item in marked(text)] == ["5"]


@rows(("before", "leads"), [(197, True), (198, False)])
def test_a_mark_leads_to_one_that_begins_in_the_next_200_characters(before: int, leads: bool) -> None:
    below = "w" * (before - 1) + " answer: 5"
    assert [item.text for item in marked(f"Answer:\n{below}")] == (["5"] if leads else [below, "5"])


@rows("mark", ["<answer>{}</answer>", "Answer: {}\n", "{{{}}} "])
def test_the_last_64_marks_are_looked_at(mark: str) -> None:
    first, other = mark.format(0), mark.format(1)
    assert final_answer(first + other * 63).text is None
    assert final_answer(first + other * 64).text == "1"


def test_groups_in_braces_are_one_answer_only_if_each_has_a_name() -> None:
    assert [item.text for item in marked("Answer: x={1}, y={2}")] == ["x=1, y=2"]
    assert [item.text for item in marked("Answer: {1}, y={2}")] == ["1", "2"]
    assert [item.text for item in marked("Answer: {1}, {2}")] == ["1", "2"]
    assert [item.text for item in marked("Answer: x={1}")] == ["1"]


def test_the_longest_answer_and_the_longest_candidate() -> None:
    assert final_answer("x" * 2_000).text == "x" * 2_000
    for text in ("x" * 2_001, "Answer: " + "x" * 2_001):
        found = final_answer(text)
        assert (found.text, found.problem) == (None, "the final answer is longer than 2000 characters")
    low, high = "x" * 2_000, "X" * 2_000
    assert final_answer(f"Answer: {low}\nAnswer: {high}", str.casefold).text == high
    assert final_answer(" " * 199_999 + "y").text == "y"
    assert final_answer(" " * 200_000 + "y").problem == "the answer is longer than 200000 characters"


PROSE = [
    ("There are 5 dogs and 3 cats in total, so 8 animals.", 8),
    ("Therefore, there are 5 dogs.", 5),
    ("I count the dots.\nThere are 12 of them, in 3 rows.", 12),
    ("There are 12, in 3 rows.\nI count the dots in 3 rows of 4.", 12),
    ("The total of all is 12, with 3 left.", 12),
    ("It shows 4 rows and has a total of 9.", 9),
    ("7\n8", None),
    ("Step one gives 4\nThe result is 9", 9),
    ("**Step 1:** 4\n**7**", 7),
    ("**Step 1**\nIt has 4 and 5.", None),
    ("## Step 12:\nIt has 4 and 5.", None),
    ("It has 4 and 5.\nIt is in\nFigure 3", 3),
    ("We see **4** here.\nWe see **4** there.\nOf 9 and 8 all.", 4),
    ("7. That is what I see.", 7),
    ("7. That is 8.", 8),
    ("So 12 = 12", 12),
    ("Hence 15.\nLet me know if you need more than 3 examples.", 15),
    ("Let me know if you need more than 3 examples.", None),
    ("```\nprint(3)\n```\nIt prints 4.", 4),
    ("It prints 4.\n```\nprint(3)\n```", 4),
    ("```\n3\n```", 3),
    ("| a | 3 |\nIt is 4.", 4),
    ("It is 4.\n| a | 3 |", 4),
    ("There are 3 and 4.", None),
    ("There are 3, 4.", None),
    ("It is 5?", None),
    ("Is it 4 or 5?", None),
    ("The result is 3 times 4 which is 12.", 12),
    ("The number of cats is 5, who play with 2 balls", 5),
    ("The answer is 1982 with an income of $9,000.", 1982),
    ("The answer is 3 or 4 dogs", None),
    ("Answer: 5\nAnswer: 5.0", 5),
    ("The answer is in the big picture. The answer is 5.", 5),
    ("The answer is in the picture. The answer is 5.", None),  # as short as an answer
    ("The answer is here.\nAnswer: 5", 5),
    ("The answer is probably a number.\nAnswer: 6", 6),
    ("Answer: it cannot be said\nAnswer: 6", 6),
    ("Answer: very unclear indeed\nAnswer: 6", None),  # as short as an answer: two were given
    ("Answer: 6\nAnswer: it cannot be said", None),
    ("The answer is 6 here.\nThe chair is red.", 6),
    ("The 4 chairs are red. So the 3 tables and 2 lamps. I see 6.", 6),
    ("Thus, I see 6.\nBeside 3 tables are 2 lamps and 9 chairs.", 6),
    ("It equals 4 and 5, or rather no number that is 7 of 9.", None),
    ("6 dots.\nBeside 3 tables are no 2 lamps or 9 chairs.", 6),
    (" ".join(["word"] * 300) + " It is 3 of 4, so 7 is it.", None),
    ("There are some dogs here.\nI count **5** of them now.\nThey play with 3 cats and 2 birds.", 5),
    ("7 red dogs. I see 8.", None),
    ("7 dogs. I see 8 cats. So it is 7.", 7),
    ("7 dogs are there. In the end 8.", 8),
    ("Therefore, there are 5 dogs.\nSo the number of all is 6.\nOf 3 and 9 I know nothing.", 6),
    ("Hope this is 5 of 9. Feel free to ask.", None),
    ("It is 4 rows, which shows 5 lamps.", 4),
    ("It has 4 of the 9.", 4),
    ("So it is 6.\nThat is 7.", 6),
    ("The answer is 1982 with an income of $9,000 here.\nI see 7 dogs.", 1982),
]


@rows(("text", "number"), PROSE)
def test_the_number_that_a_text_concludes_with(text: str, number: int | None) -> None:
    found = final_answer(text, number_said, prose=True)
    said = None if found.text is None else quantity(found.text)
    assert (None if said is None else said.value) == number
    assert (found.text is None) is bool(found.problem)


def test_what_a_conclusion_marks_is_shown_though_it_says_nothing() -> None:
    text = "So it is **red** here.\nThe chair is blue now."
    assert final_answer(text, number_said, prose=True).text == "red"


def test_a_mark_is_strong_where_nothing_but_marks_leads_to_it() -> None:
    assert [one.strong for one in marked("Answer: 5 answer: 6")] == [True, True]
    assert [one.strong for one in marked("We answer: 5 answer: 6")] == [False, False]


def test_one_line_is_read_as_a_whole_before_its_conclusion() -> None:
    assert final_answer("It is red. So it is 5.", number_said, prose=True).text == "It is red. So it is 5"


def test_a_marked_answer_is_not_cut_to_what_can_be_read() -> None:
    text = f"The answer is 5 dogs{' a' * 996}a 6"
    assert final_answer(text, number_said, prose=True).problem.startswith("the final answer is longer")
    text = f"The answer is{' a' * 1_001}\nI see 7"
    assert final_answer(text, number_said, prose=True).text == "I see 7"


@rows(("lines", "read"), [(39, True), (40, False)])
def test_the_last_40_lines_may_conclude(lines: int, read: bool) -> None:
    text = "We look at the chairs.\nThus, I see 6." + "\nThe chair is red here." * lines
    found = final_answer(text, number_said, prose=True).text
    assert found == ("Thus, I see 6" if read else "The chair is red here")


@rows(("length", "number"), [(1_000, "7"), (1_001, None)])
def test_a_sentence_of_up_to_1000_characters_is_read(length: int, number: str | None) -> None:
    start, end = "I see 4 things and 5 more ", " so their number is 7"
    text = start + "x" * (length - len(start) - len(end)) + end
    found = final_answer(text, number_said, prose=True).text
    assert (found if number else number_said(found or "")) == number


@rows("place", range(20))
def test_of_many_short_lines_the_first_and_the_last_eight_are_looked_at(place: int) -> None:
    lines = [f"word{number}" for number in range(20)]
    lines[place] = "8"
    found = final_answer("\n".join([*lines, "7"]), number_said, prose=True)
    assert found.text == (None if place < 8 or place >= 12 else "7")


@rows("place", range(16))
def test_of_up_to_16_short_lines_all_are_looked_at(place: int) -> None:
    lines = [f"word{number}" for number in range(16)]
    lines[place] = "8"
    assert final_answer("\n".join([*lines, "7"]), number_said, prose=True).text is None
