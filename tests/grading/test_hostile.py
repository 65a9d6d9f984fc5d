"""Texts made to crash, hang or take over a grader: each is simply wrong, and soon."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.grading.rows import rows
from tests.grading.samples import EXAMPLES, Gold

N = 100_000
HOSTILE = {
    "megabyte": "5" * 1_000_000,
    "megabyte of words": "the answer is " * 80_000,
    "many answer heads": "answer:" * (N // 7),
    "heads and blank lines": "answer: " * 3_000 + "\n" * 30_000 + "5",
    "digits": "1" * N,
    "commas": "1," * (N // 2),
    "decimal points": "1." * (N // 2),
    "groups": "1,234" + ",567" * 20_000,
    "spaces": "5" + " " * N + "x",
    "minus signs": "-" * N + "5",
    "open boxes": "\\boxed{" * (N // 7),
    "nested boxes": "\\boxed{" * 5_000 + "5" + "}" * 5_000,
    "open braces": "{" * N,
    "open brackets": "[" * N,
    "nested arrays": "[" * 1_900 + "5" + "]" * 1_900,
    "open tags": "<answer>" * (N // 8),
    "many tags": "<answer>5</answer>" * 3_000,
    "thinking": "<think>" * (N // 7),
    "fractions": "\\frac{" * 300 + "1" + "}{2}" * 300,
    "fraction tower": "\\frac{1}{" * 40 + "2" + "}" * 40,
    "roots": "\\sqrt{" * 60 + "2" + "}" * 60,
    "tower": "9**9**9**9",
    "tower in formula": "9^{9^{9^{9}}}",
    "exponent": "1e999999999",
    "power of ten": "10^999999999",
    "negative power": "2 × 10^-999999999",
    "factorial": "99999999!",
    "division": "1/0",
    "division in formula": "\\frac{1}{0}",
    "expansion": "(a+b+c+d+e+f)^{9}(a-b+c-d+e-f)^{9}",
    "word numbers": "one " * 20_000,
    "word powers": "hundred thousand " * 10_000,
    "regex bomb": "a" * 50_000 + "!",
    "objects": '{"answer": "a"}' * (N // 15),
    "keys": '{"x": ' + '"answer": "a", ' * (N // 15),
    "calls": "final_answer(" * (N // 13),
    "foreign heads": "答案是" * (N // 3),
    "foreign words": "la respuesta correcta " * (N // 22),
    "corrections": "no, wait, " * (N // 10),
    "denials": "没有" * 900,
    "boxes": "<box>1,2,3,4</box>" * (N // 18),
    "coordinates": "1, " * (N // 3),
    "letters": "A, " * (N // 3),
    "counters": "七" * N,
    "alternating": "(a)" * 30_000,
    "markdown": "*" * N,
    "quotes": "\"'" * (N // 2),
    "semicolons": ";" * N,
    "ands": " and " * 20_000,
    "equals": "=" * N,
    "names": "a=1, " * 20_000,
    "yes": "yes " * 25_000,
    "no": "no, " * 25_000,
    "options": "(A) (B) (C) " * 8_000,
    "nul": "4\x002",
    "nul only": "\x00" * 1_000,
    "bidi": "\u202e24\u202c",
    "zero width": "\u200b" * N,
    "surrogate": "\ud800 4 2 \udfff",
    "combining": "4" + "\u0301" * 50_000,
    "other digits": "٤٢",
    "ligature": "\ufdfa" * 5_000,
    "emoji": "🤔" * 30_000,
    "json": '{"a":' * 20_000,
    "infinity": "inf",
    "nan": "nan",
    "escape": "\\" * N,
    "percent": "%s%n{0}" * 5_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.few(4)
def test_hostile_text_is_wrong_and_soon(text: str) -> None:
    """Soon: the time limit of every test is what a grader that does not come back runs into."""
    for gold in EXAMPLES:
        assert gold.grade(text) < 1 or _is_stated(gold, text), gold


def _is_stated(gold: Gold, text: str) -> bool:
    """Digits of another script are digits, and a sign that cannot be seen parts two numbers as a space does."""
    if gold.grader == "point@1":
        return text in (HOSTILE["nul"], HOSTILE["surrogate"])  # 4 2 is a point of its box
    return gold.answer == "42" and text == HOSTILE["other digits"]


PIECES = {
    "heads": "answer: x\n",
    "heads on one line": "the answer is 5. ",
    "boxes": "\\boxed{5} ",
    "nested boxes": "\\boxed{",
    "tags": "<answer>5</answer>",
    "lines": "A. cat\n",
    "bullets": "- cat\n",
    "bold": "**5** ",
    "sentences": "Therefore, there are 5 of 7. ",
    "fences": "```\n5\n",
    "mentions": "cat (B) ",
    "braces": "{5} ",
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES.keys())
@pytest.mark.parametrize("wanted", ["choice@1", "number@1"])
@pytest.mark.few(6)
def test_long_texts_take_linear_work(wanted: str, piece: str) -> None:
    """Quadratic work on a text of this length would outlast the time limit of a test."""
    gold = next(gold for gold in EXAMPLES if gold.grader == wanted)
    gold.grade(piece * 50_000)


@rows("gold", EXAMPLES)
@rows(
    "code",
    [
        "__import__('pathlib').Path({path!r}).touch()",
        "open({path!r}, 'w')",
        "np.savetxt({path!r}, [1])",
        "\\boxed{{open({path!r}, 'w')}}",
        "${{__import__('os').system('touch {path}')}}$",
        "(lambda: open({path!r}, 'w'))()",
    ],
)
def test_nothing_is_executed(gold: Gold, code: str, tmp_path: Path) -> None:
    target = tmp_path / "written"
    assert gold.grade(code.format(path=str(target))) == 0
    assert not target.exists()


@given(st.sampled_from([gold for gold in EXAMPLES if gold.grader != "math@1"]), st.text(max_size=300))
def test_any_text_has_a_verdict(gold: Gold, text: str) -> None:
    assert 0 <= gold.grade(text) <= 1


SIGNS = st.text("0123456789.,/-+*^=%$°{}[]()\\ \n<>abcxyz√πABC\"'_&|:;!?", max_size=60)


@given(st.sampled_from([gold for gold in EXAMPLES if gold.grader != "math@1"]), SIGNS)
def test_any_mixture_of_signs_has_a_verdict(gold: Gold, text: str) -> None:
    assert 0 <= gold.grade(text) <= 1
