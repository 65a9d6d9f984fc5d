"""Every mark that a family of models writes around its answer, and every language in which one is announced."""

from __future__ import annotations

import re

from tests.grading.rows import rows

from saccade.grading.clean import clean
from saccade.grading.extract import final_answer
from saccade.grading.languages import LANGUAGES, in_english
from saccade.grading.wrappers import ANSWERS, ASIDES, ENDS, OTHER_ANSWERS, THOUGHTS
from saccade.grading.yes_no import asserts


def found(text: str) -> str | None:
    return final_answer(text).text


@rows(("opening", "closing"), THOUGHTS)
def test_thoughts_are_not_read(opening: str, closing: str) -> None:
    assert found(f"{opening}\nThe answer is A.\n{closing}\nB") == "B"
    assert found(f"The answer is A.\n{closing}\nB") == "B"
    assert found(f"{opening}A{closing}x{opening}A{closing}B") == "B"
    assert found(f"B\n{opening}The answer is A.") == "B"
    assert found(f"{opening}\nThe answer is A.") is None


@rows(("opening", "closing"), ASIDES)
def test_what_stands_beside_an_answer_is_not_read(opening: str, closing: str) -> None:
    assert found(f"{opening}The answer is A.{closing}B") == "B"
    assert found(f"<answer>B</answer>{opening}The answer is A.{closing}") == "B"
    assert found(f"{opening}B") == f"{opening}B"


@rows(("opening", "closing"), [*ANSWERS, *OTHER_ANSWERS])
def test_what_is_in_answer_tags_is_read(opening: str, closing: str) -> None:
    assert found(f"Perhaps A.\n{opening} B {closing}") == "B"
    assert found(f"{opening}B") == "B"
    assert found(f"{opening}\\boxed{{B}}{closing}") == "B"
    assert found(f"{opening}A{closing}{opening}B{closing}") is None


@rows("end", ENDS)
def test_tokens_that_end_a_turn_are_no_answer(end: str) -> None:
    assert found(f"B{end}") == "B"
    assert found(f"B {end}\n{end}") == "B"


@rows(
    ("text", "answer"),
    [
        ("<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>final<|message|>B<|return|>", "B"),
        ("<|channel|>commentary to=functions.x <|constrain|>json<|message|>{}", None),
        ("<|channel|>analysis<|message|>B", None),
        ("analysisIt is A.assistantfinalB", "B"),
        ("Here is my thought process:\nA\nHere is my response:\nB", "B"),
        ("<answer><|begin_of_box|>B<|end_of_box|></answer>", "B"),
        ("<answer>A</answer><|begin_of_box|>B<|end_of_box|>", None),
        ('{"thought": "the answer is A", "answer": "B"}', "B"),
        ('{"answer": ["B"]}', "B"),
        ('{"answer": "a \\"B\\""}', 'a "B"'),
        ('{"answer": 1.50, "unit": "m"}', "1.50"),
        ("{'final_answer': 'B'}", "B"),
        ('```json\n{\n  "reasoning": "A",\n  "answer": "\\boxed{B}"\n}\n```', "B"),
        ('Answer: A\n{"answer": "B"}', None),
        ('{"answer": "A", "final_answer": "B"}', None),
        ('final_answer("B")', "B"),
        ("final_answer(answer=12)", "12"),
    ],
)
def test_channels_and_objects(text: str, answer: str | None) -> None:
    assert found(text) == answer


def plain_words(phrases: str) -> list[str]:
    return [word for word in phrases.split("|") if re.search(r"[()\[\]?\\]", word) is None]


YES_NO = [
    (code, word, said)
    for code, language in LANGUAGES.items()
    for words, said in ((language.yes, True), (language.no, False))
    for word in plain_words(words)
]


@rows(("code", "word", "said"), YES_NO)
def test_yes_and_no_in_every_language(code: str, word: str, said: bool) -> None:
    assert asserts(word) is said
    assert asserts(f"{word}. xx xx") is said
    assert asserts(f"{word}?") is None


@rows("code", LANGUAGES)
def test_a_reason_may_hold_the_other_word(code: str) -> None:
    language = LANGUAGES[code]
    yes, no = plain_words(language.yes)[0], plain_words(language.no)[0]
    because = plain_words(language.because)[0]
    space = " " if language.spaced else ""
    reason = f"{because}{space}xyz {no} xyz"
    assert asserts(f"{yes}, {reason}") is True
    assert asserts(f"{no}, {because}{space}xyz {yes} xyz") is False


@rows("text", ["The answer is B.", "option B is correct", "So, Antigua is right", "- (A) solution: x", "a, o"])
def test_english_stays(text: str) -> None:
    assert in_english(clean(text)) == text


def test_every_language_has_a_row_of_its_own() -> None:
    assert len(LANGUAGES) >= 20
    assert all(language.stems and language.lead and language.deny and language.wait for language in LANGUAGES.values())
