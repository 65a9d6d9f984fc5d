from __future__ import annotations

import pytest

from saccade.grading.clean import clean
from saccade.grading.extract import final_answer
from saccade.grading.marks import marked
from saccade.grading.wrappers import unwrapped


@pytest.mark.parametrize(
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
        ("2:10 P.M.", "2:10 P.M."),
        ("<answer>cut off by a stop string", "cut off by a stop string"),
        ("\\boxed{5} and again \\boxed{5}", "5"),
        ("<answer>A</answer> so <answer>a</answer>", "a"),
    ],
)
def test_finds(text: str, answer: str) -> None:
    assert final_answer(text).text == answer


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("<answer> </answer>", "empty"),
        ("<think>5", "empty"),
        ("\\boxed{1} \\boxed{2}", "different answers"),
        ("<answer>1</answer><answer>2</answer>", "different answers"),
        ("<answer>\\boxed{1} \\boxed{2}</answer>", "different answers"),
        ("The answer is A. No, the answer is B.", "different answers"),
        ("{1} {2}", "different answers"),
        ("cat\ndog", "different answers"),
        ("A. The cat sleeps.\nB. The dog sleeps.", "different answers"),
        ("x " * 2_000, "longer than 2000"),
        ("x" * 200_001, "longer than 200000"),
    ],
)
def test_refuses(text: str, why: str) -> None:
    found = final_answer(text)
    assert found.text is None
    assert why in found.problem


def test_formula_braces_are_no_answer_braces() -> None:
    assert final_answer("x^{2} + \\frac{1}{2} y_{3}").text == "x^{2} + \\frac{1}{2} y_{3}"


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("**5**.", "5"),
        ("$\\text{B}$", "B"),
        ("\\(30^{\\circ}\\)", "30°"),
        ("'quoted.'", "quoted"),
        ("$5", "$5"),
        ("*a* and *b*", "*a* and *b*"),
        ("wait...", "wait..."),
    ],
)
def test_markup_goes(text: str, plain: str) -> None:
    assert unwrapped(text) == plain


def test_groups_in_braces_are_one_answer_only_if_each_has_a_name() -> None:
    assert [item.text for item in marked("Answer: x={1}, y={2}")] == ["x=1, y=2"]
    assert [item.text for item in marked("Answer: {1}, y={2}")] == ["1", "2"]
    assert [item.text for item in marked("Answer: {1}, {2}")] == ["1", "2"]
    assert [item.text for item in marked("Answer: x={1}")] == ["1"]
