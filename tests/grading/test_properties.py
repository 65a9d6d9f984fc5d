"""What holds for every gold answer: it accepts itself in any wrapping, and nothing that merely resembles it."""

from __future__ import annotations

from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.grading.rows import rows
from tests.grading.samples import (
    ALL,
    ANY_GOLD,
    BOX_GOLDS,
    CHOICE_GOLDS,
    EXAMPLES,
    LIST_GOLDS,
    NUMBER_GOLDS,
    TEXT_GOLDS,
    YEAR_GOLDS,
    YES_NO_GOLDS,
    Gold,
)

from saccade.grading.text import bare
from saccade.grading.vqa import normalised

WRAPPERS = (
    "{}",
    " {}\n",
    "\t{} ",
    "<answer>{}</answer>",
    "<answer>\n\\boxed{{{}}}\n</answer>",
    "<think>Is it 99? No.</think>{}",
    "\\boxed{{{}}}",
    "The answer is {}.",
    "So the final answer is: {}",
    "Answer: {}",
    "**{}**",
    "**Answer:** {}",
    "I looked twice.\nAnswer: {}",
)


def test_examples_name_every_grader() -> None:
    assert {gold.grader for gold in EXAMPLES} == set(ALL)


@given(ANY_GOLD, st.sampled_from(WRAPPERS))
def test_gold_accepts_itself_in_usual_wrappers(gold: Gold, wrapper: str) -> None:
    if gold.grader == "vqa@1":
        assert gold.grade(wrapper.format(gold.answer)) == gold.grade(gold.answer)
    assert gold.grade(wrapper.format(gold.answer)) == 1


@given(ANY_GOLD, st.sampled_from((str.upper, str.title, str.capitalize)), st.sampled_from((" ", "  ", "\u00a0")))
def test_letter_case_and_space_do_not_matter(gold: Gold, cased: object, space: str) -> None:
    assert callable(cased)
    assert gold.grade(cased(gold.answer).replace(" ", space)) == 1


@given(st.one_of(NUMBER_GOLDS, YEAR_GOLDS, TEXT_GOLDS, LIST_GOLDS, CHOICE_GOLDS, YES_NO_GOLDS, BOX_GOLDS), st.data())
def test_no_proper_substring_is_accepted(gold: Gold, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(gold.answer)))
    part = gold.answer[start : data.draw(st.integers(start, len(gold.answer)))]
    if gold.grader in ("box@1", "iou@1"):
        part = part.strip("[]")
        assume(part != gold.answer.strip("[]") and len(part.split(",")) < 4)
    elif gold.choices:
        assume(len(part.strip()) != 1 and bare(part) not in map(bare, gold.choices))  # a letter names an option
    elif gold.grader == "yes-no@1":
        assume(part not in ("y", "n"))  # short for yes and no
    assume(normalised(part) != normalised(gold.answer) and bare(part) != bare(gold.answer))
    assert gold.grade(part) < 1


@given(st.one_of(NUMBER_GOLDS, YEAR_GOLDS), st.sampled_from("123456789"), st.booleans())
def test_no_superset_of_digits_is_accepted(gold: Gold, digit: str, in_front: bool) -> None:
    assert gold.grade(digit + gold.answer if in_front else gold.answer + digit) == 0


@given(ANY_GOLD, st.sampled_from(("not {}", "It is not {}", "It isn't {}", "The answer is not {}.", "never {}")))
def test_no_negation_is_accepted(gold: Gold, denial: str) -> None:
    assert gold.grade(denial.format(gold.answer)) < 1


@given(CHOICE_GOLDS, st.sampled_from((", ", " or ", " and ", "\n", "; ", " / ", " ")), st.booleans())
def test_no_echo_of_all_options_is_accepted(gold: Gold, between: str, lettered: bool) -> None:
    marks = [f"{'ABCDEF'[number]}. " if lettered else "" for number in range(len(gold.choices))]
    echo = between.join(mark + choice for mark, choice in zip(marks, gold.choices, strict=True))
    assert gold.grade(echo) == 0
    assert gold.grade(between.join("ABCDEF"[: len(gold.choices)])) == 0


@given(NUMBER_GOLDS, st.sampled_from((", ", " or ", "\n", " ", "; ", " to ")))
def test_no_echo_of_candidates_is_accepted(gold: Gold, between: str) -> None:
    value = int(gold.answer)
    assert gold.grade(between.join(map(str, (value - 1, value, value + 1)))) == 0
    assert gold.grade(between.join(map(str, (value + 2, value + 1, value)))) == 0


@given(st.one_of(NUMBER_GOLDS, YEAR_GOLDS, TEXT_GOLDS, YES_NO_GOLDS, CHOICE_GOLDS), st.data())
def test_nobody_answers_twice(gold: Gold, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from(("999999999", "qqqq", "no" if gold.answer == "yes" else "yes")))
    form = data.draw(st.sampled_from(("<answer>{}</answer>", "\\boxed{{{}}} ", "The answer is {}. ", "Answer: {}\n")))
    for first, second in ((gold.answer, other), (other, gold.answer)):
        assert gold.grade(form.format(first) + form.format(second)) == 0


LETTERED = ("{}", "({})", "**{}**", "Answer: {}", "The answer is {}.", "The correct option is ({}).", "\\boxed{{{}}}")
EXPLANATIONS = (
    "",
    "\nExplanation: the others do not fit.",
    "\n\nNone of the others is as large, and one is not even there.",
    "\n\nThis follows from the picture, where nothing else could be seen.",
    "\n```\nprint(1)\n```",
    "\n\nLet me know if you have any other questions.",
)


def letter_of(gold: Gold) -> str:
    return "ABCDEF"[gold.choices.index(gold.answer)]


@given(CHOICE_GOLDS, st.sampled_from(LETTERED), st.sampled_from(EXPLANATIONS), st.booleans())
def test_an_explanation_behind_a_letter_changes_nothing(gold: Gold, form: str, explanation: str, right: bool) -> None:
    other = next(choice for choice in gold.choices if choice != gold.answer)
    said = letter_of(gold) if right else letter_of(Gold("choice@1", other, gold.choices))
    assert gold.grade(form.format(said) + explanation) == float(right)


@given(CHOICE_GOLDS, st.sampled_from(LETTERED), st.randoms(use_true_random=False))
def test_another_order_of_options_changes_nothing_but_letters(gold: Gold, form: str, random: Random) -> None:
    shuffled = Gold("choice@1", gold.answer, tuple(random.sample(gold.choices, len(gold.choices))))
    assert shuffled.grade(form.format(letter_of(shuffled))) == 1
    assert shuffled.grade(form.format(gold.answer)) == gold.grade(form.format(gold.answer)) == 1
    moved = letter_of(gold) != letter_of(shuffled)
    assert shuffled.grade(form.format(letter_of(gold))) == float(not moved)


@given(CHOICE_GOLDS, st.sampled_from(LETTERED))
def test_an_answer_stated_twice_in_agreement_is_one(gold: Gold, form: str) -> None:
    for first in (letter_of(gold), gold.answer, f"({letter_of(gold)}) {gold.answer}"):
        assert gold.grade(f"The answer is {first}.\n\n{form.format(letter_of(gold))}") == 1


@given(NUMBER_GOLDS, st.sampled_from(("two", "seven", "a dozen")), st.sampled_from((" or ", " to ", " out of ")))
def test_a_spelt_number_beside_digits_is_not_one_number(gold: Gold, spelt: str, between: str) -> None:
    assert gold.grade(f"{spelt}{between}{gold.answer}") == 0


@rows("gold", EXAMPLES)
@rows("answer", [None, "", " ", "\n\n", "<answer></answer>", "\\boxed{}", "<think>never ended"])
def test_no_answer_is_wrong(gold: Gold, answer: str | None) -> None:
    assert gold.grade(answer) == 0
